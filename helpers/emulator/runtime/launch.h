// One launch: what is common to all its CTAs, and the OS threads that run them.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory.h"
#include "protocol.h"
#include "report.h"

namespace emulator {

class Cluster;
struct Worker;

class Launch {
public:
    explicit Launch(const LaunchSpec& spec);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    void start();
    // Waits until all CTAs are done or the time is over; returns whether they are done.
    bool wait(int milliseconds);
    // Asks all workers to stop; `wait` until they have.
    void cancel();
    // After the end: gives the buffers back to the caller's arrays and returns the reports and counters.
    const Result& finish();

    // A report that ends the launch: CTAs after this one, the last of its cluster, are not started any more. Those
    // before it run on, so that the same CTA is blamed whatever the OS threads' order.
    void stop_after(int64_t cta);
    bool is_stopped(int64_t cta) const { return cta > last_cta_.load(std::memory_order_relaxed); }
    // Whether an address is of the kernel's own library, where its file's constants and variables live, or lies so many
    // bytes behind it.
    bool is_in_library(uint64_t address, uint64_t bytes_behind = 0) const {
        return address - spec.image_begin < spec.image_bytes + bytes_behind;
    }

    const LaunchSpec spec;
    const int thread_count;   // per CTA
    const int64_t cta_count;
    const int cluster_size;   // CTAs in a cluster
    Memory memory;
    Ranges shared_arrays;
    Ranges own_variables;     // of the kernel's file
    std::atomic<bool> cancelled{false};

private:
    void place_example(SiteCounter& counter) const;
    void run_clusters(size_t first);
    void run_member(Worker& worker);
    void prepare_os_thread(Worker& worker);
    void worker_ends(Worker& worker);
    void collect_barriers();

    std::atomic<int64_t> last_cta_;
    std::vector<std::unique_ptr<Worker>> workers_;     // one for each CTA that runs at a time, cluster by cluster
    std::vector<std::unique_ptr<Cluster>> clusters_;   // those that run at a time
    std::vector<std::thread> os_threads_;
    std::mutex mutex_;
    std::condition_variable ended_;
    int running_ = 0;
    Reports reports_;
    std::vector<Report> listed_reports_;
    std::vector<WarpState> listed_states_;
    std::vector<SiteCounter> counters_;
    std::vector<BarrierSpec> barriers_seen_;
    Result result_{};
};

}   // namespace emulator
