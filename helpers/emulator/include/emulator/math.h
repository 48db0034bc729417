// Arithmetic functions of CUDA that C++ lacks, and reinterpretation of bits.
#pragma once
#include "emulator/bf16.h"
#include "emulator/language.h"

// The value with the same bits, of another type of the same size.
template <class To, class From>
EMULATOR_INLINE To emulator_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "both types must have the same size");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

EMULATOR_INLINE float __uint_as_float(unsigned int bits) { return emulator_bits<float>(bits); }
EMULATOR_INLINE float __int_as_float(int bits) { return emulator_bits<float>(bits); }
EMULATOR_INLINE unsigned int __float_as_uint(float value) { return emulator_bits<unsigned int>(value); }
EMULATOR_INLINE int __float_as_int(float value) { return emulator_bits<int>(value); }

// Arguments of different types, as `min(n, 4u)`, meet in their common type.
template <class A, class B>
EMULATOR_INLINE constexpr std::common_type_t<A, B> min(A a, B b) {
    using Common = std::common_type_t<A, B>;
    return Common(b) < Common(a) ? Common(b) : Common(a);
}
template <class A, class B>
EMULATOR_INLINE constexpr std::common_type_t<A, B> max(A a, B b) {
    using Common = std::common_type_t<A, B>;
    return Common(a) < Common(b) ? Common(b) : Common(a);
}

EMULATOR_INLINE float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
EMULATOR_INLINE float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
EMULATOR_INLINE float __fadd_rn(float a, float b) { return a + b; }
EMULATOR_INLINE float __fmul_rn(float a, float b) { return a * b; }
EMULATOR_INLINE float __expf(float value) { return std::exp(value); }

EMULATOR_INLINE int __popc(unsigned int value) { return __builtin_popcount(value); }
EMULATOR_INLINE int __clz(int value) { return value == 0 ? 32 : __builtin_clz(unsigned(value)); }
EMULATOR_INLINE int __ffs(int value) { return __builtin_ffs(value); }

// A load through the read-only cache: the same value, and here the same counters.
template <class T>
EMULATOR_INLINE T __ldg(const T* address) {
    return *address;
}
