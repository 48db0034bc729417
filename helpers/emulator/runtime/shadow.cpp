#include "shadow.h"

#include "ordering_state.h"

namespace emulator {
namespace {

// By the count of barriers.
struct BarrierRules {
    const Thread& thread;

    bool is_fresh(const Access& access) const { return access.tick >= thread.cta->epoch; }
    bool is_ordered(const Access& earlier) const {
        if (!is_fresh(earlier)) return true;
        const bool one_warp = earlier.linear() / kWarp == thread.warp;
        return one_warp && earlier.tick < thread.cta->warps[size_t(thread.warp)].epoch;
    }
};

// By vector clocks.
struct ClockRules {
    const Thread& thread;
    const Ordering& ordering;

    bool is_ordered(const Access& earlier) const { return ordering.knows(thread, earlier.linear(), earlier.tick); }
    bool is_fresh(const Access& access) const { return !is_ordered(access); }
};

template <class Rules>
bool races(const Rules& rules, const Access& earlier, int bytes) {
    return earlier.tick != 0 && earlier.linear() != rules.thread.linear && (earlier.bytes() & bytes) &&
           !rules.is_ordered(earlier);
}

}   // namespace

template <class Rules>
Race Shadow::record_by(const Rules& rules, uint32_t time, const Thread& thread, uint64_t offset, int bytes, Op op,
                       uint16_t site) {
    Race race;
    const uint64_t end = offset + uint64_t(bytes);
    has_accesses_[offset / kBlockBytes] = has_accesses_[(end - 1) / kBlockBytes] = 1;
    for (uint64_t cell_index = offset / kCellBytes; cell_index * kCellBytes < end; ++cell_index) {
        Cell& cell = cells_[cell_index];
        const uint64_t cell_begin = cell_index * kCellBytes;
        const int touched = (cell_begin >= offset ? 1 : 0) | (cell_begin + 1 < end ? 2 : 0);
        const Access access{time, uint16_t(thread.linear | touched << 14), site};

        if (!race.found && races(rules, cell.write, touched)) race = {cell.write, Op::store, true};
        if (op == Op::store) {
            if (!race.found && races(rules, cell.read, touched)) race = {cell.read, Op::load, true};
            if (!race.found && races(rules, cell.other_read, touched)) race = {cell.other_read, Op::load, true};
            cell.write = access;
        } else if (cell.read.linear() == thread.linear || !rules.is_fresh(cell.read)) {
            cell.read = access;
        } else if (thread.warp != cell.read.linear() / kWarp || !rules.is_fresh(cell.other_read)) {
            cell.other_read = access;   // rather of another warp than `read`: a barrier of the warp leaves it unordered
        }
    }
    return race;
}

Race Shadow::record(const Thread& thread, uint64_t offset, int bytes, Op op, uint16_t site) {
    return record_by(BarrierRules{thread}, now_, thread, offset, bytes, op, site);
}

Race Shadow::record(const Thread& thread, const Ordering& ordering, uint64_t offset, int bytes, Op op, uint16_t site) {
    return record_by(ClockRules{thread, ordering}, ordering.now(thread), thread, offset, bytes, op, site);
}

void Shadow::forget(uint32_t offset, uint32_t bytes) {
    const uint64_t end = offset + bytes;
    for (uint64_t block = offset / kBlockBytes; block * kBlockBytes < end; ++block) {
        if (!has_accesses_[block]) continue;
        const uint64_t begin = std::max<uint64_t>(offset, block * kBlockBytes);
        const uint64_t stop = std::min<uint64_t>(end, (block + 1) * kBlockBytes);
        std::memset(static_cast<void*>(&cells_[begin / kCellBytes]), 0, (stop - begin) / kCellBytes * sizeof(Cell));
        if (stop - begin == kBlockBytes) has_accesses_[block] = 0;
    }
}

}   // namespace emulator
