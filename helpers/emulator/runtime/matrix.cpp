// stmatrix: a warp stores up to four 8x8 matrices of 16-bit values, a lane each row of 16 bytes.
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
void check_values(Thread& thread, const uint32_t* registers, int count, int line) {
    bool is_nan = false;
    for (int i = 0; i < count; ++i) is_nan |= (registers[i] & 0xffff) == 0x7fff || registers[i] >> 16 == 0x7fff;
    if (!is_nan || !wgmma_holds(thread, nullptr) || wgmma_gave_nan(thread)) return;
    Report report;
    report.kind = Kind::accumulator_read;
    report.place.line = line;
    thread.cta->worker->add_report(report, thread);
}

// A lane's row: 16 bytes of shared memory, aligned, that nothing asynchronous still reads.
void check_row(Thread& thread, void* row, int line) {
    const Region region{emulator_shared_offset(row, line), kChunkBytes};
    if (region.offset % kChunkBytes != 0) {
        Report report = shared_report(*thread.cta, Kind::misaligned, line, region);
        report.op = Op::store;
        thread.cta->worker->fail(thread, report);
    }
    check_in_shared(thread, region, Op::store, line);
    check_write(thread, region, line);
}

}   // namespace

void emulator_stmatrix(void* row, const uint32_t* registers, int matrices, bool transposed, int line) {
    Thread& thread = *current_thread;
    AsyncState& state = used_state(*thread.cta);
    const bool has_row = thread.lane < 8 * matrices;   // the others' addresses do not count
    if (has_row) check_row(thread, row, line);
    check_values(thread, registers, matrices, line);

    // A fast lane may be at the next stmatrix while a slow one still reads from this.
    const int turn = state.matrix_turn[size_t(thread.linear)] ^= 1;
    uint32_t(&warp)[kWarp][4] = state.matrix_registers[turn][thread.warp];
    std::memcpy(warp[thread.lane], registers, size_t(matrices) * sizeof *registers);
    emulator_ballot(~0u, true, line);
    if (!has_row) return;

    // Register m of lane l holds two neighbours, in row l / 4 of matrix m and columns from l % 4 * 2 on; transposed, in
    // that column and those rows.
    const int matrix = thread.lane / 8, r = thread.lane % 8;
    uint16_t values[8];
    for (int c = 0; c < 8; ++c) {
        const int group = transposed ? c : r, place = transposed ? r : c;
        values[c] = uint16_t(warp[4 * group + place / 2][matrix] >> 16 * (place % 2));
    }
    kernel_access(thread, row, kChunkBytes, Op::store, __builtin_return_address(0));
    std::memcpy(row, values, sizeof values);
}
