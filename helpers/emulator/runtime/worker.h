// A worker runs the threads of one CTA at a time on its own OS thread.
#pragma once
#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cta.h"
#include "fiber.h"
#include "report.h"
#include "shadow.h"
#include "trace.h"
#include "turn.h"

namespace emulator {

class Launch;

// A signal that stopped a fiber.
struct Fault {
    int signal = 0;               // 0: none
    uint64_t code = 0;            // address of the instruction
    uint64_t address = 0;         // that it wanted, for memory faults
    uint64_t stack_pointer = 0;
};

struct Worker {
    explicit Worker(Launch& launch, int rank);
    ~Worker();

    // For the scheduler (Cluster), on the worker's own OS thread ----------------------------------------------------

    // Makes everything ready for a CTA; ends with the counting of what it did.
    void begin(int64_t cta_number, uint3 index);
    void end();
    // Gives every warp one turn, in the schedule's order. Returns whether any thread went on.
    bool run_all_warps();

    // Whether a thread can go on. On any OS thread of the cluster, while none of its fibers runs.
    bool can_go_on() const;

    // For code that runs on a fiber ---------------------------------------------------------------------------------

    // Counts one step of the thread and stops it at the limit. `may_wait`: for what another CTA does, by looking again.
    void step(Thread& thread, int64_t code, int line, bool may_wait = false) {
        if (++thread.steps >= step_limit) over_limit(thread, code, line, may_wait);
    }
    // Gives way to other threads until the thread's wait is over.
    void yield(Thread& thread);
    // Ends the cluster, and with it the launch, with a report. Never returns to the caller.
    [[noreturn]] void fail(Thread& thread, Report report, bool with_states = false);

    // Anywhere ------------------------------------------------------------------------------------------------------

    // Adds a report on a thread of the worker's CTA; the CTA runs on.
    void add_report(const Report& report, const Thread& thread);
    // Adds a report, with a table of all warps if wanted, and ends the cluster and the launch soon after.
    void stop(const Report& report, bool with_states = false);
    void add_total(Total total, uint64_t amount = 1) { totals[int(total)] += amount; }

    Launch& launch;
    const uint32_t step_limit;
    Cta cta;
    Turn turn;
    Tracer tracer;
    std::unique_ptr<Shadow> shadow;   // only with counters
    Reports reports;
    std::vector<BarrierSpec> barriers_seen;   // mbarriers that its first CTA initialised
    Fault fault;
    uint64_t barriers = 0, steps = 0, ctas = 0;
    uint64_t totals[kTotals] = {};
    void* scheduler_stack = nullptr;
    Stacks stacks;
    pthread_t os_thread{};
    bool finished = false;

private:
    bool run_warp(Warp& warp);
    static bool may_go_on(const Cta& cta, const Warp& warp);
    void note_waits(Warp& warp);
    void resume(Thread& thread);
    void order_warps();
    void record(Report report, bool with_states = false);
    void report_fault(Thread& thread);
    [[noreturn]] void over_limit(Thread& thread, int64_t code, int line, bool may_wait);
    static void fiber_main();

    std::vector<int> warp_order_;
};

// The offset of an address in the kernel's machine code, for reports; -1 if it is not there.
int64_t code_offset(const Launch& launch, uint64_t address);

}   // namespace emulator
