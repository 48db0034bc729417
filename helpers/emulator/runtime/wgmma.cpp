#include "wgmma.h"

#include <algorithm>
#include <cstring>

#include "async_state.h"
#include "cluster.h"
#include "launch.h"
#include "ordering.h"
#include "worker.h"

namespace emulator {
namespace {

// What accumulators hold while a wgmma has them: a NaN that arithmetic turns into another one (it sets bit 22).
constexpr uint32_t kHeld = 0x7fa0face;
// What variables hold that were never given a value, see PATTERN_FLAGS in build.py: g++'s pattern and clang's.
constexpr uint32_t kUnset[] = {0xfefefefe, 0xffffffff};

enum class Mismatch : int64_t { descriptor_a = 0, descriptor_b = 1, shape = 2, accumulate = 3, accumulators = 4, group = 5, line = 6 };
enum class DescriptorFault : int64_t { swizzle = 0, base_offset = 1, tile = 2, offset = 3, step = 4, place = 5 };
enum class FenceFault : int64_t { first = 0, touched = 1 };

uint32_t word_of(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
}

void fill(float* registers, int count, uint32_t word) {
    float value;
    std::memcpy(&value, &word, sizeof value);
    std::fill_n(registers, count, value);
}

bool is_nan(float value) { return value != value; }

bool all_are(const float* registers, int count, uint32_t word) {
    uint32_t different = 0;
    for (int i = 0; i < count; ++i) different |= word_of(registers[i]) ^ word;
    return different == 0;
}

bool is_unwritten(const char* chunk) {
    uint64_t words[2];
    std::memcpy(words, chunk, sizeof words);
    return (words[0] & words[1]) == ~uint64_t(0);
}

class Execution final : public AsyncOperation {
public:
    Execution(const Origin& issuer, Warpgroup& group) : AsyncOperation(issuer), group_(group) {}
    void complete() override { group_.execute_wanted(); }

private:
    Warpgroup& group_;
};

// Calls visit(region) for each stretch of shared memory that an operand fills.
template <class Visit>
void for_each_region(const MatrixOperand& operand, uint32_t extent, Visit visit) {
    std::vector<uint32_t> chunks;
    for_each_chunk(operand.descriptor, operand.major, extent, [&](uint32_t address) { chunks.push_back(address); });
    std::sort(chunks.begin(), chunks.end());
    for (size_t i = 0; i < chunks.size();) {
        size_t end = i + 1;
        while (end < chunks.size() && chunks[end] <= chunks[end - 1] + kChunkBytes) ++end;
        visit(Region{chunks[i], chunks[end - 1] + kChunkBytes - chunks[i]});
        i = end;
    }
}

}   // namespace

void Warpgroup::fail(Thread& thread, Kind kind, int line, int64_t value, int64_t second) {
    Report report;
    report.kind = kind;
    report.place.line = line;
    report.values[0] = value;
    report.values[1] = second;
    cta_->worker->fail(thread, report);
}

// ---- issue ----------------------------------------------------------------------------------------------------------

void Warpgroup::issue(Thread& thread, float* registers, const WgmmaCall& call) {
    const int lane = lane_of(thread);
    const uint64_t number = lanes_[size_t(lane)].issued++;
    const bool is_first = number == retired_ + operations_.size();
    Operation& mine = is_first ? begin_operation(thread, call) : operation(number);
    if (is_first) {
        mine.tile = &find_tile(lane, registers, call.columns);
    } else {
        check_same(thread, mine, call);
    }
    take_registers(thread, *mine.tile, registers, call);
    mine.tile->last[size_t(lane)] = number + 1;
    mine.arrived += 1;
    if (mine.arrived == kWarpgroup) complete_issue(thread, mine);
}

Warpgroup::Operation& Warpgroup::begin_operation(Thread& thread, const WgmmaCall& call) {
    const int threads = int(cta_->threads.size()) - first_thread_;
    if (threads < kWarpgroup) fail(thread, Kind::wgmma_incomplete, call.line, threads);
    Operation operation{call, nullptr, {cta_, thread.linear, call.line}, 0, {}};
    for (int which = 0; which < 2; ++which) operation.loaded[which] = check_operand(thread, call, which);
    operations_.push_back(operation);
    return operations_.back();
}

bool Warpgroup::check_operand(Thread& thread, const WgmmaCall& call, int which) {
    const MatrixOperand operand = call.operand(which);
    const Descriptor& d = operand.descriptor;
    if (d.swizzle != Swizzle::none && d.swizzle != Swizzle::bytes_128) {
        fail(thread, Kind::wgmma_descriptor, call.line, int64_t(DescriptorFault::swizzle), int64_t(d.swizzle));
    }
    if (d.base_offset != 0) {
        fail(thread, Kind::wgmma_descriptor, call.line, int64_t(DescriptorFault::base_offset), d.base_offset);
    }
    AsyncState& state = *cta_->async_state;
    uint32_t low = ~0u, high = 0, mixed = ~0u;
    bool is_loaded = true;
    const Layout wanted = d.is_swizzled() ? Layout::swizzled : Layout::plain;
    const uint32_t limit = uint32_t(cta_->worker->launch.spec.shared_bytes) - kChunkBytes;
    for_each_chunk(d, operand.major, call.extent(which), [&](uint32_t address) {
        low = std::min(low, address);
        high = std::max(high, address);
        if (address > limit) return;
        state.chunks.add_reader(address);
        const Layout layout = state.chunks.layout(address);
        is_loaded &= layout != Layout::unknown;
        if (layout != Layout::unknown && layout != wanted) mixed = std::min(mixed, address);
    });
    const Region whole{low, high + kChunkBytes - low};
    if (cta_->worker->launch.shared_arrays.find(low, whole.bytes, 0) < 0) {
        Report report = shared_report(*cta_, Kind::wgmma_out_of_bounds, call.line, whole);
        report.values[0] = which;
        cta_->worker->fail(thread, report);
    }
    if (mixed != ~0u) {
        const Origin load{cta_, -1, state.chunks.layout_line(mixed)};
        report_overlap(thread, Kind::swizzle_mismatch, call.line, {mixed, kChunkBytes}, *cta_, load,
                       which | (d.is_swizzled() ? 2 : 0));
    }
    for (const LoadInFlight& load : state.loads) {
        if (!load.region.overlaps(whole)) continue;
        bool meets = false;
        for_each_chunk(d, operand.major, call.extent(which),
                       [&](uint32_t address) { meets |= load.region.overlaps({address, kChunkBytes}); });
        if (!meets) continue;
        report_before_load(thread, Kind::wgmma_before_load, call.line, load.region.intersection(whole), load, which);
        break;
    }
    return is_loaded;
}

void Warpgroup::check_same(Thread& thread, const Operation& operation, const WgmmaCall& call) {
    const WgmmaCall& first = operation.call;
    Mismatch difference;
    if (first.columns != call.columns || first.a_major != call.a_major || first.b_major != call.b_major) {
        difference = Mismatch::shape;
    } else if (first.a != call.a) {
        difference = Mismatch::descriptor_a;
    } else if (first.b != call.b) {
        difference = Mismatch::descriptor_b;
    } else if (first.accumulate != call.accumulate) {
        difference = Mismatch::accumulate;
    } else if (first.line != call.line) {
        difference = Mismatch::line;
    } else {
        return;
    }
    Report report;
    report.kind = Kind::wgmma_mismatch;
    report.place.line = call.line;
    report.other.line = first.line;
    report.other.thread = operation.origin.thread;
    report.values[0] = int64_t(difference);
    cta_->worker->fail(thread, report);
}

// All threads of the warpgroup have executed it.
void Warpgroup::complete_issue(Thread& thread, Operation& operation) {
    cta_->worker->add_total(Total::wgmma_instructions, 1);
    cta_->worker->add_total(Total::wgmma_flops, uint64_t(2) * kTileRows * uint64_t(operation.call.columns) * kStepK);
    if (cta_->cluster->ordering() != nullptr) {
        uint32_t ticket = 0;
        for (int which = 0; which < 2; ++which) {
            for_each_region(operation.call.operand(which), operation.call.extent(which), [&](const Region& region) {
                ticket = order_async_read_issued(thread, region.offset, region.bytes, AsyncReader::wgmma,
                                                 operation.call.line);
            });
        }
        tickets_.push_back(ticket);
    }
    start_execution();
}

// ---- accumulators ---------------------------------------------------------------------------------------------------

AccumulatorTile& Warpgroup::find_tile(int lane, float* registers, int columns) {
    for (AccumulatorTile& tile : tiles_) {
        if (tile.registers[size_t(lane)] == registers && tile.columns == columns) return tile;
    }
    tiles_.emplace_back();
    tiles_.back().columns = columns;
    tiles_.back().values.resize(size_t(kTileRows) * size_t(columns));
    return tiles_.back();
}

void Warpgroup::take_registers(Thread& thread, AccumulatorTile& tile, float* registers, const WgmmaCall& call) {
    const int lane = lane_of(thread), count = tile.columns / 2;
    float*& known = tile.registers[size_t(lane)];
    bool& held = tile.held[size_t(lane)];
    Report report;
    report.place.line = call.line;
    if (held) {
        if (known != registers) fail(thread, Kind::wgmma_mismatch, call.line, int64_t(Mismatch::accumulators));
        if (all_are(registers, count, kHeld)) return;
        report.kind = Kind::accumulator_written;
        cta_->worker->add_report(report, thread);
        fill(registers, count, kHeld);
        return;
    }
    for (const AccumulatorTile& other : tiles_) {
        if (other.held[size_t(lane)] && other.registers[size_t(lane)] < registers + count &&
            registers < other.registers[size_t(lane)] + other.columns / 2) {
            fail(thread, Kind::wgmma_mismatch, call.line, int64_t(Mismatch::accumulators));
        }
    }
    const bool is_known = known == registers;
    const bool is_fenced = lanes_[size_t(lane)].fenced;
    if (!is_fenced || (is_known && call.accumulate)) {
        // The registers must be as the last fence found them, or, without one, as the last wgmma left them.
        bool touched = false;
        for_each_accumulator_pair(lane, tile.columns, [&](int index, int place) {
            touched |= std::memcmp(registers + index, &tile.values[size_t(place)], 2 * sizeof(float)) != 0;
        });
        if (!is_known || touched) {
            report.kind = Kind::wgmma_unfenced;
            report.values[0] = int64_t(is_known ? FenceFault::touched : FenceFault::first);
            report.values[1] = is_fenced;
            cta_->worker->add_report(report, thread);
        }
    }
    if (call.accumulate) {
        if (all_are(registers, count, kUnset[0]) || all_are(registers, count, kUnset[1])) {
            report.kind = Kind::accumulator_unset;
            cta_->worker->add_report(report, thread);
        }
        for_each_accumulator_pair(lane, tile.columns, [&](int index, int place) {
            std::memcpy(&tile.values[size_t(place)], registers + index, 2 * sizeof(float));
        });
    }
    fill(registers, count, kHeld);
    known = registers;
    held = true;
}

void Warpgroup::give_registers_back(int lane) {
    const uint64_t waited = lanes_[size_t(lane)].waited;
    for (AccumulatorTile& tile : tiles_) {
        if (!tile.held[size_t(lane)] || tile.last[size_t(lane)] > waited) continue;
        float* const registers = tile.registers[size_t(lane)];
        if (!all_are(registers, tile.columns / 2, kHeld)) {
            Report report;
            report.kind = Kind::accumulator_written;
            report.place.line = cta_->threads[size_t(first_thread_ + lane)].wait.line;
            cta_->worker->add_report(report, cta_->threads[size_t(first_thread_ + lane)]);
        }
        for_each_accumulator_pair(lane, tile.columns, [&](int index, int place) {
            std::memcpy(registers + index, &tile.values[size_t(place)], 2 * sizeof(float));
        });
        lanes_[size_t(lane)].given_nan |= std::any_of(registers, registers + tile.columns / 2, is_nan);
        tile.held[size_t(lane)] = false;
        lanes_[size_t(lane)].fenced = false;
    }
}

bool Warpgroup::holds(const Thread& thread, const void* address) const {
    const size_t lane = size_t(lane_of(thread));
    const float* const at = static_cast<const float*>(address);
    return std::any_of(tiles_.begin(), tiles_.end(), [&](const AccumulatorTile& tile) {
        if (!tile.held[lane]) return false;
        return address == nullptr || (at >= tile.registers[lane] && at < tile.registers[lane] + tile.columns / 2);
    });
}

// ---- groups and waiting ---------------------------------------------------------------------------------------------

// Remembers what the accumulators hold: a wgmma may add to that, and not to what is written to them after the fence.
void Warpgroup::fence(Thread& thread) {
    const int lane = lane_of(thread);
    lanes_[size_t(lane)].fenced = true;
    for (AccumulatorTile& tile : tiles_) {
        const float* const registers = tile.registers[size_t(lane)];
        if (registers == nullptr || tile.held[size_t(lane)]) continue;
        for_each_accumulator_pair(lane, tile.columns, [&](int index, int place) {
            std::memcpy(&tile.values[size_t(place)], registers + index, 2 * sizeof(float));
        });
    }
}

void Warpgroup::commit_group(Thread& thread, int line) {
    Lane& lane = lanes_[size_t(lane_of(thread))];
    lane.commits += 1;
    if (lane.commits > group_ends_.size()) {
        group_ends_.push_back(lane.issued);
    } else if (group_ends_[lane.commits - 1] != lane.issued) {
        fail(thread, Kind::wgmma_mismatch, line, int64_t(Mismatch::group));
    }
}

void Warpgroup::wait_group(Thread& thread, int pending, int line) {
    const int index = lane_of(thread);
    Lane& lane = lanes_[size_t(index)];
    thread.wait.line = line;
    const uint64_t end = lane.commits > size_t(pending) ? group_ends_[lane.commits - size_t(pending) - 1] : 0;
    if (end <= lane.waited) return;
    if (end > executed_) {
        wanted_ = std::max(wanted_, end);
        start_execution();
        if (end > executed_) block_on(thread, {is_executed, this, end, State::wgmma, line, describe_wait});
    }
    // Tickets rise: that of the last wgmma stands for all.
    order_async_read_done(thread, AsyncReader::wgmma, end <= tickets_.size() ? tickets_[size_t(end - 1)] : 0);
    if (end > retired_) retire(end);
    lane.waited = end;
    thread.wait.line = line;
    give_registers_back(index);
}

bool Warpgroup::is_executed(const Wait& wait) {
    return static_cast<const Warpgroup*>(wait.object)->executed_ >= wait.ticket;
}

// For the table of a deadlock: how many of the warpgroup's threads have executed the wgmma that is waited for.
void Warpgroup::describe_wait(const Wait& wait, WarpState& state) {
    const Warpgroup& group = *static_cast<const Warpgroup*>(wait.object);
    for (uint64_t number = group.executed_; number < wait.ticket; ++number) {
        const Operation& missing = group.operations_[size_t(number - group.retired_)];
        if (missing.arrived == kWarpgroup) continue;
        state.values[0] = missing.arrived;
        state.values[1] = missing.call.line;
        return;
    }
}

bool Warpgroup::has_arrived(uint64_t end) const {
    for (uint64_t number = executed_; number < end; ++number) {
        if (operations_[size_t(number - retired_)].arrived != kWarpgroup) return false;
    }
    return true;
}

// Queues the execution of what threads wait for, once the whole warpgroup has issued it.
void Warpgroup::start_execution() {
    if (under_way_ || wanted_ <= executed_ || !has_arrived(wanted_)) return;
    under_way_ = true;
    cta_->cluster->issue(std::make_unique<Execution>(operation(executed_).origin, *this));
}

void Warpgroup::execute_wanted() {
    under_way_ = false;
    while (executed_ < wanted_ && operation(executed_).arrived == kWarpgroup) {
        execute(operation(executed_));
        executed_ += 1;
    }
}

void Warpgroup::execute(Operation& operation) {
    const WgmmaCall& call = operation.call;
    for (int which = 0; which < 2; ++which) {
        const MatrixOperand operand = call.operand(which);
        uint32_t unwritten = ~0u;
        for_each_chunk(operand.descriptor, operand.major, call.extent(which), [&](uint32_t address) {
            if (address >= unwritten || !is_unwritten(cta_->shared + address)) return;
            // What a new load has yet to write again was reported when that was issued.
            const bool is_known = operation.loaded[which] && is_under_way(cta_->async_state->loads, {address, kChunkBytes});
            if (!is_known) unwritten = address;
        });
        if (unwritten == ~0u) continue;
        Report report = shared_report(*cta_, Kind::wgmma_unwritten, call.line, {unwritten, kChunkBytes});
        report.values[0] = which;
        cta_->worker->add_report(report, cta_->threads[size_t(operation.origin.thread)]);
    }
    multiply_tile(operation.tile->values.data(), call.columns, cta_->shared, call.operand(0), call.operand(1),
                  call.accumulate);
}

// Some thread has waited for all before `end`: their operands are free.
void Warpgroup::retire(uint64_t end) {
    AsyncState& state = *cta_->async_state;
    while (retired_ < end) {
        const WgmmaCall& call = operations_.front().call;
        for (int which = 0; which < 2; ++which) {
            const MatrixOperand operand = call.operand(which);
            for_each_chunk(operand.descriptor, operand.major, call.extent(which),
                           [&](uint32_t address) { state.chunks.remove_reader(address); });
        }
        operations_.pop_front();
        retired_ += 1;
    }
}

const Origin* Warpgroup::find_reader(uint32_t address) const {
    const uint32_t chunk = address & ~(kChunkBytes - 1);
    for (const Operation& operation : operations_) {
        for (int which = 0; which < 2; ++which) {
            const MatrixOperand operand = operation.call.operand(which);
            bool found = false;
            for_each_chunk(operand.descriptor, operand.major, operation.call.extent(which),
                           [&](uint32_t read) { found |= read == chunk; });
            if (found) return &operation.origin;
        }
    }
    return nullptr;
}

void Warpgroup::thread_exits(Thread& thread) {
    Lane& lane = lanes_[size_t(lane_of(thread))];
    if (lane.issued == lane.waited) return;
    const uint64_t committed = lane.commits == 0 ? 0 : group_ends_[lane.commits - 1];
    const uint64_t first = std::max(lane.waited, retired_);
    Report report;
    report.kind = Kind::wgmma_undrained;
    report.place.line = first < retired_ + operations_.size() ? operation(first).call.line : 0;
    report.values[0] = lane.waited < committed;   // else it was not even committed
    cta_->worker->add_report(report, thread);
}

void wgmma_thread_exits(Thread& thread) {
    std::deque<Warpgroup>& groups = thread.cta->async_state->warpgroups;
    const size_t group = size_t(thread.linear / kWarpgroup);
    if (group < groups.size()) groups[group].thread_exits(thread);
}

bool wgmma_holds(const Thread& thread, const void* address) {
    const AsyncState& state = *thread.cta->async_state;
    const size_t group = size_t(thread.linear / kWarpgroup);
    return state.ready && group < state.warpgroups.size() && state.warpgroups[group].holds(thread, address);
}

bool wgmma_gave_nan(const Thread& thread) {
    const AsyncState& state = *thread.cta->async_state;
    const size_t group = size_t(thread.linear / kWarpgroup);
    return state.ready && group < state.warpgroups.size() && state.warpgroups[group].gave_nan(thread);
}

void local_access(Thread& thread, const void* address, Op op, int64_t code) {
    if (!wgmma_holds(thread, address)) return;
    Report report;
    report.kind = op == Op::load ? Kind::accumulator_read : Kind::accumulator_written;
    report.place.code = code;
    thread.cta->worker->add_report(report, thread);
}

namespace {

Warpgroup& my_warpgroup(Thread& thread, int line) {
    thread.cta->worker->step(thread, -1, line);
    std::deque<Warpgroup>& groups = used_state(*thread.cta).warpgroups;
    const size_t group = size_t(thread.linear / kWarpgroup);
    while (groups.size() <= group) groups.emplace_back(*thread.cta, int(groups.size()) * kWarpgroup);
    return groups[group];
}

}   // namespace

}   // namespace emulator

