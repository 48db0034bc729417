// How the runtime calls a kernel. Included by the generated end of each translation unit.
#pragma once
#include "emulator/language.h"

// What Python needs to know about a kernel's parameter to pass an argument.
struct EmulatorParameter {
    int32_t kind;    // 0 pointer, 1 signed integer, 2 unsigned integer, 3 floating point, 4 another type
    int32_t bytes;
};

template <class T>
constexpr EmulatorParameter emulator_parameter() {
    const int kind = std::is_pointer_v<T>          ? 0
                     : std::is_floating_point_v<T> ? 3
                     : std::is_unsigned_v<T>       ? 2
                     : std::is_integral_v<T>       ? 1
                                                   : 4;
    return {kind, int32_t(sizeof(T))};
}

// Reading the arguments is the launch's business, not the kernel's: not counted.
#define EMULATOR_NOT_COUNTED __attribute__((no_sanitize("thread")))

// An argument is copied out of its storage, which need not be aligned as T wants it.
template <class T>
EMULATOR_NOT_COUNTED T emulator_argument(const void* storage) {
    T value;
    std::memcpy(static_cast<void*>(&value), storage, sizeof value);
    return value;
}

template <class... T, size_t... I>
EMULATOR_NOT_COUNTED void emulator_call(void (*kernel)(T...), void** arguments, std::index_sequence<I...>) {
    (void)arguments;
    kernel(emulator_argument<T>(arguments[I])...);
}

template <class... T>
EMULATOR_NOT_COUNTED void emulator_call(void (*kernel)(T...), void** arguments) {
    emulator_call(kernel, arguments, std::index_sequence_for<T...>{});
}

template <class... T>
int emulator_parameters(void (*)(T...), EmulatorParameter* out) {
    const EmulatorParameter parameters[] = {emulator_parameter<T>()..., {}};
    for (size_t i = 0; i < sizeof...(T); ++i) out[i] = parameters[i];
    return int(sizeof...(T));
}

// Exports entry number NUMBER; the kernel may be a template instance with commas, hence the variable arguments.
#define EMULATOR_ENTRY(NUMBER, ...)                                                  \
    extern "C" EMULATOR_NOT_COUNTED void emulator_entry_##NUMBER(void** arguments) { \
        emulator_call(__VA_ARGS__, arguments);                                       \
    }                                                                                \
    extern "C" int emulator_parameters_##NUMBER(EmulatorParameter* out) {            \
        return emulator_parameters(__VA_ARGS__, out);                                \
    }

// Exports the arguments of __launch_bounds__ of entry number NUMBER: the largest block (0) and the fewest CTAs of an SM
// (1); 0 where the kernel gives none.
constexpr int emulator_bound(int which, int threads, int min_blocks = 0, int = 0) {
    return which == 0 ? threads : min_blocks;
}

#define EMULATOR_BOUNDS(NUMBER, ...) \
    extern "C" int emulator_bounds_##NUMBER(int which) { return emulator_bound(which, __VA_ARGS__); }

// Exports the arguments of __cluster_dims__ of entry number NUMBER: CTAs along x (0), y (1) and z (2).
constexpr int emulator_cluster_dim(int axis, int x, int y = 1, int z = 1) { return axis == 0 ? x : axis == 1 ? y : z; }

#define EMULATOR_CLUSTER(NUMBER, ...) \
    extern "C" int emulator_cluster_##NUMBER(int axis) { return emulator_cluster_dim(axis, __VA_ARGS__); }
