// Relaxed accesses to global memory, by CTAs that may run at the same time. A fault's line ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif
#ifndef PLACE   // of a fault's access: 0: of the argument. 1: of the file's own variable
#define PLACE 0
#endif
constexpr int TRIES = 20;

__device__ int own[4];

// Each thread of each CTA adds 1, `rounds` times, to count[threadIdx.x % 4]; then it looks until what all CTAs add is
// there, or it has looked TRIES times. It writes what it has seen last, and leaves 7 in seen[0].
extern "C" __global__ void add(int* count, int* seen, int rounds, int expected) {
    const int place = threadIdx.x % 4;
    for (int round = 0; round < rounds; ++round) red_add_relaxed_gpu(&count[place], 1);   // !add
    int found = 0;
    for (int tries = 0; found < expected && tries < TRIES; ++tries) found = ld_relaxed_gpu(&count[place]);   // !look
    st_relaxed_gpu(&seen[1 + blockIdx.x * blockDim.x + threadIdx.x], found);
    st_relaxed_gpu(&seen[0], 7);   // by all, at the same time
}

// The same count in a variable of the file; the first launch after one that cleared it.
extern "C" __global__ void add_to_own(int rounds, int* out, int clear) {
    griddepcontrol_wait();
    for (int round = 0; round < rounds; ++round) red_add_relaxed_gpu(&own[threadIdx.x % 4], 1);
    if (out != nullptr && threadIdx.x < 4) out[threadIdx.x] = ld_relaxed_gpu(&own[threadIdx.x]);
    if (clear && threadIdx.x < 4) st_relaxed_gpu(&own[threadIdx.x], 0);
}

// Each thread draws `rounds` numbers from a count, and some from the file's own variable: what was there before.
extern "C" __global__ void draw(int* count, int* before, int* own_before, int rounds, int step) {
    int* mine = before + (blockIdx.x * blockDim.x + threadIdx.x) * rounds;
    int* own_mine = own_before + (blockIdx.x * blockDim.x + threadIdx.x) * rounds;
    for (int round = 0; round < rounds; ++round) {
        const int found = atom_add_relaxed_gpu(count, step);   // !draw
        mine[round] = found;
        own_mine[round] = atom_add_relaxed_gpu(&own[3], 1);
    }
}

// Thread 37 makes one access that breaks a rule. 1 to 3, 12: outside of an array. 4 to 6, 13: amid a number. 7, 8, 14:
// to shared memory and to a local variable. 9 to 11, 15: before the wait for the launch before.
extern "C" __global__ void broken(int* data, int place) {
    __shared__ int box[32];
    int* to = PLACE ? own : data;
    int local = 0;
    char* amid = reinterpret_cast<char*>(to) + 2;
    box[threadIdx.x % 32] = 0;
    if (threadIdx.x == 37) {
        if (FAULT == 1) local = ld_relaxed_gpu(&to[place]);                            // !1
        if (FAULT == 2) st_relaxed_gpu(&to[place], 1);                                 // !2
        if (FAULT == 3) red_add_relaxed_gpu(&to[place], 1);                            // !3
        if (FAULT == 4) local = ld_relaxed_gpu(reinterpret_cast<const int*>(amid));    // !4
        if (FAULT == 5) st_relaxed_gpu(reinterpret_cast<int*>(amid), 1);               // !5
        if (FAULT == 6) red_add_relaxed_gpu(reinterpret_cast<int*>(amid), 1);          // !6
        if (FAULT == 7) red_add_relaxed_gpu(&box[0], 1);                               // !7
        if (FAULT == 8) local = ld_relaxed_gpu(&local);                                // !8
        if (FAULT == 9) local = ld_relaxed_gpu(to);                                    // !9
        if (FAULT == 10) st_relaxed_gpu(to, 0);                                        // !10
        if (FAULT == 11) red_add_relaxed_gpu(to, 0);                                   // !11
        if (FAULT == 12) local = atom_add_relaxed_gpu(&to[place], 1);                  // !12
        if (FAULT == 13) local = atom_add_relaxed_gpu(reinterpret_cast<int*>(amid), 1);   // !13
        if (FAULT == 14) local = atom_add_relaxed_gpu(&local, 1);                      // !14
        if (FAULT == 15) local = atom_add_relaxed_gpu(to, 0);                          // !15
    }
    griddepcontrol_wait();
    if (threadIdx.x == 37 && local == 1) st_relaxed_gpu(to, 0);
}

// CTA `waits` looks until the other has written, which it does at once.
extern "C" __global__ void await(int* flag, int waits) {
    if (threadIdx.x == 0 && int(blockIdx.x) == waits) {
        while (ld_relaxed_gpu(flag) == 0) {}   // !await
    }
    if (threadIdx.x == 0 && int(blockIdx.x) != waits) st_relaxed_gpu(flag, 1);
}

// Two threads, the first of the cluster and `thread` of CTA `cta`, add 1 in turn, `rounds` times each.
extern "C" __global__ void __cluster_dims__(2, 1, 1) take_turns(int* count, int rounds, int cta, int thread) {
    const int cta_here = blockIdx.x, thread_here = threadIdx.x;
    const bool is_second = cta_here == cta && thread_here == thread;
    if (!is_second && (cta_here != 0 || thread_here != 0)) return;
    for (int round = 0; round < rounds; ++round) {
        while (ld_relaxed_gpu(count) % 2 != int(is_second)) {}
        red_add_relaxed_gpu(count, 1);
    }
}
