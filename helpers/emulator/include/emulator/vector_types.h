// float2, float4, int2, int4, uint2, uint4: 8 or 16 bytes that one instruction moves.
#pragma once
#include "emulator/language.h"

// A copy goes through `whole`, one vector register. Copied member by member, a 16-byte load would become four
// 4-byte loads, and the counters would count those.
#define EMULATOR_WHOLE_COPY(NAME)                                  \
    NAME() = default;                                              \
    EMULATOR_INLINE NAME(const NAME& other) : whole(other.whole) {} \
    EMULATOR_INLINE NAME& operator=(const NAME& other) {           \
        whole = other.whole;                                       \
        return *this;                                              \
    }

#define EMULATOR_VECTOR2(NAME, SCALAR)                                         \
    struct alignas(2 * sizeof(SCALAR)) NAME {                                  \
        typedef SCALAR Whole __attribute__((vector_size(8), may_alias));       \
        union {                                                                \
            struct {                                                           \
                SCALAR x, y;                                                   \
            };                                                                 \
            Whole whole;                                                       \
        };                                                                     \
        EMULATOR_WHOLE_COPY(NAME)                                              \
        EMULATOR_INLINE NAME(SCALAR x_, SCALAR y_) : whole(Whole{x_, y_}) {}   \
    };                                                                         \
    EMULATOR_INLINE NAME make_##NAME(SCALAR x, SCALAR y) { return NAME(x, y); }

#define EMULATOR_VECTOR4(NAME, SCALAR)                                                                        \
    struct alignas(4 * sizeof(SCALAR)) NAME {                                                                 \
        typedef SCALAR Whole __attribute__((vector_size(16), may_alias));                                     \
        union {                                                                                               \
            struct {                                                                                          \
                SCALAR x, y, z, w;                                                                            \
            };                                                                                                \
            Whole whole;                                                                                      \
        };                                                                                                    \
        EMULATOR_WHOLE_COPY(NAME)                                                                             \
        EMULATOR_INLINE NAME(SCALAR x_, SCALAR y_, SCALAR z_, SCALAR w_) : whole(Whole{x_, y_, z_, w_}) {}    \
    };                                                                                                        \
    EMULATOR_INLINE NAME make_##NAME(SCALAR x, SCALAR y, SCALAR z, SCALAR w) { return NAME(x, y, z, w); }

EMULATOR_VECTOR2(float2, float)
EMULATOR_VECTOR2(int2, int)
EMULATOR_VECTOR2(uint2, unsigned int)
EMULATOR_VECTOR4(float4, float)
EMULATOR_VECTOR4(int4, int)
EMULATOR_VECTOR4(uint4, unsigned int)
