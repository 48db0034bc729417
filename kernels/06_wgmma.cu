// 06_wgmma: the tensor cores multiply, straight from shared memory.
//
// Idea      A wgmma is one instruction of a whole warpgroup (128 threads): 64 x 128 x 16 multiply-adds, asynchronous.
//           Descriptors say where its operands lie in shared memory; only the sums are in registers.
// Changed   05_tma multiplied on CUDA cores, and its threads read every operand into registers. Loading is the same.
//           The CTA's tile shrank to 128 x 128: several CTAs share an SM, and one multiplies while another waits.
// Layout    A buffer: 128 rows (m) of 64 bf16 (k) of A, "K-major"; two boxes of 64 rows (k) of 64 bf16 (n) of B,
//           "N-major": row-major B needs no transposition. All with 128-byte swizzle, which wgmma undoes.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M; N and K multiples of 8; bases 16-byte
//           aligned. What lies outside of A and B arrives as zeros.
// Launch    grid (ceil(N / BN), ceil(M / BM)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map: box of 64 x 128 (columns x rows); B_map: box of 64 x 64; both with 128-byte swizzle.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef BUFFERS
#define BUFFERS 2
#endif

constexpr int BM = 128, BN = 128, BK = 64;   // the CTA's tile of C, and the depth of a step
constexpr int THREADS = 256;                 // two warpgroups; each multiplies 64 x 128 of C
constexpr int WGMMA_K = 16;                  // depth of one wgmma

struct Shared {
    __nv_bfloat16 A[BUFFERS][BM * BK];
    __nv_bfloat16 B[BUFFERS][BN / 64][BK * 64];
    uint64_t full[BUFFERS];                  // mbarriers: the buffer's bytes have landed
};
constexpr int STEP_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);   // of A and B in one buffer

// Orders the tiles of one step. They may lie partly outside of the matrices: zeros come, and count as bytes.
__device__ __forceinline__ void load_step(Shared& shared, const TensorMap& A_map, const TensorMap& B_map, int step) {
    const int buffer = step % BUFFERS, k0 = step * BK;
    mbarrier_arrive_expect_tx(&shared.full[buffer], STEP_BYTES);
    cp_async_bulk_tensor_load(shared.A[buffer], &A_map, &shared.full[buffer], k0, blockIdx.y * BM);
    for (int box = 0; box < BN / 64; ++box) {
        cp_async_bulk_tensor_load(shared.B[buffer][box], &B_map, &shared.full[buffer], blockIdx.x * BN + box * 64, k0);
    }
}

// Two fp32 as a pair of bf16, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// Stores a warpgroup's sums where they lie inside of C. Four lanes hold 16 bytes of a row together, half a sector of
// memory. So neighbours swap: the even lane takes four columns of these eight, the odd one four of the next eight, and
// the four lanes write a whole sector of 32 bytes.
__device__ __forceinline__ void store_sums(const float (&sums)[BN / 2], __nv_bfloat16* C, int row0, int column0, int M,
                                           int N) {
    const int thread = threadIdx.x % 128, is_odd = thread % 2;
    const int first_row = row0 + thread / 32 * 16 + thread % 32 / 4;
    const int first_column = column0 + 8 * is_odd + thread % 4 / 2 * 4;
#pragma unroll
    for (int j = 0; j < BN / 8; j += 2)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 4 * j + 2 * half;
            const uint32_t left = pack(sums[i], sums[i + 1]), right = pack(sums[i + 4], sums[i + 5]);
            const uint32_t swapped = __shfl_xor_sync(~0u, is_odd ? left : right, 1);
            const uint2 four = is_odd ? make_uint2(swapped, right) : make_uint2(left, swapped);
            const int row = first_row + 8 * half, column = first_column + 8 * j;
            if (row < M && column < N) *reinterpret_cast<uint2*>(C + size_t(row) * N + column) = four;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map, __nv_bfloat16* __restrict__ C,
       int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_memory);

    const int warpgroup = threadIdx.x / 128;
    const int steps = (K + BK - 1) / BK;

    // 1. Barriers: each waits for one arrival, that of the thread which orders the copies, and for their bytes.
    if (threadIdx.x == 0) {
        for (int buffer = 0; buffer < BUFFERS; ++buffer) mbarrier_init(&shared.full[buffer], 1);
        fence_mbarrier_init();   // TMA must see them too
        for (int step = 0; step < BUFFERS && step < steps; ++step) load_step(shared, A_map, B_map, step);
    }
    __syncthreads();   // nobody waits at a barrier that is not there yet

    float sums[BN / 2];   // 64 x 128 sums of the warpgroup, 64 of them in each thread
    for (int step = 0; step < steps; ++step) {
        // 2. Wait for this step's bytes. A buffer's n-th use ends phase n of its barrier.
        const int buffer = step % BUFFERS;
        mbarrier_wait(&shared.full[buffer], step / BUFFERS % 2);

        // 3. Multiply: four wgmma in one group. A's rows of 128 bytes come in groups of eight, 1024 bytes each; a step
        //    of 16 in k is 32 bytes further in the row. B's groups of eight k are 1024 bytes apart too, its two boxes
        //    of 64 n 8192 bytes, and a step of 16 in k is 16 rows further down.
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK; k += WGMMA_K) {
            const uint64_t a = wgmma_descriptor(shared.A[buffer] + warpgroup * 64 * BK + k, 16, 1024);
            const uint64_t b = wgmma_descriptor(shared.B[buffer][0] + k * 64, 8192, 1024);
            wgmma_m64n128k16<Major::K, Major::MN>(sums, a, b, step > 0 || k > 0);   // the first one starts from zero
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();   // until then neither the sums nor the buffer may be touched

        // 4. Order the step that goes into this buffer next, once both warpgroups have read it.
        __syncthreads();
        if (threadIdx.x == 0 && step + BUFFERS < steps) load_step(shared, A_map, B_map, step + BUFFERS);
    }

    // 5. Store. A thread holds pairs of neighbours: in two rows, every fourth pair of columns.
    store_sums(sums, C, blockIdx.y * BM + warpgroup * 64, blockIdx.x * BN, M, N);
}
