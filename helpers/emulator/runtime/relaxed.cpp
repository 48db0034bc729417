// Relaxed accesses to global memory: other CTAs, which run on other OS threads, may make theirs at the same time.
#include <cstdint>

#include "cluster.h"
#include "dependent.h"
#include "hooks.h"
#include "launch.h"
#include "worker.h"

using namespace emulator;

namespace {

constexpr uint32_t kLooks = 64;         // a thread that has looked so often in a row lets others go on
constexpr uint64_t kPageBytes = 4096;   // what is so close past the end of a library is past its last variable

bool is_shared_or_local(const Thread& thread, uint64_t address) {
    return address - reinterpret_cast<uint64_t>(thread.cta->shared) < thread.cta->worker->launch.spec.shared_bytes ||
           address - reinterpret_cast<uint64_t>(thread.stack_low) < kStackBytes;
}

// Report::detail: what an access is nearest to.
enum Nearest { an_argument = 0, not_global = 1, own_variable = 2 };

[[noreturn]] void fail_at(Thread& thread, Kind kind, Op op, uint64_t address, int line) {
    const Launch& launch = thread.cta->worker->launch;
    const bool is_own = launch.is_in_library(address, kPageBytes);
    const Ranges& ranges = is_own ? launch.own_variables : launch.memory.buffers();
    Report report;
    report.kind = kind;
    report.op = op;
    report.bytes = sizeof(int);
    report.place.line = line;
    report.buffer = is_own || launch.memory.is_near(address) ? ranges.nearest(address) : -1;
    report.offset = int64_t(report.buffer < 0 ? address : address - ranges.begin(report.buffer));
    report.detail = is_own ? own_variable : is_shared_or_local(thread, address) ? not_global : an_argument;
    thread.cta->worker->fail(thread, report);
}

// One of them begins: checks that it may be made, also without counters. `return_address`: as of kernel_access.
void begin(const int* pointer, Op op, int line, void* return_address) {
    Thread& thread = *current_thread;
    Worker& worker = *thread.cta->worker;
    const Launch& launch = worker.launch;
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    worker.step(thread, -1, line, op == Op::load);
    const bool is_own = launch.is_in_library(address);
    const int place = (is_own ? launch.own_variables : launch.memory.buffers()).find(address, sizeof(int), 0);
    if (place < 0) fail_at(thread, Kind::out_of_bounds, op, address, line);
    if (address % sizeof(int) != 0) fail_at(thread, Kind::misaligned, op, address, line);
    const bool hooks_check = launch.spec.counters && !is_own;   // which do not know of the file's own variables
    if (!hooks_check) check_waited_for_launch(thread, op, is_own ? kOwnVariable : place, {-1, line, thread.linear});
    kernel_access(thread, const_cast<int*>(pointer), sizeof(int), op, return_address);
}

bool has_changed(const Wait& wait) {
    return __atomic_load_n(static_cast<const int*>(wait.object), __ATOMIC_RELAXED) != int(wait.ticket);
}

// The other threads of the cluster, which run on a GPU meanwhile, go on until the number is another one or none of them
// can. That is no standstill, since CTAs of other clusters may change it: only the step limit ends such a loop.
void let_others_go_on(Thread& thread, const int* pointer, int value, int line) {
    Wait wait{has_changed, pointer, uint64_t(uint32_t(value)), State::running, line};
    wait.is_try = true;
    thread.cta->cluster->events += 1;
    block_on(thread, wait);
    thread.wait.is_try = false;
}

}   // namespace

int emulator_ld_relaxed(const int* pointer, int line) {
    begin(pointer, Op::load, line, __builtin_return_address(0));
    Thread& thread = *current_thread;
    const int value = __atomic_load_n(pointer, __ATOMIC_RELAXED);
    thread.looks = thread.looked_at == pointer ? thread.looks + 1 : 1;
    thread.looked_at = pointer;
    if (thread.looks % kLooks == 0) let_others_go_on(thread, pointer, value, line);
    return value;
}

void emulator_st_relaxed(int* pointer, int value, int line) {
    begin(pointer, Op::store, line, __builtin_return_address(0));
    __atomic_store_n(pointer, value, __ATOMIC_RELAXED);
}

void emulator_red_add_relaxed(int* pointer, int value, int line) {
    begin(pointer, Op::store, line, __builtin_return_address(0));
    __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED);
}

int emulator_atom_add_relaxed(int* pointer, int value, int line) {
    begin(pointer, Op::store, line, __builtin_return_address(0));
    return __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED);
}
