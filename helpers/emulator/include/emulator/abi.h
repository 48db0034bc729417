// What the runtime library offers to compiled kernels. Included by both sides, so that they cannot disagree.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 {
    unsigned int x, y, z;
};

extern "C" {

// Where the calling CUDA thread is. `const`: the value never changes during a thread's life, so the compiler may
// call once and keep the result, as it would with the special registers of a GPU.
uint3 emulator_thread_index() __attribute__((const));
uint3 emulator_block_index() __attribute__((const));
uint3 emulator_block_size() __attribute__((const));
uint3 emulator_grid_size() __attribute__((const));
int emulator_lane() __attribute__((const));

// Synchronisation. `line` is the line of the kernel's source, for reports.
void emulator_syncthreads(int line);
void emulator_syncwarp(uint32_t mask, int line);
uint64_t emulator_shuffle(uint32_t mask, uint64_t value, int source_lane, int line);
uint32_t emulator_ballot(uint32_t mask, bool predicate, int line);

// The offset of an address within the CTA's shared memory.
uint32_t emulator_shared_offset(const void* address, int line);

// Ends the launch with a report.
[[noreturn]] void emulator_trap(int line);
}
