// A worker runs CTAs one after the other on one OS thread: the scheduler of the fibers.
#pragma once
#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "async.h"
#include "cta.h"
#include "fiber.h"
#include "random.h"
#include "report.h"
#include "shadow.h"
#include "trace.h"

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
    explicit Worker(Launch& launch);

    // Runs one CTA to its end, or to a report that ends it.
    void run(int64_t cta_number);

    // For code that runs on a fiber -----------------------------------------------------------------------------

    // Counts one step of the thread and stops it at the limit.
    void step(Thread& thread, int64_t code, int line) {
        if (++thread.steps >= step_limit) over_limit(thread, code, line);
    }
    // Gives way to other threads until the thread's wait is over.
    void yield(Thread& thread);
    // Ends the CTA, and with it the launch, with a report. Never returns to the caller.
    [[noreturn]] void fail(Thread& thread, Report report, bool with_states = false);
    // Adds a report; the CTA runs on.
    void add_report(const Report& report, const Thread& thread);

    Launch& launch;
    const uint32_t step_limit;
    Cta cta;
    AsyncQueue async;
    Tracer tracer;
    std::unique_ptr<Shadow> shadow;   // only with counters
    Reports reports;
    Fault fault;
    uint64_t barriers = 0, steps = 0, ctas = 0;
    void* scheduler_stack = nullptr;
    Stacks stacks;
    pthread_t os_thread{};
    bool finished = false;

private:
    void begin(int64_t cta_number);
    bool run_all_warps();
    bool run_warp(Warp& warp);
    void resume(Thread& thread);
    void order_warps();
    void record(Report report, bool with_states = false);
    void report_fault(Thread& thread);
    void report_standstill();
    void report_cancelled(const Thread* running = nullptr);
    [[noreturn]] void over_limit(Thread& thread, int64_t code, int line);
    std::vector<WarpState> states() const;
    static void fiber_main();

    Random random_;
    std::vector<int> warp_order_;
};

// The offset of an address in the kernel's machine code, for reports; -1 if it is not there.
int64_t code_offset(const Launch& launch, uint64_t address);

}   // namespace emulator
