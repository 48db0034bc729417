// What a TMA load leaves in shared memory, byte for byte.
//
// Each kernel fills its shared memory with FILLING, loads, and copies all of it to `dump`: what the copy did not
// write still has the filling.
#include "hopper.cuh"

constexpr uint32_t FILLING = 0xa5a5a5a5u;
constexpr int TILE_BYTES = 16384;

struct Shared {
    alignas(1024) uint8_t tile[TILE_BYTES];
    uint64_t full;
};

// Called by all threads. The fence is for the copy, which comes through the async proxy.
__device__ __forceinline__ void fill(uint8_t* tile) {
    uint32_t* words = reinterpret_cast<uint32_t*>(tile);
    for (int word = threadIdx.x; word < TILE_BYTES / 4; word += blockDim.x) words[word] = FILLING;
    fence_proxy_async();
}

__device__ __forceinline__ void copy_out(uint8_t* dump, const uint8_t* tile, int bytes) {
    uint32_t* to = reinterpret_cast<uint32_t*>(dump);
    const uint32_t* from = reinterpret_cast<const uint32_t*>(tile);
    for (int word = threadIdx.x; word < bytes / 4; word += blockDim.x) to[word] = from[word];
}

__device__ __forceinline__ uint64_t cache_policy(int policy) {
    return policy == 1 ? createpolicy_evict_first() : createpolicy_evict_last();
}

// One box at (x, y), to `offset` bytes into the tile. policy: 0 none, 1 evict first, 2 evict last.
extern "C" __global__ void load_box(const __grid_constant__ TensorMap map, uint8_t* dump, int dump_bytes,
                                    int x, int y, int offset, int box_bytes, int policy) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    fill(shared.tile);
    if (threadIdx.x == 0) {
        prefetch_tensormap(&map);
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&shared.full, box_bytes);
        uint8_t* to = shared.tile + offset;
        if (policy == 0) cp_async_bulk_tensor_load(to, &map, &shared.full, x, y);
        else cp_async_bulk_tensor_load(to, &map, &shared.full, x, y, cache_policy(policy));
    }
    mbarrier_wait(&shared.full, 0);
    copy_out(dump, shared.tile, dump_bytes);
}

// Two boxes of two maps on one barrier, one after the other in the tile.
extern "C" __global__ void load_two(const __grid_constant__ TensorMap first, const __grid_constant__ TensorMap second,
                                    uint8_t* dump, int dump_bytes, int x, int y, int offset, int both_bytes) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    fill(shared.tile);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&shared.full, both_bytes);
        cp_async_bulk_tensor_load(shared.tile, &first, &shared.full, x, y);
        cp_async_bulk_tensor_load(shared.tile + offset, &second, &shared.full, y, x);
    }
    mbarrier_wait(&shared.full, 0);
    copy_out(dump, shared.tile, dump_bytes);
}

// One box and a barrier that may expect too much: which bytes are written, and are they `box_bytes`?
// The wait gives up after many tries; landed[0] tells whether the barrier completed.
extern "C" __global__ void probe_box(const __grid_constant__ TensorMap map, uint8_t* dump, int* landed, int dump_bytes,
                                     int x, int y, int box_bytes) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    fill(shared.tile);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&shared.full, box_bytes);
        cp_async_bulk_tensor_load(shared.tile, &map, &shared.full, x, y);
        bool done = false;
        for (int tries = 0; tries < 1000 && !done; ++tries) done = mbarrier_try_wait_parity(&shared.full, 0);
        landed[0] = done;
    }
    __syncthreads();
    copy_out(dump, shared.tile, dump_bytes);
}

// A pair of CTAs loads a box of `rows` rows each, one below the other. mask0 and mask1 say who gets CTA 0's and CTA 1's
// part, which lies `half_bytes` apart in the tile; `dump` has one tile after the other. Each waits for what it gets.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
load_multicast(const __grid_constant__ TensorMap map, uint8_t* dump, int dump_bytes, int x, int y, int rows,
               int half_bytes, int mask0, int mask1, int policy) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    const int rank = cluster_ctarank();
    const int parts = (mask0 >> rank & 1) + (mask1 >> rank & 1);
    fill(shared.tile);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&shared.full, parts * half_bytes);
    }
    __syncthreads();
    barrier_cluster_arrive();   // the other CTA's barrier and tile are ready
    barrier_cluster_wait();
    if (threadIdx.x == 0) {
        const uint16_t ctas = uint16_t(rank == 0 ? mask0 : mask1);
        uint8_t* to = shared.tile + rank * half_bytes;
        const int from = y + rank * rows;
        if (ctas == 0) {}
        else if (policy == 0) cp_async_bulk_tensor_load_multicast(to, &map, &shared.full, x, from, ctas);
        else cp_async_bulk_tensor_load_multicast(to, &map, &shared.full, x, from, ctas, cache_policy(policy));
    }
    mbarrier_wait(&shared.full, 0);
    copy_out(dump + blockIdx.x * dump_bytes, shared.tile, dump_bytes);
    barrier_cluster_arrive();   // neither leaves while the other's copy may be on its way here
    barrier_cluster_wait();
}

// A ring of STAGES slots: one warp loads the boxes of a column of the matrix one below the other, another copies them
// out. Every barrier goes through several phases.
constexpr int STAGES = 3;

struct Ring {
    alignas(1024) uint8_t slot[STAGES][4096];
    uint64_t full[STAGES], empty[STAGES];
};

extern "C" __global__ void load_ring(const __grid_constant__ TensorMap map, uint8_t* dump, int boxes, int x, int rows,
                                     int box_bytes) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Ring& ring = *reinterpret_cast<Ring*>(smem);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&ring.full[stage], 1);
            mbarrier_init(&ring.empty[stage], 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const bool producer = threadIdx.x < 32;
    for (int box = 0; box < boxes; ++box) {
        const int stage = box % STAGES, phase = box / STAGES & 1;
        if (producer && threadIdx.x == 0) {
            mbarrier_wait(&ring.empty[stage], phase ^ 1);
            mbarrier_arrive_expect_tx(&ring.full[stage], box_bytes);
            cp_async_bulk_tensor_load(ring.slot[stage], &map, &ring.full[stage], x, box * rows);
        }
        if (!producer) {
            mbarrier_wait(&ring.full[stage], phase);
            const uint32_t* from = reinterpret_cast<const uint32_t*>(ring.slot[stage]);
            uint32_t* to = reinterpret_cast<uint32_t*>(dump + box * box_bytes);
            for (int word = threadIdx.x - 32; word < box_bytes / 4; word += 32) to[word] = from[word];
            mbarrier_arrive(&ring.empty[stage]);
        }
    }
}
