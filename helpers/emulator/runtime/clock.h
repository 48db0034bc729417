// Vector clocks: what a thread, or a barrier, knows of all others.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

// Clocks have a multiple of this many components, so that they are joined by whole vectors.
constexpr size_t kClockLanes = 8;
typedef uint32_t ClockLanes __attribute__((vector_size(kClockLanes * 4), aligned(4), may_alias));

// known[i]: how far component i's past is known. published[i]: how far it is visible to the async proxy as well.
struct Clock {
    std::vector<uint32_t> known, published;

    Clock() = default;
    explicit Clock(size_t components) : known(components), published(components) {}
};

// to = max(to, from), from a component on that is a multiple of kClockLanes.
inline void join_components(std::vector<uint32_t>& to, const std::vector<uint32_t>& from, size_t begin = 0) {
    for (size_t i = begin; i < to.size(); i += kClockLanes) {
        ClockLanes& a = reinterpret_cast<ClockLanes&>(to[i]);
        const ClockLanes& b = reinterpret_cast<const ClockLanes&>(from[i]);
        a = a > b ? a : b;
    }
}

inline void clear_components(std::vector<uint32_t>& components) { std::fill(components.begin(), components.end(), 0); }

}   // namespace emulator
