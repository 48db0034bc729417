#include "shadow.h"

namespace emulator {
namespace {

bool is_fresh(const Access& access, const Thread& thread) { return access.tick >= thread.cta->epoch; }

}   // namespace

bool Shadow::races(const Access& earlier, const Thread& thread, int bytes) {
    if (!is_fresh(earlier, thread) || earlier.linear() == thread.linear || !(earlier.bytes() & bytes)) return false;
    const bool one_warp = earlier.linear() / kWarp == thread.warp;
    return !one_warp || earlier.tick >= thread.cta->warps[thread.warp].epoch;
}

Race Shadow::record(const Thread& thread, uint64_t offset, int bytes, Op op, uint16_t site) {
    Race race;
    const uint64_t end = offset + bytes;
    for (uint64_t cell_index = offset / kCellBytes; cell_index * kCellBytes < end; ++cell_index) {
        Cell& cell = cells_[cell_index];
        const uint64_t cell_begin = cell_index * kCellBytes;
        const int touched = (cell_begin >= offset ? 1 : 0) | (cell_begin + 1 < end ? 2 : 0);
        const Access access{now_, uint16_t(thread.linear | touched << 14), site};

        if (!race.found && races(cell.write, thread, touched)) race = {cell.write, Op::store, true};
        if (op == Op::store) {
            if (!race.found && races(cell.read, thread, touched)) race = {cell.read, Op::load, true};
            if (!race.found && races(cell.other_read, thread, touched)) race = {cell.other_read, Op::load, true};
            cell.write = access;
        } else if (!is_fresh(cell.read, thread) || cell.read.linear() == thread.linear) {
            cell.read = access;
        } else if (!is_fresh(cell.other_read, thread) || thread.warp != cell.read.linear() / kWarp) {
            cell.other_read = access;   // rather of another warp than `read`: a barrier of the warp leaves it unordered
        }
    }
    return race;
}

}   // namespace emulator
