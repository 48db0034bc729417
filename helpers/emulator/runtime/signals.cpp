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

uint64_t instruction_pointer(void* context) {
    const ucontext_t* interrupted = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
    return uint64_t(interrupted->uc_mcontext.gregs[REG_RIP]);
#else
    return uint64_t(interrupted->uc_mcontext.pc);
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
    const uint64_t code = instruction_pointer(context);
    if (signal == kInterrupt) {
        // Only amid the kernel's own code is it safe to leave the fiber: the runtime or the C library may be halfway
        // through a change. The launch sends the signal again until it has worked.
        if (!worker.launch.cancelled || code_offset(worker.launch, code) < 0) return;
    }
    worker.fault = {signal, code, reinterpret_cast<uint64_t>(info->si_addr)};
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
