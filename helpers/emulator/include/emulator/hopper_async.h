// Asynchronous data movement and matrix multiplication: the emulator's twin of the functions in kernels/hopper.cuh.
#pragma once
#include "emulator/abi_async.h"
#include "emulator/language.h"

// What the TMA unit must know of a matrix: made by the host, passed as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
};

// ---- TMA ------------------------------------------------------------------------------------------------------------

// Starts copying a box of the matrix to shared memory; its first element is in column x of row y. The barrier's
// transaction count falls by the box's bytes once they are there.
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
EMULATOR_INLINE void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x, int y,
                                               EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, 0, line);
}
EMULATOR_INLINE void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x, int y,
                                               uint64_t, EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, 0, line);
}

// The same, to the same place of each CTA of the cluster that has a bit in `ctas`, and to the barrier there.
// PTX: cp.async.bulk.tensor.2d....multicast::cluster
EMULATOR_INLINE void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                         int y, uint16_t ctas, EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, ctas, line);
}
EMULATOR_INLINE void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                         int y, uint16_t ctas, uint64_t, EMULATOR_LINE) {
    emulator_tma_load(to, map, barrier, x, y, ctas, line);
}

// Starts copying a box from shared memory to the matrix. What lies outside of the matrix is not written.
// PTX: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
EMULATOR_INLINE void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y, EMULATOR_LINE) {
    emulator_tma_store(map, from, x, y, line);
}
EMULATOR_INLINE void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y, uint64_t,
                                                EMULATOR_LINE) {
    emulator_tma_store(map, from, x, y, line);
}

// Makes a group of the thread's stores since the last group.
// PTX: cp.async.bulk.commit_group
EMULATOR_INLINE void cp_async_bulk_commit_group(EMULATOR_LINE) { emulator_tma_commit_group(line); }

// Waits until all but the thread's last N groups are done.
// PTX: cp.async.bulk.wait_group
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_tma_wait_group(N, line);
}

// Waits until all but the thread's last N groups have read their shared memory.
// PTX: cp.async.bulk.wait_group.read
template <int N>
EMULATOR_INLINE void cp_async_bulk_wait_group_read(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_tma_wait_group(N, line);
}

// Fetches the tensor map itself, so that the first copy does not wait for it.
// PTX: prefetch.tensormap
EMULATOR_INLINE void prefetch_tensormap(const TensorMap* map, EMULATOR_LINE) { emulator_tma_check_map(map, line); }

// Hints for a copy: which of its lines L2 should keep. Without effect here.
// PTX: createpolicy.fractional.L2::evict_first, ...evict_last
EMULATOR_INLINE uint64_t createpolicy_evict_first() { return 0x12f0000000000000ull; }
EMULATOR_INLINE uint64_t createpolicy_evict_last() { return 0x14f0000000000000ull; }

// ---- wgmma ----------------------------------------------------------------------------------------------------------

// Which dimension of an operand is contiguous in shared memory.
enum class Major { K = 0, MN = 1 };

// How its 16-byte chunks are permuted. The values are those of descriptor bits 62-63.
enum class Swizzle { none = 0, bytes_128 = 1 };

// Where an operand lies in shared memory, as wgmma wants to be told.
EMULATOR_INLINE uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes,
                                          Swizzle swizzle = Swizzle::bytes_128, EMULATOR_LINE) {
    return emulator_wgmma_descriptor(tile, leading_bytes, stride_bytes, uint32_t(swizzle), line);
}

// D = A * B, or D += A * B, with A 64x16 and B 16xN in shared memory; D is spread over the warpgroup's registers.
// PTX: wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n64k16(float (&d)[32], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 64, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n128k16(float (&d)[64], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 128, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n192k16(float (&d)[96], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 192, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}
template <Major A_MAJOR, Major B_MAJOR>
EMULATOR_INLINE void wgmma_m64n256k16(float (&d)[128], uint64_t a, uint64_t b, bool accumulate, EMULATOR_LINE) {
    emulator_wgmma(d, 256, int(A_MAJOR), int(B_MAJOR), a, b, accumulate, line);
}

// Orders the warpgroup's accesses to its accumulators before the wgmma that follow.
// PTX: wgmma.fence.sync.aligned
EMULATOR_INLINE void wgmma_fence(EMULATOR_LINE) { emulator_wgmma_fence(line); }

// Makes a group of the wgmma since the last group.
// PTX: wgmma.commit_group.sync.aligned
EMULATOR_INLINE void wgmma_commit_group(EMULATOR_LINE) { emulator_wgmma_commit_group(line); }

// Waits until all but the last N groups are done: their accumulators hold the result, their operands are free.
// PTX: wgmma.wait_group.sync.aligned
template <int N>
EMULATOR_INLINE void wgmma_wait_group(EMULATOR_LINE) {
    static_assert(N >= 0, "a number of groups");
    emulator_wgmma_wait_group(N, line);
}

// Keeps the compiler from moving accesses to accumulators across this point. Here it cannot, since the runtime has
// their address.
template <int N>
EMULATOR_INLINE void wgmma_fence_operand(float (&)[N]) {}

// ---- other ----------------------------------------------------------------------------------------------------------

// Stores four 8x8 matrices of 16-bit values. Lane l names the place of row l % 8 of matrix l / 8; of matrix i, lane l
// holds in register i the elements 2 * (l % 4) and the next of row l / 4.
// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16
EMULATOR_INLINE void stmatrix_x4(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3, EMULATOR_LINE) {
    const uint32_t registers[4] = {r0, r1, r2, r3};
    emulator_stmatrix(row, registers, line);
}
