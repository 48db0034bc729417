#include "worker.h"

#include <csignal>
#include <cstring>

#include "barrier.h"
#include "launch.h"
#include "signals.h"

namespace emulator {

thread_local Thread* current_thread = nullptr;

namespace {

// After so many memory accesses a thread gives way to the other lanes of its warp, so that what the lanes do can be
// counted and forgotten before it fills the memory.
constexpr uint32_t kSliceSteps = 1 << 14;

// A fault with so little of the stack left is an overflow.
constexpr uint64_t kSpareStackBytes = 128;

// The state under which a lane appears in a report's table.
State state_of(const Thread& thread) {
    if (thread.exited) return State::exited;
    if (!thread.started) return State::not_started;
    return thread.wait.ready != nullptr ? thread.wait.state : State::running;
}

}   // namespace

int64_t code_offset(const Launch& launch, uint64_t address) {
    const uint64_t offset = address - launch.spec.image_begin;
    return offset >= launch.spec.code_begin && offset < launch.spec.code_end ? int64_t(offset) : -1;
}

Worker::Worker(Launch& owner)
    : launch(owner),
      step_limit(owner.spec.step_limit == 0 || owner.spec.step_limit > UINT32_MAX ? UINT32_MAX
                                                                                 : uint32_t(owner.spec.step_limit)),
      stacks(size_t(owner.thread_count)) {
    if (owner.spec.counters) shadow = std::make_unique<Shadow>(owner.spec.shared_bytes);
}

void Worker::begin(int64_t cta_number) {
    const LaunchSpec& spec = launch.spec;
    cta.worker = this;
    cta.number = cta_number;
    cta.index = {uint32_t(cta_number % spec.grid[0]), uint32_t(cta_number / spec.grid[0] % spec.grid[1]),
                 uint32_t(cta_number / spec.grid[0] / spec.grid[1])};
    cta.shared = spec.dynamic_shared() - spec.dynamic_begin;
    cta.live = launch.thread_count;
    cta.epoch = shadow ? shadow->advance() : 0;
    cta.stopped = false;
    cta.barrier = {};
    async.clear();
    random_ = Random(spec.seed * 0x100000001b3ull + uint64_t(cta_number));
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
        thread.slice_end = kSliceSteps;
    }
}

void Worker::run(int64_t cta_number) {
    begin(cta_number);
    while (cta.live > 0 && !cta.stopped) {
        if (launch.cancelled) {
            report_cancelled();
        } else if (launch.is_stopped(cta.number)) {
            break;
        } else if (run_all_warps()) {
            continue;
        } else if (!async.empty()) {
            async.complete_one(launch.spec.schedule, random_);
        } else if (!cta.stopped && !launch.cancelled) {
            report_standstill();
        }
    }
    tracer.flush(0, false);
    for (const Thread& thread : cta.threads) steps += thread.steps;
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
    for (size_t i = count; i > 1; --i) std::swap(warp_order_[i - 1], warp_order_[random_.below(uint32_t(i))]);
}

bool Worker::run_all_warps() {
    bool progress = false;
    order_warps();
    for (int warp : warp_order_) {
        progress |= run_warp(cta.warps[size_t(warp)]);
        if (cta.stopped || launch.cancelled) break;
        if (launch.spec.schedule == Schedule::random && !async.empty() && random_.below(4) == 0) {
            async.complete_one(launch.spec.schedule, random_);
        }
    }
    return progress;
}

// Runs the lanes of a warp until none can go on: then they are together at a barrier, or have exited.
bool Worker::run_warp(Warp& warp) {
    bool progress = false;
    const bool is_first = cta.number == 0 && warp.first == 0;
    while (warp.live != 0) {
        uint32_t interrupted = 0;
        bool ran = false;
        for (int lane = 0; lane < warp.size; ++lane) {
            Thread& thread = cta.threads[size_t(warp.first + lane)];
            if (thread.exited || (thread.wait.ready != nullptr && !thread.wait.ready(thread.wait))) continue;
            ran = true;
            resume(thread);
            if (cta.stopped || launch.cancelled) return true;
            if (!thread.exited && thread.wait.ready == nullptr) interrupted |= 1u << lane;
        }
        if (!ran) break;
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
    thread.exited = true;
    thread.cta->live -= 1;
    lane_exits(thread);
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
    reports.add(report, cta.number, with_states ? states() : std::vector<WarpState>{});
}

void Worker::fail(Thread& thread, Report report, bool with_states) {
    report.place.thread = thread.linear;
    record(report, with_states);
    cta.stopped = true;
    launch.stop_after(cta.number);
    for (;;) yield(thread);
}

void Worker::over_limit(Thread& thread, int64_t code, int line) {
    thread.wait.line = line;
    Report report;
    report.kind = Kind::step_limit;
    report.place = {code, line, thread.linear};
    report.offset = step_limit;
    fail(thread, report, true);
}

// A fiber was stopped by a signal: by a fault of its own, or because the launch is to end.
void Worker::report_fault(Thread& thread) {
    const Fault caught = fault;
    fault = {};
    cta.stopped = true;
    thread.code = code_offset(launch, caught.code);
    thread.wait.line = 0;
    if (caught.signal == kInterrupt) {
        report_cancelled(&thread);
        return;
    }
    launch.stop_after(cta.number);
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
    add_report(report, thread);
}

void Worker::report_cancelled(const Thread* running) {
    cta.stopped = true;
    Report report;
    report.kind = Kind::time_limit;
    if (running != nullptr) report.place = {running->code, 0, running->linear};
    record(report, true);
}

// No thread can go on and nothing is under way that would change this.
void Worker::report_standstill() {
    Report report;
    report.kind = Kind::deadlock;
    int waiting = 0;
    for (const Thread& thread : cta.threads) {
        if (state_of(thread) != State::syncthreads) continue;
        waiting += 1;
        if (report.place.thread < 0) report.place = {-1, thread.wait.line, thread.linear};
    }
    if (waiting > 0) report.kind = Kind::barrier_divergence;
    report.detail = waiting;
    record(report, true);
    cta.stopped = true;
    launch.stop_after(cta.number);
}

std::vector<WarpState> Worker::states() const {
    std::vector<WarpState> table;
    for (size_t w = 0; w < cta.warps.size(); ++w) {
        const Warp& warp = cta.warps[w];
        const size_t first_row = table.size();
        for (int lane = 0; lane < warp.size; ++lane) {
            const Thread& thread = cta.threads[size_t(warp.first + lane)];
            WarpState state{int32_t(w), 1u << lane, state_of(thread), 0, {}};
            if (state.state != State::exited && state.state != State::not_started) {
                state.place = {thread.code, thread.wait.line, thread.linear};
                if (state.state != State::running) state.place.code = -1;
            }
            size_t row = first_row;
            while (row < table.size() && !(table[row].state == state.state && table[row].place.line == state.place.line &&
                                           table[row].place.code == state.place.code)) {
                ++row;
            }
            if (row < table.size()) {
                table[row].lanes |= state.lanes;
            } else {
                table.push_back(state);
            }
        }
    }
    return table;
}

}   // namespace emulator
