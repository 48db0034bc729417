// Copies between a box of a matrix in global memory and its image in shared memory, which may be swizzled.
#pragma once
#include <cstdint>

#include "tensor_map.h"

namespace emulator {

// The box whose first element is at column x and row y, which may lie outside of the matrix.
struct BoxPlace {
    int x, y;
};

// How many bytes of the box lie inside the matrix.
uint32_t bytes_inside(const TensorMapRecord& map, BoxPlace place);

// Copies the box to `shared + offset`; what lies outside of the matrix becomes zero.
void load_box(const TensorMapRecord& map, BoxPlace place, char* shared, uint32_t offset);

// Makes all bytes of the box's image at `shared + offset` the same. Gaps between short rows keep theirs.
void fill_box(const TensorMapRecord& map, char* shared, uint32_t offset, unsigned char value);

// Copies the box from `shared + offset`, in units of 16 bytes: those wholly outside of the matrix are not written, but
// where the matrix ends amid one, all of it is. An H200 does so (tests/conformance, tma_store/..part_of_a_row..).
void store_box(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset);

// Whether a 16-byte chunk of the box's inside, as it lies at `shared + offset`, has only bits that are set: that is
// memory to which nothing was written. *found becomes the column and row of the first.
bool has_unwritten_chunk(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset,
                         BoxPlace* found);

}   // namespace emulator
