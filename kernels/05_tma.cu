// 05_tma: one thread orders whole tiles from the copy engine (TMA) while all others compute.
//
// Idea      Two buffers in shared memory: while the threads multiply one, TMA fills the other. An mbarrier tells when
//           a buffer's bytes have landed.
// Changed   04_swizzling loaded with every thread, through registers, and waited. The multiplication is the same: TMA's
//           128-byte swizzle puts the chunks where chunk_index() looks for them.
// Layout    A buffer: 128 rows (m) of 64 bf16 (k) of A; four boxes of 64 rows (k) of 64 bf16 (n) of B. Each row is
//           128 bytes, and each box starts at a multiple of 1024 bytes, as the swizzle wants it.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M; N and K multiples of 8 (TMA moves
//           16 bytes at least); bases 16-byte aligned. What lies outside of A and B arrives as zeros.
// Launch    grid (ceil(N / BN), ceil(M / BM)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map: box of 64 x 128 (columns x rows); B_map: box of 64 x 64; both with 128-byte swizzle.
//           -DBUFFERS=1 leaves one buffer: TMA alone, without the overlap.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef BUFFERS
#define BUFFERS 2
#endif

constexpr int BM = 128, BN = 256, BK = 64;   // the CTA's tile of C, and the depth of a step
constexpr int THREADS = 256;                 // 8 warps, 2 along M and 4 along N; each computes 64 x 64 of C
constexpr int CHUNK = 8;                     // bf16 in 16 bytes, the widest load
constexpr int TM = 8, TN = 2;                // a thread's tile of C: 8 rows, 2 chunks of columns
constexpr int ROW_CHUNKS = 64 / CHUNK;       // chunks in a 128-byte row of a shared tile
constexpr int BOX_CHUNKS = BK * ROW_CHUNKS;  // chunks in one 64 x 64 box of B, the share of one warp column

struct Shared {
    uint4 A[BUFFERS][BM * ROW_CHUNKS];
    uint4 B[BUFFERS][BN / 64][BOX_CHUNKS];
    uint64_t full[BUFFERS];                  // mbarriers: the buffer's bytes have landed
};
constexpr int STEP_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);   // of A and B in one buffer

// Place of a chunk in a shared tile whose first byte lies at a multiple of 1024 bytes.
__device__ __forceinline__ int chunk_index(int row, int chunk) { return row * ROW_CHUNKS + (chunk ^ row % 8); }

// The eight bf16 of a chunk as fp32. A bf16 is the upper half of an fp32, so this is a shift or a mask each.
__device__ __forceinline__ void unpack(uint4 chunk, float (&values)[CHUNK]) {
    const unsigned int pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        values[2 * p] = __uint_as_float(pairs[p] << 16);
        values[2 * p + 1] = __uint_as_float(pairs[p] & 0xffff0000u);
    }
}

// Eight fp32 as the bf16 of a chunk, rounded to nearest even.
__device__ __forceinline__ uint4 pack(const float (&values)[CHUNK]) {
    unsigned int pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * p], values[2 * p + 1]);
        pairs[p] = reinterpret_cast<const unsigned int&>(pair);
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Orders the tiles of one step. They may lie partly outside of the matrices: zeros come, and count as bytes.
__device__ __forceinline__ void load_step(Shared& shared, const TensorMap& A_map, const TensorMap& B_map, int step) {
    const int buffer = step % BUFFERS, k0 = step * BK;
    mbarrier_arrive_expect_tx(&shared.full[buffer], STEP_BYTES);
    cp_async_bulk_tensor_load(shared.A[buffer], &A_map, &shared.full[buffer], k0, blockIdx.y * BM);
    for (int box = 0; box < BN / 64; ++box) {
        cp_async_bulk_tensor_load(shared.B[buffer][box], &B_map, &shared.full[buffer], blockIdx.x * BN + box * 64, k0);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map, __nv_bfloat16* __restrict__ C,
       int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_memory);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int box = warp % 4;                           // the warp's box of B, 64 of the CTA's 256 columns
    const int thread_row = warp / 4 * 64 + lane % 8;    // the thread's rows: this one, then every 8th
    const int thread_chunk = lane / 8;                  // the thread's chunks of the box: this one, then every 4th
    const int steps = (K + BK - 1) / BK;

    // 1. Barriers: each waits for one arrival, that of the thread which orders the copies, and for their bytes.
    if (threadIdx.x == 0) {
        for (int buffer = 0; buffer < BUFFERS; ++buffer) mbarrier_init(&shared.full[buffer], 1);
        fence_mbarrier_init();   // TMA must see them too
        for (int step = 0; step < BUFFERS && step < steps; ++step) load_step(shared, A_map, B_map, step);
    }
    __syncthreads();   // nobody waits at a barrier that is not there yet

    float sums[TM][TN][CHUNK] = {};
    for (int step = 0; step < steps; ++step) {
        // 2. Wait for this step's bytes. A buffer's n-th use ends phase n of its barrier.
        const int buffer = step % BUFFERS;
        mbarrier_wait(&shared.full[buffer], step / BUFFERS % 2);

        // 3. Multiply, as in 04_swizzling.
        const uint4* A_tile = shared.A[buffer];
        const uint4* B_tile = shared.B[buffer][box];
#pragma unroll 1
        for (int k_chunk = 0; k_chunk < ROW_CHUNKS; ++k_chunk) {
            float a[TM][CHUNK];
#pragma unroll
            for (int i = 0; i < TM; ++i) unpack(A_tile[chunk_index(thread_row + 8 * i, k_chunk)], a[i]);
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    float b[CHUNK];
                    unpack(B_tile[chunk_index(k_chunk * CHUNK + k, thread_chunk + 4 * j)], b);
#pragma unroll
                    for (int i = 0; i < TM; ++i)
#pragma unroll
                        for (int c = 0; c < CHUNK; ++c) sums[i][j][c] += a[i][k] * b[c];
                }
            }
        }

        // 4. Order the step that goes into this buffer next, once every thread has read it.
        __syncthreads();
        if (threadIdx.x == 0 && step + BUFFERS < steps) load_step(shared, A_map, B_map, step + BUFFERS);
    }

    // 5. Store what lies inside of C: a chunk is eight neighbours in a row, and N is a multiple of eight.
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = blockIdx.y * BM + thread_row + 8 * i;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int column = blockIdx.x * BN + box * 64 + (thread_chunk + 4 * j) * CHUNK;
            if (row < M && column < N) *reinterpret_cast<uint4*>(C + size_t(row) * N + column) = pack(sums[i][j]);
        }
    }
}
