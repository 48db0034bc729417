// Accesses of the generic proxy that the compiler's hooks do not see, because the runtime makes them: stmatrix, accesses
// to another CTA's shared memory, relaxed ones to global memory.
#pragma once
#include <cstdint>

#include "cta.h"

namespace emulator {

// Counts and checks one lane's access to memory, which must be aligned and no local variable, as if the kernel had made
// it; as a step it is counted already. `return_address` is __builtin_return_address(0) of the function that the kernel
// called. Does nothing without counters.
void kernel_access(Thread& thread, void* pointer, int bytes, Op op, void* return_address);

// Counts one lane's access to another CTA's shared memory, at an offset in that array of it. Checks nothing.
void count_remote_access(Thread& thread, uint64_t offset, int bytes, int array, Op op, void* return_address);

}   // namespace emulator
