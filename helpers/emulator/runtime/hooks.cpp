// The functions that a kernel compiled with -fsanitize=thread calls before each memory access. Usually they belong to
// ThreadSanitizer; here they count traffic and check bounds and races.
#include "hooks.h"

#include <cstdint>
#include <cstring>

#include "async_rules.h"
#include "cluster.h"
#include "dependent.h"
#include "launch.h"
#include "ordering_state.h"
#include "worker.h"

using namespace emulator;

namespace {

[[noreturn]] void fail_access(Worker& worker, Thread& thread, Kind kind, Space space, Op op, int bytes, int64_t code,
                              int buffer, int64_t offset) {
    Report report;
    report.kind = kind;
    report.space = space;
    report.op = op;
    report.bytes = bytes;
    report.place.code = code;
    report.buffer = buffer;
    report.offset = offset;
    worker.fail(thread, report);
}

void report_race(Worker& worker, Thread& thread, const Site& site, uint64_t offset, const Race& race) {
    Report report;
    report.kind = Kind::race;
    report.space = Space::shared;
    report.op = site.counter.op;
    report.other_op = race.earlier_op;
    report.bytes = site.counter.bytes;
    report.buffer = site.range;
    report.offset = int64_t(offset);
    report.place.code = site.counter.code;
    report.other.code = worker.tracer.site_at(race.earlier.site).counter.code;
    report.other.thread = race.earlier.linear();
    name_cta(report.other_cta, *thread.cta);
    worker.add_report(report, thread);
}

void on_shared_access(Worker& worker, Thread& thread, uint64_t offset, int bytes, Op op, int64_t code) {
    Site& site = worker.tracer.site(uint64_t(code), Space::shared, op, bytes);
    const int array = worker.launch.shared_arrays.find(offset, uint64_t(bytes), site.range);
    if (array < 0) {
        const int nearest = worker.launch.shared_arrays.nearest(offset);
        fail_access(worker, thread, Kind::out_of_bounds, Space::shared, op, bytes, code, nearest, int64_t(offset));
    }
    site.range = array;
    Ordering* ordering = thread.cta->cluster->ordering();
    const Race race = ordering == nullptr ? worker.shadow->record(thread, offset, bytes, op, site.index)
                                          : worker.shadow->record(thread, *ordering, offset, bytes, op, site.index);
    if (ordering != nullptr) ordering->generic_access(thread, offset, bytes, op, site);
    if (race.found) report_race(worker, thread, site, offset, race);
    worker.tracer.log(site, thread.lane, offset);
}

void on_global_access(Worker& worker, Thread& thread, uint64_t address, int bytes, Op op, int64_t code) {
    const Launch& launch = worker.launch;
    const Ranges& buffers = launch.memory.buffers();
    Site& site = worker.tracer.site(uint64_t(code), Space::global, op, bytes);
    const int buffer = buffers.find(address, uint64_t(bytes), site.range);
    if (buffer < 0) {
        if (launch.is_in_library(address)) return;   // a constant or a variable of the kernel's file
        const int nearest = launch.memory.is_near(address) ? buffers.nearest(address) : -1;
        const int64_t offset = int64_t(nearest < 0 ? address : address - buffers.begin(nearest));
        fail_access(worker, thread, Kind::out_of_bounds, Space::global, op, bytes, code, nearest, offset);
    }
    site.range = buffer;
    check_waited_for_launch(thread, op, buffer, {code, 0, thread.linear});
    worker.tracer.log(site, thread.lane, address);
}

int64_t code_of(const Worker& worker, void* return_address) {
    return int64_t(reinterpret_cast<uint64_t>(return_address) - 1 - worker.launch.spec.image_begin);
}

// Gives way to the other lanes after a long stretch of accesses.
void give_way_at_times(Worker& worker, Thread& thread, int64_t code) {
    if (thread.steps < thread.slice_end) return;
    thread.code = code;
    worker.yield(thread);
}

// An aligned access to shared or global memory.
inline void on_memory_access(Worker& worker, Thread& thread, uint64_t address, int bytes, Op op, int64_t code) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(thread.cta->shared);
    if (offset < worker.launch.spec.shared_bytes) {
        on_shared_access(worker, thread, offset, bytes, op, code);
    } else {
        on_global_access(worker, thread, address, bytes, op, code);
    }
    give_way_at_times(worker, thread, code);
}

