#include "wgmma_math.h"

#include <cstring>

#include "fragments.h"

namespace emulator {
namespace {

constexpr int kMaxColumns = 256;

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef uint16_t Chunk __attribute__((vector_size(kChunkBytes), aligned(2), may_alias));
typedef uint32_t WideChunk __attribute__((vector_size(2 * kChunkBytes), aligned(4), may_alias));

// Eight bf16 become eight fp32: the upper halves of their words.
inline void widen(float* to, const char* from) {
    Chunk chunk;
    std::memcpy(&chunk, from, sizeof chunk);
    const WideChunk wide = __builtin_convertvector(chunk, WideChunk) << 16;
    std::memcpy(to, &wide, sizeof wide);
}

// Widens a matrix into a panel as it lies: K-major gives [extent][16], MN-major [16][extent].
void widen_matrix(float* panel, const char* shared, const MatrixOperand& matrix, uint32_t extent) {
    const Descriptor& d = matrix.descriptor;
    if (matrix.major == Major::k) {
        for (uint32_t row = 0; row < extent; ++row) {
            widen(panel + row * kStepK, shared + k_major_chunk(d, row, 0));
            widen(panel + row * kStepK + kChunkElements, shared + k_major_chunk(d, row, 1));
        }
        return;
    }
    for (uint32_t k = 0; k < kStepK; ++k) {
        for (uint32_t group = 0; group < extent / kChunkElements; ++group) {
            widen(panel + k * extent + group * kChunkElements, shared + mn_major_chunk(d, k, group));
        }
    }
}

// [columns][16] -> [16][columns], in squares that stay in the cache.
void transpose(float* to, const float* from, int columns) {
    for (int first = 0; first < columns; first += 16) {
        for (int k = 0; k < int(kStepK); ++k) {
            for (int column = first; column < first + 16; ++column) {
                to[k * columns + column] = from[column * int(kStepK) + k];
            }
        }
    }
}

constexpr int kRows = 4;
constexpr int kVectors = 64 / kLanes <= 4 ? 64 / kLanes : 2;
constexpr int kLeast = 16;   // columns: what all shapes are multiples of
static_assert(kLeast % kLanes == 0);

struct LeftPanel {
    const float* values;
    int row_stride, k_stride;
};

// D's columns from `column` on, so many vectors of them. A block of kRows stays in registers while k runs.
template <bool accumulate, int vectors>
void multiply_columns(float* tile, int columns, int column, const LeftPanel& a, const float* b) {
    for (int row = 0; row < kTileRows; row += kRows) {
        Vector sum[kRows][vectors];
        for (int i = 0; i < kRows; ++i) {
            for (int v = 0; v < vectors; ++v) {
                const float* from = tile + (row + i) * columns + column + v * kLanes;
                sum[i][v] = accumulate ? *reinterpret_cast<const Vector*>(from) : Vector{};
            }
        }
        for (int k = 0; k < int(kStepK); ++k) {
            const float* b_row = b + k * columns + column;
            const float* a_column = a.values + row * a.row_stride + k * a.k_stride;
            for (int v = 0; v < vectors; ++v) {
                const Vector right = *reinterpret_cast<const Vector*>(b_row + v * kLanes);
                for (int i = 0; i < kRows; ++i) sum[i][v] += a_column[i * a.row_stride] * right;
            }
        }
        for (int i = 0; i < kRows; ++i) {
            for (int v = 0; v < vectors; ++v) {
                *reinterpret_cast<Vector*>(tile + (row + i) * columns + column + v * kLanes) = sum[i][v];
            }
        }
    }
}

template <bool accumulate>
void multiply_panels(float* tile, int columns, const LeftPanel& a, const float* b) {
    constexpr int kWidth = kVectors * kLanes;
    int column = 0;
    for (; column + kWidth <= columns; column += kWidth) {
        multiply_columns<accumulate, kVectors>(tile, columns, column, a, b);
    }
    for (; column < columns; column += kLeast) {
        multiply_columns<accumulate, kLeast / kLanes>(tile, columns, column, a, b);
    }
}

}   // namespace

void multiply_tile(float* tile, int columns, const char* shared, const MatrixOperand& a, const MatrixOperand& b,
                   bool accumulate) {
    alignas(64) float a_panel[kTileRows * kStepK];
    alignas(64) float b_panel[kStepK * kMaxColumns];
    widen_matrix(a_panel, shared, a, kTileRows);
    const LeftPanel left = a.major == Major::k ? LeftPanel{a_panel, int(kStepK), 1} : LeftPanel{a_panel, 1, kTileRows};
    if (b.major == Major::k) {
        alignas(64) float rows[kMaxColumns * kStepK];
        widen_matrix(rows, shared, b, uint32_t(columns));
        transpose(b_panel, rows, columns);
    } else {
        widen_matrix(b_panel, shared, b, uint32_t(columns));
    }
    if (accumulate) {
        multiply_panels<true>(tile, columns, left, b_panel);
    } else {
        multiply_panels<false>(tile, columns, left, b_panel);
    }
}

}   // namespace emulator
