// Copies between a box of a matrix in global memory and its dense, maybe swizzled, image in shared memory.
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

// Copies the box from `shared + offset`; what lies outside of the matrix is not written.
void store_box(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset);

// Whether a 16-byte chunk of the box's inside, as it lies at `shared + offset`, has only bits that are set: that is
// memory to which nothing was written. *found becomes the column and row of the first.
bool has_unwritten_chunk(const TensorMapRecord& map, BoxPlace place, const char* shared, uint32_t offset,
                         BoxPlace* found);

}   // namespace emulator
