// Named barriers (bar.sync with a number): some warps of a CTA meet.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cta.h"
#include "ordering_state.h"

namespace emulator {

// A thread came to a barrier at this time of its clock.
struct Arrival {
    int thread = 0;
    int line = 0;
    uint32_t time = 0;
};

struct NamedBarrier {
    int arrived = 0;
    int expected = 0;          // threads; set by who comes first
    uint64_t generation = 0;
    int first_thread = -1, first_line = 0;   // who came first
    int number = 0;
    // For vector clocks:
    Meeting meeting;
    std::vector<Arrival> last;           // of the last generation
    std::vector<Arrival> coming;         // of this one
    std::vector<uint64_t> left;          // of each thread: the generation that it has waited for, counted from 1
};

class NamedBarriers {
public:
    static constexpr int kCount = 16;
    void clear() { barriers_ = {}; }
    NamedBarrier& at(int id) { return barriers_[size_t(id)]; }

private:
    std::array<NamedBarrier, kCount> barriers_;
};

}   // namespace emulator
