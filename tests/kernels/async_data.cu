// What TMA, wgmma and stmatrix do, each alone: shared memory or registers go to `out` as they are.
#include <cuda_bf16.h>

#include "hopper.cuh"

constexpr int DUMP = 64 * 1024;   // bytes of shared memory that are looked at

struct Shared {
    uint8_t bytes[DUMP];
    uint64_t barrier;
};

__device__ void dump(const Shared& shared, uint4* out) {
    for (int i = threadIdx.x; i < DUMP / 16; i += blockDim.x) out[i] = reinterpret_cast<const uint4*>(shared.bytes)[i];
}

__device__ void prepare(Shared& shared, int arrivals) {
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.barrier, arrivals);
        fence_mbarrier_init();
    }
    __syncthreads();
}

// One box at column x, row y of the matrix, to byte `offset`.
extern "C" __global__ void load_box(const __grid_constant__ TensorMap map, uint4* out, int x, int y, int offset,
                                    int bytes) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    prepare(shared, 1);
    if (threadIdx.x == 0) {
        prefetch_tensormap(&map);
        mbarrier_arrive_expect_tx(&shared.barrier, bytes);
        cp_async_bulk_tensor_load(shared.bytes + offset, &map, &shared.barrier, x, y, createpolicy_evict_first());
    }
    mbarrier_wait(&shared.barrier, 0);
    dump(shared, out);
}

// Copies a box to another place, with a policy for the L2 cache: 0: of the load. 1: of a multicast. 2: of the store.
extern "C" __global__ void hinted(const __grid_constant__ TensorMap map, int bytes, int how, int step) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    prepare(shared, 1);
    if (threadIdx.x != 0) return;
    const uint64_t policy = createpolicy_evict_last(), other = createpolicy_evict_first() + step;
    mbarrier_arrive_expect_tx(&shared.barrier, bytes);
    if (how == 1) {
        cp_async_bulk_tensor_load_multicast(shared.bytes, &map, &shared.barrier, 0, 0, 1, other);   // !1
    } else {
        cp_async_bulk_tensor_load(shared.bytes, &map, &shared.barrier, 0, 0, how == 0 ? other : policy);   // !0
    }
    mbarrier_wait(&shared.barrier, 0);
    cp_async_bulk_tensor_store(&map, shared.bytes, 64, 0, how == 2 ? other : policy);   // !2
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
}

// From one matrix to another, through shared memory.
extern "C" __global__ void copy_box(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                    int from_x, int from_y, int to_x, int to_y, int bytes) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    prepare(shared, 1);
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&shared.barrier, bytes);
        cp_async_bulk_tensor_load(shared.bytes, &from, &shared.barrier, from_x, from_y);
        mbarrier_wait(&shared.barrier, 0);
        cp_async_bulk_tensor_store(&to, shared.bytes, to_x, to_y);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
    mbarrier_wait(&shared.barrier, 0);
}

// CTA 0 of a cluster loads a box for the CTAs of the mask.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
multicast(const __grid_constant__ TensorMap map, uint4* out, int x, int y, int bytes, int mask) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    prepare(shared, 1);
    const bool receives = mask >> cluster_ctarank() & 1;
    if (threadIdx.x == 0 && receives) mbarrier_arrive_expect_tx(&shared.barrier, bytes);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (cluster_ctarank() == 0 && threadIdx.x == 0) {
        cp_async_bulk_tensor_load_multicast(shared.bytes, &map, &shared.barrier, x, y, uint16_t(mask));
    }
    if (receives) mbarrier_wait(&shared.barrier, 0);
    dump(shared, out + blockIdx.x * (DUMP / 16));
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

#ifdef COLUMNS
#ifndef FROM   // the byte at which wgmma's descriptors are made, and moved on from; -1: each at its operand
#define FROM -1
#endif
__device__ uint64_t described(const uint8_t* memory, int offset, int leading, int stride) {
    if (FROM < 0) return wgmma_descriptor(memory + offset, leading, stride, Swizzle(SWIZZLE));
    const uint64_t first = wgmma_descriptor(memory + FROM, leading, stride, Swizzle(SWIZZLE));
    return wgmma_descriptor_advance(first, offset - FROM);   // !advance
}

