// The tensor memory accelerator: copies boxes of matrices between global and shared memory, beside the threads.
//
// A load's destination is poisoned when it is issued; its data comes later, when the scheduler wants. A store reads
// shared memory when its thread waits for it, or, under the random schedule, at any time before.
#include <algorithm>
#include <cstring>
#include <utility>

#include "async_state.h"
#include "cluster.h"
#include "dependent.h"
#include "launch.h"
#include "mbarrier.h"
#include "ordering.h"
#include "worker.h"

namespace emulator {
namespace {

constexpr uint32_t kAlignment = 128;   // of the shared-memory side of every copy

enum class MapFault : int64_t { no_map = 0, swizzle = 1, shape = 2, not_an_argument = 3 };

[[noreturn]] void fail_map(Thread& thread, MapFault fault, int64_t value, int line) {
    Report report;
    report.kind = Kind::tensor_map;
    report.place.line = line;
    report.values[0] = int64_t(fault);
    report.values[1] = value;
    thread.cta->worker->fail(thread, report);
}

// The record behind a map, of which the emulator can copy boxes.
TensorMapRecord checked_map(Thread& thread, const void* pointer, int line) {
    constexpr uintptr_t kNothing = 4096;   // below lies no memory: a null pointer, with or without an offset
    if (reinterpret_cast<uintptr_t>(pointer) < kNothing) fail_map(thread, MapFault::no_map, 0, line);
    const TensorMapRecord map = read_tensor_map(pointer);
    if (map.magic != kTensorMapMagic) fail_map(thread, MapFault::no_map, 0, line);
    if (map.swizzle != Swizzle::none && map.swizzle != Swizzle::bytes_128) {
        fail_map(thread, MapFault::swizzle, int64_t(map.swizzle), line);
    }
    if (map.rank != 2 || map.row_bytes() % kChunkBytes != 0) fail_map(thread, MapFault::shape, map.rank, line);
    return map;
}

// The argument that the map's matrix is in.
int buffer_of(Thread& thread, const TensorMapRecord& map, int line) {
    const uint64_t bytes = (map.dims[1] - 1) * map.stride_bytes + map.dims[0] * map.element_bytes;
    const int buffer = thread.cta->worker->launch.memory.buffers().find(map.address, bytes, 0);
    if (buffer < 0) fail_map(thread, MapFault::not_an_argument, 0, line);
    return buffer;
}

void check_alignment(Thread& thread, const TensorMapRecord& map, const Region& region, Op op, int line) {
    const uint32_t wanted = map.is_swizzled() ? kSwizzleAtomBytes : kAlignment;
    if (region.offset % wanted == 0) return;
    Report report = shared_report(*thread.cta, Kind::tma_alignment, line, region);
    report.op = op;
    report.values[0] = wanted;
    // Amid a swizzle's pattern the copy works, but no other user of the memory expects the pattern to begin there.
    if (region.offset % kAlignment != 0) {
        report.values[0] = kAlignment;
        thread.cta->worker->fail(thread, report);
    }
    thread.cta->worker->add_report(report, thread);
}

// A GPU stops with an illegal instruction where a box begins amid 16 bytes of a row, outside of the matrix too, and
// where a store's begins before the matrix. An H200 told so (tests/conformance, the refused cases).
void check_coordinates(Thread& thread, const TensorMapRecord& map, BoxPlace place, Op op, int line) {
    const int multiple = int(kChunkBytes / map.element_bytes);
    const bool is_amid = place.x % multiple != 0;
    if (!is_amid && (op == Op::store || (place.x >= 0 && place.y >= 0))) return;   // a load writes shared memory
    const bool is_y = !is_amid && place.x >= 0;
    Report report;
    report.kind = Kind::tma_coordinate;
    report.op = op;
    report.place.line = line;
    report.values[0] = is_y ? place.y : place.x;
    report.values[1] = is_amid ? multiple : 0;
    report.values[2] = is_y;
    thread.cta->worker->fail(thread, report);
}

class Load final : public AsyncOperation {
public:
    Load(const Origin& issuer, Cta& to, const TensorMapRecord& map, BoxPlace place, uint32_t offset, uint32_t barrier)
        : AsyncOperation(issuer), to_(to), map_(map), place_(place), barrier_(barrier) {
        std::list<LoadInFlight>& loads = to.async_state->loads;
        entry_ = loads.insert(loads.end(), {{offset, map.shared_bytes()}, issuer, barrier});
    }

