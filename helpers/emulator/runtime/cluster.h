// A cluster: CTAs that run together. Without clusters, one CTA.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "async.h"
#include "cta.h"
#include "random.h"

namespace emulator {

class Launch;
class Ordering;

// A rendezvous of all threads of a cluster that have not exited, in two steps: arrive, and wait for the others.
struct ClusterBarrier {
    int arrived = 0;           // threads that have not exited
    uint64_t phase = 0;        // how often it has been passed
};

// Runs one cluster after the other: decides whose turn it is and when asynchronous operations happen.
//
// Shared memory belongs to an OS thread, so each CTA of the cluster has a worker with its own OS thread. Exactly one of
// them runs at a time: the scheduler, on the first worker's thread, hands each worker its turn and waits for its end.
class Cluster {
public:
    Cluster(Launch& launch, std::vector<Worker*> workers);
    ~Cluster();
    Cluster(const Cluster&) = delete;
    Cluster& operator=(const Cluster&) = delete;

    // Runs the cluster of this number to its end, or to a report that ends it. On the first worker's OS thread.
    void run(int64_t number);

    // For operations and threads of the cluster ---------------------------------------------------------------------

    int size() const { return int(ctas.size()); }
    // Issues an asynchronous operation; see AsyncQueue.
    void issue(std::unique_ptr<AsyncOperation> operation);
    // nullptr: this launch does not look for races by vector clocks.
    Ordering* ordering() const { return ordering_.get(); }

    std::vector<Cta*> ctas;   // by rank
    AsyncQueue async;
    ClusterBarrier barrier;
    bool stopped = false;     // a report ended it
    uint64_t events = 0;      // what may let a thread go on: barriers passed, operations completed, threads ended
    Random random;

private:
    template <class Work>
    void on_its_thread(int rank, Work&& work);
    void begin(int64_t number);
    bool run_all_ctas();
    bool end_tries();
    void order_ctas();
    bool is_over() const;

    Launch& launch_;
    std::vector<Worker*> workers_;
    std::vector<int> cta_order_;
    std::unique_ptr<Ordering> ordering_;
    int64_t idle_tries_ = 0;   // rounds in which nothing happened but tries that failed
    uint64_t events_at_last_tries_ = 0;
};

// The cluster's barriers to which a thread has come, so that what it does now comes after its arrivals there; also at
// one for which it has not waited.
inline uint64_t cluster_phases_of(const Thread& thread) {
    return thread.cluster_phase + (thread.cluster_arrive_line != 0 ? 1 : 0);
}

// A thread arrives at the cluster's barrier, or waits until all have.
void cluster_barrier_arrive(Thread& thread, bool release, int line);
void cluster_barrier_wait(Thread& thread, int line);
// A thread's function has returned: the cluster's barrier no longer waits for it.
void cluster_thread_exits(Thread& thread);

}   // namespace emulator
