// Loops without end. The line of each ends in `// !name`.
#include "hopper.cuh"

// Thread 40 does not come: 1: it does nothing at all. 2: it reads what nobody changes. 3: it polls a barrier.
// 4: it polls, and arrives at another each time.
extern "C" __global__ void loops(int* out, int kind) {
    __shared__ uint64_t awaited, other;
    if (threadIdx.x == 0) {
        mbarrier_init(&awaited, 1);
        mbarrier_init(&other, 1);
    }
    __syncthreads();
    if (threadIdx.x == 40) {
        while (kind == 1) {   // !nothing
        }
        while (kind == 2 && out[0] == 0) {   // !unchanged
        }
        while (kind == 3 && !mbarrier_try_wait_parity(&awaited, 0)) {   // !poll
        }
        while (kind == 4 && !mbarrier_try_wait_parity(&awaited, 0)) mbarrier_arrive(&other);   // !busy_poll
    }
    __syncthreads();   // !meets
    out[1] = 1;
}
