// Accesses of the generic proxy that the compiler's hooks do not see, because the runtime makes them (stmatrix).
#pragma once
#include <cstdint>

#include "cta.h"

namespace emulator {

// Counts and checks one lane's access to its CTA's shared memory as if the kernel had made it. `return_address` is
// __builtin_return_address(0) of the function that the kernel called. Does nothing without counters.
void shared_access(Thread& thread, void* pointer, int bytes, Op op, void* return_address);

}   // namespace emulator
