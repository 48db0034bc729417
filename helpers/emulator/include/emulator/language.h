// CUDA C++ as a C++ compiler understands it: qualifiers, built-in variables, barriers.
#pragma once
// The standard headers come first: they use names such as __noinline__ that become macros below.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "emulator/abi.h"

#define EMULATOR_INLINE inline __attribute__((always_inline))

// As a last default argument: the line of the call in the kernel's source.
#define EMULATOR_LINE int line = __builtin_LINE()

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ EMULATOR_INLINE
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

// Each CTA runs on one OS thread, so a thread-local variable is a variable of the CTA. In a function `thread_local`
// implies `static`, and `extern thread_local T name[]` is valid too: both forms of shared memory are served.
// `__constinit` keeps g++ from guarding arrays of classes, such as uint4, as if they had constructors to run.
#ifdef __clang__
#define __shared__ thread_local
#else
#define __shared__ __constinit thread_local
#endif

#define threadIdx (emulator_thread_index())
#define blockIdx (emulator_block_index())
#define blockDim (emulator_block_size())
#define gridDim (emulator_grid_size())
constexpr int warpSize = 32;

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Waits for all threads of the CTA.
EMULATOR_INLINE void __syncthreads(EMULATOR_LINE) { emulator_syncthreads(line); }

// Waits for the lanes of the warp that are in the mask.
EMULATOR_INLINE void __syncwarp(unsigned int mask = 0xffffffffu, EMULATOR_LINE) { emulator_syncwarp(mask, line); }

// Fences order memory between threads; the emulator's threads see every write at once.
EMULATOR_INLINE void __threadfence_block() {}
EMULATOR_INLINE void __threadfence() {}

[[noreturn]] EMULATOR_INLINE void __trap(EMULATOR_LINE) { emulator_trap(line); }

// Shared memory has its own address space in PTX; here an address is the offset in the CTA's shared memory.
EMULATOR_INLINE size_t __cvta_generic_to_shared(const void* address, EMULATOR_LINE) {
    return emulator_shared_offset(address, line);
}
