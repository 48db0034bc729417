// The records that Python and the runtime exchange. helpers/emulator/protocol.py has the same fields in the same
// order; the version number and the records' sizes catch a mismatch (emulator_record_sizes in launch.cpp).
#pragma once
#include <cstdint>

namespace emulator {

constexpr int32_t kProtocolVersion = 8;
constexpr int kWarp = 32;

// A pointer argument: an array of the caller, replaced by a guarded copy during the launch.
struct BufferSpec {
    void* host;
    uint64_t bytes;
    void** argument;     // where the kernel's pointer is stored
    int32_t writable;
    int32_t is_list;      // of int: made by the host, and written by no launch
};

// A shared array: a range of the CTA's shared memory. Or a variable of the kernel's file: a range of its library.
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
    uint32_t grid[3], block[3], cluster[3];
    int32_t uses_hopper;         // whether the kernel includes hopper.cuh: races are then found by vector clocks
    int32_t registers;           // per thread at launch, as __launch_bounds__ gives them; 0: unknown
    int32_t dependent;           // whether the launch before may still be at work: see dependent.h
    int32_t sms;                 // of the GPU that is played: what sm_number() stays below
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
    const ArraySpec* variables;
    int32_t buffer_count, array_count, variable_count;
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
    // 20-39: synchronisation (words_sync.py says them)
    barrier_uninitialised = 20,   // used before mbarrier_init, or after mbarrier_inval
    barrier_reinitialised = 21,   // mbarrier_init twice with no mbarrier_inval between
    barrier_overwritten = 22,     // something else was written to its 8 bytes
    barrier_address = 23,         // not in shared memory, or not a multiple of 8
    barrier_count = 24,           // an arrival count or a parity outside of its range
    barrier_arrivals = 25,        // more arrivals in a phase than it was initialised for
    barrier_bytes = 26,           // its count of bytes under way leaves its range
    barrier_unsynchronised = 27,  // its initialisation is not visible to who uses it: no fence or no barrier between
    named_barrier = 28,           // bar.sync with a wrong number or count
    cluster_barrier = 29,         // arrive and wait not in turn
    exited_cta = 30,              // a barrier of a CTA that has exited, or may have, is used by another
    exit_bytes = 31,              // a CTA exits while a barrier still waits for bytes
    exit_unwaited = 32,           // a CTA exits while data is on its way, or has come but nobody waited for it
    register_budget = 33,         // setmaxnreg against its rules
    proxy_fence = 34,             // generic writes read by the async proxy with no fence.proxy.async between
    async_race = 35,              // an asynchronous copy and another access with no barrier between
    barrier_scope = 36,           // a wait with the scope of its CTA for arrivals from another
    cluster_rank = 37,            // a read of the shared memory of a CTA that the cluster does not have, or st_async
    cluster_unwritten = 38,       // a read of another CTA's shared memory to which nothing was written
    early_access = 39,            // of global memory, in a dependent launch, by a thread that has not waited
    // 40-69: asynchronous data (words_async.py)
    tensor_map = 40,            // a tensor map that cannot be used
    tma_alignment = 41,         // the shared-memory side of a copy
    multicast_mask = 42,        // names a CTA that the cluster does not have
    store_read_only = 43,       // a TMA store to an array that is only read
    load_over_wgmma = 44,       // a TMA load overwrites what a wgmma may still read
    load_over_load = 45,        // ... what another load has yet to write
    load_over_store = 46,       // ... what a TMA store may still read
    wgmma_before_load = 47,     // an operand of wgmma that a load has yet to write
    store_before_load = 48,     // the same of a TMA store
    write_over_store = 49,      // stmatrix overwrites what a TMA store may still read
    write_over_wgmma = 50,      // ... what a wgmma may still read
    store_unwritten = 51,       // a TMA store reads memory to which nothing was written
    wgmma_unwritten = 52,       // the same of wgmma
    store_without_fence = 53,   // a TMA store with no fence.proxy.async since the last
    store_undrained = 54,       // a thread exits without having waited for its TMA stores
    wgmma_undrained = 55,       // the same of wgmma
    wgmma_unfenced = 56,        // wgmma without wgmma.fence after an access to its accumulators
    wgmma_mismatch = 57,        // threads of a warpgroup give one wgmma different operands
    wgmma_incomplete = 58,      // wgmma in a warpgroup of less than 128 threads
    accumulator_written = 59,   // while a wgmma has it
    accumulator_read = 60,
    accumulator_unset = 61,     // added to, but never given a value
    wgmma_descriptor = 62,      // a descriptor that means nothing, or that the emulator does not know
    swizzle_mismatch = 63,      // the descriptor's swizzle is not that of the load
    wgmma_out_of_bounds = 64,   // an operand reaches beyond shared memory's arrays
    tma_coordinate = 65,        // a box that begins amid 16 bytes of a row
    cache_policy = 66,          // a hint for the L2 cache that no createpolicy made
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
    int32_t detail = 0;     // a crash: the signal. A standstill: threads that wait at __syncthreads. Others: see the words
    int32_t state_count = 0;
    uint32_t cta[3] = {};
    uint32_t other_cta[3] = {};
    uint32_t owner[3] = {};   // of the shared memory, if that is not `cta`:
    int32_t has_owner = 0;
    int64_t first_state = 0;
    int64_t count = 1;      // how often it happened
    Place place, other;
    int32_t barrier = -1;   // an mbarrier: its offset in shared memory, or -1
    int32_t barrier_line = 0;   // of its mbarrier_init, 0: none
    int64_t values[8] = {};     // by kind; see the words
};

