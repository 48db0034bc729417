// Small kernels that break one rule each, and right ones that look like them. Block: 128 threads.
// map: box of 64 x 64, 128-byte swizzle. A kernel's name says what it does; tests/test_emulator_breaks.py what is said.
#include "hopper.cuh"

constexpr uint32_t BOX_BYTES = 64 * 64 * 2;

struct Shared {
    uint8_t tile[BOX_BYTES];
    int words[128];
    uint64_t barriers[80];
};

__device__ void make_barriers(Shared& shared, int count, int arrivals) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < count; ++i) mbarrier_init(&shared.barriers[i], arrivals);
        fence_mbarrier_init();
    }
    __syncthreads();
}

__device__ void load(Shared& shared, const TensorMap& map) {
    mbarrier_arrive_expect_tx(&shared.barriers[0], BOX_BYTES);
    cp_async_bulk_tensor_load(shared.tile, &map, &shared.barriers[0], 0, 0);
}

__device__ void load_and_wait(Shared& shared, const TensorMap& map) {
    make_barriers(shared, 1, 1);
    if (threadIdx.x == 0) load(shared, map);
    mbarrier_wait(&shared.barriers[0], 0);
}

__device__ void meet_cluster() {
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

__device__ int first_word(Shared& shared) { return *reinterpret_cast<int*>(shared.tile); }

__device__ void fill_tile(Shared& shared) {
    for (uint32_t i = threadIdx.x; i < BOX_BYTES / 4; i += 128) reinterpret_cast<int*>(shared.tile)[i] = int(i);
}

// ---- wgmma

// The same wgmma in two branches: two instructions, and neither has the whole warpgroup.
extern "C" __global__ void __launch_bounds__(128)
wgmma_in_two_branches(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    load_and_wait(shared, map);
    const uint64_t a = wgmma_descriptor(shared.tile, 16, 1024), b = wgmma_descriptor(shared.tile, 8192, 1024);
    float sums[32];
    wgmma_fence();
    if (threadIdx.x < 64) {
        wgmma_m64n64k16<Major::K, Major::MN>(sums, a, b, false);
    } else {
        wgmma_m64n64k16<Major::K, Major::MN>(sums, a, b, false);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    out[threadIdx.x] = sums[0];
}

__device__ void scale(float (&sums)[32]) {
    for (int i = 0; i < 32; ++i) sums[i] *= 0.5f;
}

// Two groups; the sums are scaled between them, before the fence or after it.
__device__ void scaled(Shared& shared, const TensorMap& map, float* out, bool before) {
    load_and_wait(shared, map);
    const uint64_t a = wgmma_descriptor(shared.tile, 16, 1024), b = wgmma_descriptor(shared.tile, 8192, 1024);
    float sums[32];
    for (int group = 0; group < 2; ++group) {
        if (group > 0 && before) scale(sums);
        wgmma_fence();
        if (group > 0 && !before) scale(sums);
        wgmma_m64n64k16<Major::K, Major::MN>(sums, a, b, group > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    out[threadIdx.x] = sums[0];
}
extern "C" __global__ void __launch_bounds__(128)
sums_scaled_after_the_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    scaled(shared, map, out, false);
}
extern "C" __global__ void __launch_bounds__(128)
sums_scaled_before_the_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    scaled(shared, map, out, true);
}

// ---- TMA

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
multicast_to_nobody(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    make_barriers(shared, 1, 1);
    meet_cluster();
    if (cluster_ctarank() == 0) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&shared.barriers[0], BOX_BYTES);
            cp_async_bulk_tensor_load_multicast(shared.tile, &map, &shared.barriers[0], 0, 0, 0);
        }
        mbarrier_wait(&shared.barriers[0], 0);
    }
    meet_cluster();
}

// Threads write the tile, and TMA writes over that.
extern "C" __global__ void __launch_bounds__(128)
load_over_writes_without_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    fill_tile(shared);
    load_and_wait(shared, map);
    out[threadIdx.x] = float(first_word(shared));
}
extern "C" __global__ void __launch_bounds__(128)
load_over_writes_with_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    fill_tile(shared);
    fence_proxy_async();
    load_and_wait(shared, map);
    out[threadIdx.x] = float(first_word(shared));
}

