#include "mbarrier.h"

#include <algorithm>
#include <cstring>

#include "cluster.h"
#include "hazards.h"
#include "launch.h"
#include "ordering_state.h"
#include "remote_reads.h"
#include "worker.h"

namespace emulator {
namespace {

constexpr uint32_t kMostArrivals = (1u << 20) - 1;
constexpr int64_t kMostBytes = (1 << 20) - 1;

// What a valid barrier's 8 bytes hold.
uint64_t mark_of(uint32_t offset) { return 0x6d62617272000000ull ^ offset * 0x9e3779b97f4a7c15ull; }

uint64_t& memory_of(const Cta& cta, uint32_t offset) { return *reinterpret_cast<uint64_t*>(cta.shared + offset); }

Report report_on(Kind kind, uint32_t offset, const Mbarrier* barrier, int line) {
    Report report;
    report.kind = kind;
    report.place.line = line;
    report.barrier = int32_t(offset);
    if (barrier != nullptr) report.barrier_line = barrier->line;
    return report;
}

uint32_t checked_offset(Thread& thread, const void* address, int line) {
    const Cta& cta = *thread.cta;
    const uint64_t offset = uint64_t(static_cast<const char*>(address) - cta.shared);
    const Launch& launch = cta.worker->launch;
    const bool is_shared = offset < launch.spec.shared_bytes && offset + 8 <= launch.spec.shared_bytes;
    const bool is_inside = is_shared && launch.shared_arrays.find(offset, 8, 0) >= 0;
    if (is_inside && offset % 8 == 0) return uint32_t(offset);
    if (is_shared ? !is_inside : is_past_shared(thread, address)) fail_outside_of_shared(thread, address, line);
    Report report = report_on(Kind::barrier_address, 0, nullptr, line);
    report.barrier = is_shared ? int32_t(offset) : -1;
    report.offset = int64_t(offset % 8);
    cta.worker->fail(thread, report);
}

// Why a barrier of CTA `to` cannot be used; Kind::out_of_bounds stands for none.
constexpr Kind kUsable = Kind::out_of_bounds;

Kind problem_of(const Cta& to, uint32_t offset, const Mbarrier* barrier) {
    if (barrier == nullptr || !barrier->valid) return Kind::barrier_uninitialised;
    if (memory_of(to, offset) != mark_of(offset)) return Kind::barrier_overwritten;
    return kUsable;
}

// Whether the initialisation has become visible to a thread: a barrier lies between, for another warp one of the CTA,
// for another CTA one of the cluster.
bool is_synchronised(const Thread& user, const Cta& to, const Mbarrier& barrier) {
    if (user.cluster_phase > barrier.cluster_phase && barrier.released) return true;
    if (user.cta != &to) return false;
    if (user.warp == barrier.thread / kWarp) return true;
    if (const Ordering* ordering = to.cluster->ordering()) return ordering->knows(user, barrier.thread, barrier.time);
    return to.syncs != barrier.syncs;   // a barrier, be it one of other warps
}

Report unsynchronised(const Thread& user, const Cta& to, const Mbarrier& barrier, bool lacks_fence, int line) {
    Report report = report_on(Kind::barrier_unsynchronised, barrier.offset, &barrier, line);
    report.other = {-1, barrier.line, barrier.thread};
    report.values[0] = lacks_fence || (user.cta != &to && user.cluster_phase > barrier.cluster_phase);
    report.values[1] = user.cta != &to;
    name_cta(report.other_cta, to);
    return report;
}

// The barrier that a thread uses; stops the thread if it cannot.
Mbarrier& usable(Thread& thread, Cta& to, uint32_t offset, int line) {
    Worker& worker = *thread.cta->worker;
    Mbarrier* barrier = to.mbarriers->find(offset);
    const Kind problem = problem_of(to, offset, barrier);
    if (problem != kUsable) {
        Report report = report_on(problem, offset, barrier, line);
        name_cta(report.other_cta, to);
        worker.fail(thread, report);
    }
    if (!is_synchronised(thread, to, *barrier)) {
        worker.add_report(unsynchronised(thread, to, *barrier, false, line), thread);
    }
    return *barrier;
}

// Completes the phase if nothing is missing.
bool complete_if_due(Cta& to, Mbarrier& barrier, bool has_bytes) {
    if (barrier.pending != 0 || barrier.bytes != 0) return false;
    barrier.phase += 1;
    barrier.pending = barrier.expected;
    barrier.carried_bytes |= has_bytes;
    if (barrier.carried_bytes) barrier.data_phase = barrier.phase;
    barrier.carried_bytes = false;
    barrier.ended_remotely = barrier.remote_phase == barrier.phase;
    barrier.ended_remote = barrier.remote;
    barrier.ended_remote_cta = barrier.remote_cta;
    barrier.ended_remote_cluster_phase = barrier.remote_cluster_phase;
    if (barrier.number.phase == barrier.phase) barrier.ended_number = barrier.number;
    to.cluster->events += 1;
    if (Ordering* ordering = to.cluster->ordering()) ordering->phase_completed(barrier);
    return true;
}

void announce(Thread& thread, Cta& to, Mbarrier& barrier, uint32_t bytes, int line) {
    if (bytes == 0) return;
    barrier.bytes += bytes;
    barrier.carried_bytes = true;
    barrier.bytes_line = line;
    if (barrier.bytes <= kMostBytes) return;
    Report report = report_on(Kind::barrier_bytes, barrier.offset, &barrier, line);
    report.values[0] = barrier.bytes;
    name_cta(report.other_cta, to);
    thread.cta->worker->fail(thread, report);
}

void arrive(Thread& thread, Cta& to, Mbarrier& barrier, int line) {
    thread.cta->worker->add_total(Total::mbarrier_arrivals);
    if (barrier.pending == 0) {
        // All arrivals are there and the phase waits for bytes only.
        Report report = report_on(Kind::barrier_arrivals, barrier.offset, &barrier, line);
        report.values[0] = barrier.expected;
        report.values[1] = barrier.bytes;
        report.values[2] = int64_t(barrier.phase);
        report.other = barrier.last_arrival;
        name_cta(report.other_cta, to);
        thread.cta->worker->fail(thread, report);
    }
    barrier.pending -= 1;
    barrier.last_arrival = {-1, line, thread.linear};
}

// A wait with the scope of its CTA has seen a phase end to which another CTA arrived, or sent a number. For PTX the two
// are strangers: no order comes of it, neither for what the other CTA wrote nor for what it read before this CTA's next
// copies. No matter if the thread knows of the phase's end already: by a barrier of the cluster since the arrival, or
// since somebody has waited with the scope of the cluster.
void check_scope(Thread& thread, const Mbarrier& barrier, int line) {
    const Ordering* ordering = thread.cta->cluster->ordering();
    const bool is_known = ordering != nullptr && barrier.component >= 0
                              ? ordering->knows_phase(thread, barrier)
                              : barrier.waited_phase_of_cluster == barrier.phase;   // by whom, nobody can tell
    if (is_known) return;
    const RemoteNumber& number = barrier.ended_number;
    const bool has_number = number.phase == barrier.phase && barrier.phase != 0;
    const bool has_arrival = barrier.ended_remotely && thread.cluster_phase <= barrier.ended_remote_cluster_phase;
    if (!has_number && !has_arrival) return;
    Report report = report_on(Kind::barrier_scope, barrier.offset, &barrier, line);
    report.detail = has_number;
    report.other = has_number ? number.place : barrier.ended_remote;
    name_cta(report.other_cta, has_number ? *number.cta : *barrier.ended_remote_cta);
    thread.cta->worker->add_report(report, thread);
}

bool phase_is_over(const Wait& wait) {
    const Mbarrier& barrier = *static_cast<const Mbarrier*>(wait.object);
    return (barrier.phase & 1) != wait.ticket;
}

void describe(const Wait& wait, WarpState& state) {
    const Mbarrier& barrier = *static_cast<const Mbarrier*>(wait.object);
    state.barrier = int32_t(barrier.offset);
    state.values[0] = int64_t(wait.ticket);       // the parity it waits for
    state.values[1] = int64_t(barrier.phase);     // phases completed: the barrier is in this one
    state.values[2] = barrier.pending;
    state.values[3] = barrier.expected;
    state.values[4] = barrier.bytes;
}

}   // namespace

void Mbarriers::clear() {
    for (const Mbarrier& barrier : barriers_) index_[barrier.offset / 8] = 0;
    barriers_.clear();
    barriers_.reserve(kMost);
}

Mbarrier* Mbarriers::add(uint32_t offset) {
    if (Mbarrier* known = find(offset)) return known;
    if (barriers_.size() == kMost) return nullptr;
    barriers_.emplace_back();
    barriers_.back().offset = offset;
    index_[offset / 8] = uint16_t(barriers_.size());
    return &barriers_.back();
}

void Mbarriers::fence(const Thread& thread) {
    for (Mbarrier& barrier : barriers_) {
        barrier.fenced |= barrier.thread == thread.linear || barrier.syncs != thread.cta->syncs;
    }
    release(thread);
}

void Mbarriers::release(const Thread& thread) {
    for (Mbarrier& barrier : barriers_) {
        barrier.released |= barrier.thread == thread.linear || barrier.syncs != thread.cta->syncs;
    }
}

bool barrier_used_by_async(Thread& issuer, Cta& to, uint32_t barrier_offset, AsyncWriter writer, int line) {
    Worker& worker = *issuer.cta->worker;
    if (to.has_exited()) {
        Report report = report_on(Kind::exited_cta, barrier_offset, nullptr, line);
        report.detail = 1;   // a copy
        name_cta(report.other_cta, to);
        worker.add_report(report, issuer);
        return false;
    }
    const Mbarrier* barrier = to.mbarriers->find(barrier_offset);
    const Kind problem = barrier_offset % 8 != 0 ? Kind::barrier_address : problem_of(to, barrier_offset, barrier);
    if (problem != kUsable) {
        Report report = report_on(problem, barrier_offset, barrier, line);
        report.detail = 1;
        report.offset = barrier_offset % 8;
        name_cta(report.other_cta, to);
        worker.add_report(report, issuer);
        return false;
    }
    const bool is_visible = is_synchronised(issuer, to, *barrier);
    const bool is_shown = barrier->fenced || writer == AsyncWriter::st_async;   // which is no work of another proxy
    if (!is_visible || !is_shown) {
        worker.add_report(unsynchronised(issuer, to, *barrier, is_visible, line), issuer);
    }
    return true;
}

bool barrier_complete_tx(Cta& to, uint32_t barrier_offset, uint32_t bytes, AsyncWriter writer, const Origin& origin) {
    Mbarrier* barrier = to.mbarriers->find(barrier_offset);
    const Kind problem = problem_of(to, barrier_offset, barrier);
    const Thread& issuer = origin.cta->threads[size_t(origin.thread)];
    if (problem != kUsable) {
        Report report = report_on(problem, barrier_offset, barrier, origin.line);
        report.detail = 1;
        name_cta(report.other_cta, to);
        report.place.thread = issuer.linear;
        origin.cta->worker->stop(report);
        return false;
    }
    barrier->bytes -= bytes;
    if (barrier->bytes < -kMostBytes) {
        Report report = report_on(Kind::barrier_bytes, barrier_offset, barrier, origin.line);
        report.values[0] = barrier->bytes;
        report.place.thread = issuer.linear;
        name_cta(report.other_cta, to);
        origin.cta->worker->stop(report);
        return false;
    }
    if (writer == AsyncWriter::st_async && origin.cta != &to) {
        barrier->number = {barrier->phase + 1, {-1, origin.line, origin.thread}, origin.cta};
    }
    return complete_if_due(to, *barrier, true);
}

namespace {

// A barrier of a CTA that exits, whose bytes have all come or will never come.
void check_at_exit(Thread& last, const Mbarrier& barrier) {
    const bool is_unwaited = barrier.data_phase > barrier.waited_phase;
    if (barrier.bytes == 0 && !is_unwaited) return;
    const Kind kind = barrier.bytes != 0 ? Kind::exit_bytes : Kind::exit_unwaited;
    Report report = report_on(kind, barrier.offset, &barrier, barrier.bytes_line);
    report.values[0] = barrier.bytes;
    report.values[1] = int64_t(barrier.phase);
    report.values[2] = barrier.pending;
    report.values[3] = barrier.expected;
    last.cta->worker->add_report(report, last);
}

bool has_passed(const Cta& cta, uint64_t cluster_phases) {
    return std::any_of(cta.threads.begin(), cta.threads.end(),
                       [&](const Thread& thread) { return thread.cluster_phase > cluster_phases; });
}

// A CTA exits, and does not know that a thread of another one has arrived.
void report_at_exit(const Cta& cta, const Mbarrier& barrier, const Thread& arrived, int line, uint64_t cluster_phases) {
    Report report = report_on(Kind::exited_cta, barrier.offset, &barrier, line);
    report.detail = has_passed(cta, cluster_phases) ? 3 : 2;
    name_cta(report.other_cta, cta);
    arrived.cta->worker->add_report(report, arrived);
}

// An arrival from another CTA must be known to have come before the exit: a thread has waited for its phase, or knows
// of what the other did before. Without ordering, a barrier of the cluster between will do, to which the CTA that
// arrived has come with a release.
void check_remote_at_exit(const Cta& cta, const Mbarrier& barrier) {
    if (barrier.remote_phase <= barrier.waited_phase) return;
    if (const Ordering* ordering = cta.cluster->ordering()) {
        for (const RemoteArrival& arrival : barrier.remote_arrivals) {
            if (arrival.phase <= barrier.waited_phase) continue;
            if (ordering->is_known_to(cta, *arrival.thread, arrival.time)) continue;
            report_at_exit(cta, barrier, *arrival.thread, arrival.line, arrival.cluster_phases);
        }
        return;
    }
    const Cta& from = *barrier.remote_cta;
    const uint64_t phases = barrier.remote_cluster_phase;
    if (has_passed(cta, phases) && from.released_cluster_phase > phases) return;
    report_at_exit(cta, barrier, from.threads[size_t(barrier.remote.thread)], barrier.remote.line, phases);
}

// Keeps an arrival from another CTA.
void remember(Mbarrier& barrier, const Thread& thread, int line) {
    std::vector<RemoteArrival>& all = barrier.remote_arrivals;
    const uint32_t time = thread.cta->cluster->ordering()->now(thread);
    const RemoteArrival arrival{&thread, time, line, barrier.phase + 1, cluster_phases_of(thread)};
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.thread == &thread; });
    same == all.end() ? all.push_back(arrival) : void(*same = arrival);
}

}   // namespace

