// The state of one CTA while it runs: its threads (fibers), warps and barriers.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "../include/emulator/abi.h"
#include "protocol.h"
#include "traffic.h"

namespace emulator {

class Cluster;
class Mbarriers;
class NamedBarriers;
class RegisterPool;
struct AsyncState;
struct Cta;
struct Thread;
struct Worker;

// What a blocked thread waits for. Whoever blocks says how to tell that it may go on; the scheduler only asks, often.
// The answer must depend on nothing but these members: lanes that wait for the same thing are asked once.
struct Wait {
    bool (*ready)(const Wait& wait) = nullptr;   // nullptr: not blocked
    const void* object = nullptr;                // the barrier
    uint64_t ticket = 0;                         // its generation when the wait began
    State state = State::running;                // for reports
    int line = 0;
    void (*describe)(const Wait& wait, WarpState& state) = nullptr;   // adds details to a report's table
    bool is_try = false;   // ends without success when nothing else in the cluster can go on

    bool same_as(const Wait& other) const {
        return ready == other.ready && object == other.object && ticket == other.ticket;
    }
};

// One CUDA thread.
struct Thread {
    void* stack_pointer;
    char* stack_low;
    Cta* cta;
    Wait wait;
    uint3 index;
    int linear, lane, warp;
    int clock;              // its number among the threads of the cluster, for vector clocks
    uint32_t steps;         // memory accesses and synchronisations so far
    uint32_t slice_end;     // gives way to the other lanes when `steps` gets here
    int64_t code;           // where it last gave way amid a long stretch, for reports
    const void* tried;          // the barrier at which a try of this thread ended early, and the phase then
    uint64_t tried_phase;
    const int* looked_at;       // by its last relaxed load, and by how many in a row
    uint32_t looks;
    uint64_t cluster_phase;     // cluster barriers it has passed
    uint64_t setmaxnregs;       // calls of setmaxnreg
    int cluster_arrive_line;    // of its arrival that it has not waited for; 0: none
    bool started, exited;
    bool waited_for_launch;     // has executed griddepcontrol.wait
};

// A rendezvous of all threads of a CTA.
struct BlockBarrier {
    int arrived = 0;
    uint64_t generation = 0;
    int first_thread = -1, first_line = 0;   // who came first, to compare the others with
};

// A rendezvous of the lanes in a mask, at which each may leave a value for the others.
struct WarpBarrier {
    uint32_t mask = 0;
    uint32_t arrived = 0;
    uint64_t generation = 0;
    // Two sets of values: a fast lane may be at the next exchange while a slow one still reads from this.
    uint64_t values[2][kWarp];
    uint32_t present[2] = {};    // lanes that left a value
    uint64_t ordered = 0;        // the last generation that ordered memory accesses
};

struct Warp {
    // The few different things that its lanes wait for, so that not every lane has to be asked.
    static constexpr int kWaits = 3;

    int first;               // linear index of its first thread
    int size;                // threads: 32, fewer in a last partial warp
    uint32_t live;           // lanes that have not exited
    uint32_t epoch;          // counts barriers of the CTA and of the warp; orders shared-memory accesses
    std::vector<WarpBarrier> barriers;   // one per mask in use, usually none or one
    int wait_count;          // of `waits`; -1: unknown or more, ask every lane
    Wait waits[kWaits];
};

// The last read of a CTA's shared memory by another CTA, for launches in which accesses are not ordered.
struct RemoteRead {
    Place place;
    uint64_t cluster_phases = 0;  // of the reading thread, see cluster_phases_of
    bool is_open = false;         // the owner may not know yet that it is over
};

struct Cta {
    Worker* worker;
    Cluster* cluster;
    int rank;                // in its cluster
    int64_t number;          // of its cluster x CTAs in a cluster + rank. Without clusters: linear index in the grid
    uint3 index;
    char* shared;            // its shared memory
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    BlockBarrier barrier;
    std::shared_ptr<Mbarriers> mbarriers;
    std::shared_ptr<NamedBarriers> named_barriers;
    std::shared_ptr<RegisterPool> registers;
    std::shared_ptr<AsyncState> async_state;
    int live;                // threads that have not exited
    uint32_t epoch;          // counts barriers; never repeats in a worker
    uint32_t syncs;          // barriers of several warps so far: __syncthreads, named barriers, the cluster's
    uint64_t released_cluster_phase;   // the last barrier of the cluster, from 1, to which a thread came with a release
    std::vector<RemoteRead> remote_reads;   // by the reader's rank; empty: there were none

    bool has_exited() const { return live == 0; }
};

// In a report: which CTA is meant.
inline void name_cta(uint32_t (&name)[3], const Cta& cta) {
    name[0] = cta.index.x;
    name[1] = cta.index.y;
    name[2] = cta.index.z;
}

// The thread whose fiber runs on the calling OS thread, or nullptr between fibers.
extern thread_local Thread* current_thread __attribute__((tls_model("initial-exec")));

// Gives way to other threads until the calling thread's wait is over.
void give_way(Thread& thread);

// Blocks the calling thread until wait.ready says that it may go on. (Member by member: a copy by whole vectors of what
// has just been written by members would wait for the store buffer, at every barrier of every thread.)
inline __attribute__((always_inline)) void block_on(Thread& thread, const Wait& wait) {
    thread.wait.ready = wait.ready;
    thread.wait.object = wait.object;
    thread.wait.ticket = wait.ticket;
    thread.wait.state = wait.state;
    thread.wait.line = wait.line;
    thread.wait.describe = wait.describe;
    thread.wait.is_try = wait.is_try;
    give_way(thread);
}

}   // namespace emulator