using namespace emulator;

uint64_t emulator_wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes, uint32_t swizzle,
                                   int line) {
    Thread& thread = *current_thread;
    const uint32_t start = emulator_shared_offset(tile, line);
    const uint32_t fields[] = {start, leading_bytes, stride_bytes};
    for (int i = 0; i < 3; ++i) {
        if (fields[i] % kChunkBytes == 0 && fields[i] < 1u << 18) continue;
        Report report;
        report.kind = Kind::wgmma_descriptor;
        report.place.line = line;
        report.values[0] = int64_t(i == 0 ? DescriptorFault::tile : DescriptorFault::offset);
        report.values[1] = fields[i];
        thread.cta->worker->fail(thread, report);
    }
    return uint64_t(start >> 4) | uint64_t(leading_bytes >> 4) << 16 | uint64_t(stride_bytes >> 4) << 32 |
           uint64_t(swizzle) << 62;
}

uint64_t emulator_wgmma_descriptor_advance(uint64_t descriptor, int bytes, int line) {
    Thread& thread = *current_thread;
    const int64_t place = int64_t(decode_descriptor(descriptor).start) + bytes;
    const bool is_amid = bytes % int(kChunkBytes) != 0;
    if (is_amid || place < 0 || place >= 1 << 18) {
        Report report;
        report.kind = Kind::wgmma_descriptor;
        report.place.line = line;
        report.values[0] = int64_t(is_amid ? DescriptorFault::step : DescriptorFault::place);
        report.values[1] = is_amid ? bytes : place;
        thread.cta->worker->fail(thread, report);
    }
    return descriptor + uint64_t(int64_t(bytes / int(kChunkBytes)));
}

void emulator_wgmma(float* d, int columns, int a_major, int b_major, uint64_t a, uint64_t b, bool accumulate,
                    int line) {
    Thread& thread = *current_thread;
    my_warpgroup(thread, line).issue(thread, d, {a, b, columns, Major(a_major), Major(b_major), accumulate, line});
}

void emulator_wgmma_fence(int line) {
    Thread& thread = *current_thread;
    my_warpgroup(thread, line).fence(thread);
}

void emulator_wgmma_commit_group(int line) {
    Thread& thread = *current_thread;
    my_warpgroup(thread, line).commit_group(thread, line);
}

void emulator_wgmma_wait_group(int pending, int line) {
    Thread& thread = *current_thread;
    my_warpgroup(thread, line).wait_group(thread, pending, line);
}
