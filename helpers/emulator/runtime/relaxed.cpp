// Relaxed accesses to global memory: other CTAs, which run on other OS threads, may make theirs at the same time.
#include <cstdint>

#include "hooks.h"
#include "worker.h"

using namespace emulator;

namespace {

// One of them begins. `return_address` is __builtin_return_address(0) of the function that the kernel called.
void begin(const int* pointer, Op op, int line, void* return_address) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    kernel_access(thread, const_cast<int*>(pointer), sizeof(int), op, return_address);
}

}   // namespace

int emulator_ld_relaxed(const int* pointer, int line) {
    begin(pointer, Op::load, line, __builtin_return_address(0));
    return __atomic_load_n(pointer, __ATOMIC_RELAXED);
}

void emulator_st_relaxed(int* pointer, int value, int line) {
    begin(pointer, Op::store, line, __builtin_return_address(0));
    __atomic_store_n(pointer, value, __ATOMIC_RELAXED);
}

void emulator_red_add_relaxed(int* pointer, int value, int line) {
    begin(pointer, Op::store, line, __builtin_return_address(0));
    __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED);
}
