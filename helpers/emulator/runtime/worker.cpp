#include "worker.h"

#include <csignal>
#include <cstring>

#include "async_rules.h"
#include "barrier.h"
#include "cluster.h"
#include "launch.h"
#include "mbarrier.h"
#include "named_barrier.h"
#include "registers.h"
#include "remote_reads.h"
#include "signals.h"
#include "standstill.h"

namespace emulator {

thread_local Thread* current_thread = nullptr;

namespace {

// After so many memory accesses a thread gives way to the other lanes of its warp, so that what the lanes do can be
// counted and forgotten before it fills the memory.
constexpr uint32_t kSliceSteps = 1 << 14;

// A fault with so little of the stack left is an overflow.
constexpr uint64_t kSpareStackBytes = 128;

}   // namespace

int64_t code_offset(const Launch& launch, uint64_t address) {
    const uint64_t offset = address - launch.spec.image_begin;
    return offset >= launch.spec.code_begin && offset < launch.spec.code_end ? int64_t(offset) : -1;
}

Worker::Worker(Launch& owner, int rank)
    : launch(owner),
      step_limit(owner.spec.step_limit == 0 || owner.spec.step_limit > UINT32_MAX ? UINT32_MAX
                                                                                 : uint32_t(owner.spec.step_limit)),
      stacks(size_t(owner.thread_count)) {
    if (owner.spec.counters) shadow = std::make_unique<Shadow>(owner.spec.shared_bytes);
    cta.rank = rank;
    cta.mbarriers = std::make_shared<Mbarriers>(owner.spec.shared_bytes);
    cta.named_barriers = std::make_shared<NamedBarriers>();
    cta.registers = std::make_shared<RegisterPool>();
    cta.async_state = make_async_state();
}

Worker::~Worker() = default;

void Worker::begin(int64_t cta_number, uint3 index) {
    const LaunchSpec& spec = launch.spec;
    cta.worker = this;
    cta.number = cta_number;
    cta.index = index;
    cta.shared = spec.dynamic_shared() - spec.dynamic_begin;
    cta.live = launch.thread_count;
    cta.epoch = shadow ? shadow->advance() : 0;
    if (cta.cluster->ordering() != nullptr) shadow->forget();   // its time starts anew
    cta.syncs = 0;
    cta.released_cluster_phase = 0;
    cta.remote_reads.clear();
    cta.barrier = {};
    cta.mbarriers->clear();
    cta.named_barriers->clear();
    fault = {};

    // Memory that nothing has been written to reads as NaN, in bf16 and in fp32.
    for (int i = 0; i < spec.array_count; ++i) {
        std::memset(cta.shared + spec.arrays[i].begin, 0xff, spec.arrays[i].bytes);
    }

    const int count = launch.thread_count;
    cta.warps.resize(size_t(count + kWarp - 1) / kWarp);
    for (size_t i = 0; i < cta.warps.size(); ++i) {
        Warp& warp = cta.warps[i];
        warp.first = int(i) * kWarp;
        warp.size = count - warp.first < kWarp ? count - warp.first : kWarp;
        warp.live = warp.size == kWarp ? ~0u : (1u << warp.size) - 1;
        warp.epoch = cta.epoch;
        warp.barriers.clear();
        warp.wait_count = -1;
    }
    warp_order_.resize(cta.warps.size());

    cta.threads.resize(size_t(count));
    for (int i = 0; i < count; ++i) {
        Thread& thread = cta.threads[size_t(i)];
        thread = Thread{};
        thread.stack_pointer = stacks.prepare(size_t(i), fiber_main);
        thread.stack_low = stacks.low(size_t(i));
        thread.cta = &cta;
        thread.index = {uint32_t(i) % spec.block[0], uint32_t(i) / spec.block[0] % spec.block[1],
                        uint32_t(i) / spec.block[0] / spec.block[1]};
        thread.linear = i;
        thread.lane = i % kWarp;
        thread.warp = i / kWarp;
        thread.clock = cta.rank * count + i;
        thread.slice_end = kSliceSteps;
    }
    cta.registers->begin(cta);
    async_cta_begins(cta);
}

void Worker::end() {
    tracer.flush(0, false);
    for (const Thread& thread : cta.threads) steps += thread.steps;
    if (ctas == 0) {
        for (const Mbarrier& barrier : cta.mbarriers->all()) {
            const int32_t order = int32_t(barriers_seen.size());
            barriers_seen.push_back({int32_t(barrier.offset), barrier.line, order, 0});
        }
    }
    ctas += 1;
}

// The order in which warps get their turn between two barriers. Any order is allowed, so each schedule plays another:
// eager starts with the first warp, lazy with the last, random changes every time.
void Worker::order_warps() {
    const size_t count = warp_order_.size();
    for (size_t i = 0; i < count; ++i) {
        warp_order_[i] = int(launch.spec.schedule == Schedule::lazy ? count - 1 - i : i);
    }
    if (launch.spec.schedule != Schedule::random) return;
    for (size_t i = count; i > 1; --i) std::swap(warp_order_[i - 1], warp_order_[cta.cluster->random.below(uint32_t(i))]);
}

bool Worker::run_all_warps() {
    Cluster& cluster = *cta.cluster;
    bool progress = false;
    order_warps();
    for (int warp : warp_order_) {
        progress |= run_warp(cta.warps[size_t(warp)]);
        if (cluster.stopped || launch.cancelled) break;
        if (launch.spec.schedule == Schedule::random && !cluster.async.empty() && cluster.random.below(4) == 0) {
            progress |= cluster.async.complete_one(launch.spec.schedule, cluster.random);
        }
    }
    return progress;
}

bool Worker::can_go_on() const {
    for (const Warp& warp : cta.warps) {
        if (may_go_on(cta, warp)) return true;
    }
    return false;
}

// Whether a lane of the warp can go on.
bool Worker::may_go_on(const Cta& cta, const Warp& warp) {
    if (warp.live == 0) return false;
    for (int i = 0; i < warp.wait_count; ++i) {
        if (warp.waits[i].ready(warp.waits[i])) return true;
    }
    if (warp.wait_count >= 0) return false;
    for (int lane = 0; lane < warp.size; ++lane) {
        const Thread& thread = cta.threads[size_t(warp.first + lane)];
        if (!thread.exited && (thread.wait.ready == nullptr || thread.wait.ready(thread.wait))) return true;
    }
    return false;
}

// Remembers what the lanes wait for, if that is few different things.
void Worker::note_waits(Warp& warp) {
    warp.wait_count = 0;
    for (int lane = 0; lane < warp.size; ++lane) {
        const Thread& thread = cta.threads[size_t(warp.first + lane)];
        if (thread.exited) continue;
        int known = 0;
        while (known < warp.wait_count && !warp.waits[known].same_as(thread.wait)) ++known;
        if (known < warp.wait_count) continue;
        if (thread.wait.ready == nullptr || warp.wait_count == Warp::kWaits) {
            warp.wait_count = -1;
            return;
        }
        warp.waits[warp.wait_count++] = thread.wait;
    }
}

// Runs the lanes of a warp until none can go on: then they are together at a barrier, or have exited.
bool Worker::run_warp(Warp& warp) {
    bool progress = false;
    const bool is_first = cta.number == 0 && warp.first == 0;
    while (may_go_on(cta, warp)) {
        uint32_t interrupted = 0;
        for (int lane = 0; lane < warp.size; ++lane) {
            Thread& thread = cta.threads[size_t(warp.first + lane)];
            if (thread.exited || (thread.wait.ready != nullptr && !thread.wait.ready(thread.wait))) continue;
            resume(thread);
            if (cta.cluster->stopped || launch.cancelled) return true;
            if (!thread.exited && thread.wait.ready == nullptr) interrupted |= 1u << lane;
        }
        note_waits(warp);
        progress = true;
        if (interrupted != 0) tracer.flush(interrupted, is_first);
    }
    if (progress && shadow) tracer.flush(0, is_first);
    return progress;
}

void Worker::resume(Thread& thread) {
    thread.started = true;
    thread.wait.ready = nullptr;
    thread.slice_end = thread.steps + kSliceSteps;
    current_thread = &thread;
    emulator_switch(&scheduler_stack, thread.stack_pointer);
    current_thread = nullptr;
    if (fault.signal != 0) report_fault(thread);
}

void Worker::yield(Thread& thread) { emulator_switch(&thread.stack_pointer, scheduler_stack); }

void Worker::fiber_main() {
    Thread& thread = *current_thread;
    Worker& worker = *thread.cta->worker;
    worker.launch.spec.entry(worker.launch.spec.arguments);
    Cta& cta = *thread.cta;
    async_thread_exits(thread);
    thread.exited = true;
    cta.live -= 1;
    lane_exits(thread);
    cluster_thread_exits(thread);
    registers_thread_exits(thread);
    if (cta.live == 0) {
        async_cta_exits(thread);
        mbarriers_cta_exits(thread);
        remote_reads_cta_exits(thread);
    }
    for (;;) worker.yield(thread);
}

void Worker::add_report(const Report& report, const Thread& thread) {
    Report placed = report;
    placed.place.thread = thread.linear;
    record(placed);
}

void Worker::record(Report report, bool with_states) {
    report.cta[0] = cta.index.x;
    report.cta[1] = cta.index.y;
    report.cta[2] = cta.index.z;
    reports.add(report, cta.number, with_states ? warp_states(*cta.cluster) : std::vector<WarpState>{});
}

void Worker::stop(const Report& report, bool with_states) {
    record(report, with_states);
    Cluster& cluster = *cta.cluster;
    cluster.stopped = true;
    if (report.kind != Kind::time_limit) launch.stop_after(cluster.ctas.back()->number);
}

void Worker::fail(Thread& thread, Report report, bool with_states) {
    report.place.thread = thread.linear;
    stop(report, with_states);
    for (;;) yield(thread);
}

void Worker::over_limit(Thread& thread, int64_t code, int line, bool may_wait) {
    thread.wait.line = line;
    Report report;
    report.kind = Kind::step_limit;
    report.place = {code, line, thread.linear};
    report.offset = step_limit;
    report.detail = may_wait;
    fail(thread, report, true);
}

// A fiber was stopped by a signal: by a fault of its own, or because the launch is to end.
void Worker::report_fault(Thread& thread) {
    const Fault caught = fault;
    fault = {};
    thread.code = code_offset(launch, caught.code);
    thread.wait.line = 0;
    if (caught.signal == kInterrupt) {
        report_cancelled(*cta.cluster, &thread);
        return;
    }
    Report report;
    report.kind = Kind::crash;
    report.detail = caught.signal;
    report.place = {thread.code, 0, thread.linear};
    report.offset = int64_t(caught.address);
    if (caught.stack_pointer < reinterpret_cast<uint64_t>(thread.stack_low) + kSpareStackBytes) {
        report.kind = Kind::stack_overflow;
    } else if (caught.signal == SIGSEGV && launch.memory.is_near(caught.address)) {
        report.buffer = launch.memory.buffers().nearest(caught.address);
        report.offset = int64_t(caught.address - launch.memory.buffers().begin(report.buffer));
        const bool inside = report.offset >= 0 && uint64_t(report.offset) < launch.memory.buffers().bytes(report.buffer);
        if (!inside) report.kind = Kind::out_of_bounds;
    }
    report.bytes = 0;   // unknown
    stop(report);
}

}   // namespace emulator
