// Vector clocks of a cluster; see ordering.h for what they are for.
#pragma once
#include <cstdint>

#include "cta.h"

namespace emulator {

struct Mbarrier;

// What the threads know that come to a barrier, and what they knew that came to the last one.
struct Meeting {};

class Ordering {
public:
    Ordering(int ctas, int threads, uint64_t shared_bytes);

    // A new cluster: nothing has happened yet.
    void begin();

    void cluster_barrier_arrive(Thread& thread, bool release);
    void cluster_barrier_passed();
    void cluster_barrier_wait(Thread& thread);
    void arrive(Meeting& meeting, Thread& thread);
    void passed(Meeting& meeting);
    void leave(const Meeting& meeting, Thread& thread);
    void barrier_initialised(Mbarrier& barrier);
    void release_to(Mbarrier& barrier, Thread& thread, bool release);
    void phase_completed(Mbarrier& barrier);
    void acquire_from(const Mbarrier& barrier, Thread& thread);
};

}   // namespace emulator
