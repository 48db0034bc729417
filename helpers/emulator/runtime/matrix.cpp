// stmatrix: a warp stores four 8x8 matrices of 16-bit values, each lane one row of 16 bytes.
#include <cstring>

#include "async_state.h"
#include "cluster.h"
#include "hooks.h"
#include "launch.h"
#include "worker.h"

using namespace emulator;

namespace {

// Writing over what an asynchronous operation has yet to read.
void check_write(Thread& thread, const Region& region, int line) {
    const AsyncState& state = *thread.cta->async_state;
    for (const auto& store : state.stores) {
        if (!store->region.overlaps(region)) continue;
        report_overlap(thread, Kind::write_over_store, line, region, *thread.cta, store->origin);
        break;
    }
    const Region read = state.chunks.find_readers(region);
    if (read.bytes == 0) return;
    for (const Warpgroup& group : state.warpgroups) {
        const Origin* reader = group.find_reader(read.offset);
        if (reader == nullptr) continue;
        report_overlap(thread, Kind::write_over_wgmma, line, read, *thread.cta, *reader);
        break;
    }
}

// Accumulators that a wgmma holds are NaN, and a NaN in bf16 is 0x7fff: as one that is a result, which may be stored.
void check_values(Thread& thread, const uint32_t (&registers)[4], int line) {
    bool is_nan = false;
    for (const uint32_t word : registers) is_nan |= (word & 0xffff) == 0x7fff || word >> 16 == 0x7fff;
    if (!is_nan || !wgmma_holds(thread, nullptr) || wgmma_gave_nan(thread)) return;
    Report report;
    report.kind = Kind::accumulator_read;
    report.place.line = line;
    thread.cta->worker->add_report(report, thread);
}

}   // namespace

void emulator_stmatrix(void* row, const uint32_t (&registers)[4], int line) {
    Thread& thread = *current_thread;
    AsyncState& state = used_state(*thread.cta);
    const Region region{emulator_shared_offset(row, line), kChunkBytes};
    if (region.offset % kChunkBytes != 0) {
        Report report = shared_report(*thread.cta, Kind::misaligned, line, region);
        report.op = Op::store;
        thread.cta->worker->fail(thread, report);
    }
    check_in_shared(thread, region, Op::store, line);
    check_write(thread, region, line);
    check_values(thread, registers, line);

    // A fast lane may be at the next stmatrix while a slow one still reads from this.
    const int turn = state.matrix_turn[size_t(thread.linear)] ^= 1;
    uint32_t(&warp)[kWarp][4] = state.matrix_registers[turn][thread.warp];
    std::memcpy(warp[thread.lane], registers, sizeof registers);
    emulator_ballot(~0u, true, line);

    // Row r of matrix m lies in register m of the lanes 4 * r to 4 * r + 3, two values in each.
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = warp[4 * (thread.lane % 8) + i][thread.lane / 8];
    kernel_access(thread, row, kChunkBytes, Op::store, __builtin_return_address(0));
    std::memcpy(row, words, sizeof words);
}
