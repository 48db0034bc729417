// Vector clocks of a cluster; see ordering.h for what they are for.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "async_marks.h"
#include "clock.h"
#include "cta.h"

namespace emulator {

enum class AsyncReader : int32_t;
enum class AsyncWriter : int32_t;
struct Mbarrier;
struct Site;

// What those know that have come to a barrier, and what those knew that came to it before.
struct Meeting {
    Clock coming, passed;
};

// A thread's read of another CTA's shared memory.
struct OrderedRead {
    int thread = -1;               // its number in the cluster
    uint32_t time = 0;             // of its clock
    int line = 0;
    uint64_t cluster_phases = 0;   // see cluster_phases_of
};

// Components of a clock, in this order: threads of all CTAs; mbarriers as they are initialised (phases completed); for
// each CTA its warps twice: reads by wgmma that are over for the warp, since wgmma_wait_group speaks for the warp that
// waits, and reads by its TMA stores.
class Ordering {
public:
    Ordering(int ctas, int threads, uint64_t shared_bytes);

    // A new cluster: nothing has happened yet.
    void begin();

    // Barriers. A thread arrives, which makes what it did known to those who leave after the barrier was passed.
    void arrive(Meeting& meeting, Thread& thread);
    // A relaxed arrival makes no accesses by threads known, only that asynchronous ones are over.
    void arrive_relaxed(Meeting& meeting, const Thread& thread);
    void pass(Meeting& meeting);
    void leave(const Meeting& meeting, Thread& thread);
    Meeting& block_meeting(const Cta& cta) { return block_meetings_[size_t(cta.rank)]; }
    Meeting& warp_meeting(const Thread& thread);
    Meeting& cluster_meeting() { return cluster_meeting_; }

    // mbarriers.
    void barrier_initialised(Mbarrier& barrier);
    void release_to(Mbarrier& barrier, Thread& thread, bool release);
    void phase_completed(const Mbarrier& barrier);
    void acquire_from(const Mbarrier& barrier, Thread& thread);
    // Whether a thread knows, before it waits, that the last phase of a barrier with a component is over.
    bool knows_phase(const Thread& thread, const Mbarrier& barrier) const;

    // An access by a thread to its CTA's shared memory: finds races with asynchronous accesses. The Shadow finds those
    // with other threads.
    void generic_access(Thread& thread, uint64_t offset, int bytes, Op op, const Site& site);

    // A read of another CTA's shared memory: finds races with what its threads and TMA have written there.
    void remote_read(Thread& reader, Cta& owner, uint32_t offset, uint32_t bytes, int array, uint64_t cluster_phases,
                     int line);
    // Whether a thread or TMA has written in a range.
    bool is_written(const Cta& owner, uint32_t offset, uint32_t bytes);
    // Calls visit(read) for the reads by other CTAs of which no thread of the owner knows that they are over.
    template <class Visit>
    void for_unknown_reads(const Cta& owner, Visit&& visit) const {
        if (remote_reads_[size_t(owner.rank)].empty()) return;
        Clock all(components_);
        for (const Thread& thread : owner.threads) join_components(all.known, clock_of(thread).known);
        for (const auto& [granule, reads] : remote_reads_[size_t(owner.rank)]) {
            for (const OrderedRead& read : reads) {
                if (all.known[size_t(read.thread)] < read.time) visit(read);
            }
        }
    }
    // Whether some thread of a CTA knows what a thread has done at that time of its clock.
    bool is_known_to(const Cta& cta, const Thread& thread, uint32_t time) const {
        for (const Thread& own : cta.threads) {
            if (clock_of(own).known[size_t(thread.clock)] >= time) return true;
        }
        return false;
    }
    // A thread by its number in the cluster.
    Thread& thread_of(const Cluster& cluster, int number) const;

    // See ordering.h.
    void write_issued(Thread& issuer, Cta& to, uint32_t offset, uint32_t bytes, uint32_t barrier_offset,
                      AsyncWriter writer, int line);
    void write_done(Cta& to, uint32_t offset, uint32_t barrier_offset, AsyncWriter writer);
    uint32_t read_issued(Thread& issuer, uint32_t offset, uint32_t bytes, AsyncReader reader, int line);
    void read_done(Thread& waiter, AsyncReader reader, uint32_t ticket);
    void proxy_fence(Thread& thread);

    // The clock of a thread: its own component counts its releases and fences, and is the time of
    // its accesses.
    const Clock& clock_of(const Thread& thread) const { return clocks_[size_t(thread.clock)]; }
    uint32_t now(const Thread& thread) const { return clock_of(thread).known[size_t(thread.clock)]; }
    // Whether a thread knows of an access by another thread of its CTA at that time.
    bool knows(const Thread& thread, int linear, uint32_t time) const {
        return clock_of(thread).known[size_t(thread.cta->rank * threads_ + linear)] >= time;
    }

private:
    static constexpr int kBarriers = 64;   // of a CTA that have a component; the loads of others are not ordered

    // Readers of a CTA: its warpgroups (wgmma) and then its warps (TMA stores).
    size_t reader_of(const Thread& thread, AsyncReader kind) const;
    bool is_wgmma(size_t reader) const;
    // The components that say a reader's reads are over: all of [first, last].
    void components_of(const Cta& cta, size_t reader, size_t& first, size_t& last) const;
    bool knows_read(const Clock& clock, const Cta& cta, size_t reader, uint32_t ticket) const;
    bool is_over(const Cta& cta, size_t reader, uint32_t ticket) const;
    // The threads that an operation of `issuer` stands for: its warpgroup, or itself.
    void threads_of(const Thread& issuer, AsyncReader reader, int& first, int& last) const;
    void join(Clock& to, const Clock& from);
    void report(Thread& thread, const Cta& owner, const AsyncConflict& conflict);
    // Calls visit(read, offset) for the remembered reads of a range by other CTAs.
    template <class Visit>
    void for_remote_reads(const Cta& owner, uint32_t offset, uint32_t bytes, Visit&& visit) const;
    bool knows_landed(const Thread& reader, const AsyncWrite& write) const;

    const int ctas_, threads_, warps_, readers_;
    const size_t first_barrier_, first_reader_, components_;
    bool has_fences_ = false;       // some thread has published something
    int barrier_count_ = 0;
    std::vector<Clock> clocks_;     // of the threads
    std::vector<Meeting> block_meetings_, warp_meetings_, barrier_meetings_;
    Meeting cluster_meeting_;
    std::vector<AsyncMarks> marks_;              // by rank
    // By rank, and by granule of AsyncMarks: reads by other CTAs, of each thread the last.
    std::vector<std::unordered_map<uint32_t, std::vector<OrderedRead>>> remote_reads_;
    // By mbarrier's component: who has waited for which phase, and when.
    struct Wait {
        uint32_t phase, time;
        int thread;
    };
    std::vector<std::vector<Wait>> waits_;
    std::vector<uint32_t> tickets_;              // of each reader of each CTA: reads issued
    std::vector<uint32_t> over_;                 // by component, from first_reader_ on: reads known to be over
};

}   // namespace emulator
