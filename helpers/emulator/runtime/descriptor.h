// The 64-bit descriptor with which wgmma finds a matrix in shared memory.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions", matrix descriptor and shared-memory layouts.
#pragma once
#include <cstdint>

#include "swizzle.h"

namespace emulator {

// Which dimension of a matrix is contiguous: K, or the other one (M of A, N of B). Numbered as in the instruction.
enum class Major : int32_t { k = 0, mn = 1 };

constexpr uint32_t kStepK = 16;                       // the depth of one wgmma on bf16
constexpr uint32_t kChunkElements = kChunkBytes / 2;  // bf16 in a chunk

struct Descriptor {
    uint32_t start;         // shared-memory address of the matrix, in bytes
    uint32_t leading, stride;   // byte offsets, whose meaning depends on the layout
    uint32_t base_offset;
    Swizzle swizzle;
    constexpr bool is_swizzled() const { return swizzle == Swizzle::bytes_128; }
};

constexpr Descriptor decode_descriptor(uint64_t bits) {
    constexpr Swizzle modes[] = {Swizzle::none, Swizzle::bytes_128, Swizzle::bytes_64, Swizzle::bytes_32};
    return {uint32_t(bits & 0x3fff) << 4, uint32_t(bits >> 16 & 0x3fff) << 4, uint32_t(bits >> 32 & 0x3fff) << 4,
            uint32_t(bits >> 49 & 7), modes[bits >> 62]};
}

// Where a chunk lies. K-major: eight values along K, of row `mn`, from column 8 * `other` (0 or 1).
// MN-major: eight values along M or N, from 8 * `other`, of the `mn`-th k. Addresses wrap at 18 bits.
//
//            |                K-major                  |                 MN-major
//   128 B    | rows of 128 bytes; 8 of them: `stride`; | k in rows of 128 bytes, which hold 64 values; 8 k: `stride`;
//            | the second chunk follows the first      | the next 64 values: `leading`
//   none     | rows of 16 bytes; 8 of them: `stride`;  | k in rows of 16 bytes, which hold 8 values; 8 k: `leading`;
//            | the second chunk: `leading`             | the next 8 values: `stride`
constexpr uint32_t k_major_chunk(const Descriptor& d, uint32_t row, uint32_t half) {
    const uint32_t address = d.is_swizzled()
                                 ? d.start + row / 8 * d.stride + row % 8 * kSwizzleSpanBytes + half * kChunkBytes
                                 : d.start + row / 8 * d.stride + row % 8 * kChunkBytes + half * d.leading;
    return swizzled(address & 0x3ffff, d.is_swizzled());
}

constexpr uint32_t mn_major_chunk(const Descriptor& d, uint32_t k, uint32_t group) {
    const uint32_t address = d.is_swizzled() ? d.start + k / 8 * d.stride + k % 8 * kSwizzleSpanBytes +
                                                   group / 8 * d.leading + group % 8 * kChunkBytes
                                             : d.start + k / 8 * d.leading + k % 8 * kChunkBytes + group * d.stride;
    return swizzled(address & 0x3ffff, d.is_swizzled());
}

// Calls visit(address) for each chunk of a matrix of `extent` (M or N) x 16.
template <class Visit>
void for_each_chunk(const Descriptor& d, Major major, uint32_t extent, Visit visit) {
    if (major == Major::k) {
        for (uint32_t row = 0; row < extent; ++row) {
            visit(k_major_chunk(d, row, 0));
            visit(k_major_chunk(d, row, 1));
        }
    } else {
        for (uint32_t k = 0; k < kStepK; ++k) {
            for (uint32_t group = 0; group < extent / kChunkElements; ++group) visit(mn_major_chunk(d, k, group));
        }
    }
}

}   // namespace emulator
