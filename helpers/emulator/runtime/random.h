// A small random number generator, the same on every machine (xorshift64*).
#pragma once
#include <cstdint>

namespace emulator {

class Random {
public:
    explicit Random(uint64_t seed = 0) : state_(mix(seed)) {}

    // A number below `bound`, which must not be 0.
    uint32_t below(uint32_t bound) {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return uint32_t((state_ * 0x2545f4914f6cdd1dull >> 32) * bound >> 32);
    }

private:
    // Spreads neighbouring seeds apart, and never gives 0 (splitmix64).
    static uint64_t mix(uint64_t seed) {
        seed += 0x9e3779b97f4a7c15ull;
        seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
        seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
        return (seed ^ seed >> 31) | 1;
    }

    uint64_t state_;
};

}   // namespace emulator
