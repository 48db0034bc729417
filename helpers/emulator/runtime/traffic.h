// What one warp request costs. Pure functions of the lanes' addresses.
#pragma once
#include <cstdint>

#include "protocol.h"

namespace emulator {

// The lanes of one request; lanes without an access have no bit in `active`.
struct Request {
    uint64_t address[kWarp];
    uint32_t active;
    int bytes;   // per lane
    Op op;
};

struct Cost {
    int transactions;
    int ideal;   // if the same lanes had been given the best addresses
};

// Global memory: 32-byte sectors touched; at best as many as the distinct bytes fill.
Cost global_cost(const Request& request);

// Shared memory: passes (wavefronts) through the 32 banks; at best one for each phase.
Cost shared_cost(const Request& request);

}   // namespace emulator
