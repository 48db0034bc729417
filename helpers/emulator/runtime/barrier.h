// Barriers of CTAs and warps.
#pragma once
#include "cta.h"

namespace emulator {

// A thread's function has returned: barriers of its warp stop waiting for it.
void lane_exits(Thread& thread);

}   // namespace emulator
