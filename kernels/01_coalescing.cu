// 01_coalescing: one thread per element of C.
//
// Idea      A warp is one memory request. Thirty-two lanes that ask for neighbouring addresses are answered
//           with a few 32-byte sectors; lanes that ask for scattered addresses need a sector each.
// Changed   The first rung. `matmul_uncoalesced` is its twin with `/` and `%` swapped, nothing else.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation, any M, N, K >= 1.
// Launch    grid (ceil(N / TILE), ceil(M / TILE)), block (TILE * TILE).
#include <cuda_bf16.h>

constexpr int TILE = 32;   // a CTA computes 32 x 32 elements of C, one per thread; a warp is 32 threads

// The dot product of one row of A and one column of B, summed in fp32, rounded to bf16 once.
__device__ __forceinline__ void compute_element(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                                                __nv_bfloat16* __restrict__ C, int M, int N, int K, int row, int column) {
    if (row >= M || column >= N) return;   // the last tiles may reach beyond C
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float a = __bfloat162float(A[size_t(row) * K + k]);
        const float b = __bfloat162float(B[size_t(k) * N + column]);
        sum += a * b;
    }
    C[size_t(row) * N + column] = __float2bfloat16_rn(sum);
}

// The lanes of a warp lie along a row of C: they share one element of A and read 32 neighbours of B.
extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
       int M, int N, int K) {
    const int row = blockIdx.y * TILE + threadIdx.x / TILE;
    const int column = blockIdx.x * TILE + threadIdx.x % TILE;
    compute_element(A, B, C, M, N, K, row, column);
}

// The lanes of a warp lie along a column of C: each reads another row of A and writes another row of C.
extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul_uncoalesced(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                   __nv_bfloat16* __restrict__ C, int M, int N, int K) {
    const int row = blockIdx.y * TILE + threadIdx.x % TILE;
    const int column = blockIdx.x * TILE + threadIdx.x / TILE;
    compute_element(A, B, C, M, N, K, row, column);
}
