#include "signals.h"

#include <pthread.h>
#include <ucontext.h>

#include "launch.h"
#include "worker.h"

namespace emulator {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, kInterrupt};
constexpr int kSignalCount = sizeof kSignals / sizeof kSignals[0];
constexpr size_t kSignalStackBytes = 64 * 1024;

// The handlers of the process before ours. Static, since a handler gets no argument; one launch runs at a time.
struct sigaction former_actions[kSignalCount];

Fault fault_of(int signal, const siginfo_t* info, const void* context) {
    const mcontext_t& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
#if defined(__x86_64__)
    return {signal, uint64_t(registers.gregs[REG_RIP]), address, uint64_t(registers.gregs[REG_RSP])};
#else
    return {signal, uint64_t(registers.pc), address, uint64_t(registers.sp)};
#endif
}

// Not a fault of ours: restore the former handler; returning repeats the instruction, which then goes there.
void pass_on(int signal) {
    for (int i = 0; i < kSignalCount; ++i) {
        if (kSignals[i] == signal) sigaction(signal, &former_actions[i], nullptr);
    }
}

void on_signal(int signal, siginfo_t* info, void* context) {
    Thread* thread = current_thread;
    if (thread == nullptr) {
        if (signal != kInterrupt) pass_on(signal);
        return;
    }
    Worker& worker = *thread->cta->worker;
    const Fault fault = fault_of(signal, info, context);
    if (signal == kInterrupt) {
        // Only amid the kernel's own code is it safe to leave the fiber: the runtime or the C library may be halfway
        // through a change. The launch sends the signal again until it has worked.
        if (!worker.launch.cancelled || code_offset(worker.launch, fault.code) < 0) return;
    }
    worker.fault = fault;
    void* abandoned;
    emulator_switch(&abandoned, worker.scheduler_stack);
}

}   // namespace

FaultHandlers::FaultHandlers() {
    for (int i = 0; i < kSignalCount; ++i) {
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        // NODEFER: the handler may not return, and the signal must not stay blocked then.
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(kSignals[i], &action, &former_actions[i]);
    }
}

FaultHandlers::~FaultHandlers() {
    for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
}

SignalStack::SignalStack() : memory_(new char[kSignalStackBytes]) {
    stack_t stack = {};
    stack.ss_sp = memory_;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    delete[] memory_;
}

void block_other_signals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int signal : kSignals) sigdelset(&blocked, signal);
    pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

}   // namespace emulator
