// Exchange between the lanes of a warp: shuffles and votes.
#pragma once
#include "emulator/language.h"

// The value of another lane, for types of up to 8 bytes. `source` counts from the warp's first lane.
template <class T>
EMULATOR_INLINE T emulator_exchange(unsigned int mask, T value, int source, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emulator_shuffle(mask, bits, source, line);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// A warp divides into segments of `width` lanes; a source beyond the own segment means the own value.
EMULATOR_INLINE int emulator_segment(int lane, int width) { return lane & ~(width - 1); }

template <class T>
EMULATOR_INLINE T __shfl_sync(unsigned int mask, T value, int source, int width = 32, EMULATOR_LINE) {
    const int lane = emulator_lane();
    return emulator_exchange(mask, value, emulator_segment(lane, width) + (source & (width - 1)), line);
}

template <class T>
EMULATOR_INLINE T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32, EMULATOR_LINE) {
    const int lane = emulator_lane();
    const int source = lane - int(delta);
    return emulator_exchange(mask, value, source < emulator_segment(lane, width) ? lane : source, line);
}

template <class T>
EMULATOR_INLINE T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32, EMULATOR_LINE) {
    const int lane = emulator_lane();
    const int source = lane + int(delta);
    return emulator_exchange(mask, value, source >= emulator_segment(lane, width) + width ? lane : source, line);
}

template <class T>
EMULATOR_INLINE T __shfl_xor_sync(unsigned int mask, T value, int lane_mask, int width = 32, EMULATOR_LINE) {
    const int lane = emulator_lane();
    const int source = lane ^ lane_mask;
    return emulator_exchange(mask, value, source >= emulator_segment(lane, width) + width ? lane : source, line);
}

// One bit per lane of the mask: whether its predicate is true.
EMULATOR_INLINE unsigned int __ballot_sync(unsigned int mask, int predicate, EMULATOR_LINE) {
    return emulator_ballot(mask, predicate != 0, line);
}
EMULATOR_INLINE int __any_sync(unsigned int mask, int predicate, EMULATOR_LINE) {
    return emulator_ballot(mask, predicate != 0, line) != 0;
}
EMULATOR_INLINE int __all_sync(unsigned int mask, int predicate, EMULATOR_LINE) {
    return emulator_ballot(mask, predicate == 0, line) == 0;
}
