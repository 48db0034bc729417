// bfloat16: the upper half of an fp32, rounded to nearest even.
#pragma once
#include "emulator/vector_types.h"

struct alignas(2) __nv_bfloat16 {
    uint16_t bits;

    __nv_bfloat16() = default;
    EMULATOR_INLINE __nv_bfloat16(float value) {
        uint32_t word;
        std::memcpy(&word, &value, sizeof word);
        const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
        const uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
        bits = uint16_t(is_nan ? 0x7fffu : rounded);   // 0x7fff is the NaN that CUDA makes
    }
    EMULATOR_INLINE operator float() const {
        const uint32_t word = uint32_t(bits) << 16;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

// Two bf16 in one 32-bit register. Copied as one word, so that the counters see one access of four bytes.
struct alignas(4) __nv_bfloat162 {
    typedef uint32_t Word __attribute__((may_alias));
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    EMULATOR_INLINE __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
    EMULATOR_INLINE __nv_bfloat162(const __nv_bfloat162& other) { word() = other.word(); }
    EMULATOR_INLINE __nv_bfloat162& operator=(const __nv_bfloat162& other) {
        word() = other.word();
        return *this;
    }

private:
    EMULATOR_INLINE Word& word() { return *reinterpret_cast<Word*>(this); }
    EMULATOR_INLINE const Word& word() const { return *reinterpret_cast<const Word*>(this); }
};

EMULATOR_INLINE float __bfloat162float(__nv_bfloat16 value) { return float(value); }
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
// Towards zero, down and up. Cutting the lower half off rounds towards zero; the next value away from it is one more.
EMULATOR_INLINE __nv_bfloat16 emulator_bf16_toward(float value, bool away) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) return __nv_bfloat16(value);
    if (away && (word & 0xffffu) != 0) word += 0x10000u;
    __nv_bfloat16 rounded;
    rounded.bits = uint16_t(word >> 16);
    return rounded;
}
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_rz(float value) { return emulator_bf16_toward(value, false); }
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_rd(float value) { return emulator_bf16_toward(value, value < 0); }
EMULATOR_INLINE __nv_bfloat16 __float2bfloat16_ru(float value) { return emulator_bf16_toward(value, value > 0); }
EMULATOR_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
EMULATOR_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 value;
    value.bits = bits;
    return value;
}

EMULATOR_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
    return __nv_bfloat162(low, high);
}
EMULATOR_INLINE __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return __nv_bfloat162(__nv_bfloat16(low), __nv_bfloat16(high));
}
EMULATOR_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return __floats2bfloat162_rn(pair.x, pair.y); }
EMULATOR_INLINE float2 __bfloat1622float2(__nv_bfloat162 pair) { return make_float2(pair.x, pair.y); }
EMULATOR_INLINE float __low2float(__nv_bfloat162 pair) { return pair.x; }
EMULATOR_INLINE float __high2float(__nv_bfloat162 pair) { return pair.y; }
EMULATOR_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
EMULATOR_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }

// Arithmetic on bf16 rounds every result, as on the GPU. (Sums belong in fp32.)
EMULATOR_INLINE __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) + float(b); }
EMULATOR_INLINE __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) - float(b); }
EMULATOR_INLINE __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) * float(b); }
EMULATOR_INLINE __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) / float(b); }
EMULATOR_INLINE __nv_bfloat16& operator+=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a + b; }
EMULATOR_INLINE __nv_bfloat16& operator-=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a - b; }
EMULATOR_INLINE __nv_bfloat16& operator*=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a * b; }
EMULATOR_INLINE __nv_bfloat16& operator/=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a / b; }
