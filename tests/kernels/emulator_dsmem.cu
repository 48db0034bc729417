// Kernels that read the shared memory of other CTAs of their cluster: right ones, and planted faults.
// A fault's line, or a line that its report names, ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif
#ifndef CHAIN
#define CHAIN 0
#endif
#ifndef CTAS
#define CTAS 4
#endif

// The CTAs of a cluster along x add up what they have, 16 bytes a thread; each gets the sum. Several rounds.
// 1: nobody waits for the others' values. 2: nobody waits for the others' reads. 3: the first barrier is relaxed.
// 4: the second one is. 5: a rank too many. 6: 4 bytes amid 16. 7: past the end. 8: where nobody has written.
// 9: the last CTA leaves after its own sum. 10: of another warp, which has not written yet. 11: a variable of the thread.
// 12: the reads come after the arrival at the second barrier. 13: only those of the first warp come before it.
// 14: the last barrier is relaxed, and only the first cluster does anything. 15: as 10, in the last cluster.
extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) split_sum(const float* in, float* out, int rounds) {
    __shared__ float4 spare[256], partial[256];
    const int thread = threadIdx.x, block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const float4* from = &partial[thread];
    const bool is_last = blockIdx.x + CTAS >= gridDim.x, waits = FAULT != 1 && FAULT != 10 && !(FAULT == 15 && is_last);
    float4 own;
    if (FAULT == 6) from = reinterpret_cast<const float4*>(&partial[thread].y);
    if (FAULT == 7) from = &partial[thread + 256];
    if (FAULT == 8) from = &spare[thread];
    if (FAULT == 10 || FAULT == 15) from = &partial[thread ^ 32];
    if (FAULT == 11) from = &own;
    if (FAULT == 8 && in == nullptr) spare[thread] = own;   // an array that is never written may be left out
    if (FAULT == 14 && blockIdx.x >= CTAS) return;
    for (int round = 0; round < rounds; ++round) {
        const float value = in[block * blockDim.x + thread] + round;
        own = make_float4(value, 2 * value, 3 * value, 4 * value);
        partial[thread] = own;   // !write
        if (waits) {
            FAULT == 3 ? barrier_cluster_arrive_relaxed() : barrier_cluster_arrive();
            barrier_cluster_wait();
        }
        const bool arrives_first = FAULT == 12 || (FAULT == 13 && thread >= 32);
        if (arrives_first) barrier_cluster_arrive();
        float4 sum = make_float4(0, 0, 0, 0);
        for (int cta = 0; cta < CTAS + (FAULT == 5); ++cta) {
            const float4 part = ld_shared_cluster(from, cta);   // !read
            sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
        }
        reinterpret_cast<float4*>(out)[(block * rounds + round) * blockDim.x + thread] = sum;
        if (FAULT == 9 && cluster_ctarank() == CTAS - 1) return;
        if (FAULT == 2) continue;
        const bool is_relaxed = FAULT == 4 || (FAULT == 14 && round == rounds - 1);
        if (!arrives_first) is_relaxed ? barrier_cluster_arrive_relaxed() : barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

// Each CTA loads a tile by TMA and copies that of its neighbour to global memory. Several rounds; 64 threads.
// 1: nobody waits until the neighbour's tile is there. 2: the barrier for that is relaxed. 3: relaxed, the neighbour is
// told that its tile has been read. 4: the next load does not wait for that. 5: as 3, and threads overwrite the tile.
// 6: right, threads overwrite the tile. 7: the last round does not wait for the readers.
// 8: reads again after it told, and a relaxed barrier of the cluster comes last.
extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) neighbours(const __grid_constant__ TensorMap map, uint4* out,
                                                                   int rounds) {
    extern __shared__ __align__(1024) uint8_t memory[];
    float4* tile = reinterpret_cast<float4*>(memory);
    uint64_t* full = reinterpret_cast<uint64_t*>(memory + 1024);
    uint64_t* read = full + 1;
    const int thread = threadIdx.x, next = (cluster_ctarank() + 1) % cluster_nctarank();
    if (thread == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(read, 64);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    for (int round = 0; round < rounds; ++round) {
        const int box = blockIdx.x * rounds + round;
        if (thread == 0) {
            mbarrier_arrive_expect_tx(full, 1024);
            cp_async_bulk_tensor_load(tile, &map, full, 0, box * 8);   // !load
        }
        mbarrier_wait(full, round % 2);
        if (FAULT == 2) barrier_cluster_arrive_relaxed();
        if (FAULT != 1 && FAULT != 2) barrier_cluster_arrive();
        if (FAULT != 1) barrier_cluster_wait();
        const float4 value = ld_shared_cluster(&tile[thread], next);   // !copy
        out[box * 64 + thread] = reinterpret_cast<const uint4&>(value);
        FAULT == 3 || FAULT == 5 ? mbarrier_arrive_cluster(read, next) : mbarrier_arrive_release_cluster(read, next);
        const bool is_last = round == rounds - 1;
        if (FAULT == 4 ? is_last : FAULT == 7 ? !is_last : true) mbarrier_wait_cluster(read, round % 2);
        if (FAULT == 5 || FAULT == 6) {
            tile[thread] = make_float4(0, 0, 0, 0);   // !overwrite
            fence_proxy_async();
            __syncthreads();
        }
        if (FAULT == 8) out[box * 64 + thread].x += ld_shared_cluster(&tile[thread], next).x == 0;   // !again
    }
    if (FAULT == 8) {
        barrier_cluster_arrive_relaxed();
        barrier_cluster_wait();
    }
}

// Three CTAs read what the first one has; each tells it so at an mbarrier of its own there, and the first waits for all
// but `missing` before it writes anew. CHAIN: each waits for the CTA before and tells the next, the last tells the first.
extern "C" __global__ void __cluster_dims__(4, 1, 1) readers(float* out, int missing) {
    __shared__ float4 values[32];
    __shared__ uint64_t done[4];
    const int thread = threadIdx.x, rank = cluster_ctarank();
    if (thread == 0) {
        for (int i = 0; i < 4; ++i) mbarrier_init(&done[i], 32);
        fence_mbarrier_init();
    }
    values[thread] = make_float4(thread, 1, 2, 3);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (rank > 0) {
        if (CHAIN && rank > 1) mbarrier_wait_cluster(&done[rank - 1], 0);
        out[rank * 32 + thread] = ld_shared_cluster(&values[thread], 0).x;   // !one_reads
        mbarrier_arrive_release_cluster(&done[rank], CHAIN && rank < 3 ? rank + 1 : 0);
    } else {
        for (int i = CHAIN ? 3 : 1; i < 4; ++i) {
            if (i != missing) mbarrier_wait_cluster(&done[i], 0);
        }
        values[thread] = make_float4(0, 0, 0, 0);   // !first_writes
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
}
