// Named barriers (bar.sync with a number): some warps of a CTA meet.
#pragma once
#include <array>
#include <cstdint>

#include "cta.h"
#include "ordering_state.h"

namespace emulator {

struct NamedBarrier {
    int arrived = 0;
    int expected = 0;          // threads; set by who comes first
    uint64_t generation = 0;
    int first_thread = -1, first_line = 0;   // who came first
    int number = 0;
    Meeting meeting;           // for vector clocks
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
