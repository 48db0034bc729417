// Asynchronous data movement and matrix multiplication: the emulator's twin of the functions in kernels/hopper.cuh.
#pragma once
#include "emulator/abi_async.h"
#include "emulator/language.h"

// Describes a matrix and a box to TMA. Made on the host (helpers/tensor_map.py); a kernel takes it as
// `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
    ~TensorMap() {}   // with it a parameter is the only copy on the thread's stack: no other one lies behind it
};

// ---- TMA ------------------------------------------------------------------------------------------------------------

// Starts to copy a box from global to shared memory; `barrier` gets its bytes when they have landed. Zeros for what
// lies outside are counted too. x is a multiple of 16 bytes (8 bf16), or the GPU stops with an illegal instruction; x
// and y may be negative.
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
EMULATOR_INLINE void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x, int y,
                                               EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, EMULATOR_OWN_CTA, line);
}

// The same with a hint for the L2 cache, made by createpolicy.
// PTX: cp.async.bulk.tensor.2d ... .L2::cache_hint
EMULATOR_INLINE void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x, int y,
                                               uint64_t cache_policy, EMULATOR_LINE) {
    emulator_tma_check_policy(cache_policy, line);
    emulator_tma_load(to, map, barrier, x, y, EMULATOR_OWN_CTA, line);
}

// Copies a box to the same place in several CTAs of the cluster, those whose bit is set in `ctas`. Each one's own
// barrier gets the bytes.
// PTX: cp.async.bulk.tensor.2d ... .multicast::cluster
EMULATOR_INLINE void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                         int y, uint16_t ctas, EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, ctas, line);
}

// The same with a hint for the L2 cache.
// PTX: cp.async.bulk.tensor.2d ... .multicast::cluster.L2::cache_hint
EMULATOR_INLINE void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                         int y, uint16_t ctas, uint64_t cache_policy, EMULATOR_LINE) {
    emulator_tma_check_policy(cache_policy, line);
    emulator_tma_load(to, map, barrier, x, y, ctas, line);
}

// Starts to copy a box from shared to global memory. It belongs to this thread's next group.
// x is a multiple of 16 bytes, and neither x nor y is negative, or the GPU stops with an illegal instruction. Where the
// matrix ends amid 16 bytes of a row, all 16 are written.
// PTX: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
EMULATOR_INLINE void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y, EMULATOR_LINE) {
    emulator_tma_store(map, from, x, y, line);
}

// The same with a hint for the L2 cache.
// PTX: cp.async.bulk.tensor.2d ... .bulk_group.L2::cache_hint
EMULATOR_INLINE void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y,
                                                uint64_t cache_policy, EMULATOR_LINE) {
    emulator_tma_check_policy(cache_policy, line);
    emulator_tma_store(map, from, x, y, line);
}

// Makes a group of the stores that this thread has started since the last one.
// PTX: cp.async.bulk.commit_group
EMULATOR_INLINE void cp_async_bulk_commit_group(EMULATOR_LINE) { emulator_tma_commit_group(line); }

// Waits until all but the last N groups of this thread have written global memory.
// PTX: cp.async.bulk.wait_group
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_tma_wait_group(N, line);
}

// Waits until all but the last N groups have read their shared memory, which may then be written again.
// PTX: cp.async.bulk.wait_group.read
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group_read(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_tma_wait_group(N, line);
}

// Fetches a map before its first use.
// PTX: prefetch.tensormap
EMULATOR_INLINE void prefetch_tensormap(const TensorMap* map, EMULATOR_LINE) { emulator_tma_check_map(map, line); }

// A hint that data will not be needed again soon.
// PTX: createpolicy.fractional.L2::evict_first
EMULATOR_INLINE uint64_t createpolicy_evict_first() { return EMULATOR_EVICT_FIRST; }

// A hint that data should stay in L2.
// PTX: createpolicy.fractional.L2::evict_last
EMULATOR_INLINE uint64_t createpolicy_evict_last() { return EMULATOR_EVICT_LAST; }

