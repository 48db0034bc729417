// Copies and descriptors with addresses that are not what they should be. The line of each ends in `// !name`.
#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(128)
addresses(const __grid_constant__ TensorMap map, int* out, int fault) {
    extern __shared__ __align__(1024) uint8_t memory[];
    uint64_t* barrier = reinterpret_cast<uint64_t*>(memory);
    alignas(1024) uint8_t local[1024];
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    mbarrier_arrive_expect_tx(barrier, 1024);
    void* const to = memory + 1024;
    if (fault == 0) cp_async_bulk_tensor_load(to, &map, barrier, 0, 0);
    if (fault == 1) cp_async_bulk_tensor_load(local, &map, barrier, 0, 0);   // !to_local
    if (fault == 2) cp_async_bulk_tensor_load(out, &map, barrier, 0, 0);   // !to_global
    if (fault == 3) cp_async_bulk_tensor_load(nullptr, &map, barrier, 0, 0);   // !to_nothing
    if (fault == 4) cp_async_bulk_tensor_load(memory + 4096, &map, barrier, 0, 0);   // !past
    if (fault == 5) cp_async_bulk_tensor_load(memory + 3200, &map, barrier, 0, 0);   // !partly_past
    if (fault == 6) cp_async_bulk_tensor_load(memory + (300 << 10), &map, barrier, 0, 0);   // !far_past
    if (fault == 7) cp_async_bulk_tensor_load(to, &map, reinterpret_cast<uint64_t*>(local), 0, 0);   // !local_barrier
    if (fault == 8) cp_async_bulk_tensor_load(to, reinterpret_cast<TensorMap*>(local), barrier, 0, 0);   // !no_map
    if (fault == 9) cp_async_bulk_tensor_load(to, nullptr, barrier, 0, 0);   // !null_map
    if (fault == 10) out[0] = int(wgmma_descriptor(local, 16, 1024));   // !local_tile
    if (fault == 11) stmatrix_x4(local, 0, 0, 0, 0);   // !local_row
    if (fault == 12) out[0] = int(shared_address(local));   // !local_address
    if (fault == 13) cp_async_bulk_tensor_load(to, &map + 1, barrier, 0, 0);   // !behind_map
    if (fault == 14) cp_async_bulk_tensor_load(to, &map - 1, barrier, 0, 0);   // !before_map
    if (fault == 15) stmatrix_x2_trans(local, 0, 0);   // !local_row_of_two
    mbarrier_wait(barrier, 0);
}
