// Vector clocks: what a thread, or a barrier, knows of all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

// Components are kept in whole vectors of this many, so that joining is fast.
constexpr size_t kClockLanes = 8;
typedef uint32_t ClockLanes __attribute__((vector_size(kClockLanes * 4)));

// known[i]: how far component i's past is known. published[i]: how far it is visible to the async proxy as well.
struct Clock {
    std::vector<ClockLanes> known, published;

    Clock() = default;
    explicit Clock(size_t components) : known(components / kClockLanes), published(components / kClockLanes) {}

    uint32_t& at(size_t component) { return known[component / kClockLanes][component % kClockLanes]; }
    uint32_t at(size_t component) const { return known[component / kClockLanes][component % kClockLanes]; }
    uint32_t published_at(size_t component) const {
        return published[component / kClockLanes][component % kClockLanes];
    }
};

// to = max(to, from), from the given vector on.
inline void join_lanes(std::vector<ClockLanes>& to, const std::vector<ClockLanes>& from, size_t begin = 0) {
    for (size_t i = begin; i < to.size(); ++i) to[i] = to[i] > from[i] ? to[i] : from[i];
}

inline void clear_lanes(std::vector<ClockLanes>& lanes) {
    for (ClockLanes& part : lanes) part = ClockLanes{};
}

}   // namespace emulator
