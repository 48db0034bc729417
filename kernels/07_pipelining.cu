// 07_pipelining: one warpgroup loads, two multiply, and a ring of buffers lies between them.
//
// Idea      Warps specialise. A producer keeps ordering tiles into a ring of stages; consumers multiply what has
//           arrived. Two mbarriers a stage, "full" and "empty", are all that they say to each other.
// Changed   In 06_wgmma everyone waited for everyone at each step (__syncthreads). The tile grew to 128 x 256: a byte
//           loaded feeds more multiply-adds. Its 256 sums a thread would not fit, so two consumers take 64 rows each,
//           128 sums a thread. Of the 168 registers a thread at launch the producer gives up what it does not need
//           (setmaxnreg), so that the consumers have room.
// Layout    A stage: 128 rows (m) of 64 bf16 (k) of A; four boxes of 64 rows (k) of 64 bf16 (n) of B; all swizzled.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M; N and K multiples of 8; bases 16-byte
//           aligned. What lies outside of A and B arrives as zeros.
// Launch    grid (ceil(N / BN), ceil(M / BM)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map: box of 64 x 128 (columns x rows); B_map: box of 64 x 64; both with 128-byte swizzle.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 256, BK = 64;   // the CTA's tile of C, and the depth of a step
constexpr int CONSUMERS = 2;                 // warpgroups that multiply; each 64 x 256 of C
constexpr int WARPS = 4;                     // in a warpgroup
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int WGMMA_K = 16;                  // depth of one wgmma
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;   // a thread; 128 * (40 + 2 * 232) < 65,536

struct Shared {
    __nv_bfloat16 A[STAGES][BM * BK];
    __nv_bfloat16 B[STAGES][BN / 64][BK * 64];
    uint64_t full[STAGES];                   // mbarriers: the stage's bytes have landed
    uint64_t empty[STAGES];                  // mbarriers: both consumers have read the stage
};
constexpr int STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);   // of A and B

// A place in the ring, and the parity of its current phase. Both sides walk the ring in the same order.
struct Place {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

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

    // The shuffle changes nothing but what the compiler knows: that all lanes of a warp have the same number.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int steps = (K + BK - 1) / BK;

    // 1. Barriers. Full: the producer's arrival and the bytes. Empty: one arrival of each consumer warp.
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CONSUMERS * WARPS);
        }
        fence_mbarrier_init();   // TMA must see them too
    }
    __syncthreads();

    Place place;
    if (warpgroup == 0) {
        // 2. Producer: one thread orders tiles as fast as stages become empty. At first they are: a new barrier counts
        //    as if the phase of parity 1 had just ended.
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (thread == 0) {
            for (int step = 0; step < steps; ++step, place.advance()) {
                uint64_t* full = &shared.full[place.stage];
                mbarrier_wait(&shared.empty[place.stage], place.parity ^ 1);
                mbarrier_arrive_expect_tx(full, STAGE_BYTES);
                cp_async_bulk_tensor_load(shared.A[place.stage], &A_map, full, step * BK, m0);
                for (int box = 0; box < BN / 64; ++box) {
                    cp_async_bulk_tensor_load(shared.B[place.stage][box], &B_map, full, n0 + box * 64, step * BK);
                }
            }
        }
    } else {
        // 3. Consumers: wait for a stage, multiply it, give it back.
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        float sums[BN / 2];
        for (int step = 0; step < steps; ++step, place.advance()) {
            mbarrier_wait(&shared.full[place.stage], place.parity);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < BK; k += WGMMA_K) {
                const uint64_t a = wgmma_descriptor(shared.A[place.stage] + consumer * 64 * BK + k, 16, 1024);
                const uint64_t b = wgmma_descriptor(shared.B[place.stage][0] + k * 64, 8192, 1024);
                wgmma_m64n256k16<Major::K, Major::MN>(sums, a, b, step > 0 || k > 0);
            }
            wgmma_commit_group();
            wgmma_wait_group<0>();   // the tensor cores have read the stage for this warp
            if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);
        }

        // 4. Store what lies inside of C.
        store_sums(sums, C, m0 + consumer * 64, n0, M, N);
    }
}
