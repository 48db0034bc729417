// Finds races in shared memory: remembers who touched each location since the last barrier.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "cta.h"

namespace emulator {

// One access, small because there are three for every two bytes of shared memory.
struct Access {
    uint32_t tick = 0;     // Shadow::now() at the access; 0: none
    uint16_t thread = 0;   // linear index (10 bits), and in the upper two bits which of the two bytes
    uint16_t site = 0;     // index of the instruction in the Tracer
    int linear() const { return thread & 0x3fff; }
    int bytes() const { return thread >> 14; }
};

// Two accesses of different threads to one location, at least one of them a store, with no barrier between.
struct Race {
    Access earlier;
    Op earlier_op;
    bool found = false;
};

// Time is counted in barriers. Two accesses are ordered if a barrier that both threads take part in lies between:
// a barrier of the CTA, or one of the warp if both are of one warp.
class Shadow {
public:
    explicit Shadow(uint64_t shared_bytes)
        : cells_(static_cast<Cell*>(std::calloc(shared_bytes / kCellBytes + 8, sizeof(Cell)))) {}
    ~Shadow() { std::free(cells_); }
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;

    // A barrier has been passed; returns the new time.
    uint32_t advance() { return ++now_; }

    // Records an access and tells whether it races with an earlier one.
    Race record(const Thread& thread, uint64_t offset, int bytes, Op op, uint16_t site);

private:
    static constexpr uint64_t kCellBytes = 2;   // a bf16; smaller accesses are told apart by their byte
    struct Cell {
        Access write, read, other_read;   // other_read: by another thread than `read`
    };
    static bool races(const Access& earlier, const Thread& thread, int bytes);

    uint32_t now_ = 1;
    Cell* cells_;
};

}   // namespace emulator