void mbarriers_cta_exits(Thread& last) {
    Cta& cta = *last.cta;
    if (const AsyncOperation* operation = cta.cluster->async.find_target(&cta)) {
        Report report;
        report.kind = Kind::exit_unwaited;
        report.place.line = operation->origin.line;
        report.values[4] = 1;   // still on its way
        report.other.thread = operation->origin.thread;
        name_cta(report.other_cta, *operation->origin.cta);
        cta.worker->add_report(report, last);
        return;
    }
    for (const Mbarrier& barrier : cta.mbarriers->all()) {
        if (!barrier.valid) continue;
        check_at_exit(last, barrier);
        check_remote_at_exit(cta, barrier);
    }
}

}   // namespace emulator

using namespace emulator;

void emulator_mbarrier_init(uint64_t* address, uint32_t arrivals, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    const uint32_t offset = checked_offset(thread, address, line);
    Mbarrier* barrier = cta.mbarriers->find(offset);
    if (barrier != nullptr && barrier->valid) {
        Report report = report_on(Kind::barrier_reinitialised, offset, barrier, line);
        report.other = {-1, barrier->line, barrier->thread};
        cta.worker->fail(thread, report);
    }
    if (barrier == nullptr) barrier = cta.mbarriers->add(offset);
    if (arrivals == 0 || arrivals > kMostArrivals || barrier == nullptr) {
        Report report = report_on(Kind::barrier_count, offset, barrier, line);
        report.values[0] = arrivals;
        report.detail = barrier == nullptr ? 2 : 0;   // too many barriers; an arrival count
        cta.worker->fail(thread, report);
    }
    const Mbarrier before = *barrier;
    *barrier = Mbarrier{};
    barrier->offset = offset;
    barrier->expected = barrier->pending = arrivals;
    barrier->valid = true;
    barrier->line = line;
    barrier->thread = thread.linear;
    barrier->syncs = cta.syncs;
    barrier->cluster_phase = thread.cluster_phase;
    barrier->meeting = before.meeting;
    barrier->component = before.component;
    barrier->phases_before = before.phases_before + before.phase;
    if (Ordering* ordering = cta.cluster->ordering()) {
        ordering->barrier_initialised(*barrier);
        barrier->time = ordering->now(thread);
    }
    memory_of(cta, offset) = mark_of(offset);
}

