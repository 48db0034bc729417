// The arithmetic of a wgmma: D = A * B or D += A * B, with A 64x16 and B 16xN in bf16, and D 64xN in fp32.
#pragma once
#include <cstdint>

#include "descriptor.h"

namespace emulator {

struct MatrixOperand {
    Descriptor descriptor;
    Major major;
};

// shared: the CTA's shared memory, which holds the operands. tile: D, dense, row after row.
void multiply_tile(float* tile, int columns, const char* shared, const MatrixOperand& a, const MatrixOperand& b,
                   bool accumulate);

}   // namespace emulator
