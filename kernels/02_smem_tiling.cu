// 02_smem_tiling: a CTA shares its tiles of A and B.
//
// Idea      The 1,024 threads of a CTA need the same 32 rows of A and the same 32 columns of B. Each element is
//           fetched from global memory once per CTA, kept in shared memory, and read from there 32 times.
// Changed   01_coalescing read both operands from global memory for every product. The two tiles and the two
//           barriers are new.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation, any M, N, K >= 1.
// Launch    grid (ceil(N / TILE), ceil(M / TILE)), block (TILE * TILE).
#include <cuda_bf16.h>

constexpr int TILE = 32;   // C's tile is 32 x 32, one element per thread; a step along K is 32 deep

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
       int M, int N, int K) {
    // fp32, so that an element is converted once as it arrives, not 32 times as it is read.
    __shared__ float A_tile[TILE][TILE];
    __shared__ float B_tile[TILE][TILE];

    const int tile_row = threadIdx.x / TILE;
    const int tile_column = threadIdx.x % TILE;
    const int row = blockIdx.y * TILE + tile_row;
    const int column = blockIdx.x * TILE + tile_column;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // 1. Load: every thread fetches one element of each tile, lanes along rows (coalesced). Beyond the
        //    edge of a matrix the tile holds zeros, which add nothing to the sum.
        const int a_column = k0 + tile_column;
        const int b_row = k0 + tile_row;
        A_tile[tile_row][tile_column] =
            row < M && a_column < K ? __bfloat162float(A[size_t(row) * K + a_column]) : 0.0f;
        B_tile[tile_row][tile_column] =
            b_row < K && column < N ? __bfloat162float(B[size_t(b_row) * N + column]) : 0.0f;
        __syncthreads();   // the tiles are read by other threads than wrote them

        // 2. Multiply: a warp reads one element of A (a broadcast) and 32 neighbours of B.
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            sum += A_tile[tile_row][k] * B_tile[k][tile_column];
        }
        __syncthreads();   // nobody overwrites a tile that a slower warp still reads
    }

    // 3. Store: lanes along a row of C.
    if (row < M && column < N) C[size_t(row) * N + column] = __float2bfloat16_rn(sum);
}
