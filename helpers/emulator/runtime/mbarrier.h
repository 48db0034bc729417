// Barriers in shared memory (mbarrier): phases that complete when all arrivals and all announced bytes have come.
//
// The state is kept beside the barrier's 8 bytes, by its offset; the bytes hold a mark, so that it is noticed when
// something else is written there.
#pragma once
#include <cstdint>
#include <vector>

#include "async.h"
#include "cta.h"
#include "ordering.h"

namespace emulator {

// An arrival from another CTA, if accesses are ordered.
struct RemoteArrival {
    const Thread* thread;
    uint32_t time;            // of that thread's clock
    int line;
    uint64_t phase;           // of the barrier, counted from 1
    uint64_t cluster_phases;  // see cluster_phases_of
};

// The last st_async from another CTA whose bytes have come.
struct RemoteNumber {
    uint64_t phase = 0;       // of the barrier, counted from 1; 0: there was none
    Place place;
    const Cta* cta = nullptr;
};

struct Mbarrier {
    uint32_t offset = 0;
    uint32_t expected = 0;     // arrivals of a phase
    uint32_t pending = 0;      // arrivals that are missing in this phase
    int64_t bytes = 0;         // announced and not arrived; below 0 while data came before it was announced
    uint64_t phase = 0;        // phases completed
    bool valid = false;
    bool fenced = false;       // fence_mbarrier_init (or a proxy fence) came after its initialisation
    bool released = false;     // that, or a releasing arrival at the cluster's barrier
    int line = 0;              // of its mbarrier_init
    int thread = -1;           // that initialised it
    uint32_t syncs = 0;        // Cta::syncs at that time
    uint32_t time = 0;         // of that thread's clock
    uint64_t cluster_phase = 0;       // Thread::cluster_phase of that thread at that time
    uint64_t data_phase = 0;          // the last phase that completed with bytes, counted from 1; 0: none
    uint64_t waited_phase = 0;        // the last phase that a thread has waited for, counted from 1
    uint64_t remote_phase = 0;        // the phase of the last arrival from another CTA, counted from 1; 0: none
    uint64_t remote_cluster_phase = 0;   // cluster barriers to which that CTA's thread had arrived, at most
    Place remote;                     // that thread
    const Cta* remote_cta = nullptr;
    std::vector<RemoteArrival> remote_arrivals;   // of each thread the last
    bool ended_remotely = false;      // the last phase that completed had an arrival from another CTA:
    Place ended_remote;               // that one
    const Cta* ended_remote_cta = nullptr;
    uint64_t ended_remote_cluster_phase = 0;
    RemoteNumber number, ended_number;   // the last, and that of the last phase that completed with one
    uint64_t waited_phase_of_cluster = 0;   // the last phase that a thread has waited for with the cluster's scope
    bool carried_bytes = false;       // bytes were announced for this phase, or came in it
    int bytes_line = 0;               // where bytes were announced last
    Place last_arrival;
    int meeting = -1;                 // where those who arrive leave what they know, if accesses are ordered
    int component = -1;               // in vector clocks; the first barriers of a cluster have one
    uint64_t phases_before = 0;       // completed by barriers that lay here before it
};

// The mbarriers of one CTA.
class Mbarriers {
public:
    explicit Mbarriers(uint64_t shared_bytes) : index_(shared_bytes / 8 + 1, 0) {}

    void clear();
    // The record at an offset that is a multiple of 8; nullptr if there never was a barrier.
    Mbarrier* find(uint32_t offset) {
        const uint16_t place = index_[offset / 8];
        return place == 0 ? nullptr : &barriers_[size_t(place) - 1];
    }
    // The record at an offset, new if there is none; nullptr if there are too many.
    Mbarrier* add(uint32_t offset);
    // A thread makes the initialisations that it knows of visible to the async proxy.
    void fence(const Thread& thread);
    // The same, visible to the threads of the cluster.
    void release(const Thread& thread);
    const std::vector<Mbarrier>& all() const { return barriers_; }

private:
    static constexpr size_t kMost = 4096;
    std::vector<uint16_t> index_;       // by offset / 8: place in barriers_ + 1
    std::vector<Mbarrier> barriers_;    // never moves: room for kMost from the start
};

// For asynchronous operations -----------------------------------------------------------------------------------

// A thread issues an operation that will signal this barrier of CTA `to` (itself or another of the cluster). Reports a
// barrier that is not initialised or not visible there, and a CTA that has exited. Returns whether it may be used; the
// issuing thread has not been stopped.
bool barrier_used_by_async(Thread& issuer, Cta& to, uint32_t barrier_offset, AsyncWriter writer, int line);

// Bytes have landed in `to`. Returns whether this completed the barrier's phase. `origin` is who issued the operation.
bool barrier_complete_tx(Cta& to, uint32_t barrier_offset, uint32_t bytes, AsyncWriter writer, const Origin& origin);

// For the runtime -----------------------------------------------------------------------------------------------

// The last thread of a CTA has exited: reports barriers that still expect something.
void mbarriers_cta_exits(Thread& last);

}   // namespace emulator
