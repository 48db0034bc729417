// The part of the interface between kernels and runtime that concerns asynchronous data: TMA, wgmma, stmatrix.
// See abi.h. `line` is the line of the kernel's source.
#pragma once
#include <cstdint>

extern "C" {

enum : uint32_t { EMULATOR_OWN_CTA = 1u << 31 };
// What createpolicy_evict_first and createpolicy_evict_last return.
constexpr uint64_t EMULATOR_EVICT_FIRST = 0x12f0000000000000ull, EMULATOR_EVICT_LAST = 0x14f0000000000000ull;

// Tensor memory access. ctas: the CTAs of the cluster that get the box, one bit each, or EMULATOR_OWN_CTA.
void emulator_tma_load(void* to, const void* map, void* barrier, int x, int y, uint32_t ctas, int line);
void emulator_tma_store(const void* map, const void* from, int x, int y, int line);
void emulator_tma_commit_group(int line);
void emulator_tma_wait_group(int pending, int line);
void emulator_tma_check_map(const void* map, int line);
void emulator_tma_check_policy(uint64_t policy, int line);

// Warpgroup matrix multiplication. major: 0 K, 1 M or N. d: the calling thread's columns / 2 accumulators.
uint64_t emulator_wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes, uint32_t swizzle,
                                   int line);
uint64_t emulator_wgmma_descriptor_advance(uint64_t descriptor, int bytes, int line);
void emulator_wgmma(float* d, int columns, int a_major, int b_major, uint64_t a, uint64_t b, bool accumulate, int line);
void emulator_wgmma_fence(int line);
void emulator_wgmma_commit_group(int line);
void emulator_wgmma_wait_group(int pending, int line);

// stmatrix: waits for the warp; then each lane that has a row of one of the matrices writes it, 16 bytes.
void emulator_stmatrix(void* row, const uint32_t* registers, int matrices, bool transposed, int line);
}
