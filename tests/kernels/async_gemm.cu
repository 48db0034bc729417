// A pipelined matmul with TMA, wgmma and TMA stores, and faults to plant in it (-DBUG=n). C = A @ B, row-major bf16.
// Launch: grid (M / 128, N / 128) rounded up, block 384; maps of A: box 64 x 128, of B: 64 x 64, of C: 64 x 64.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef BUG
#define BUG 0
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

constexpr int BM = 128, BN = 128, BK = 64;

struct Shared {
    __nv_bfloat16 A[STAGES][BM * BK];
    __nv_bfloat16 B[STAGES][BN / 64][BK * 64];
    __nv_bfloat16 C[2][2][64 * 64];   // of each consumer, its two boxes
    uint64_t full[STAGES], empty[STAGES];
};
constexpr int STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);

__device__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
       const __grid_constant__ TensorMap C_map, int K) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128, lane = thread % 32, steps = (K + BK - 1) / BK;
    const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BN, rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], 2 * 4 * CLUSTER);   // from each consumer warp of each CTA
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (CLUSTER > 1) {
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        for (int step = 0; thread == 0 && step < steps; ++step) {
            const int stage = step % STAGES, parity = step / STAGES % 2;
            if (BUG != 1) mbarrier_wait_cluster(&shared.empty[stage], parity ^ 1);
            mbarrier_arrive_expect_tx(&shared.full[stage], BUG == 2 ? BM * BK * 2 : STAGE_BYTES);
            cp_async_bulk_tensor_load(shared.A[stage], &A_map, &shared.full[stage], step * BK, m0);   // !load_A
            for (int box = 0; box < BN / 64; ++box) {
                const int to = BUG == 3 && step == 5 ? (stage + 1) % STAGES : stage;
                if (CLUSTER == 1) {
                    cp_async_bulk_tensor_load(shared.B[to][box], &B_map, &shared.full[stage], n0 + box * 64, step * BK);   // !load_B
                } else if (rank == 0) {
                    cp_async_bulk_tensor_load_multicast(shared.B[stage][box], &B_map, &shared.full[stage], n0 + box * 64,
                                                        step * BK, (1 << CLUSTER) - 1);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int consumer = warpgroup - 1;
        float sums[BN / 2];
        for (int step = 0; step < steps; ++step) {
            const int stage = step % STAGES, parity = step / STAGES % 2;
            if (BUG != 4) mbarrier_wait(&shared.full[stage], parity);
            if (BUG == 5 && lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);
            if (BUG != 6) wgmma_fence();
            for (int k = 0; k < BK; k += 16) {
                const uint64_t a = wgmma_descriptor(shared.A[stage] + consumer * 64 * BK + k, 16, 1024,
                                                    BUG == 7 ? Swizzle::none : Swizzle::bytes_128);
                const uint64_t b = wgmma_descriptor(shared.B[stage][0] + k * 64, BUG == 8 ? 65536 : 8192, 1024);
                const bool accumulate = BUG == 9 || step > 0 || k > 0;
                wgmma_m64n128k16<Major::K, Major::MN>(sums, a, b, accumulate);   // !wgmma
            }
            if (BUG != 10) wgmma_commit_group();
            if (BUG == 11) sums[3] += 1;
            if (BUG == 12) {
                wgmma_wait_group<1>();
            } else if (BUG != 13 || step + 1 < steps) {
                wgmma_wait_group<0>();   // !wait
            }
            const int frees = BUG == 18 ? (thread < 32 ? 4 : 0) : 1;   // 18: one warp speaks for all four
            for (int i = 0; i < frees && BUG != 5 && lane < CLUSTER; ++i) {
                mbarrier_arrive_cluster(&shared.empty[stage], lane);
            }
        }
        if (BUG == 12) wgmma_wait_group<0>();
        const int row = thread / 32 * 16 + thread % 16, half = thread % 32 / 16;
        for (int box = 0; box < BN / 64; ++box) {
            for (int i = 0; i < 4; ++i) {
                const float* d = sums + box * 32 + i * 8;
                const int chunk = (2 * i + half) ^ row % 8;
                stmatrix_x4(&shared.C[consumer][box][row * 64 + chunk * 8], pack(d[0], d[1]), pack(d[2], d[3]),
                            pack(d[4], d[5]), pack(d[6], d[7]));   // !stmatrix
            }
        }
        if (BUG != 14) fence_proxy_async();
        if (BUG != 15) barrier_sync(1 + consumer, 128);
        if (thread == 0) {
            for (int box = 0; box < BN / 64; ++box) {
                cp_async_bulk_tensor_store(&C_map, shared.C[consumer][box], n0 + box * 64, m0 + consumer * 64);   // !store
            }
            if (BUG != 16) cp_async_bulk_commit_group();
            if (BUG != 16 && BUG != 17) cp_async_bulk_wait_group_read<0>();
        }
        if (BUG == 17) {
            // A second use of the staging memory, with no wait for the store.
            barrier_sync(1 + consumer, 128);
            stmatrix_x4(&shared.C[consumer][0][row * 64 + half * 8], 0, 0, 0, 0);
            if (thread == 0) cp_async_bulk_wait_group_read<0>();
        }
    }
    if (CLUSTER > 1) {
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}