void emulator_mbarrier_inval(uint64_t* address, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    const uint32_t offset = checked_offset(thread, address, line);
    usable(thread, cta, offset, line).valid = false;
    memory_of(cta, offset) = ~uint64_t(0);
}

void emulator_mbarrier_fence(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    thread.cta->mbarriers->fence(thread);
}

void emulator_mbarrier_arrive(uint64_t* address, uint32_t arrivals, uint32_t bytes, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    Mbarrier& barrier = usable(thread, cta, checked_offset(thread, address, line), line);
    announce(thread, cta, barrier, bytes, line);
    if (arrivals != 0) {
        arrive(thread, cta, barrier, line);
        if (Ordering* ordering = cta.cluster->ordering()) ordering->release_to(barrier, thread, true);
    }
    complete_if_due(cta, barrier, false);
}

void emulator_mbarrier_arrive_cluster(uint64_t* address, uint32_t rank, bool release, int line) {
    Thread& thread = *current_thread;
    Cluster& cluster = *thread.cta->cluster;
    Worker& worker = *thread.cta->worker;
    worker.step(thread, -1, line);
    const uint32_t offset = checked_offset(thread, address, line);
    if (rank >= uint32_t(cluster.size())) {
        Report report = report_on(Kind::barrier_count, offset, nullptr, line);
        report.detail = 3;   // a CTA that the cluster does not have
        report.values[0] = rank;
        report.values[1] = cluster.size();
        worker.fail(thread, report);
    }
    Cta& to = *cluster.ctas[rank];
    if (to.has_exited()) {
        Report report = report_on(Kind::exited_cta, offset, to.mbarriers->find(offset), line);
        name_cta(report.other_cta, to);
        worker.fail(thread, report);
    }
    Mbarrier& barrier = usable(thread, to, offset, line);
    if (&to != thread.cta) {
        barrier.remote_phase = barrier.phase + 1;
        barrier.remote_cluster_phase = std::max(barrier.remote_cluster_phase, cluster_phases_of(thread));
        barrier.remote = {-1, line, thread.linear};
        barrier.remote_cta = thread.cta;
        if (cluster.ordering() != nullptr) remember(barrier, thread, line);
    }
    arrive(thread, to, barrier, line);
    if (Ordering* ordering = cluster.ordering()) ordering->release_to(barrier, thread, release);
    complete_if_due(to, barrier, false);
}