// ---- wgmma ----------------------------------------------------------------------------------------------------------

// Along which dimension an operand's elements are neighbours in memory: along K, or along M (of A) or N (of B).
enum class Major { K = 0, MN = 1 };

// How the 16-byte chunks of an operand are permuted in shared memory; the values are those of the descriptor's field.
enum class Swizzle { none = 0, bytes_128 = 1 };

// Describes an operand in shared memory: bits 0-13 address / 16, 16-29 leading byte offset / 16, 32-45 stride byte
// offset / 16, 62-63 swizzle mode.
// PTX ISA: "Matrix descriptor format" of wgmma
EMULATOR_INLINE uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes,
                                          Swizzle swizzle = Swizzle::bytes_128, EMULATOR_LINE) {
    return emulator_wgmma_descriptor(tile, leading_bytes, stride_bytes, uint32_t(swizzle), line);
}

// Describes the same operand so many bytes further on, a multiple of 16. Shared memory is so small that the address
// never outgrows its bits, so one addition of 32 bits does what wgmma_descriptor needs half a dozen instructions for.
EMULATOR_INLINE uint64_t wgmma_descriptor_advance(uint64_t descriptor, int bytes, EMULATOR_LINE) {
    return emulator_wgmma_descriptor_advance(descriptor, bytes, line);
}

// The five shapes below compute D = A * B + (accumulate ? D : 0), asynchronously: A is 64 x 16 and B 16 x N bf16 in
// shared memory, D 64 x N fp32 in the registers of the warpgroup. Thread t holds, in d[4 * j + 2 * h + i], the element
// in row 16 * (t / 32) + t % 32 / 4 + 8 * h and column 8 * j + t % 4 * 2 + i.

// PTX: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n64k16(float (&d)[32], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 64, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n128k16(float (&d)[64], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 128, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// PTX: wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n192k16(float (&d)[96], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 192, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// PTX: wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n224k16(float (&d)[112], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 224, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// PTX: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n256k16(float (&d)[128], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 256, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// Orders the warpgroup's accesses to accumulator registers before the wgmma that follow. Needed before the first one.
// PTX: wgmma.fence.sync.aligned
EMULATOR_INLINE void wgmma_fence(EMULATOR_LINE) { emulator_wgmma_fence(line); }

// Makes a group of the wgmma issued since the last one.
// PTX: wgmma.commit_group.sync.aligned
EMULATOR_INLINE void wgmma_commit_group(EMULATOR_LINE) { emulator_wgmma_commit_group(line); }

// Waits until all but the last N groups are done: accumulators may be read, operands overwritten.
// PTX: wgmma.wait_group.sync.aligned
template <int N>
EMULATOR_INLINE void wgmma_wait_group(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_wgmma_wait_group(N, line);
}

// Keeps the compiler from moving accesses to accumulators across this point. No instruction.
template <int N>
EMULATOR_INLINE void wgmma_fence_operand(float (&)[N]) {}

// ---- other ----------------------------------------------------------------------------------------------------------

// Stores four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, 16
// byte aligned); register i of lane l holds the elements in row l / 4, columns l % 4 * 2 and the next, of matrix i.
// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16
EMULATOR_INLINE void stmatrix_x4(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3, EMULATOR_LINE) {
    const uint32_t registers[4] = {r0, r1, r2, r3};
    emulator_stmatrix(row, registers, 4, false, line);
}

// Stores two 8 x 8 matrices of 16-bit elements, transposed. Lane l below 16 gives the address of row l % 8 of matrix
// l / 8 (16 bytes, 16 byte aligned); register i of lane l holds the elements in column l / 4, rows l % 4 * 2 and the
// next, of matrix i.
// PTX: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16
EMULATOR_INLINE void stmatrix_x2_trans(void* row, uint32_t r0, uint32_t r1, EMULATOR_LINE) {
    const uint32_t registers[2] = {r0, r1};
    emulator_stmatrix(row, registers, 2, true, line);
}
