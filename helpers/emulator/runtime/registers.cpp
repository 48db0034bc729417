#include "registers.h"

#include "cluster.h"
#include "launch.h"
#include "worker.h"

namespace emulator {
namespace {

constexpr int kWarpgroup = 4 * kWarp;

// What is wrong with a setmaxnreg: Report::detail of Kind::register_budget. 0 is a standstill: the pool lacks some.
enum Problem { no_bounds = 1, wrong_direction = 2, other_value = 3, not_all = 4 };

void fail(Thread& thread, Problem problem, const WarpgroupRegisters& group, int registers, int line) {
    Report report;
    report.kind = Kind::register_budget;
    report.detail = problem;
    report.place.line = line;
    report.other = {-1, group.first_line, -1};
    report.values[0] = registers;
    report.values[1] = problem == other_value ? group.wanted : group.per_thread;
    report.values[2] = group.increase;
    thread.cta->worker->fail(thread, report);
}

int live_threads(const Cta& cta, size_t group) {
    int live = 0;
    for (size_t warp = group * 4; warp < group * 4 + 4 && warp < cta.warps.size(); ++warp) {
        live += __builtin_popcount(cta.warps[warp].live);
    }
    return live;
}

bool pool_has_enough(const WarpgroupRegisters& group) {
    return group.cta->registers->free >= int64_t(group.wanted - group.per_thread) * kWarpgroup;
}

void report_missing(const Thread& thread, const WarpgroupRegisters& group) {
    Report report;
    report.kind = Kind::register_budget;
    report.detail = not_all;
    report.place.line = group.first_line;
    report.values[0] = group.wanted;
    thread.cta->worker->add_report(report, thread);
}

// A thread that has exited without making the call that the rest of its warpgroup makes.
void check_exited(const WarpgroupRegisters& group, int first_warp) {
    const Cta& cta = *group.cta;
    for (size_t warp = size_t(first_warp); warp < size_t(first_warp) + 4 && warp < cta.warps.size(); ++warp) {
        for (int lane = 0; lane < cta.warps[warp].size; ++lane) {
            const Thread& thread = cta.threads[size_t(cta.warps[warp].first + lane)];
            if (thread.exited && thread.setmaxnregs == group.generation) return report_missing(thread, group);
        }
    }
}

// All warps have come: takes or gives the registers, if the pool has them.
void apply(WarpgroupRegisters& group) {
    group.cta->registers->free -= int64_t(group.wanted - group.per_thread) * kWarpgroup;
    group.per_thread = group.wanted;
    group.arrived = 0;
    group.generation += 1;
    group.cta->cluster->events += 1;
}

// Called by a waiting thread's poll; the first to find the registers takes them for its warpgroup.
bool has_registers(const Wait& wait) {
    const WarpgroupRegisters& group = *static_cast<const WarpgroupRegisters*>(wait.object);
    return group.generation != wait.ticket || (group.arrived == group.expected && pool_has_enough(group));
}

void describe(const Wait& wait, WarpState& state) {
    const WarpgroupRegisters& group = *static_cast<const WarpgroupRegisters*>(wait.object);
    const bool is_together = group.arrived == group.expected;
    state.state = is_together ? State::registers : State::warpgroup;
    state.values[0] = group.wanted;
    state.values[1] = group.per_thread;
    state.values[2] = group.cta->registers->free;
    state.values[3] = group.arrived;
    state.values[4] = group.expected;
}

}   // namespace

void RegisterPool::begin(const Cta& cta) {
    const int per_thread = cta.worker->launch.spec.registers;
    free = 0;
    groups.assign((cta.warps.size() + 3) / 4, {});
    for (WarpgroupRegisters& group : groups) {
        group.cta = &cta;
        group.per_thread = per_thread;
    }
}

void registers_thread_exits(Thread& thread) {
    WarpgroupRegisters& group = thread.cta->registers->groups[size_t(thread.warp / 4)];
    if (group.arrived != 0) group.expected = live_threads(*thread.cta, size_t(thread.warp / 4));
    const uint64_t calls = group.generation + (group.arrived != 0);
    if (thread.setmaxnregs < calls) report_missing(thread, group);
}

}   // namespace emulator

using namespace emulator;

void emulator_setmaxnreg(int registers, bool increase, int line) {
    Thread& thread = *current_thread;
    Cta& cta = *thread.cta;
    cta.worker->step(thread, -1, line);
    WarpgroupRegisters& group = cta.registers->groups[size_t(thread.warp / 4)];
    if (group.per_thread == 0) fail(thread, no_bounds, group, registers, line);
    if (group.arrived == 0) {
        if (increase ? registers < group.per_thread : registers > group.per_thread) {
            group.increase = increase;
            fail(thread, wrong_direction, group, registers, line);
        }
        group.wanted = registers;
        group.increase = increase;
        group.first_line = line;
        group.expected = live_threads(cta, size_t(thread.warp / 4));
    } else if (registers != group.wanted || increase != group.increase) {
        fail(thread, other_value, group, registers, line);
    }
    if (group.arrived == 0) check_exited(group, thread.warp / 4 * 4);
    group.arrived += 1;
    thread.setmaxnregs += 1;
    const uint64_t generation = group.generation;
    if (group.arrived < group.expected || !pool_has_enough(group)) {
        block_on(thread, {has_registers, &group, generation, State::registers, line, describe});
    }
    if (group.generation == generation) apply(group);
}
