// Access patterns whose cost is known. A CTA is one warp.
#include <cuda_bf16.h>

// Lane `i` of CTA `p` reads element index[p][i] of `in`; a negative index is an idle lane.
template <typename T>
__global__ void gather_global(const int* __restrict__ index, const T* __restrict__ in, T* __restrict__ out) {
    const int i = index[blockIdx.x * 32 + threadIdx.x];
    if (i >= 0) {
        const T value = in[i];   // !gather_load
        out[i] = value;          // !gather_store
    }
}

// The same for shared memory.
template <typename T, int N>
__global__ void gather_shared(const int* __restrict__ index, T* __restrict__ out) {
    __shared__ __align__(1024) T tile[N];
    const int i = index[blockIdx.x * 32 + threadIdx.x];
    if (i >= 0) tile[i] = T();   // !shared_store
    __syncwarp();
    if (i >= 0) {
        const T value = tile[i];   // !shared_load
        out[blockIdx.x * 32 + threadIdx.x] = value;
    }
}

// A column of a 32 x 32 tile is one bank 32 times; with one more column of padding it is 32 banks.
template <int PADDING>
__global__ void transpose_tile(const float* in, float* out) {
    __shared__ float tile[32][32 + PADDING];
    for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = in[row * 32 + threadIdx.x];   // !row_store
    __syncwarp();
    for (int row = 0; row < 32; ++row) out[row * 32 + threadIdx.x] = tile[threadIdx.x][row];   // !column_load
}

// Lanes leave a loop at different times: lane i reads i + 1 elements.
extern "C" __global__ void ragged(const float* in, float* out) {
    float sum = 0.0f;
    for (int k = 0; k <= int(threadIdx.x); ++k) sum += in[32 * k + threadIdx.x];   // !ragged_load
    out[threadIdx.x] = sum;
}

// Two bf16 as one word; local arrays are no traffic.
extern "C" __global__ void pairs(const __nv_bfloat162* in, __nv_bfloat162* out, int first) {
    __nv_bfloat162 local[4];
    for (int i = 0; i < 4; ++i) local[i] = in[32 * i + threadIdx.x];   // !pair_load
    for (int i = 0; i < 4; ++i) out[32 * i + threadIdx.x] = local[(i + first) % 4];   // !pair_store
}

// More accesses than the emulator logs at a time.
extern "C" __global__ void many(const float* in, float* out, int rounds) {
    float sum = 0.0f;
    for (int k = 0; k < rounds; ++k) sum += in[(k % 8) * 64 + threadIdx.x * (1 + k % 2)];   // !many_load
    out[threadIdx.x] = sum;
}
