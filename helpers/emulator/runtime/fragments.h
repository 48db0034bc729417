// Which thread holds which element: accumulators of wgmma and the 8x8 matrices of stmatrix.
// Source: PTX ISA, "Register fragments and shared-memory matrix layouts" of wgmma, and stmatrix.
#pragma once
#include <cstdint>

namespace emulator {

constexpr int kWarpgroup = 128;
constexpr int kTileRows = 64;   // of a wgmma

// Of the 64xN tile, thread t (of 128) holds at index 4 * j + 2 * i + c of its N/2 registers the element at
// row accumulator_row(t, i) and column accumulator_column(t, j) + c.
constexpr int accumulator_row(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + 8 * i; }
constexpr int accumulator_column(int thread, int j) { return 8 * j + 2 * (thread % 4); }

// Calls visit(index of the register, index in a dense tile of `columns` columns) for each register pair of a thread.
template <class Visit>
void for_each_accumulator_pair(int thread, int columns, Visit visit) {
    for (int j = 0; j < columns / 8; ++j) {
        for (int i = 0; i < 2; ++i) {
            visit(4 * j + 2 * i, accumulator_row(thread, i) * columns + accumulator_column(thread, j));
        }
    }
}

static_assert(accumulator_row(127, 1) == 63 && accumulator_column(127, 31) + 1 == 255, "the last element of 64x256");

}   // namespace emulator