// One wgmma on operands that lie in shared memory as `image` says. Thread t's accumulators go to out[t], first those
// that it began with plus the product, then (second half of out) the product alone.
constexpr Major A_MAJOR = Major(A_KIND), B_MAJOR = Major(B_KIND);

__device__ void multiply(float (&d)[COLUMNS / 2], uint64_t a, uint64_t b, bool accumulate) {
#if COLUMNS == 64
    wgmma_m64n64k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
#elif COLUMNS == 128
    wgmma_m64n128k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
#elif COLUMNS == 192
    wgmma_m64n192k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
#elif COLUMNS == 224
    wgmma_m64n224k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
#else
    wgmma_m64n256k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
#endif
}

extern "C" __global__ void wgmma(const uint4* image, float* out, int a_offset, int a_leading, int a_stride,
                                 int b_offset, int b_leading, int b_stride) {
    extern __shared__ __align__(1024) uint8_t memory[];
    for (int i = threadIdx.x; i < DUMP / 16; i += blockDim.x) reinterpret_cast<uint4*>(memory)[i] = image[i];
    fence_proxy_async();
    __syncthreads();
    const uint64_t a = described(memory, a_offset, a_leading, a_stride);
    const uint64_t b = described(memory, b_offset, b_leading, b_stride);
    float sums[COLUMNS / 2], products[COLUMNS / 2];
    for (int i = 0; i < COLUMNS / 2; ++i) sums[i] = float(threadIdx.x + 1000 * i);
    wgmma_fence();
    multiply(sums, a, b, true);
    wgmma_commit_group();
    multiply(products, a, b, false);
    wgmma_commit_group();
    wgmma_wait_group<1>();
    wgmma_fence_operand(sums);
    for (int i = 0; i < COLUMNS / 2; ++i) out[threadIdx.x * (COLUMNS / 2) + i] = sums[i];
    wgmma_wait_group<0>();
    for (int i = 0; i < COLUMNS / 2; ++i) out[(128 + threadIdx.x) * (COLUMNS / 2) + i] = products[i];
}

// Touches registers while a wgmma of zeros holds the accumulators. how: 0: the first one behind them. 1: reads the last
// accumulator. 2: writes it.
extern "C" __global__ void touch_last(float* out, int how) {
    extern __shared__ __align__(1024) uint8_t memory[];
    for (int i = threadIdx.x; i < DUMP / 16; i += blockDim.x) {
        reinterpret_cast<uint4*>(memory)[i] = make_uint4(0, 0, 0, 0);
    }
    fence_proxy_async();
    __syncthreads();
    struct {
        float sums[COLUMNS / 2], next;
    } registers;
    for (int i = 0; i < COLUMNS / 2; ++i) registers.sums[i] = i;
    registers.next = threadIdx.x;
    float* volatile last = &registers.sums[COLUMNS / 2 - 1];   // clang's hooks leave out what it knows to be local
    wgmma_fence();
    multiply(registers.sums, wgmma_descriptor(memory, 16, 1024), wgmma_descriptor(memory + 8192, 16, 1024), true);
    wgmma_commit_group();
    if (how == 0) last[1] += 1;
    if (how == 1) out[threadIdx.x] = *last;   // !read_last
    if (how == 2) *last = 0;   // !write_last
    wgmma_wait_group<0>();   // !wait_last
    out[threadIdx.x] = *last + registers.next;
}
#endif

// Two stmatrix, each of a kilobyte of its own, in which lane l gives the row at byte places[l]. Register i of lane l
// holds 4 * l + i and 1000 more, the second time 2000 more than that.
template <bool TRANSPOSED>
__global__ void stmatrix(const long long* places, uint4* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    for (int turn = 0; turn < 2; ++turn) {
        uint8_t* row = memory + 1024 * turn + places[threadIdx.x];
        uint32_t values[4];
        for (int i = 0; i < 4; ++i) {
            const uint32_t low = 4 * threadIdx.x + i + 2000 * turn;
            values[i] = low | (low + 1000) << 16;
        }
        if constexpr (TRANSPOSED) {
            stmatrix_x2_trans(row, values[0], values[1]);   // !stmatrix_x2_trans
        } else {
            stmatrix_x4(row, values[0], values[1], values[2], values[3]);   // !stmatrix_x4
        }
    }
    __syncwarp();
    for (int i = threadIdx.x; i < 128; i += 32) out[i] = reinterpret_cast<const uint4*>(memory)[i];
}

