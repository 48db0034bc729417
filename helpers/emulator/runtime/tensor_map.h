// A tensor map as helpers/tensor_map.py writes it for the emulator: 128 bytes, like the driver's own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "swizzle.h"

namespace emulator {

constexpr uint32_t kTensorMapMagic = 0x544d4150;   // "TMAP"

struct TensorMapRecord {
    uint64_t address;         // of the matrix: the launch's copy of it
    uint32_t magic, rank, element_bytes;
    Swizzle swizzle;
    uint32_t l2_promotion, fill;
    uint64_t dims[2];         // columns, rows
    uint64_t stride_bytes;    // from one row to the next
    uint32_t box[2];          // columns, rows
    uint8_t unused[64];

    uint32_t row_bytes() const { return box[0] * element_bytes; }     // of the box
    uint32_t box_bytes() const { return row_bytes() * box[1]; }       // what a copy moves and a barrier is told
    constexpr bool is_swizzled() const { return swizzle == Swizzle::bytes_128; }
    // In shared memory, from one row of the box to the next: under a swizzle all of its span, also if rows are shorter.
    uint32_t pitch() const { return is_swizzled() ? kSwizzleSpanBytes : row_bytes(); }
    uint32_t shared_bytes() const { return pitch() * (box[1] - 1) + row_bytes(); }   // with the gaps between rows
};
static_assert(sizeof(TensorMapRecord) == 128 && offsetof(TensorMapRecord, dims) == 32 &&
              offsetof(TensorMapRecord, box) == 56, "the layout that Python writes");

// The kernel's copy of the record, which need not be aligned.
inline TensorMapRecord read_tensor_map(const void* map) {
    TensorMapRecord record;
    std::memcpy(&record, map, sizeof record);
    return record;
}

}   // namespace emulator
