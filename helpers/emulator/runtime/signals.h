// Faults of a kernel (a wild pointer, a division by zero) end its fiber, not the process.
#pragma once
#include <csignal>

namespace emulator {

// Installs the handlers for the life of the object, and then puts the former ones back.
class FaultHandlers {
public:
    FaultHandlers();
    ~FaultHandlers();
    FaultHandlers(const FaultHandlers&) = delete;
    FaultHandlers& operator=(const FaultHandlers&) = delete;
};

// Gives the calling OS thread a stack for the handlers: the fiber's own may be what overflowed.
class SignalStack {
public:
    SignalStack();
    ~SignalStack();
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

private:
    char* memory_;
};

// Lets the calling OS thread take no other signals than faults and the interruption.
void block_other_signals();

// The signal that interrupts a running fiber. It is ignored by default, so a late one does no harm.
constexpr int kInterrupt = SIGURG;

}   // namespace emulator
