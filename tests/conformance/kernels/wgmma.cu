// What wgmma computes: every thread's accumulators, for tiles that are given as they lie in shared memory.
//
// `a_image` and `b_image` are copied byte for byte; the descriptors get the offsets that the case says. Operands are
// small integers, so sums are exact in any order. Accumulator i of a thread goes to dump[thread][i].
#include "hopper.cuh"

constexpr int A_BYTES = 32768;
constexpr int B_BYTES = 65536;

struct Shared {
    alignas(1024) uint8_t a[A_BYTES];
    alignas(1024) uint8_t b[B_BYTES];
    uint64_t full;
};

// leading, stride: of the descriptors, in bytes. step: how far a descriptor moves with each 16 k, in units of 16 bytes.
// a_major, b_major: 0 K, 1 MN. swizzle: 0 none, 1 128 bytes. accumulate: whether the first wgmma adds to what the
// accumulators hold, which is a float of `initial_bits` plus the accumulator's number.
struct Setup {
    int a_bytes, b_bytes;
    int a_major, a_leading, a_stride, a_step;
    int b_major, b_leading, b_stride, b_step;
    int swizzle, steps, accumulate;
    uint32_t initial_bits;
};

__device__ __forceinline__ void copy_in(uint8_t* tile, const uint8_t* image, int bytes) {
    uint32_t* to = reinterpret_cast<uint32_t*>(tile);
    const uint32_t* from = reinterpret_cast<const uint32_t*>(image);
    for (int word = threadIdx.x; word < bytes / 4; word += blockDim.x) to[word] = from[word];
    fence_proxy_async();
}

// The shared memory with both operands in it, once all threads have copied their part.
__device__ __forceinline__ Shared& operands(uint8_t* smem, const uint8_t* a_image, const uint8_t* b_image,
                                            const Setup& setup) {
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    copy_in(shared.a, a_image, setup.a_bytes);
    copy_in(shared.b, b_image, setup.b_bytes);
    __syncthreads();
    return shared;
}

__device__ __forceinline__ uint64_t a_descriptor(const uint8_t* tile, const Setup& setup) {
    return wgmma_descriptor(tile, setup.a_leading, setup.a_stride, Swizzle(setup.swizzle));
}

__device__ __forceinline__ uint64_t b_descriptor(const uint8_t* tile, const Setup& setup) {
    return wgmma_descriptor(tile, setup.b_leading, setup.b_stride, Swizzle(setup.swizzle));
}

template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
    wgmma_m64n64k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
}
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    wgmma_m64n128k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
}
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[96], uint64_t a, uint64_t b, bool accumulate) {
    wgmma_m64n192k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
}
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[112], uint64_t a, uint64_t b, bool accumulate) {
    wgmma_m64n224k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
}
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
    wgmma_m64n256k16<A_MAJOR, B_MAJOR>(d, a, b, accumulate);
}

// `steps` wgmma in one group.
template <Major A_MAJOR, Major B_MAJOR, int N>
__device__ __forceinline__ void steps_in_one_group(float (&d)[N], uint64_t a, uint64_t b, const Setup& setup) {
    wgmma_fence_operand(d);
    wgmma_fence();
    for (int step = 0; step < setup.steps; ++step) {
        multiply<A_MAJOR, B_MAJOR>(d, a + step * setup.a_step, b + step * setup.b_step,
                                   step > 0 || setup.accumulate != 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    wgmma_fence_operand(d);
}

template <int ACCUMULATORS>
__device__ __forceinline__ void one_group(uint8_t* smem, const uint8_t* a_image, const uint8_t* b_image, float* dump,
                                          const Setup& setup) {
    Shared& shared = operands(smem, a_image, b_image, setup);
    const uint64_t a = a_descriptor(shared.a, setup), b = b_descriptor(shared.b, setup);
    float d[ACCUMULATORS];
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; ++i) d[i] = __uint_as_float(setup.initial_bits) + i;
    if (setup.a_major == 0 && setup.b_major == 0) steps_in_one_group<Major::K, Major::K>(d, a, b, setup);
    else if (setup.a_major == 0) steps_in_one_group<Major::K, Major::MN>(d, a, b, setup);
    else if (setup.b_major == 0) steps_in_one_group<Major::MN, Major::K>(d, a, b, setup);
    else steps_in_one_group<Major::MN, Major::MN>(d, a, b, setup);
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; ++i) dump[threadIdx.x * ACCUMULATORS + i] = d[i];
}

