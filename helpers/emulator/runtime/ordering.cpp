#include "ordering.h"

#include "cluster.h"
#include "mbarrier.h"
#include "ordering_state.h"
#include "worker.h"

namespace emulator {
namespace {

constexpr int kWarpgroup = 4 * kWarp;

int warps_of(int threads) { return (threads + kWarp - 1) / kWarp; }
int warpgroups_of(int threads) { return (threads + kWarpgroup - 1) / kWarpgroup; }
size_t rounded_up(size_t components) { return (components + kClockLanes - 1) / kClockLanes * kClockLanes; }

AsyncConflict::Actor actor_of(AsyncReader reader) {
    return reader == AsyncReader::wgmma ? AsyncConflict::wgmma : AsyncConflict::tma_store;
}

AsyncConflict::Actor actor_of(const AsyncWrite& write) {
    return write.is_number ? AsyncConflict::st_async : AsyncConflict::tma_load;
}

}   // namespace

Ordering::Ordering(int ctas, int threads, uint64_t shared_bytes)
    : ctas_(ctas),
      threads_(threads),
      warps_(warps_of(threads)),
      readers_(warpgroups_of(threads) + warps_),
      first_barrier_(rounded_up(size_t(ctas * threads))),
      first_reader_(first_barrier_ + size_t(ctas * kBarriers)),
      components_(rounded_up(first_reader_ + size_t(ctas * 2 * warps_))),
      clocks_(size_t(ctas * threads), Clock(components_)),
      cluster_meeting_{Clock(components_), Clock(components_)},
      tickets_(size_t(ctas * readers_)),
      over_(size_t(ctas * 2 * warps_)) {
    const Meeting empty{Clock(components_), Clock(components_)};
    block_meetings_.assign(size_t(ctas), empty);
    warp_meetings_.resize(size_t(ctas * warps_));
    barrier_meetings_.resize(size_t(ctas * kBarriers));
    for (int i = 0; i < ctas; ++i) marks_.emplace_back(shared_bytes, readers_);
    remote_reads_.resize(size_t(ctas));
    waits_.resize(size_t(ctas * kBarriers));
}

namespace {

void clear(Clock& clock) {
    clear_components(clock.known);
    clear_components(clock.published);
}

void clear(Meeting& meeting) {
    clear(meeting.coming);
    clear(meeting.passed);
}

}   // namespace

void Ordering::begin() {
    for (size_t i = 0; i < clocks_.size(); ++i) {
        clear(clocks_[i]);
        clocks_[i].known[i] = 1;
    }
    for (Meeting& meeting : block_meetings_) clear(meeting);
    for (Meeting& meeting : warp_meetings_) clear(meeting);
    clear(cluster_meeting_);
    for (AsyncMarks& marks : marks_) marks.clear();
    for (auto& reads : remote_reads_) reads.clear();
    for (auto& waits : waits_) waits.clear();
    tickets_.assign(tickets_.size(), 0);
    over_.assign(over_.size(), 0);
    has_fences_ = false;
    barrier_count_ = 0;
}

// Barriers ------------------------------------------------------------------------------------------------------

Meeting& Ordering::warp_meeting(const Thread& thread) {
    Meeting& meeting = warp_meetings_[size_t(thread.cta->rank * warps_ + thread.warp)];
    if (meeting.coming.known.empty()) meeting = {Clock(components_), Clock(components_)};
    return meeting;
}

void Ordering::join(Clock& to, const Clock& from) {
    join_components(to.known, from.known);
    if (has_fences_) join_components(to.published, from.published);
}

void Ordering::arrive(Meeting& meeting, Thread& thread) {
    if (meeting.coming.known.empty()) meeting = {Clock(components_), Clock(components_)};
    Clock& clock = clocks_[size_t(thread.clock)];
    join(meeting.coming, clock);
    clock.known[size_t(thread.clock)] += 1;
}

void Ordering::arrive_relaxed(Meeting& meeting, const Thread& thread) {
    join_components(meeting.coming.known, clock_of(thread).known, first_barrier_);
}

// What earlier visitors knew is kept: one of them may not have left yet.
void Ordering::pass(Meeting& meeting) {
    join(meeting.passed, meeting.coming);
    clear_components(meeting.coming.known);
    if (has_fences_) clear_components(meeting.coming.published);
}

void Ordering::leave(const Meeting& meeting, Thread& thread) { join(clocks_[size_t(thread.clock)], meeting.passed); }

// mbarriers -----------------------------------------------------------------------------------------------------

void Ordering::barrier_initialised(Mbarrier& barrier) {
    if (barrier.meeting < 0) {
        barrier.meeting = barrier_count_++;
        if (barrier.meeting < ctas_ * kBarriers) barrier.component = barrier.meeting;
        if (barrier_meetings_.size() == size_t(barrier.meeting)) barrier_meetings_.emplace_back();
    }
    Meeting& meeting = barrier_meetings_[size_t(barrier.meeting)];
    if (meeting.coming.known.empty()) meeting = {Clock(components_), Clock(components_)};
    clear(meeting);
}

void Ordering::release_to(Mbarrier& barrier, Thread& thread, bool release) {
    Meeting& meeting = barrier_meetings_[size_t(barrier.meeting)];
    release ? arrive(meeting, thread) : arrive_relaxed(meeting, thread);
}

void Ordering::phase_completed(const Mbarrier& barrier) {
    Meeting& meeting = barrier_meetings_[size_t(barrier.meeting)];
    pass(meeting);
    if (barrier.component < 0) return;
    meeting.passed.known[first_barrier_ + size_t(barrier.component)] = uint32_t(barrier.phases_before + barrier.phase);
}

void Ordering::acquire_from(const Mbarrier& barrier, Thread& thread) {
    if (barrier.phase == 0) return;
    leave(barrier_meetings_[size_t(barrier.meeting)], thread);
    if (ctas_ == 1 || barrier.component < 0) return;
    waits_[size_t(barrier.component)].push_back(
        {uint32_t(barrier.phases_before + barrier.phase), now(thread), thread.clock});
}

bool Ordering::knows_phase(const Thread& thread, const Mbarrier& barrier) const {
    return clock_of(thread).known[first_barrier_ + size_t(barrier.component)] >= barrier.phases_before + barrier.phase;
}

// Asynchronous accesses -----------------------------------------------------------------------------------------

size_t Ordering::reader_of(const Thread& thread, AsyncReader kind) const {
    return size_t(kind == AsyncReader::wgmma ? thread.warp / 4 : warpgroups_of(threads_) + thread.warp);
}

bool Ordering::is_wgmma(size_t reader) const { return reader < size_t(warpgroups_of(threads_)); }

void Ordering::components_of(const Cta& cta, size_t reader, size_t& first, size_t& last) const {
    const size_t begin = first_reader_ + size_t(cta.rank * 2 * warps_);
    if (is_wgmma(reader)) {
        first = begin + reader * 4;
        last = std::min(first + 3, begin + size_t(warps_) - 1);
    } else {
        first = last = begin + size_t(warps_) + reader - size_t(warpgroups_of(threads_));
    }
}

bool Ordering::knows_read(const Clock& clock, const Cta& cta, size_t reader, uint32_t ticket) const {
    size_t first, last;
    components_of(cta, reader, first, last);
    for (size_t component = first; component <= last; ++component) {
        if (clock.known[component] < ticket) return false;
    }
    return true;
}

// Whether some thread has waited for a read.
bool Ordering::is_over(const Cta& cta, size_t reader, uint32_t ticket) const {
    size_t first, last;
    components_of(cta, reader, first, last);
    for (size_t component = first; component <= last; ++component) {
        if (over_[component - first_reader_] >= ticket) return true;
    }
    return false;
}

void Ordering::threads_of(const Thread& issuer, AsyncReader reader, int& first, int& last) const {
    first = last = issuer.linear;
    if (reader != AsyncReader::wgmma) return;
    first = issuer.linear / kWarpgroup * kWarpgroup;
    last = std::min(first + kWarpgroup, threads_) - 1;
}

void Ordering::report(Thread& thread, const Cta& owner, const AsyncConflict& conflict) {
    Report report;
    report.kind = conflict.lacks_fence ? Kind::proxy_fence : Kind::async_race;
    report.space = Space::shared;
    report.op = conflict.op;
    report.other_op = conflict.earlier_op;
    report.place = conflict.place;
    report.other = conflict.earlier;
    report.offset = conflict.offset;
    report.has_owner = &owner != thread.cta;
    name_cta(report.owner, owner);
    const int rank = conflict.write != nullptr ? conflict.write->cta : conflict.earlier_rank;
    name_cta(report.other_cta, rank < 0 ? owner : *owner.cluster->ctas[size_t(rank)]);
    report.detail = conflict.actor == AsyncConflict::tma_store;
    report.values[0] = conflict.actor;
    report.values[1] = conflict.earlier_actor;
    if (conflict.write != nullptr) {
        const Mbarrier* barrier = owner.mbarriers->find(conflict.write->barrier);
        report.barrier = int32_t(conflict.write->barrier);
        report.values[2] = barrier == nullptr ? 0 : barrier->bytes;
        report.values[3] = conflict.write->time == 0;   // on its way
    }
    thread.cta->worker->add_report(report, thread);
}

namespace {

// Two threads' accesses to shared memory, of different CTAs.
Report race_report(Op op, Op earlier_op, uint32_t offset, int bytes, int array) {
    Report report;
    report.kind = Kind::race;
    report.space = Space::shared;
    report.op = op;
    report.other_op = earlier_op;
    report.bytes = bytes;
    report.buffer = array;
    report.offset = int64_t(offset);
    return report;
}

}   // namespace

void Ordering::generic_access(Thread& thread, uint64_t offset, int bytes, Op op, const Site& site) {
    AsyncMarks& marks = marks_[size_t(thread.cta->rank)];
    const Clock& clock = clock_of(thread);
    const auto report_it = [&](AsyncConflict::Actor earlier, Op earlier_op, int line, int by, uint32_t at,
                               const AsyncWrite* write) {
        report(thread, *thread.cta, {AsyncConflict::thread, earlier, op, earlier_op,
                                     {site.counter.code, 0, thread.linear}, {-1, line, by}, at, false, write});
    };
    const auto meet = [&](const AsyncWrite& write, uint32_t at) {
        if (write.component < 0) return;
        if (write.time != 0 && clock.known[first_barrier_ + size_t(write.component)] >= write.time) return;
        report_it(actor_of(write), Op::store, write.line, write.thread, at, &write);
    };
    if (const AsyncWrite* write = marks.write_at(offset)) meet(*write, uint32_t(offset));
    marks.for_numbers(uint32_t(offset), uint32_t(bytes), meet);
    if (op == Op::load) return;
    for_remote_reads(*thread.cta, uint32_t(offset), uint32_t(bytes), [&](const OrderedRead& read, uint32_t) {
        if (clock.known[size_t(read.thread)] >= read.time) return;
        const Thread& reader = thread_of(*thread.cta->cluster, read.thread);
        Report race = race_report(op, Op::load, uint32_t(offset), bytes, site.range);
        race.place.code = site.counter.code;
        race.other = {-1, read.line, reader.linear};
        name_cta(race.other_cta, *reader.cta);
        thread.cta->worker->add_report(race, thread);
    });
    marks.for_reads(uint32_t(offset), uint32_t(bytes), [&](size_t reader, uint32_t ticket, const AsyncRead& read,
                                                           uint32_t at) {
        if (knows_read(clock, *thread.cta, reader, ticket)) return;
        report_it(is_wgmma(reader) ? AsyncConflict::wgmma : AsyncConflict::tma_store, Op::load, read.line, read.thread, at,
                  nullptr);
    });
}

void Ordering::write_issued(Thread& issuer, Cta& to, uint32_t offset, uint32_t bytes, uint32_t barrier_offset,
                            AsyncWriter writer, int line) {
    AsyncMarks& marks = marks_[size_t(to.rank)];
    const Clock& clock = clock_of(issuer);
    const bool is_number = writer == AsyncWriter::st_async;
    const auto report_it = [&](AsyncConflict::Actor earlier, Op earlier_op, const Place& place, uint32_t at,
                               const AsyncWrite* write = nullptr, bool fence = false, int earlier_rank = -1) {
        report(issuer, to, {is_number ? AsyncConflict::st_async : AsyncConflict::tma_load, earlier, Op::store,
                            earlier_op, {-1, line, issuer.linear}, place, at, fence, write, earlier_rank});
    };
    // What is still under way, the asynchronous part itself has found, unless a number is one of the two; here is what
    // is over but not known to be.
    marks.for_reads(offset, bytes, [&](size_t reader, uint32_t ticket, const AsyncRead& read, uint32_t at) {
        if ((!is_number && !is_over(to, reader, ticket)) || knows_read(clock, to, reader, ticket)) return;
        report_it(is_wgmma(reader) ? AsyncConflict::wgmma : AsyncConflict::tma_store, Op::load,
                  {-1, read.line, read.thread}, at);
    });
    marks.for_writes(offset, bytes, [&](const AsyncWrite& write, uint32_t at) {
        if (write.time == 0 && !is_number && !write.is_number) return;
        const size_t component = first_barrier_ + size_t(write.component);
        const bool is_known = write.time != 0 && clock.known[component] >= write.time;
        if (is_known && (is_number || !write.is_number || clock.published[component] >= write.time)) return;
        report_it(actor_of(write), Op::store, {-1, write.line, write.thread}, at, &write, is_known);
    });
    for_remote_reads(to, offset, bytes, [&](const OrderedRead& read, uint32_t at) {
        if (clock.known[size_t(read.thread)] >= read.time) return;
        const Thread& reader = thread_of(*to.cluster, read.thread);
        report_it(AsyncConflict::thread, Op::load, {-1, read.line, reader.linear}, at, nullptr, false, reader.cta->rank);
    });
    const size_t first_thread = size_t(to.rank * threads_);
    to.worker->shadow->for_accesses(offset, bytes, [&](const Access& access, Op op, uint32_t at) {
        const size_t component = first_thread + size_t(access.linear());
        const bool is_known = clock.known[component] >= access.tick;
        if (is_known && (op == Op::load || is_number || clock.published[component] >= access.tick)) return;
        const int64_t code = to.worker->tracer.site_at(access.site).counter.code;
        report_it(AsyncConflict::thread, op, {code, 0, access.linear()}, at, nullptr, is_known);
    });
    to.worker->shadow->forget(offset, bytes);
    const Mbarrier* barrier = to.mbarriers->find(barrier_offset);
    const int component = barrier == nullptr ? -1 : barrier->component;
    if (component >= 0) marks.add_write(offset, bytes, {component, 0, line, issuer.linear, issuer.cta->rank,
                                                         barrier_offset, is_number});
}

// Reads by other CTAs -------------------------------------------------------------------------------------------

Thread& Ordering::thread_of(const Cluster& cluster, int number) const {
    return cluster.ctas[size_t(number / threads_)]->threads[size_t(number % threads_)];
}

template <class Visit>
void Ordering::for_remote_reads(const Cta& owner, uint32_t offset, uint32_t bytes, Visit&& visit) const {
    const auto& by_granule = remote_reads_[size_t(owner.rank)];
    if (by_granule.empty()) return;
    for (uint32_t granule = offset / AsyncMarks::kGranule; granule * AsyncMarks::kGranule < offset + bytes; ++granule) {
        const auto found = by_granule.find(granule);
        if (found == by_granule.end()) continue;
        for (const OrderedRead& read : found->second) visit(read, granule * AsyncMarks::kGranule);
    }
}

// Whether a thread of another CTA knows that the data of a load or of st_async is there: of a thread that has waited for
// it, through barriers that hand over accesses. That the phase is over it may know from a relaxed arrival, too, which does not.
bool Ordering::knows_landed(const Thread& reader, const AsyncWrite& write) const {
    if (write.time == 0) return false;
    const Clock& clock = clock_of(reader);
    const std::vector<Wait>& waits = waits_[size_t(write.component)];
    for (auto wait = waits.rbegin(); wait != waits.rend() && wait->phase >= write.time; ++wait) {
        if (clock.known[size_t(wait->thread)] >= wait->time) return true;
    }
    return false;
}

bool Ordering::is_written(const Cta& owner, uint32_t offset, uint32_t bytes) {
    AsyncMarks& marks = marks_[size_t(owner.rank)];
    bool is_written = marks.write_at(offset) != nullptr;
    marks.for_numbers(offset, bytes, [&](const AsyncWrite&, uint32_t) { is_written = true; });
    owner.worker->shadow->for_accesses(offset, bytes,
                                       [&](const Access&, Op op, uint32_t) { is_written |= op == Op::store; });
    return is_written;
}

void Ordering::remote_read(Thread& reader, Cta& owner, uint32_t offset, uint32_t bytes, int array,
                           uint64_t cluster_phases, int line) {
    const Clock& clock = clock_of(reader);
    bool is_race = false;
    owner.worker->shadow->for_accesses(offset, bytes, [&](const Access& access, Op op, uint32_t at) {
        if (op == Op::load || is_race) return;
        if (clock.known[size_t(owner.rank * threads_ + access.linear())] >= access.tick) return;
        is_race = true;
        Report race = race_report(Op::load, Op::store, at, int(bytes), array);
        race.place.line = line;
        race.other = {owner.worker->tracer.site_at(access.site).counter.code, 0, access.linear()};
        race.has_owner = 1;
        name_cta(race.owner, owner);
        name_cta(race.other_cta, owner);
        reader.cta->worker->add_report(race, reader);
    });
    marks_[size_t(owner.rank)].for_writes(offset, bytes, [&](const AsyncWrite& write, uint32_t at) {
        if (knows_landed(reader, write)) return;
        report(reader, owner, {AsyncConflict::thread, actor_of(write), Op::load, Op::store, {-1, line, reader.linear},
                               {-1, write.line, write.thread}, at, false, &write});
    });
    // Who knows of this read knows of those that this thread knows of.
    std::vector<OrderedRead>& reads = remote_reads_[size_t(owner.rank)][offset / AsyncMarks::kGranule];
    const auto is_known = [&](const OrderedRead& read) { return clock.known[size_t(read.thread)] >= read.time; };
    reads.erase(std::remove_if(reads.begin(), reads.end(), is_known), reads.end());
    reads.push_back({reader.clock, now(reader), line, cluster_phases});
}

void Ordering::write_done(Cta& to, uint32_t offset, uint32_t barrier_offset, AsyncWriter writer) {
    AsyncMarks& marks = marks_[size_t(to.rank)];
    AsyncWrite* write = writer == AsyncWriter::st_async ? marks.number_at(offset) : marks.write_at(offset);
    const Mbarrier* barrier = to.mbarriers->find(barrier_offset);
    if (write != nullptr && barrier != nullptr && write->component == barrier->component) {
        write->time = uint32_t(barrier->phases_before + barrier->phase) + 1;
    }
}

uint32_t Ordering::read_issued(Thread& issuer, uint32_t offset, uint32_t bytes, AsyncReader reader, int line) {
    Cta& cta = *issuer.cta;
    AsyncMarks& marks = marks_[size_t(cta.rank)];
    int first, last;
    threads_of(issuer, reader, first, last);
    const auto report_it = [&](int thread, AsyncConflict::Actor earlier, const Place& place, uint32_t at, bool fence,
                               const AsyncWrite* write = nullptr) {
        report(cta.threads[size_t(thread)], cta, {actor_of(reader), earlier, Op::load, Op::store, {-1, line, thread},
                                                  place, at, fence, write});
    };
    marks.for_writes(offset, bytes, [&](const AsyncWrite& write, uint32_t at) {
        if (write.time == 0 && !write.is_number) return;   // still under way: found by the asynchronous part
        const size_t component = first_barrier_ + size_t(write.component);
        for (int i = first; i <= last; ++i) {
            const Clock& clock = clock_of(cta.threads[size_t(i)]);
            const bool is_known = write.time != 0 && clock.known[component] >= write.time;
            if (is_known && (!write.is_number || clock.published[component] >= write.time)) continue;
            report_it(i, actor_of(write), {-1, write.line, write.thread}, at, is_known, &write);
            break;
        }
    });
    cta.worker->shadow->for_accesses(offset, bytes, [&](const Access& access, Op op, uint32_t at) {
        if (op == Op::load) return;
        const size_t component = size_t(cta.rank * threads_ + access.linear());
        for (int i = first; i <= last; ++i) {
            const Clock& clock = clock_of(cta.threads[size_t(i)]);
            const bool is_known = clock.known[component] >= access.tick;
            if (is_known && clock.published[component] >= access.tick) continue;
            const int64_t code = cta.worker->tracer.site_at(access.site).counter.code;
            report_it(i, AsyncConflict::thread, {code, 0, access.linear()}, at, is_known);
            break;
        }
    });
    const size_t number = reader_of(issuer, reader);
    const uint32_t ticket = ++tickets_[size_t(cta.rank * readers_) + number];
    marks.add_read(number, ticket, offset, bytes, {line, issuer.linear});
    return ticket;
}

void Ordering::read_done(Thread& waiter, AsyncReader reader, uint32_t ticket) {
    const int first = waiter.cta->rank * 2 * warps_ + (reader == AsyncReader::wgmma ? 0 : warps_);
    const size_t component = first_reader_ + size_t(first + waiter.warp);
    uint32_t& known = clocks_[size_t(waiter.clock)].known[component];
    known = std::max(known, ticket);
    uint32_t& over = over_[component - first_reader_];
    over = std::max(over, ticket);
}

void Ordering::proxy_fence(Thread& thread) {
    has_fences_ = true;
    Clock& clock = clocks_[size_t(thread.clock)];
    join_components(clock.published, clock.known);
    clock.known[size_t(thread.clock)] += 1;   // what follows is not fenced
}

// See ordering.h ------------------------------------------------------------------------------------------------

void order_async_write_issued(Thread& issuer, Cta& to, uint32_t offset, uint32_t bytes, uint32_t barrier_offset,
                              AsyncWriter writer, int line) {
    Ordering* ordering = to.cluster->ordering();
    if (ordering == nullptr || bytes == 0) return;
    ordering->write_issued(issuer, to, offset, bytes, barrier_offset, writer, line);
}

void order_async_write_done(Cta& to, uint32_t offset, uint32_t barrier_offset, AsyncWriter writer) {
    if (Ordering* ordering = to.cluster->ordering()) ordering->write_done(to, offset, barrier_offset, writer);
}

uint32_t order_async_read_issued(Thread& issuer, uint32_t offset, uint32_t bytes, AsyncReader reader, int line) {
    Ordering* ordering = issuer.cta->cluster->ordering();
    return ordering == nullptr || bytes == 0 ? 0 : ordering->read_issued(issuer, offset, bytes, reader, line);
}

void order_async_read_done(Thread& waiter, AsyncReader reader, uint32_t ticket) {
    Ordering* ordering = waiter.cta->cluster->ordering();
    if (ordering != nullptr && ticket != 0) ordering->read_done(waiter, reader, ticket);
}

void order_proxy_fence(Thread& thread) {
    if (Ordering* ordering = thread.cta->cluster->ordering()) ordering->proxy_fence(thread);
}

}   // namespace emulator
