// Copies a matrix of 64 columns through shared memory, eight rows a round: TMA loads them, 64 threads move them to a
// staging tile, TMA stores that. A fault leaves out one link of the order between threads and TMA.
// 1: warp 1 does not wait for the load. 2: the next load does not wait for the readers, nor the store for the writers.
// 3: no proxy fence. 4: the fence comes before the writes. 5: right, the storing thread fences after the barrier.
// 6: the store does not wait for the writers. 7: nobody waits for the store to have read.
#include "hopper.cuh"

struct Shared {
    uint4 tile[64], staging[64];
    uint64_t full;
};

extern "C" __global__ void __launch_bounds__(64)
copy(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to, int rounds) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int thread = threadIdx.x;
    if (thread == 0) {
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        if (thread == 0) {
            mbarrier_arrive_expect_tx(&shared.full, sizeof shared.tile);
            cp_async_bulk_tensor_load(shared.tile, &from, &shared.full, 0, round * 8);   // !load
        }
        if (FAULT != 1 || thread < 32) mbarrier_wait(&shared.full, round % 2);
        const uint4 value = shared.tile[thread];   // !read
        if (FAULT != 2) __syncthreads();
        if (FAULT == 4) fence_proxy_async();
        shared.staging[thread] = value;   // !write
        if (FAULT != 3 && FAULT != 4 && FAULT != 5) fence_proxy_async();
        if (FAULT != 2 && FAULT != 6) barrier_sync(1, 64);
        if (FAULT == 5 && thread == 0) fence_proxy_async();
        if (thread == 0) {
            cp_async_bulk_tensor_store(&to, shared.staging, 0, round * 8);   // !store
            cp_async_bulk_commit_group();
            if (FAULT != 7) cp_async_bulk_wait_group_read<0>();
        }
        if (FAULT != 2) __syncthreads();
    }
    if (thread == 0) cp_async_bulk_wait_group<0>();
}