extern "C" __global__ void __launch_bounds__(128)
wgmma_n64(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    one_group<32>(smem, a_image, b_image, dump, setup);
}
extern "C" __global__ void __launch_bounds__(128)
wgmma_n128(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    one_group<64>(smem, a_image, b_image, dump, setup);
}
extern "C" __global__ void __launch_bounds__(128)
wgmma_n192(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    one_group<96>(smem, a_image, b_image, dump, setup);
}
extern "C" __global__ void __launch_bounds__(128)
wgmma_n224(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    one_group<112>(smem, a_image, b_image, dump, setup);
}
extern "C" __global__ void __launch_bounds__(128)
wgmma_n256(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    one_group<128>(smem, a_image, b_image, dump, setup);
}

// The same from the last step to the first: the descriptors are moved there, and then back step by step.
extern "C" __global__ void __launch_bounds__(128)
wgmma_advanced(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = operands(smem, a_image, b_image, setup);
    const int a_step = setup.a_step * 16, b_step = setup.b_step * 16, last = setup.steps - 1;   // bytes
    uint64_t a = wgmma_descriptor_advance(a_descriptor(shared.a, setup), last * a_step);
    uint64_t b = wgmma_descriptor_advance(b_descriptor(shared.b, setup), last * b_step);
    float d[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
    wgmma_fence_operand(d);
    wgmma_fence();
    for (int step = last; step >= 0; --step) {
        multiply<Major::K, Major::MN>(d, a, b, true);
        if (step == 0) break;
        a = wgmma_descriptor_advance(a, -a_step);
        b = wgmma_descriptor_advance(b, -b_step);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    wgmma_fence_operand(d);
#pragma unroll
    for (int i = 0; i < 32; ++i) dump[threadIdx.x * 32 + i] = d[i];
}

// Two groups in flight: the first has k step 0, the second steps 1 to 3 with accumulators of their own. The first is
// awaited alone, read, and then continued by a third group with step 1 while the second may still be running.
// dump: the first after its group, the second, the first at the end.
extern "C" __global__ void __launch_bounds__(128)
wgmma_groups(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = operands(smem, a_image, b_image, setup);
    const uint64_t a = a_descriptor(shared.a, setup), b = b_descriptor(shared.b, setup);
    float first[32], second[32], between[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) first[i] = second[i] = 1.0f;
    wgmma_fence_operand(first);
    wgmma_fence_operand(second);
    wgmma_fence();
    multiply<Major::K, Major::K>(first, a, b, true);
    wgmma_commit_group();
#pragma unroll
    for (int step = 1; step < 4; ++step) {
        multiply<Major::K, Major::K>(second, a + step * setup.a_step, b + step * setup.b_step, step > 1);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();
    wgmma_fence_operand(first);
#pragma unroll
    for (int i = 0; i < 32; ++i) between[i] = first[i];
    wgmma_fence_operand(first);
    wgmma_fence();
    multiply<Major::K, Major::K>(first, a + setup.a_step, b + setup.b_step, true);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    wgmma_fence_operand(first);
    wgmma_fence_operand(second);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        dump[threadIdx.x * 32 + i] = between[i];
        dump[4096 + threadIdx.x * 32 + i] = second[i];
        dump[8192 + threadIdx.x * 32 + i] = first[i];
    }
}

// Two warpgroups multiply their own 64 rows of A by the same B.
extern "C" __global__ void __launch_bounds__(256)
wgmma_warpgroups(const uint8_t* a_image, const uint8_t* b_image, float* dump, const Setup setup) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = operands(smem, a_image, b_image, setup);
    const int warpgroup = threadIdx.x / 128;
    float d[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
    steps_in_one_group<Major::K, Major::K>(d, a_descriptor(shared.a + warpgroup * (setup.a_bytes / 2), setup),
                                           b_descriptor(shared.b, setup), setup);
#pragma unroll
    for (int i = 0; i < 32; ++i) dump[threadIdx.x * 32 + i] = d[i];
}

// Both operands through TMA, as the ladder's kernels have them: A in a box of 64 k x 64 rows, the row-major B in boxes
// of 64 columns x 64 k. With 128-byte swizzle throughout: C[64, 128] of a K of 64.
extern "C" __global__ void __launch_bounds__(128)
wgmma_tma(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* dump) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&shared.full, 3 * 8192);
        cp_async_bulk_tensor_load(shared.a, &a_map, &shared.full, 0, 0);
        cp_async_bulk_tensor_load(shared.b, &b_map, &shared.full, 0, 0);
        cp_async_bulk_tensor_load(shared.b + 8192, &b_map, &shared.full, 64, 0);
    }
    mbarrier_wait(&shared.full, 0);
    const uint64_t a = wgmma_descriptor(shared.a, 16, 1024), b = wgmma_descriptor(shared.b, 8192, 1024);
    float d[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) d[i] = 0.0f;
    wgmma_fence_operand(d);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        multiply<Major::K, Major::MN>(d, a + 2 * step, b + 128 * step, true);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    wgmma_fence_operand(d);
#pragma unroll
    for (int i = 0; i < 64; ++i) dump[threadIdx.x * 64 + i] = d[i];
}
