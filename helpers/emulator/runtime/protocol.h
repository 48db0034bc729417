// The records that Python and the runtime exchange. helpers/emulator/protocol.py has the same fields in the same
// order; a version number catches a mismatch.
#pragma once
#include <cstdint>

namespace emulator {

constexpr int32_t kProtocolVersion = 2;
constexpr int kWarp = 32;

// A pointer argument: an array of the caller, replaced by a guarded copy during the launch.
struct BufferSpec {
    void* host;
    uint64_t bytes;
    void** argument;     // where the kernel's pointer is stored
    int32_t writable;
    int32_t reserved;
};

// A shared array: a range of the CTA's shared memory.
struct ArraySpec {
    uint64_t begin, bytes;
};

enum class Schedule : int32_t { eager = 0, lazy = 1, random = 2 };

struct LaunchSpec {
    int32_t version;
    int32_t counters;            // whether the kernel was compiled with memory hooks
    void (*entry)(void**);
    char* (*dynamic_shared)();   // the dynamic arrays in the calling OS thread's shared memory
    void** arguments;
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;       // size of the CTA's shared memory, static and dynamic, with gaps
    uint64_t dynamic_begin;      // offset of the dynamic arrays in it
    uint64_t image_begin;        // address at which the kernel's library is loaded
    uint64_t image_bytes;
    uint64_t code_begin, code_end;   // its machine code, as offsets
    uint64_t seed;
    uint64_t step_limit;         // per CUDA thread; 0: none
    Schedule schedule;
    int32_t workers;
    const BufferSpec* buffers;
    const ArraySpec* arrays;
    int32_t buffer_count, array_count;
};

enum class Kind : int32_t {
    out_of_bounds = 0,
    misaligned = 1,
    race = 2,
    deadlock = 3,
    barrier_divergence = 4,
    step_limit = 5,
    time_limit = 6,
    crash = 7,
    stack_overflow = 8,
    stray_write = 9,   // out of bounds, found after the launch
};

enum class Space : int32_t { global = 0, shared = 1 };
enum class Op : int32_t { load = 0, store = 1 };

// A place in the source: a line if the kernel passed one, else an offset of the machine code, else neither.
struct Place {
    int64_t code = -1;
    int32_t line = 0;
    int32_t thread = -1;   // linear index in the CTA
};

struct Report {
    Kind kind{};
    Space space{};
    Op op{};
    Op other_op{};
    int32_t bytes = 0;      // of the access
    int32_t buffer = -1;    // index of the buffer or array that is meant, or -1
    int64_t offset = 0;     // of the access, within the buffer, or within shared memory
    int32_t detail = 0;     // a crash: the signal. A standstill: threads that wait at __syncthreads
    int32_t state_count = 0;
    uint32_t cta[3] = {};
    int32_t reserved = 0;
    int64_t first_state = 0;
    int64_t count = 1;      // how often it happened
    Place place, other;
};

enum class State : int32_t { not_started = 0, running = 1, exited = 2, syncthreads = 3, syncwarp = 4 };

// Where some lanes of a warp are; a table of these is part of some reports.
struct WarpState {
    int32_t warp;
    uint32_t lanes;
    State state;
    int32_t reserved;
    Place place;
};

// What the accesses of one instruction cost, and one of its requests as an example.
struct SiteCounter {
    int64_t code;
    Space space;
    Op op;
    int32_t bytes;
    int32_t buffer;           // index of the example's buffer or array
    uint64_t requests, lanes, transactions, ideal;
    uint64_t example_order;   // examples are numbered as they are met, from 1; 0: there is none
    int64_t example[kWarp];   // byte addresses of the lanes, from the start of the buffer or array; -1: idle
};

struct Result {
    const Report* reports;
    const WarpState* states;
    const SiteCounter* counters;
    int64_t report_count, state_count, counter_count;
    uint64_t barriers, ctas, steps;
};

}   // namespace emulator
