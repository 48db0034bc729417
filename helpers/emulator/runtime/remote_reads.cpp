#include "remote_reads.h"

#include <algorithm>
#include <cstring>

#include "async_state.h"
#include "cluster.h"
#include "hazards.h"
#include "hooks.h"
#include "launch.h"
#include "ordering_state.h"
#include "worker.h"

using namespace emulator;

namespace {

// What a report on an exited CTA says that another one does with it: Report::detail of Kind::exited_cta.
// (0 to 3: arrivals and copies; see mbarrier.cpp.)
enum Exited { has_exited = 4, may_have_exited = 5, only_relaxed = 6 };

void name_owner(Report& report, const Thread& reader, const Cta& owner) {
    report.has_owner = &owner != reader.cta;
    name_cta(report.owner, owner);
    name_cta(report.other_cta, owner);
}

void check_still_there(Thread& reader, const Cta& owner, int line) {
    if (!owner.has_exited()) return;
    Report report;
    report.kind = Kind::exited_cta;
    report.place.line = line;
    report.detail = Exited::has_exited;
    name_owner(report, reader, owner);
    reader.cta->worker->fail(reader, report);
}

// Memory starts as all ones, and what a load has yet to write is that, too.
void check_written(Thread& reader, const Cta& owner, const Region& region, int line) {
    const char* const bytes = owner.shared + region.offset;
    if (!std::all_of(bytes, bytes + region.bytes, [](char byte) { return byte == char(0xff); })) return;
    if (owner.async_state->ready && is_under_way(owner.async_state->loads, region)) return;
    Ordering* ordering = owner.cluster->ordering();
    if (ordering != nullptr && ordering->is_written(owner, region.offset, region.bytes)) return;
    Report report = shared_report(owner, Kind::cluster_unwritten, line, region);
    name_owner(report, reader, owner);
    reader.cta->worker->add_report(report, reader);
}

void remember(const Thread& reader, Cta& owner, int line) {
    owner.remote_reads.resize(owner.cluster->ctas.size());
    RemoteRead& read = owner.remote_reads[size_t(reader.cta->rank)];
    const uint64_t phases = cluster_phases_of(reader);
    if (!read.is_open || read.cluster_phases <= phases) read = {{-1, line, reader.linear}, phases, true};
}

bool has_passed(const Cta& cta, uint64_t cluster_phases) {
    return std::any_of(cta.threads.begin(), cta.threads.end(),
                       [&](const Thread& thread) { return thread.cluster_phase > cluster_phases; });
}

// A CTA exits, and does not know that a thread's read of its shared memory is over.
void report_at_exit(Thread& reader, const Cta& owner, uint64_t cluster_phases, int line) {
    Report report;
    report.kind = Kind::exited_cta;
    report.place.line = line;
    report.detail = has_passed(owner, cluster_phases) ? Exited::only_relaxed : Exited::may_have_exited;
    name_owner(report, reader, owner);
    reader.cta->worker->add_report(report, reader);
}

}   // namespace

namespace emulator {

Cta& checked_owner(Thread& thread, uint32_t rank, Op op, int line) {
    const Cluster& cluster = *thread.cta->cluster;
    if (rank < uint32_t(cluster.size())) return *cluster.ctas[rank];
    Report report;
    report.kind = Kind::cluster_rank;
    report.op = op;
    report.place.line = line;
    report.values[0] = rank;
    report.values[1] = cluster.size();
    thread.cta->worker->fail(thread, report);
}

uint32_t checked_offset(Thread& thread, const Cta& owner, const void* address, uint32_t bytes, Op op, int line,
                        int& array) {
    Worker& worker = *thread.cta->worker;
    const uint64_t offset = uint64_t(static_cast<const char*>(address) - thread.cta->shared);
    if (offset >= worker.launch.spec.shared_bytes && !is_past_shared(thread, address)) {
        fail_outside_of_shared(thread, address, line);
    }
    array = worker.launch.shared_arrays.find(offset, bytes, 0);
    if (array >= 0 && offset % bytes == 0) return uint32_t(offset);
    const Kind kind = array < 0 ? Kind::out_of_bounds : Kind::misaligned;
    Report report = shared_report(owner, kind, line, {uint32_t(offset), bytes});
    report.op = op;
    name_owner(report, thread, owner);
    worker.fail(thread, report);
}

void remote_reads_are_known(Cta& owner) {
    for (RemoteRead& read : owner.remote_reads) read.is_open = false;
}

void remote_reads_cta_exits(Thread& last) {
    Cta& owner = *last.cta;
    if (const Ordering* ordering = owner.cluster->ordering()) {
        ordering->for_unknown_reads(owner, [&](const OrderedRead& read) {
            report_at_exit(ordering->thread_of(*owner.cluster, read.thread), owner, read.cluster_phases, read.line);
        });
        return;
    }
    for (size_t rank = 0; rank < owner.remote_reads.size(); ++rank) {
        const RemoteRead& read = owner.remote_reads[rank];
        Cta& from = *owner.cluster->ctas[rank];
        const bool is_known =
            has_passed(owner, read.cluster_phases) && from.released_cluster_phase > read.cluster_phases;
        if (!read.is_open || is_known) continue;
        report_at_exit(from.threads[size_t(read.place.thread)], owner, read.cluster_phases, read.place.line);
    }
}

}   // namespace emulator

void emulator_ld_shared_cluster(void* value, const void* address, uint32_t rank, int line) {
    Thread& thread = *current_thread;
    Worker& worker = *thread.cta->worker;
    worker.step(thread, -1, line);
    Cta& owner = checked_owner(thread, rank, Op::load, line);
    check_still_there(thread, owner, line);
    int array;
    const Region region{checked_offset(thread, owner, address, kChunkBytes, Op::load, line, array), kChunkBytes};
    check_written(thread, owner, region, line);
    std::memcpy(value, owner.shared + region.offset, region.bytes);
    if (&owner == thread.cta) {
        kernel_access(thread, owner.shared + region.offset, kChunkBytes, Op::load, __builtin_return_address(0));
        return;
    }
    worker.add_total(Total::cluster_load_bytes, region.bytes);
    if (Ordering* ordering = owner.cluster->ordering()) {
        ordering->remote_read(thread, owner, region.offset, region.bytes, array, cluster_phases_of(thread), line);
    } else {
        remember(thread, owner, line);
    }
    count_remote_access(thread, region.offset, kChunkBytes, array, Op::load, __builtin_return_address(0));
}