bool emulator_mbarrier_wait(uint64_t* address, uint32_t parity, bool is_try, bool of_cluster, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    Worker& worker = *cta.worker;
    worker.step(thread, -1, line);
    const uint32_t offset = checked_offset(thread, address, line);
    if (parity > 1) {
        Report report = report_on(Kind::barrier_count, offset, cta.mbarriers->find(offset), line);
        report.detail = 1;   // a parity
        report.values[0] = parity;
        worker.fail(thread, report);
    }
    Mbarrier& barrier = usable(thread, cta, offset, line);
    Wait wait{phase_is_over, &barrier, parity, State::mbarrier, line, describe};
    wait.is_try = is_try;
    worker.add_total(Total::mbarrier_waits);
    if (!phase_is_over(wait)) {
        worker.add_total(Total::mbarrier_waits_blocked);
        // A try may end before the phase does. The first one of each phase does so here, for the kernel that relies on
        // the contrary; the next ones wait, so that a loop of tries does not turn for ever.
        const bool is_first = thread.tried != &barrier || thread.tried_phase != barrier.phase;
        thread.tried = &barrier;
        thread.tried_phase = barrier.phase;
        if (is_try && is_first && worker.launch.spec.schedule != Schedule::eager) return false;
        block_on(thread, wait);
        thread.wait.is_try = false;
        if (!phase_is_over(wait)) return false;   // a try that ended
    }
    barrier.waited_phase = barrier.phase;
    if (of_cluster) {
        barrier.waited_phase_of_cluster = barrier.phase;
        if (barrier.ended_remotely) remote_reads_are_known(cta);
    } else {
        check_scope(thread, barrier, line);
    }
    if (Ordering* ordering = cta.cluster->ordering()) ordering->acquire_from(barrier, thread);
    return true;
}
