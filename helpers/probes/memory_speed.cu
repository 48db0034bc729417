// memory_speed: how fast all SMs together can read a memory, if they do nothing else.
//
// Every thread adds up what it reads, so no read can be left out, and the sums tell whether all bytes came.
// read_shared  every thread makes `reads` reads of 16 bytes of its SM's shared memory, without bank conflicts.
// read_global  CTA b reads `count` chunks of 16 bytes, `rounds` times, from chunk b * stride on; at the end of the
//              array it goes on at its beginning. A small array stays in L2, a large one, read once, comes from HBM.
//              stride 0: all SMs ask for the same bytes at about the same time.
// Contract  total, stride and count are multiples of THREADS * IN_FLIGHT chunks.
// Launch    grid (SMs), block (THREADS). out[CTA * THREADS + thread] = its sum of 32-bit words, modulo 2^32.
//           log[4 * CTA ...]: see note_time.cuh.
#include "note_time.cuh"

constexpr int THREADS = 1024;
constexpr int IN_FLIGHT = 8;    // reads of a thread that are under way together: 128 KB for an SM
constexpr int PASSES = 3;       // 16 bytes for each thread: 48 KB, what a kernel may declare

__device__ __forceinline__ void add(uint4& sum, uint4 value) {
    sum.x += value.x;
    sum.y += value.y;
    sum.z += value.z;
    sum.w += value.w;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
read_shared(const uint4* values, unsigned* out, unsigned long long* log, int reads) {
    __shared__ uint4 chunks[PASSES * THREADS];
    for (int i = threadIdx.x; i < PASSES * THREADS; i += THREADS) chunks[i] = values[i];
    __syncthreads();
    if (threadIdx.x == 0) note_begin(log + 4 * blockIdx.x);

    uint4 sum = {0, 0, 0, 0};
    int place = threadIdx.x;   // goes round and round: addresses known in advance would be read once only
#pragma unroll 8
    for (int read = 0; read < reads; ++read) {
        add(sum, chunks[place]);
        place += THREADS;
        if (place >= PASSES * THREADS) place -= PASSES * THREADS;
    }

    out[blockIdx.x * THREADS + threadIdx.x] = sum.x + sum.y + sum.z + sum.w;
    __syncthreads();   // all have finished
    if (threadIdx.x == 0) note_end(log + 4 * blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
read_global(const uint4* values, unsigned* out, unsigned long long* log, unsigned total, unsigned stride,
            unsigned count, int rounds) {
    if (threadIdx.x == 0) note_begin(log + 4 * blockIdx.x);
    uint4 sum = {0, 0, 0, 0};
    for (int round = 0; round < rounds; ++round) {
        unsigned first = size_t(blockIdx.x) * stride % total;
        for (unsigned done = 0; done < count; done += THREADS * IN_FLIGHT) {
            const uint4* from = values + first + threadIdx.x;
            uint4 read[IN_FLIGHT];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i) read[i] = from[i * THREADS];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i) add(sum, read[i]);
            first += THREADS * IN_FLIGHT;
            if (first == total) first = 0;
        }
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum.x + sum.y + sum.z + sum.w;
    __syncthreads();
    if (threadIdx.x == 0) note_end(log + 4 * blockIdx.x);
}