// Faults of stmatrix. Each thread has a row of its own behind the first 32 KiB; but thread `odd` gives: 1: one that is
// not aligned. 2: the end of shared memory. 3: what a TMA store still reads. 4: what a wgmma still reads. In fault 5 the
// last register comes from accumulators that a wgmma holds.
template <bool TRANSPOSED>
__global__ void stmatrix_faults(const __grid_constant__ TensorMap map, int fault, int odd) {
    extern __shared__ __align__(1024) uint8_t memory[];
    for (int i = threadIdx.x; i < DUMP / 16; i += blockDim.x) {
        reinterpret_cast<uint4*>(memory)[i] = make_uint4(0, 0, 0, 0);
    }
    fence_proxy_async();
    __syncthreads();
    uint8_t* row = memory + 32768 + 16 * threadIdx.x;
    if (int(threadIdx.x) == odd) {
        if (fault == 1) row += 8;
        if (fault == 2) row = memory + DUMP;
        if (fault == 3 || fault == 4) row = memory + 1024;
    }
    if (fault == 3 && threadIdx.x == 0) {
        cp_async_bulk_tensor_store(&map, memory, 0, 0);   // !stored
        cp_async_bulk_commit_group();
    }
    float sums[32];
    uint32_t word = 0;
    if (fault >= 4) {
        wgmma_fence();
        const uint64_t a = wgmma_descriptor(memory, 16, 1024), b = wgmma_descriptor(memory + 16384, 16, 1024);
        wgmma_m64n64k16<Major::K, Major::K>(sums, a, b, false);   // !multiplied
        wgmma_commit_group();
    }
    if (fault == 5) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(sums[0], sums[1]);   // !packed
        word = reinterpret_cast<const uint32_t&>(pair);
    }
    __syncthreads();
    if constexpr (TRANSPOSED) {
        stmatrix_x2_trans(row, 0, word);   // !faulty_x2_trans
    } else {
        stmatrix_x4(row, 0, 0, 0, word);   // !faulty_x4
    }
    __syncthreads();
    if (fault >= 4) wgmma_wait_group<0>();
    if (fault == 3 && threadIdx.x == 0) cp_async_bulk_wait_group_read<0>();
}

// Faults of a warpgroup's discipline, one for each value of `fault`; the operands are zeros.
extern "C" __global__ void warpgroup_faults(float* out, int fault) {
    extern __shared__ __align__(1024) uint8_t memory[];
    for (int i = threadIdx.x; i < DUMP / 16; i += blockDim.x) {
        reinterpret_cast<uint4*>(memory)[i] = make_uint4(0, 0, 0, 0);
    }
    fence_proxy_async();
    __syncthreads();
    const bool odd = threadIdx.x >= 96;   // the last warp does otherwise
    const uint64_t a = wgmma_descriptor(memory + (fault == 1 && odd ? 1024 : 0), 16, 1024);
    const uint64_t b = wgmma_descriptor(memory + 16384 + (fault == 2 && odd ? 32 : 0), 16, 1024);
    float sums[32], others[32];
    for (int i = 0; i < 32; ++i) sums[i] = others[i] = 1;
    if (fault == 3 && odd) return;
    wgmma_fence();
    if (fault == 4 && odd) {
        wgmma_m64n64k16<Major::K, Major::MN>(sums, a, b, true);   // !other_shape
    } else {
        wgmma_m64n64k16<Major::K, Major::K>(sums, a, b, fault != 5 || !odd);   // !first
    }
    if (fault == 6 && odd) wgmma_commit_group();   // !early_commit
    wgmma_m64n64k16<Major::K, Major::K>(fault == 7 && odd ? others : sums, a, b, true);   // !second
    wgmma_commit_group();   // !commit
    wgmma_wait_group<0>();
    if (fault == 8) {
        sums[5] += 1;
        wgmma_m64n64k16<Major::K, Major::K>(sums, a, b, true);   // !unfenced
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    if (fault == 9) {
        wgmma_fence();
        wgmma_m64n64k16<Major::K, Major::K>(sums, a, b, true);
        wgmma_commit_group();
        out[threadIdx.x] = sums[0];   // !read
        wgmma_wait_group<0>();
    }
    out[threadIdx.x] = sums[5] + others[0];
}
