// The 128-byte swizzle: where a 16-byte chunk of shared memory really lies.
#pragma once
#include <cstdint>

namespace emulator {

constexpr uint32_t kChunkBytes = 16;           // what a swizzle moves, and what matrices are made of
constexpr uint32_t kSwizzleSpanBytes = 128;    // a row of eight chunks
constexpr uint32_t kSwizzleAtomBytes = 1024;   // eight rows, after which the pattern repeats

// The swizzles that the hardware knows. Numbered as in a tensor map.
enum class Swizzle : uint32_t { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };

// Address bits 4-6, the chunk in its row, are XORed with bits 7-9, the row in its atom. The bits are those of the
// address itself, so two users of one place agree whatever they think its matrix begins with.
constexpr uint32_t swizzled(uint32_t address, bool swizzle) {
    return swizzle ? address ^ ((address >> 7 & 7) << 4) : address;
}

static_assert(swizzled(0x380, true) == 0x3f0 && swizzled(0x3f0, true) == 0x380, "row 7 is turned round");
static_assert(swizzled(0x470, true) == 0x470, "a row at a multiple of 1024 bytes stays");

}   // namespace emulator