    void complete() override {
        const Region region = entry_->region;
        to_.async_state->loads.erase(entry_);
        load_box(map_, place_, to_.shared, region.offset);
        order_async_write_done(to_, region.offset, barrier_, AsyncWriter::tma_load);
        barrier_complete_tx(to_, barrier_, map_.box_bytes(), AsyncWriter::tma_load, origin);
    }
    const Cta* target() const override { return &to_; }

private:
    Cta& to_;
    const TensorMapRecord map_;
    const BoxPlace place_;
    const uint32_t barrier_;
    std::list<LoadInFlight>::iterator entry_;
};

// The new load must not meet anything that is under way in its destination.
void check_load(Thread& thread, Cta& to, const Region& region, int line) {
    const AsyncState& state = used_state(to);
    const Region read = state.chunks.find_readers(region);
    if (read.bytes != 0) {
        for (const Warpgroup& group : state.warpgroups) {
            if (const Origin* reader = group.find_reader(read.offset)) {
                report_overlap(thread, Kind::load_over_wgmma, line, read, to, *reader);
                break;
            }
        }
    }
    for (const LoadInFlight& load : state.loads) {
        if (!load.region.overlaps(region)) continue;
        report_overlap(thread, Kind::load_over_load, line, load.region.intersection(region), to, load.origin);
        break;
    }
    for (const auto& store : state.stores) {
        if (!store->region.overlaps(region)) continue;
        report_overlap(thread, Kind::load_over_store, line, store->region.intersection(region), to, store->origin);
        break;
    }
}

void load_into(Thread& thread, Cta& to, const TensorMapRecord& map, BoxPlace place, const Region& region,
               uint32_t barrier, int line) {
    if (!barrier_used_by_async(thread, to, barrier, AsyncWriter::tma_load, line)) return;
    check_load(thread, to, region, line);
    order_async_write_issued(thread, to, region.offset, region.bytes, barrier, AsyncWriter::tma_load, line);
    fill_box(map, to.shared, region.offset, 0xff);
    to.async_state->chunks.set_layout(region, map.is_swizzled() ? Layout::swizzled : Layout::plain, line);
    thread.cta->cluster->issue(std::make_unique<Load>(Origin{thread.cta, thread.linear, line}, to, map, place,
                                                      region.offset, barrier));
}

// Reads shared memory and writes the matrix, unless that has happened already.
void perform(Cta& cta, PendingStore& store) {
    if (store.done) return;
    store.done = true;
    BoxPlace unwritten;
    // What a load has yet to write was reported when the second of the two was issued.
    if (!is_under_way(cta.async_state->loads, store.region) &&
        has_unwritten_chunk(store.map, store.place, cta.shared, store.region.offset, &unwritten)) {
        Report report = shared_report(cta, Kind::store_unwritten, store.origin.line, store.region);
        report.values[0] = unwritten.x;
        report.values[1] = unwritten.y;
        cta.worker->add_report(report, cta.threads[size_t(store.origin.thread)]);
    }
    store_box(store.map, store.place, cta.shared, store.region.offset);
}

class Store final : public AsyncOperation {
public:
    Store(const std::shared_ptr<PendingStore>& store) : AsyncOperation(store->origin), store_(store) {}
    void complete() override { perform(*origin.cta, *store_); }

private:
    const std::shared_ptr<PendingStore> store_;
};

// A number for what memory holds.
uint64_t hash_of(const char* memory, uint32_t bytes) {
    uint64_t hash = bytes, word = 0;
    for (uint32_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        std::memcpy(&word, memory + i, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

void check_store(Thread& thread, const Region& region, int line) {
    AsyncState& state = used_state(*thread.cta);
    for (const LoadInFlight& load : state.loads) {
        if (!load.region.overlaps(region)) continue;
        report_before_load(thread, Kind::store_before_load, line, load.region.intersection(region), load);
        return;
    }
    // Whether each write by a thread was followed by a fence is known with counters, see ordering.h. Without them it is
    // noticed that there was none at all; what TMA itself has loaded needs none.
    if (thread.cta->cluster->ordering() != nullptr) return;
    // That is no fault if the memory is as the last store found it.
    const bool is_loaded = state.chunks.layout(region.offset) != Layout::unknown;
    const uint64_t hash = hash_of(thread.cta->shared + region.offset, region.bytes);
    const bool is_shown = std::exchange(state.shown[region.offset], hash) == hash;
    if (is_loaded || is_shown || state.proxy_fences > state.fences_seen[thread.linear]) return;
    thread.cta->worker->add_report(shared_report(*thread.cta, Kind::store_without_fence, line, region), thread);
}

void finish_group(Thread& thread, StoreGroups::Group& group) {
    AsyncState& state = *thread.cta->async_state;
    for (const auto& store : group) {
        perform(*thread.cta, *store);
        state.stores.erase(std::find(state.stores.begin(), state.stores.end(), store));
    }
    if (!group.empty()) order_async_read_done(thread, AsyncReader::tma_store, group.back()->ticket);
}

}   // namespace

void tma_thread_exits(Thread& thread) {
    AsyncState& state = *thread.cta->async_state;
    const auto found = state.groups.find(thread.linear);
    if (found == state.groups.end()) return;
    StoreGroups& groups = found->second;
    const bool committed = groups.open.empty();
    if (committed && groups.committed.empty()) return;
    const PendingStore& first = committed ? *groups.committed.front().front() : *groups.open.front();
    Report report = shared_report(*thread.cta, Kind::store_undrained, first.origin.line, first.region);
    report.values[0] = committed;
    thread.cta->worker->add_report(report, thread);
    for (StoreGroups::Group& group : groups.committed) finish_group(thread, group);
    finish_group(thread, groups.open);
    groups = {};
}

}   // namespace emulator

using namespace emulator;

void emulator_tma_load(void* to, const void* map_pointer, void* barrier, int x, int y, uint32_t ctas, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    const TensorMapRecord map = checked_map(thread, map_pointer, line);
    check_waited_for_launch(thread, Op::load, buffer_of(thread, map, line), {-1, line, thread.linear});
    check_coordinates(thread, map, {x, y}, Op::store, line);
    const Region region{emulator_shared_offset(to, line), map.shared_bytes()};
    const uint32_t barrier_offset = emulator_shared_offset(barrier, line);
    check_in_shared(thread, region, Op::store, line);
    check_alignment(thread, map, region, Op::store, line);

    const uint32_t size = uint32_t(cta.cluster->size());
    if (ctas == EMULATOR_OWN_CTA) ctas = 1u << cta.rank;
    if (ctas >> size != 0 || ctas == 0) {
        Report report;
        report.kind = Kind::multicast_mask;
        report.place.line = line;
        report.values[0] = ctas;
        report.values[1] = size;
        cta.worker->fail(thread, report);
    }
    const uint32_t bytes = map.box_bytes(), copies = uint32_t(__builtin_popcount(ctas));
    cta.worker->add_total(Total::tma_load_boxes, 1);
    cta.worker->add_total(Total::tma_load_bytes, bytes);
    cta.worker->add_total(Total::tma_multicast_bytes_saved, uint64_t(copies - 1) * bytes);
    cta.worker->add_total(Total::tma_oob_bytes, bytes - bytes_inside(map, {x, y}));
    for (uint32_t rank = 0; rank < size; ++rank) {
        if (ctas >> rank & 1) load_into(thread, *cta.cluster->ctas[rank], map, {x, y}, region, barrier_offset, line);
    }
}

void emulator_tma_store(const void* map_pointer, const void* from, int x, int y, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    const TensorMapRecord map = checked_map(thread, map_pointer, line);
    const int buffer = buffer_of(thread, map, line);
    check_waited_for_launch(thread, Op::store, buffer, {-1, line, thread.linear});
    if (!cta.worker->launch.memory.is_writable(buffer)) {
        Report report;
        report.kind = Kind::store_read_only;
        report.place.line = line;
        report.buffer = buffer;
        cta.worker->fail(thread, report);
    }
    check_coordinates(thread, map, {x, y}, Op::load, line);
    const Region region{emulator_shared_offset(from, line), map.shared_bytes()};
    check_in_shared(thread, region, Op::load, line);
    check_alignment(thread, map, region, Op::load, line);
    check_store(thread, region, line);

    const uint32_t inside = bytes_inside(map, {x, y});
    cta.worker->add_total(Total::tma_store_boxes, 1);
    cta.worker->add_total(Total::tma_store_bytes, map.box_bytes());
    cta.worker->add_total(Total::tma_oob_bytes, map.box_bytes() - inside);
    const uint32_t ticket =
        order_async_read_issued(thread, region.offset, region.bytes, AsyncReader::tma_store, line);
    const auto store = std::make_shared<PendingStore>(
        PendingStore{map, {x, y}, region, {&cta, thread.linear, line}, ticket, false});
    cta.async_state->stores.push_back(store);
    cta.async_state->groups[thread.linear].open.push_back(store);
    // Late is when the thread waits; only a schedule that does not always want it late puts it into the queue.
    if (cta.worker->launch.spec.schedule != Schedule::lazy) cta.cluster->issue(std::make_unique<Store>(store));
}

void emulator_tma_commit_group(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    StoreGroups& groups = used_state(*thread.cta).groups[thread.linear];
    groups.committed.push_back(std::move(groups.open));
    groups.open.clear();
}

void emulator_tma_wait_group(int pending, int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    AsyncState& state = used_state(*thread.cta);
    StoreGroups& groups = state.groups[thread.linear];
    while (groups.committed.size() > size_t(pending)) {
        finish_group(thread, groups.committed.front());
        groups.committed.pop_front();
    }
    state.fences_seen[thread.linear] = state.proxy_fences;
}

void emulator_tma_check_map(const void* map_pointer, int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    checked_map(thread, map_pointer, line);
}

void emulator_tma_check_policy(uint64_t policy, int line) {
    if (policy == EMULATOR_EVICT_FIRST || policy == EMULATOR_EVICT_LAST) return;
    Report report;
    report.kind = Kind::cache_policy;
    report.place.line = line;
    report.values[0] = int64_t(policy);
    current_thread->cta->worker->fail(*current_thread, report);
}
