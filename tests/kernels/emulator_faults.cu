// Kernels that break one rule each. Their line numbers are looked up by the comments `// !name`.
#include <cuda_bf16.h>

extern "C" __global__ void read_past_end(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i % n] = in[i + 1];   // !read_past_end
}

extern "C" __global__ void write_before_start(float* out, int distance) {
    out[int(threadIdx.x) - distance] = 1.0f;   // !write_before_start
}

extern "C" __global__ void wild_pointer(float* out) {
    float* wild = out + (size_t(1) << 44);
    if (threadIdx.x == 5) wild[0] = 1.0f;   // !wild_pointer
}

// Thread t reads what thread t + 1 writes.
extern "C" __global__ void missing_barrier(const float* in, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];   // !race_write
    out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];   // !race_read
}

// The first barrier is there, the one before the tile's next use is not.
extern "C" __global__ void missing_second_barrier(const float* in, float* out, int rounds) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round) {
        tile[threadIdx.x] = in[threadIdx.x];   // !reuse_write
        __syncthreads();
        sum += tile[63 - threadIdx.x];   // !reuse_read
    }
    out[threadIdx.x] = sum;
}

// One warp exchanges through shared memory; SYNC=1 orders it.
extern "C" __global__ void warp_exchange(float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = threadIdx.x;   // !warp_write
#if SYNC
    __syncwarp();
#endif
    out[threadIdx.x] = tile[31 - threadIdx.x];   // !warp_read
}

extern "C" __global__ void shared_past_end(float* out, int index) {
    extern __shared__ float dynamic_tile[];
    dynamic_tile[index] = 1.0f;   // !shared_past_end
    out[0] = dynamic_tile[0];
}

extern "C" __global__ void exit_before_barrier(float* out) {
    if (threadIdx.x >= 40) return;
    __syncthreads();   // !exit_before_barrier
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void different_barriers(float* out) {
    if (threadIdx.x < 32) {
        __syncthreads();   // !first_barrier
    } else {
        __syncthreads();   // !second_barrier
    }
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void missing_lanes(float* out) {
    float value = threadIdx.x;
    if (threadIdx.x < 16) value = __shfl_xor_sync(0xffffffffu, value, 1);   // !missing_lanes
    else __syncthreads();
    out[threadIdx.x] = value;
}

extern "C" __global__ void endless_loop(volatile float* out) {
    if (threadIdx.x == 3)
        while (out[0] == 0.0f) {}   // !endless_loop
    __syncthreads();   // !endless_barrier
}

extern "C" __global__ void divide_by_zero(int* out, int zero) {
    out[threadIdx.x] = 7 / (zero * int(threadIdx.x));   // !divide_by_zero
}

extern "C" __global__ void misaligned(const float* in, float4* out, int first) {
    out[0] = *reinterpret_cast<const float4*>(in + first);   // !misaligned
}

extern "C" __global__ void deep_stack(float* out, int n) {
    volatile float local[40000];
    for (int i = 0; i < n; ++i) local[i] = i;   // !deep_stack
    out[0] = local[n - 1];
}

extern "C" __global__ void trap(int* out) {
    if (threadIdx.x == 2) __trap();   // !trap
    out[0] = 1;
}

extern "C" __global__ void write_const(const float* in) {
    const_cast<float*>(in)[0] = 2.0f;   // !write_const
}
