// The registers of a CTA, which its warpgroups redistribute with setmaxnreg.
#pragma once
#include <cstdint>
#include <vector>

#include "cta.h"

namespace emulator {

// What one warpgroup has. The instruction takes effect when all its warps have come.
struct WarpgroupRegisters {
    const Cta* cta = nullptr;
    int per_thread = 0;
    int wanted = 0;            // of the instruction that its threads come to
    bool increase = false;
    int arrived = 0;           // threads
    int expected = 0;          // those that have not exited
    uint64_t generation = 0;   // instructions that have taken effect
    int first_line = 0;
};

class RegisterPool {
public:
    void begin(const Cta& cta);

    int64_t free = 0;   // registers that no warp has
    std::vector<WarpgroupRegisters> groups;
};

// A thread's function has returned: setmaxnreg no longer waits for it.
void registers_thread_exits(Thread& thread);

}   // namespace emulator
