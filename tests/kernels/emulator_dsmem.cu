#include "hopper.cuh"
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(64) split_sum(const float* in, float* out) {
    __shared__ float4 partial[64];
    const int split = blockIdx.x % SPLIT, thread = threadIdx.x;
    const float v = in[blockIdx.x * 64 + thread];
    partial[thread] = make_float4(v, 2 * v, 3 * v, 4 * v);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    float4 s = make_float4(0, 0, 0, 0);
    for (int i = 0; i < SPLIT; ++i) {
        const float4 p = ld_shared_cluster(&partial[thread], i);
        s.x += p.x; s.y += p.y; s.z += p.z; s.w += p.w;
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (split == 0) reinterpret_cast<float4*>(out)[blockIdx.x / SPLIT * 64 + thread] = s;
}
