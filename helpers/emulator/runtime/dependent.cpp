#include "dependent.h"

#include "launch.h"
#include "worker.h"

namespace emulator {

void check_waited_for_launch(Thread& thread, Op op, int buffer, const Place& place) {
    const LaunchSpec& spec = thread.cta->worker->launch.spec;
    if (!spec.dependent || thread.waited_for_launch) return;
    if (op == Op::load && buffer != kOwnVariable && spec.buffers[buffer].is_list) return;
    Report report;
    report.kind = Kind::early_access;
    report.op = op;
    report.place = place;
    report.buffer = buffer;
    thread.cta->worker->add_report(report, thread);
}

}   // namespace emulator

using namespace emulator;

void emulator_griddepcontrol_wait(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    thread.waited_for_launch = true;
}

// Only a step: the next launch begins after the end of this one all the same.
void emulator_griddepcontrol_launch_dependents(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
}
