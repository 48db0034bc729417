// The built-in variables of a thread, and other small services for kernels.
#include <csignal>

#include "hazards.h"
#include "launch.h"
#include "worker.h"

using namespace emulator;

uint3 emulator_thread_index() { return current_thread->index; }

uint3 emulator_block_index() { return current_thread->cta->index; }

uint3 emulator_block_size() {
    const LaunchSpec& spec = current_thread->cta->worker->launch.spec;
    return {spec.block[0], spec.block[1], spec.block[2]};
}

uint3 emulator_grid_size() {
    const LaunchSpec& spec = current_thread->cta->worker->launch.spec;
    return {spec.grid[0], spec.grid[1], spec.grid[2]};
}

int emulator_lane() { return current_thread->lane; }

uint32_t emulator_shared_offset(const void* address, int line) {
    Thread& thread = *current_thread;
    Worker& worker = *thread.cta->worker;
    const uint64_t offset = uint64_t(static_cast<const char*>(address) - thread.cta->shared);
    if (offset < worker.launch.spec.shared_bytes) return uint32_t(offset);
    fail_outside_of_shared(thread, address, line);
}

uint32_t emulator_mapa(const void* address, uint32_t cta, int line) {
    return cta << 24 | emulator_shared_offset(address, line);
}

void emulator_trap(int line) {
    Thread& thread = *current_thread;
    Report report;
    report.kind = Kind::crash;
    report.detail = SIGTRAP;
    report.place.line = line;
    thread.cta->worker->fail(thread, report);
}
