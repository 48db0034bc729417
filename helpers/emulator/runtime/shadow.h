// Finds races in shared memory: remembers who touched each location last.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cta.h"

namespace emulator {

// One access, small because there are three for every two bytes of shared memory.
struct Access {
    uint32_t tick = 0;     // the time of the access; 0: none
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

class Ordering;

// Time is counted in barriers: two accesses are ordered if a barrier that both threads take part in lies between, a
// barrier of the CTA, or one of the warp if both are of one warp. Or, in kernels with more kinds of barriers, it is the
// threads' own in vector clocks (see ordering.h).
class Shadow {
public:
    explicit Shadow(uint64_t shared_bytes)
        : bytes_(shared_bytes),
          cells_(static_cast<Cell*>(std::calloc(shared_bytes / kCellBytes + 8, sizeof(Cell)))),
          has_accesses_(shared_bytes / kBlockBytes + 2) {}
    ~Shadow() { std::free(cells_); }
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;

    // A barrier has been passed; returns the new time.
    uint32_t advance() { return ++now_; }

    // Records an access and tells whether it races with an earlier one, by the count of barriers, or by vector clocks.
    Race record(const Thread& thread, uint64_t offset, int bytes, Op op, uint16_t site);
    Race record(const Thread& thread, const Ordering& ordering, uint64_t offset, int bytes, Op op, uint16_t site);

    // Calls visit(access, op, offset) for the accesses to a range that are remembered; several of one instruction and
    // thread may be told once.
    template <class Visit>
    void for_accesses(uint32_t offset, uint32_t bytes, Visit&& visit) const {
        Access last[3];
        for (uint32_t at = offset / kCellBytes * kCellBytes; at < offset + bytes; at += kCellBytes) {
            if (!has_accesses_[at / kBlockBytes]) {
                at = (at / kBlockBytes + 1) * kBlockBytes - kCellBytes;
                continue;
            }
            const Cell& cell = cells_[at / kCellBytes];
            const Access* accesses[3] = {&cell.write, &cell.read, &cell.other_read};
            for (int i = 0; i < 3; ++i) {
                if (accesses[i]->tick == 0 || same(*accesses[i], last[i])) continue;
                last[i] = *accesses[i];
                visit(*accesses[i], i == 0 ? Op::store : Op::load, at);
            }
        }
    }

    // Forgets the accesses to a range, after which something else is to be remembered; or all.
    void forget(uint32_t offset, uint32_t bytes);
    void forget() { forget(0, uint32_t(bytes_)); }

private:
    static constexpr uint64_t kCellBytes = 2;   // a bf16; smaller accesses are told apart by their byte
    static constexpr uint64_t kBlockBytes = 1024;
    struct Cell {
        Access write, read, other_read;   // other_read: by another thread than `read`
    };
    static bool same(const Access& a, const Access& b) {
        return a.tick == b.tick && a.thread == b.thread && a.site == b.site;
    }
    template <class Rules>
    Race record_by(const Rules& rules, uint32_t time, const Thread& thread, uint64_t offset, int bytes, Op op,
                   uint16_t site);

    uint32_t now_ = 1;
    const uint64_t bytes_;
    Cell* cells_;
    std::vector<uint8_t> has_accesses_;   // by block: whether there is any; so that ranges are searched fast
};

}   // namespace emulator
