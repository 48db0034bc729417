// Programmatic dependent launches. The emulator ends each launch before it begins the next; it checks that a kernel need
// not rely on that: what another launch may write is left alone until the thread has waited for it.
#pragma once
#include "cta.h"

namespace emulator {

// In place of a buffer: a variable of the kernel's file.
constexpr int kOwnVariable = -1;

// A thread accesses a buffer of global memory, or `kOwnVariable`. Reports it in a dependent launch if the thread has not
// waited.
void check_waited_for_launch(Thread& thread, Op op, int buffer, const Place& place);

}   // namespace emulator
