// What the asynchronous units of one CTA have under way: TMA loads into it, its TMA stores, its wgmma.
#pragma once
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hazards.h"
#include "wgmma.h"

namespace emulator {

// The TMA stores of one thread: those of no group yet, and its groups that it has not waited for.
struct StoreGroups {
    using Group = std::vector<std::shared_ptr<PendingStore>>;
    Group open;
    std::deque<Group> committed;
};

struct AsyncState {
    bool ready = false;   // it belongs to the CTA that runs now, see used_state
    ChunkMap chunks;
    std::list<LoadInFlight> loads;
    std::vector<std::shared_ptr<PendingStore>> stores;   // of all threads
    std::unordered_map<int, StoreGroups> groups;         // by the linear index of the thread
    std::deque<Warpgroup> warpgroups;
    uint64_t proxy_fences = 0;                           // that threads of the CTA have executed
    std::unordered_map<int, uint64_t> fences_seen;       // of the threads that store: proxy_fences at their last wait
    std::unordered_map<uint32_t, uint64_t> shown;        // by offset: a hash of what the last store there could read
    uint32_t matrix_registers[2][32][kWarp][4];          // exchanged by stmatrix: two turns, warps, lanes
    std::vector<uint8_t> matrix_turn;                    // of each thread
};

// The state of a CTA, made new if this is its first use: most kernels have none.
AsyncState& used_state(Cta& cta);

// Whether a wgmma holds the thread's accumulator at this address; nullptr: any of its accumulators.
bool wgmma_holds(const Thread& thread, const void* address);
// Whether a wgmma has given this thread a NaN as a result.
bool wgmma_gave_nan(const Thread& thread);

// A thread exits: reports stores and wgmma that it has not waited for.
void tma_thread_exits(Thread& thread);
void wgmma_thread_exits(Thread& thread);

}   // namespace emulator