// The same box is stored twice; nobody has written to it since the first store.
extern "C" __global__ void __launch_bounds__(128)
stored_twice(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    fill_tile(shared);
    fence_proxy_async();
    __syncthreads();
    for (int i = 0; i < 2 && threadIdx.x == 0; ++i) {
        cp_async_bulk_tensor_store(&map, shared.tile, 0, 64 * i);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}
extern "C" __global__ void __launch_bounds__(128)
stored_twice_with_writes_between(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    fill_tile(shared);
    fence_proxy_async();
    __syncthreads();
    for (int i = 0; i < 2 && threadIdx.x == 0; ++i) {
        if (i == 1) shared.tile[0] += 1;
        cp_async_bulk_tensor_store(&map, shared.tile, 0, 64 * i);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}

// ---- mbarriers

// Warps 2 and 3 meet, which says nothing about what warp 0 has done.
extern "C" __global__ void __launch_bounds__(128)
used_after_a_barrier_of_others(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.barriers[0], 1);
        fence_mbarrier_init();
    }
    if (threadIdx.x < 64) return;
    barrier_sync(1, 64);
    if (threadIdx.x == 64) mbarrier_arrive(&shared.barriers[0]);
}

// A relaxed arrival at the cluster's barrier hands on the peer's mbarrier only if that was fenced.
__device__ void greet_peer(Shared& shared, float* out, bool fenced) {
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.barriers[0], 2);
        if (fenced) fence_mbarrier_init();
    }
    barrier_cluster_arrive_relaxed();
    barrier_cluster_wait();
    if (threadIdx.x < 2) mbarrier_arrive_cluster(&shared.barriers[0], threadIdx.x);
    mbarrier_wait_cluster(&shared.barriers[0], 0);
    out[threadIdx.x] = 1;
    meet_cluster();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
relaxed_without_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    greet_peer(shared, out, false);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
relaxed_with_fence(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    greet_peer(shared, out, true);
}

// A barrier that is made anew knows nothing of the phases of the one before.
extern "C" __global__ void __launch_bounds__(128)
read_early_after_a_new_barrier(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    for (int life = 0; life < 2; ++life) {
        make_barriers(shared, 1, 1);
        if (threadIdx.x == 0) load(shared, map);
        if (life == 0 || threadIdx.x < 32) mbarrier_wait(&shared.barriers[0], 0);
        if (threadIdx.x < 64) barrier_sync(1, 64);
        if (life == 0 || threadIdx.x >= 96) out[threadIdx.x] = float(first_word(shared));
        __syncthreads();
        if (threadIdx.x == 0) mbarrier_inval(&shared.barriers[0]);
    }
}

// More barriers than there is room for in the emulator's clocks.
extern "C" __global__ void __launch_bounds__(128)
eighty_barriers(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    make_barriers(shared, 80, 128);
    for (int i = 0; i < 80; ++i) {
        shared.words[threadIdx.x] = i;
        mbarrier_arrive(&shared.barriers[i]);
        mbarrier_wait(&shared.barriers[i], 0);
        out[threadIdx.x] = float(shared.words[127 - threadIdx.x]);
        __syncthreads();
    }
}

// ---- Registers and clusters

extern "C" __global__ void __launch_bounds__(128)
setmaxnreg_by_one_lane(const __grid_constant__ TensorMap map, float* out) {
    if (threadIdx.x % 32 == 0) setmaxnreg_dec<40>();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void __launch_bounds__(128)
setmaxnreg_by_one_warp(const __grid_constant__ TensorMap map, float* out) {
    if (threadIdx.x < 32) setmaxnreg_dec<40>();
    __syncthreads();
}

// A relaxed arrival is enough to say that wgmma has read what the peer loads next.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
relaxed_arrival_frees_operands(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    make_barriers(shared, 1, 1);
    meet_cluster();
    float sums[32];
    for (int step = 0; step < 2; ++step) {
        if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&shared.barriers[0], BOX_BYTES);
        if (threadIdx.x == 0 && cluster_ctarank() == 0) {
            cp_async_bulk_tensor_load_multicast(shared.tile, &map, &shared.barriers[0], 0, 0, 3);
        }
        mbarrier_wait(&shared.barriers[0], step);
        wgmma_fence();
        wgmma_m64n64k16<Major::K, Major::MN>(sums, wgmma_descriptor(shared.tile, 16, 1024),
                                             wgmma_descriptor(shared.tile, 8192, 1024), false);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        barrier_cluster_arrive_relaxed();
        barrier_cluster_wait();
    }
    out[threadIdx.x] = sums[0];
}

// Warps 2 and 3 come to a named barrier for all four, and the cluster waits for them.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
named_barrier_for_too_many(const __grid_constant__ TensorMap map, float* out) {
    if (threadIdx.x >= 64) barrier_sync(1, 128);
    meet_cluster();
}
