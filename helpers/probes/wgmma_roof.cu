// wgmma_roof: how fast the tensor cores are if nothing else is to be done.
//
// Two warpgroups of each SM multiply as the consumers of 10_clusters do, 64 x 256 x 64 a step, two groups of wgmma in
// flight. Their operands lie in shared memory all the time: nothing is loaded, nobody is waited for, nothing is stored
// but a sum at the end. What limits it is the clock, and that is power. So it is the yardstick above every matmul.
// Operands  `values`: SHARED bytes of bf16 in any order. Their bits matter for power (zeros are cheap), their places
//           don't. Every TILE_STEPS steps the sums begin anew, as those of a product with K = 4096 do.
// Launch    grid (SMs), block (THREADS), dynamic shared memory SHARED.
//           out[CTA * THREADS + thread] = the total of its sums. log[4 * CTA ...]: see note_time.cuh.
#include <cuda_bf16.h>

#include "hopper.cuh"
#include "note_time.cuh"

constexpr int STAGES = 4, BM = 128, BN = 256, BK = 64;
constexpr int A_VALUES = BM * BK, B_VALUES = BN * BK;   // of a stage
constexpr int SHARED = STAGES * (A_VALUES + B_VALUES) * 2;
constexpr int THREADS = 256;
constexpr int TILE_STEPS = 64;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_roof(const uint4* values, float* out, unsigned long long* log, int steps) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    uint4* chunks = reinterpret_cast<uint4*>(shared_memory);
    for (int i = threadIdx.x; i < SHARED / 16; i += THREADS) chunks[i] = values[i];
    fence_proxy_async();   // threads wrote what wgmma reads
    __syncthreads();
    if (threadIdx.x == 0) note_begin(log + 4 * blockIdx.x);

    const __nv_bfloat16* A = reinterpret_cast<const __nv_bfloat16*>(shared_memory);
    const __nv_bfloat16* B = A + STAGES * A_VALUES;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    float sums[BN / 2];
    for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            const uint64_t a = wgmma_descriptor(A + stage * A_VALUES + warpgroup * 64 * BK + k, 16, 1024);
            const uint64_t b = wgmma_descriptor(B + stage * B_VALUES + k * 64, 8192, 1024);
            wgmma_m64n256k16<Major::K, Major::MN>(sums, a, b, step % TILE_STEPS > 0 || k > 0);
        }
        wgmma_commit_group();
        wgmma_wait_group<1>();
    }
    wgmma_wait_group<0>();

    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) total += sums[i];
    out[blockIdx.x * THREADS + threadIdx.x] = total;
    __syncthreads();   // both warpgroups have finished
    if (threadIdx.x == 0) note_end(log + 4 * blockIdx.x);
}
