// Kernels for dependent launches: right, and with accesses before the wait. A fault's line ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif

#ifndef EARLY
#define EARLY 0
#endif

// to[list[i]] = from[list[i]]. 1: reads before the wait. 2: one thread does not wait. 3: writes before the wait.
// 4: lets the next launch begin in place of waiting.
extern "C" __global__ void copy(const float* from, const int* list, float* to) {
    const int i = list[threadIdx.x];   // no launch writes it
    float value = 0;
    if (FAULT == 1) value = from[i];   // !early_read
    if (FAULT == 3) to[i] = 1;         // !early_write
    if (FAULT == 4) griddepcontrol_launch_dependents();
    if (FAULT != 4 && (FAULT != 2 || threadIdx.x != 5)) griddepcontrol_wait();
    if (FAULT != 1) value = from[i];   // !read
    to[i] = value;                     // !write
}

// to[(i + 1) % count] = from[i] + 1, so that each CTA needs what two of the launch before wrote. Who lets the next launch
// begin: 0: nobody. 1: all threads, before they wait. 2: the last thread of each CTA, twice. 3: only CTA 0.
extern "C" __global__ void turn(const float* from, float* to) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    if (EARLY == 1) griddepcontrol_launch_dependents();
    griddepcontrol_wait();
    for (int time = 0; time < 2; ++time) {
        if (EARLY == 2 && threadIdx.x == blockDim.x - 1) griddepcontrol_launch_dependents();
    }
    if (EARLY == 3 && blockIdx.x == 0) griddepcontrol_launch_dependents();
    to[(i + 1) % count] = from[i] + 1;
}
