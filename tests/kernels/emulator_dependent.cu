// A kernel for dependent launches: right, and with accesses before the wait. A fault's line ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif

// to[list[i]] = from[list[i]]. 1: reads before the wait. 2: one thread does not wait. 3: writes before the wait.
extern "C" __global__ void copy(const float* from, const int* list, float* to) {
    const int i = list[threadIdx.x];   // no launch writes it
    float value = 0;
    if (FAULT == 1) value = from[i];   // !early_read
    if (FAULT == 3) to[i] = 1;         // !early_write
    if (FAULT != 2 || threadIdx.x != 5) griddepcontrol_wait();
    if (FAULT != 1) value = from[i];   // !read
    to[i] = value;                     // !write
}
