#include "hazards.h"

#include <algorithm>

#include "fiber.h"
#include "launch.h"
#include "mbarrier.h"
#include "worker.h"

namespace emulator {

Region Region::intersection(const Region& other) const {
    const uint32_t begin = std::max(offset, other.offset), last = std::min(end(), other.end());
    return {begin, last > begin ? last - begin : 0};
}

bool is_under_way(const std::list<LoadInFlight>& loads, const Region& region) {
    return std::any_of(loads.begin(), loads.end(),
                       [&](const LoadInFlight& load) { return load.region.overlaps(region); });
}

void ChunkMap::reset(uint64_t shared_bytes) {
    const size_t count = size_t(shared_bytes / kChunkBytes + 1);
    readers_.assign(count, 0);
    layouts_.assign(count, Layout::unknown);
    layout_lines_.assign(count, 0);
}

Region ChunkMap::find_readers(const Region& region) const {
    const auto begin = readers_.begin() + region.offset / kChunkBytes;
    const auto end = readers_.begin() + (region.end() + kChunkBytes - 1) / kChunkBytes;
    const auto first = std::find_if(begin, end, [](uint16_t readers) { return readers != 0; });
    if (first == end) return {};
    const auto last = std::find(first, end, 0);
    return Region{uint32_t(first - readers_.begin()) * kChunkBytes, uint32_t(last - first) * kChunkBytes}.intersection(
        region);
}

void ChunkMap::set_layout(const Region& region, Layout layout, int line) {
    const size_t first = region.offset / kChunkBytes, count = (region.bytes + kChunkBytes - 1) / kChunkBytes;
    std::fill_n(layouts_.begin() + std::ptrdiff_t(first), count, layout);
    std::fill_n(layout_lines_.begin() + std::ptrdiff_t(first), count, line);
}

Report shared_report(const Cta& cta, Kind kind, int line, const Region& region) {
    Report report;
    report.kind = kind;
    report.space = Space::shared;
    report.place.line = line;
    report.offset = int64_t(region.offset);
    report.bytes = int32_t(region.bytes);
    report.buffer = cta.worker->launch.shared_arrays.nearest(region.offset);
    return report;
}

namespace {

Report overlap_report(Kind kind, int line, const Region& overlap, const Cta& owner, const Origin& earlier,
                      int64_t value) {
    Report report = shared_report(owner, kind, line, overlap);
    report.other.line = earlier.line;
    report.other.thread = earlier.thread;
    name_cta(report.other_cta, owner);
    report.values[0] = value;
    return report;
}

}   // namespace

void report_overlap(Thread& thread, Kind kind, int line, const Region& overlap, const Cta& owner, const Origin& earlier,
                    int64_t value) {
    thread.cta->worker->add_report(overlap_report(kind, line, overlap, owner, earlier, value), thread);
}

void report_before_load(Thread& thread, Kind kind, int line, const Region& overlap, const LoadInFlight& load,
                        int64_t value) {
    Report report = overlap_report(kind, line, overlap, *thread.cta, load.origin, value);
    const Mbarrier* barrier = thread.cta->mbarriers->find(load.barrier);
    report.barrier = int32_t(load.barrier);
    report.values[2] = barrier == nullptr ? 0 : barrier->bytes;
    report.values[3] = 1;   // on its way
    thread.cta->worker->add_report(report, thread);
}

bool is_past_shared(const Thread& thread, const void* address) {
    constexpr uint64_t kNear = 1 << 20;
    const char* const at = static_cast<const char*>(address);
    const bool is_local = at >= thread.stack_low && at < thread.stack_low + kStackBytes;
    const uint64_t size = thread.cta->worker->launch.spec.shared_bytes;
    return !is_local && at >= thread.cta->shared + size && at < thread.cta->shared + size + kNear;
}

void fail_outside_of_shared(Thread& thread, const void* address, int line) {
    const Cta& cta = *thread.cta;
    const uint64_t offset = uint64_t(static_cast<const char*>(address) - cta.shared);
    const bool is_near = offset < cta.worker->launch.spec.shared_bytes || is_past_shared(thread, address);
    Report report;
    report.kind = Kind::out_of_bounds;
    report.space = Space::shared;
    report.place.line = line;
    report.offset = int64_t(offset);
    if (is_near) report.buffer = cta.worker->launch.shared_arrays.nearest(offset);
    report.detail = !is_near;   // it is not meant to be in shared memory
    cta.worker->fail(thread, report);
}

void check_in_shared(Thread& thread, const Region& region, Op op, int line) {
    Worker& worker = *thread.cta->worker;
    if (worker.launch.shared_arrays.find(region.offset, region.bytes, 0) >= 0) return;
    Report report = shared_report(*thread.cta, Kind::out_of_bounds, line, region);
    report.op = op;
    worker.fail(thread, report);
}

}   // namespace emulator
