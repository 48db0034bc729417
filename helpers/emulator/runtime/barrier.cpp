#include "barrier.h"

#include "cluster.h"
#include "async_rules.h"
#include "launch.h"
#include "mbarrier.h"
#include "named_barrier.h"
#include "ordering.h"
#include "ordering_state.h"
#include "worker.h"

namespace emulator {

void give_way(Thread& thread) { thread.cta->worker->yield(thread); }

namespace {

template <class Barrier>
bool has_passed(const Wait& wait) {
    return static_cast<const Barrier*>(wait.object)->generation != wait.ticket;
}

// The barrier orders the shared-memory accesses before it against those after it.
uint32_t advance_time(Worker& worker) { return worker.shadow ? worker.shadow->advance() : 0; }

void release(BlockBarrier& barrier, Cta& cta) {
    barrier.arrived = 0;
    barrier.generation += 1;
    cta.worker->barriers += 1;
    cta.syncs += 1;
    cta.cluster->events += 1;
    cta.epoch = advance_time(*cta.worker);
    for (Warp& warp : cta.warps) warp.epoch = cta.epoch;
    if (Ordering* ordering = cta.cluster->ordering()) ordering->pass(ordering->block_meeting(cta));
}

// Others wait at named barrier 0, which is the barrier of __syncthreads().
[[noreturn]] void fail_mixed(Thread& thread, int line) {
    const NamedBarrier& named = thread.cta->named_barriers->at(0);
    Report report;
    report.kind = Kind::named_barrier;
    report.detail = 4;
    report.place.line = line;
    report.other = {-1, named.first_line, named.first_thread};
    thread.cta->worker->fail(thread, report);
}

void syncthreads(Thread& thread, int line) {
    Cta& cta = *thread.cta;
    BlockBarrier& barrier = cta.barrier;
    if (barrier.arrived == 0) {
        barrier.first_thread = thread.linear;
        barrier.first_line = line;
    } else if (line != barrier.first_line) {
        Report report;
        report.kind = Kind::barrier_divergence;
        report.place.line = line;
        report.other.line = barrier.first_line;
        report.other.thread = barrier.first_thread;
        cta.worker->add_report(report, thread);
    }
    if (cta.named_barriers->at(0).arrived != 0) fail_mixed(thread, line);
    barrier.arrived += 1;
    if (barrier.arrived == int(cta.threads.size())) {
        release(barrier, cta);
    } else {
        // Nothing after this: what a thread still needs would lie on its stack, which has left the cache by then.
        block_on(thread, {has_passed<BlockBarrier>, &barrier, barrier.generation, State::syncthreads, line});
    }
}

// With vector clocks.
__attribute__((noinline)) void ordered_syncthreads(Thread& thread, Ordering& ordering, int line) {
    Meeting& meeting = ordering.block_meeting(*thread.cta);
    ordering.arrive(meeting, thread);
    syncthreads(thread, line);
    ordering.leave(meeting, thread);
}

bool is_complete(const WarpBarrier& barrier, const Warp& warp) {
    return barrier.arrived != 0 && barrier.arrived == (barrier.mask & warp.live);
}

void release(WarpBarrier& barrier) {
    barrier.arrived = 0;
    barrier.generation += 1;
    barrier.present[barrier.generation % 2] = 0;
}

// Each set of lanes has a barrier of its own, so that two halves of a warp can be at different ones.
WarpBarrier& barrier_of(Warp& warp, uint32_t mask) {
    for (WarpBarrier& barrier : warp.barriers) {
        if (barrier.mask == mask) return barrier;
    }
    if (warp.barriers.empty()) warp.barriers.reserve(kWarp);   // waiting lanes hold pointers to the barriers
    warp.barriers.emplace_back();
    warp.barriers.back().mask = mask;
    return warp.barriers.back();
}

// Waits for the other lanes of the mask. Returns true for the lane that completed the barrier.
void arrive(Thread& thread, Warp& warp, WarpBarrier& barrier, int line) {
    barrier.arrived |= 1u << thread.lane;
    if (is_complete(barrier, warp)) {
        release(barrier);
    } else {
        block_on(thread, {has_passed<WarpBarrier>, &barrier, barrier.generation, State::syncwarp, line});
    }
}

struct Exchange {
    const uint64_t* values;
    uint32_t present;
};

// Leaves a value for the other lanes of the mask and returns what all of them left.
Exchange exchange(uint32_t mask, uint64_t value, int line) {
    Thread& thread = *current_thread;
    Warp& warp = thread.cta->warps[size_t(thread.warp)];
    thread.cta->worker->step(thread, -1, line);
    WarpBarrier& barrier = barrier_of(warp, mask | 1u << thread.lane);
    const uint64_t set = barrier.generation % 2;
    barrier.values[set][thread.lane] = value;
    barrier.present[set] |= 1u << thread.lane;
    arrive(thread, warp, barrier, line);
    return {barrier.values[set], barrier.present[set]};
}

}   // namespace

void lane_exits(Thread& thread) {
    Warp& warp = thread.cta->warps[size_t(thread.warp)];
    warp.live &= ~(1u << thread.lane);
    for (WarpBarrier& barrier : warp.barriers) {
        if (is_complete(barrier, warp)) release(barrier);
    }
}

}   // namespace emulator

using namespace emulator;

void emulator_syncthreads(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    Ordering* ordering = thread.cta->cluster->ordering();
    if (ordering != nullptr) {
        ordered_syncthreads(thread, *ordering, line);
    } else {
        syncthreads(thread, line);
    }
}

void emulator_syncwarp(uint32_t mask, int line) {
    Thread& thread = *current_thread;
    Worker& worker = *thread.cta->worker;
    Warp& warp = thread.cta->warps[size_t(thread.warp)];
    worker.step(thread, -1, line);
    WarpBarrier& barrier = barrier_of(warp, mask | 1u << thread.lane);
    const uint64_t generation = barrier.generation;
    Ordering* ordering = thread.cta->cluster->ordering();
    if (ordering != nullptr) ordering->arrive(ordering->warp_meeting(thread), thread);
    arrive(thread, warp, barrier, line);
    // The first lane to go on moves the warp's time; a shuffle does not, since it orders no memory accesses.
    if (barrier.generation == generation + 1 && barrier.ordered != barrier.generation) {
        barrier.ordered = barrier.generation;
        warp.epoch = advance_time(worker);
        if (ordering != nullptr) ordering->pass(ordering->warp_meeting(thread));
    }
    if (ordering != nullptr) ordering->leave(ordering->warp_meeting(thread), thread);
}

uint64_t emulator_shuffle(uint32_t mask, uint64_t value, int source_lane, int line) {
    const Exchange all = exchange(mask, value, line);
    const uint64_t nothing = ~uint64_t(0);   // a lane that takes no part gives an undefined value: a NaN
    return all.present >> (source_lane & 31) & 1 ? all.values[source_lane & 31] : nothing;
}

uint32_t emulator_ballot(uint32_t mask, bool predicate, int line) {
    const Exchange all = exchange(mask, predicate, line);
    uint32_t votes = 0;
    for (int lane = 0; lane < kWarp; ++lane) {
        if (all.present >> lane & 1) votes |= uint32_t(all.values[lane]) << lane;
    }
    return votes;
}

bool emulator_elect(uint32_t mask, int line) {
    const Exchange all = exchange(mask, 0, line);
    return __builtin_ctz(all.present) == current_thread->lane;   // the first lane, as GPUs do
}

void emulator_fence_proxy_async(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    thread.cta->mbarriers->fence(thread);
    order_proxy_fence(thread);
    async_proxy_fence(*current_thread);
}
