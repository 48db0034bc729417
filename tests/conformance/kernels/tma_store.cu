// What a TMA store writes to global memory: swizzled tiles, and boxes that are clipped.
//
// `image` is the tile as it lies in shared memory, byte for byte; the matrix behind the map is the output.
#include "hopper.cuh"

// Called by all threads. The fence makes the writes visible to the store, which reads through the async proxy.
__device__ __forceinline__ void copy_in(uint8_t* tile, const uint8_t* image, int bytes) {
    uint32_t* to = reinterpret_cast<uint32_t*>(tile);
    const uint32_t* from = reinterpret_cast<const uint32_t*>(image);
    for (int word = threadIdx.x; word < bytes / 4; word += blockDim.x) to[word] = from[word];
    fence_proxy_async();
}

// One box to (x, y), from `offset` bytes into the image. policy: 0 none, 1 evict first, 2 evict last.
extern "C" __global__ void store_box(const __grid_constant__ TensorMap map, const uint8_t* image, int image_bytes,
                                     int x, int y, int offset, int policy) {
    extern __shared__ __align__(1024) uint8_t smem[];
    copy_in(smem, image, image_bytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint8_t* from = smem + offset;
        if (policy == 0) cp_async_bulk_tensor_store(&map, from, x, y);
        else if (policy == 1) cp_async_bulk_tensor_store(&map, from, x, y, createpolicy_evict_first());
        else cp_async_bulk_tensor_store(&map, from, x, y, createpolicy_evict_last());
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}

// Two groups; the first tile is written anew once its store has read it, and stored again elsewhere.
extern "C" __global__ void store_groups(const __grid_constant__ TensorMap map, const uint8_t* image, int box_bytes,
                                        int x, int y, int step) {
    extern __shared__ __align__(1024) uint8_t smem[];
    copy_in(smem, image, 2 * box_bytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_tensor_store(&map, smem, x, y);
        cp_async_bulk_commit_group();
        cp_async_bulk_tensor_store(&map, smem + box_bytes, x, y + step);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<1>();   // the first has been read
    }
    __syncthreads();
    copy_in(smem, image + 2 * box_bytes, box_bytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_tensor_store(&map, smem, x, y + 2 * step);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<1>();
        cp_async_bulk_wait_group<0>();
    }
}
