#include "named_barrier.h"

#include "cluster.h"
#include "launch.h"
#include "ordering_state.h"
#include "worker.h"

using namespace emulator;

namespace {

// What is wrong with the use of a named barrier: Report::detail of Kind::named_barrier.
// (4: __syncthreads() while others wait at number 0; see barrier.cpp.)
enum Problem { bad_number = 0, bad_count = 1, other_count = 2, shared_with_syncthreads = 3, unordered = 5 };

[[noreturn]] void fail(Thread& thread, Problem problem, int id, int threads, const NamedBarrier* barrier, int line) {
    Report report;
    report.kind = Kind::named_barrier;
    report.detail = problem;
    report.place.line = line;
    report.values[0] = id;
    report.values[1] = threads;
    report.values[2] = thread.cta->worker->launch.thread_count;
    if (barrier != nullptr) {
        report.values[3] = barrier->expected;
        report.other = {-1, barrier->first_line, barrier->first_thread};
    }
    thread.cta->worker->fail(thread, report);
}

bool has_passed(const Wait& wait) { return static_cast<const NamedBarrier*>(wait.object)->generation != wait.ticket; }

void describe(const Wait& wait, WarpState& state) {
    const NamedBarrier& barrier = *static_cast<const NamedBarrier*>(wait.object);
    state.values[0] = barrier.number;
    state.values[1] = barrier.arrived;
    state.values[2] = barrier.expected;
}

void release(NamedBarrier& barrier, Cta& cta) {
    barrier.arrived = 0;
    barrier.generation += 1;
    cta.syncs += 1;
    cta.cluster->events += 1;
    cta.worker->add_total(Total::named_barriers);
    if (Ordering* ordering = cta.cluster->ordering()) ordering->pass(barrier.meeting);
    barrier.last.swap(barrier.coming);
    barrier.coming.clear();
}

// Who comes to a barrier again must know that all have come to its last generation: else the order could be another,
// and it would be counted there. Those who have waited for it do.
void check_order(const Ordering& ordering, NamedBarrier& barrier, const Thread& thread, int line) {
    if (barrier.left.empty()) barrier.left.resize(thread.cta->threads.size());
    if (barrier.left[size_t(thread.linear)] < barrier.generation) {
        for (const Arrival& arrival : barrier.last) {
            if (ordering.knows(thread, arrival.thread, arrival.time)) continue;
            Report report;
            report.kind = Kind::named_barrier;
            report.detail = unordered;
            report.place.line = line;
            report.values[0] = barrier.number;
            report.other = {-1, arrival.line, arrival.thread};
            thread.cta->worker->add_report(report, thread);
            break;
        }
    }
    barrier.coming.push_back({thread.linear, line, ordering.now(thread)});
}

}   // namespace

void emulator_named_barrier(int id, int threads, bool wait, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    Worker& worker = *cta.worker;
    worker.step(thread, -1, line);
    if (id < 0 || id >= NamedBarriers::kCount) fail(thread, bad_number, id, threads, nullptr, line);
    if (threads <= 0 || threads % kWarp != 0 || threads > (worker.launch.thread_count + kWarp - 1) / kWarp * kWarp) {
        fail(thread, bad_count, id, threads, nullptr, line);
    }
    NamedBarrier& barrier = cta.named_barriers->at(id);
    if (id == 0 && cta.barrier.arrived != 0) fail(thread, shared_with_syncthreads, id, threads, nullptr, line);
    if (barrier.arrived == 0) {
        barrier.number = id;
        barrier.expected = threads;
        barrier.first_thread = thread.linear;
        barrier.first_line = line;
    } else if (threads != barrier.expected) {
        fail(thread, other_count, id, threads, &barrier, line);
    }
    barrier.arrived += 1;
    const uint64_t generation = barrier.generation;
    Ordering* ordering = cta.cluster->ordering();
    if (ordering != nullptr) {
        check_order(*ordering, barrier, thread, line);
        ordering->arrive(barrier.meeting, thread);
    }
    if (barrier.arrived == barrier.expected) {
        release(barrier, cta);
    } else if (wait) {
        block_on(thread, {has_passed, &barrier, generation, State::named_barrier, line, describe});
    }
    if (ordering == nullptr || !wait) return;
    ordering->leave(barrier.meeting, thread);
    barrier.left[size_t(thread.linear)] = generation + 1;
}