enum class State : int32_t {
    not_started = 0,
    running = 1,
    exited = 2,
    syncthreads = 3,
    syncwarp = 4,
    // 20-39: synchronisation
    mbarrier = 20,
    named_barrier = 21,
    cluster_barrier = 22,
    registers = 23,
    warpgroup = 24,   // waits for the other warps of its warpgroup
    // 40-69: asynchronous data
    wgmma = 40,
};

// Where some lanes of a warp are; a table of these is part of some reports.
struct WarpState {
    int32_t warp;
    uint32_t lanes;
    State state;
    int32_t barrier = -1;    // an mbarrier: its offset in shared memory, or -1
    uint32_t cta[3] = {};
    int32_t reserved = 0;
    Place place;
    int64_t values[6] = {};  // by state; see the words
};

// An mbarrier that some CTA initialised: so that reports can name it.
struct BarrierSpec {
    int32_t offset;   // in shared memory
    int32_t line;     // of its mbarrier_init
    int32_t order;    // among the CTA's initialisations
    int32_t reserved;
};

// Sums over all CTAs that are not of one source line. Their names: protocol.py.
enum class Total : int32_t {
    mbarrier_arrivals = 0,
    mbarrier_waits = 1,
    mbarrier_waits_blocked = 2,   // those that found their phase not complete
    cluster_barriers = 3,
    named_barriers = 4,
    cluster_load_bytes = 5,       // read from other CTAs' shared memory
    // 10-31: asynchronous data
    tma_load_boxes = 10,
    tma_load_bytes = 11,              // of the boxes, each counted once also if several CTAs get it
    tma_multicast_bytes_saved = 12,   // what the other CTAs of multicasts would have loaded
    tma_store_boxes = 13,
    tma_store_bytes = 14,             // of the boxes
    tma_oob_bytes = 15,               // of both, what lies outside of the matrix: it is not read or written there
    wgmma_instructions = 16,          // each by a whole warpgroup
    wgmma_flops = 17,
};
constexpr int kTotals = 32;

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
    const BarrierSpec* mbarriers;
    int64_t report_count, state_count, counter_count, mbarrier_count;
    uint64_t barriers, ctas, steps;
    uint64_t totals[kTotals];
};

}   // namespace emulator