inline void on_access(void* pointer, int bytes, Op op, void* return_address, bool aligned = true) {
    Thread* thread = current_thread;
    if (thread == nullptr) return;
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    Worker& worker = *thread->cta->worker;
    const int64_t code = code_of(worker, return_address);
    if (address - reinterpret_cast<uint64_t>(thread->stack_low) < kStackBytes) {
        if (worker.launch.spec.uses_hopper) local_access(*thread, pointer, op, code);
        return;
    }

    worker.step(*thread, code, 0);
    if (aligned && address % uint64_t(bytes) != 0) {
        fail_access(worker, *thread, Kind::misaligned, Space::global, op, bytes, code, -1, int64_t(address % 16));
    }
    on_memory_access(worker, *thread, address, bytes, op, code);
}

// A copy of many bytes at once, counted as the widest accesses that a GPU has.
void on_range(void* pointer, size_t bytes, Op op, void* return_address) {
    char* start = static_cast<char*>(pointer);
    for (size_t done = 0; done < bytes;) {
        int piece = 16;
        while (size_t(piece) > bytes - done) piece /= 2;
        on_access(start + done, piece, op, return_address, false);
        done += size_t(piece);
    }
}

}   // namespace

namespace emulator {

void kernel_access(Thread& thread, void* pointer, int bytes, Op op, void* return_address) {
    Worker& worker = *thread.cta->worker;
    if (!worker.launch.spec.counters) return;
    on_memory_access(worker, thread, reinterpret_cast<uint64_t>(pointer), bytes, op, code_of(worker, return_address));
}

void count_remote_access(Thread& thread, uint64_t offset, int bytes, int array, Op op, void* return_address) {
    Worker& worker = *thread.cta->worker;
    if (!worker.launch.spec.counters) return;
    const int64_t code = code_of(worker, return_address);
    Site& site = worker.tracer.site(uint64_t(code), Space::shared, op, bytes);
    site.range = array;
    worker.tracer.log(site, thread.lane, offset);
    give_way_at_times(worker, thread, code);
}

}   // namespace emulator

#define EMULATOR_HOOK(NAME, BYTES, OP, ALIGNED)                                 \
    void __tsan_##NAME(void* address) {                                         \
        on_access(address, BYTES, Op::OP, __builtin_return_address(0), ALIGNED); \
    }
#define EMULATOR_HOOKS(BYTES)                            \
    EMULATOR_HOOK(read##BYTES, BYTES, load, true)        \
    EMULATOR_HOOK(write##BYTES, BYTES, store, true)      \
    EMULATOR_HOOK(volatile_read##BYTES, BYTES, load, true)   \
    EMULATOR_HOOK(volatile_write##BYTES, BYTES, store, true) \
    EMULATOR_HOOK(unaligned_read##BYTES, BYTES, load, false) \
    EMULATOR_HOOK(unaligned_write##BYTES, BYTES, store, false)

extern "C" {
EMULATOR_HOOKS(1)
EMULATOR_HOOKS(2)
EMULATOR_HOOKS(4)
EMULATOR_HOOKS(8)
EMULATOR_HOOKS(16)

void __tsan_read_range(void* address, size_t bytes) { on_range(address, bytes, Op::load, __builtin_return_address(0)); }
void __tsan_write_range(void* address, size_t bytes) {
    on_range(address, bytes, Op::store, __builtin_return_address(0));
}

// From version 15 on, clang calls these for what it would else have called memset, memcpy and memmove for.
void* __tsan_memset(void* to, int value, size_t bytes) {
    on_range(to, bytes, Op::store, __builtin_return_address(0));
    return memset(to, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    on_range(const_cast<void*>(from), bytes, Op::load, __builtin_return_address(0));
    on_range(to, bytes, Op::store, __builtin_return_address(0));
    return memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    on_range(const_cast<void*>(from), bytes, Op::load, __builtin_return_address(0));
    on_range(to, bytes, Op::store, __builtin_return_address(0));
    return memmove(to, from, bytes);
}

// Called by every instrumented file; nothing to do here.
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
}
