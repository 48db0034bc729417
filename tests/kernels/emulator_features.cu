// One kernel for each piece of CUDA C++ that the emulator offers.
#include <cuda_bf16.h>

#ifndef SCALE
#define SCALE 1
#endif

// Indices in three dimensions: every thread writes its own place in the grid, at that place.
extern "C" __global__ void indices(int* out) {
    const dim3 threads(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    out[(z * threads.y + y) * threads.x + x] = x + 1000 * y + 1000000 * z;
}

// Static shared memory, a template, and a barrier: reverses each CTA's part.
template <int N, typename T>
__global__ void __launch_bounds__(N) reverse(const T* __restrict__ in, T* __restrict__ out, float scale) {
    __shared__ __align__(16) T tile[N];
    const int i = blockIdx.x * N + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = T(float(tile[N - 1 - threadIdx.x]) * scale * SCALE);
}

// Dynamic shared memory under two names is one memory.
extern "C" __global__ void dynamic_shared(int* out) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    extern __shared__ int words[];
    words[threadIdx.x] = threadIdx.x * 0x01010101;
    __syncthreads();
    out[threadIdx.x] = bytes[4 * ((threadIdx.x + 1) % blockDim.x) + 2];
    if (threadIdx.x == 0) out[blockDim.x] = int(__cvta_generic_to_shared(bytes + 64) - __cvta_generic_to_shared(bytes));
}

// Reads shared memory that nobody wrote.
extern "C" __global__ void uninitialised(float* out32, __nv_bfloat16* out16) {
    __shared__ float a[32];
    __shared__ __nv_bfloat16 b[32];
    if (threadIdx.x == 99) a[0] = 0.0f, b[0] = 0.0f;
    out32[threadIdx.x] = a[threadIdx.x];
    out16[threadIdx.x] = b[threadIdx.x];
}

// Each row of `out` holds what one exchange gives the 32 lanes.
extern "C" __global__ void exchanges(int* out) {
    const int lane = threadIdx.x, value = 100 + lane;
    int row = 0;
    out[32 * row++ + lane] = __shfl_sync(0xffffffffu, value, 7);
    out[32 * row++ + lane] = __shfl_sync(0xffffffffu, value, 1, 8);
    out[32 * row++ + lane] = __shfl_up_sync(0xffffffffu, value, 3);
    out[32 * row++ + lane] = __shfl_down_sync(0xffffffffu, value, 5, 16);
    out[32 * row++ + lane] = __shfl_xor_sync(0xffffffffu, value, 16);
    out[32 * row++ + lane] = int(__ballot_sync(0xffffffffu, lane % 3 == 0));
    out[32 * row++ + lane] = __any_sync(0xffffffffu, lane == 31) + 2 * __all_sync(0xffffffffu, lane < 31);
    // The halves of a warp may be at different exchanges.
    if (lane < 16) out[32 * row + lane] = __shfl_xor_sync(0x0000ffffu, value, 1);
    else out[32 * row + lane] = __shfl_sync(0xffff0000u, value, 31);
    __syncwarp();
}

// Sums a row of 8-byte values by halving; the block is two warps in y.
extern "C" __global__ void warp_sum(const double* in, double* out) {
    double sum = in[threadIdx.y * 32 + threadIdx.x];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (threadIdx.x == 0) out[threadIdx.y] = sum;
}

extern "C" __global__ void vectors(const float4* in4, const int2* in2, float4* out4, uint2* out2) {
    const int i = threadIdx.x;
    const float4 a = __ldg(in4 + i);
    out4[i] = make_float4(a.w, a.z, a.y, fmaf(a.x, 2.0f, 1.0f));
    const int2 b = in2[i];
    out2[i] = make_uint2(max(b.x, b.y), min(b.x, 3u));
}

// bf16 of every kind of value, there and back.
extern "C" __global__ void conversions(const float* in, __nv_bfloat16* rounded, unsigned int* pairs, float* back) {
    const int i = threadIdx.x;
    rounded[i] = __float2bfloat16_rn(in[i]);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(in[i], -in[i]);
    pairs[i] = reinterpret_cast<const unsigned int&>(pair);
    const float2 both = __bfloat1622float2(pair);
    back[2 * i] = both.x;
    back[2 * i + 1] = __uint_as_float(__float_as_uint(both.y) ^ 0x80000000u);
}

// The order in which warps come between two barriers, told by a counter in global memory.
extern "C" __global__ void warp_order(int* ticket, int* out) {
    for (int round = 0; round < 4; ++round) {
        if (threadIdx.x % 32 == 0) out[round * (blockDim.x / 32) + threadIdx.x / 32] = (*ticket)++;
        __syncthreads();
    }
}

__constant__ float table[4] = {1.0f, 10.0f, 100.0f, 1000.0f};

extern "C" __global__ void constants(const int* index, float* out) { out[threadIdx.x] = table[index[threadIdx.x]]; }
