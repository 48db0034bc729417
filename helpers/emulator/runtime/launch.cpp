#include "launch.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iterator>
#include <unordered_map>

#include "cluster.h"
#include "signals.h"
#include "worker.h"

namespace emulator {
namespace {

// How often a worker that does not stop is interrupted again.
constexpr auto kInterruptInterval = std::chrono::milliseconds(10);

// Each worker has a stack and a guard page for each thread of a CTA: two of the 65,530 mappings that Linux allows a
// process. Sixteen workers of 1,024 threads take half.
constexpr int64_t kMaxWorkers = 16;

int64_t product(const uint32_t (&size)[3]) { return int64_t(size[0]) * size[1] * size[2]; }

}   // namespace

Launch::Launch(const LaunchSpec& given)
    : spec(given),
      thread_count(int(product(given.block))),
      cta_count(product(given.grid)),
      cluster_size(int(product(given.cluster))),
      memory(given, given.counters != 0),
      last_cta_(INT64_MAX) {
    for (int i = 0; i < spec.array_count; ++i) shared_arrays.add(spec.arrays[i].begin, spec.arrays[i].bytes);
    for (int i = 0; i < spec.variable_count; ++i) {
        own_variables.add(spec.image_begin + spec.variables[i].begin, spec.variables[i].bytes);
    }
}

Launch::~Launch() {
    cancel();
    while (!wait(10)) {
    }
    for (std::thread& thread : os_threads_) thread.join();
}

void Launch::start() {
    const int64_t cluster_count = cta_count / cluster_size;
    const int64_t most = std::max<int64_t>(kMaxWorkers / cluster_size, 1);
    const int64_t count = std::min({std::max<int64_t>(spec.workers, 1), cluster_count, most});
    for (int64_t i = 0; i < count; ++i) {
        std::vector<Worker*> members;
        for (int rank = 0; rank < cluster_size; ++rank) {
            workers_.push_back(std::make_unique<Worker>(*this, rank));
            members.push_back(workers_.back().get());
        }
        clusters_.push_back(std::make_unique<Cluster>(*this, members));
    }
    const std::lock_guard<std::mutex> lock(mutex_);   // no worker ends before all are counted
    const auto is_leader = [&](size_t worker) { return worker % size_t(cluster_size) == 0; };
    size_t leaders = 0;
    try {
        for (size_t i = 0; i < workers_.size(); ++i) {
            if (is_leader(i)) continue;
            os_threads_.emplace_back(&Launch::run_member, this, std::ref(*workers_[i]));
            running_ += 1;
        }
        for (; leaders < clusters_.size(); ++leaders) {
            os_threads_.emplace_back(&Launch::run_clusters, this, leaders);
            running_ += 1;
        }
    } catch (...) {   // no more OS threads: those of clusters without a leader would wait for it for ever
        for (size_t i = leaders * size_t(cluster_size); i < workers_.size(); ++i) workers_[i]->turn.end();
        throw;
    }
}

void Launch::prepare_os_thread(Worker& worker) {
    block_other_signals();
    const std::lock_guard<std::mutex> lock(mutex_);
    worker.os_thread = pthread_self();
}

void Launch::worker_ends(Worker& worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    worker.finished = true;
    running_ -= 1;
    ended_.notify_all();
}

// The OS thread of a cluster's first worker, which also schedules the others. Clusters are dealt out in turn, so that
// which workers run a cluster does not depend on how fast they are.
void Launch::run_clusters(size_t first) {
    const SignalStack signal_stack;
    Worker& leader = *workers_[first * size_t(cluster_size)];
    prepare_os_thread(leader);
    const int64_t count = cta_count / cluster_size, stride = int64_t(clusters_.size());
    for (int64_t number = int64_t(first); number < count; number += stride) {
        if (is_stopped(number * cluster_size) || cancelled) break;
        clusters_[first]->run(number);
    }
    for (int rank = 1; rank < cluster_size; ++rank) (&workers_[first * size_t(cluster_size)])[rank]->turn.end();
    worker_ends(leader);
}

// The OS thread of another worker of a cluster.
void Launch::run_member(Worker& worker) {
    const SignalStack signal_stack;
    prepare_os_thread(worker);
    worker.turn.serve();
    worker_ends(worker);
}

bool Launch::wait(int milliseconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    std::unique_lock<std::mutex> lock(mutex_);
    while (running_ > 0) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= deadline) return false;
        if (!cancelled) {
            ended_.wait_until(lock, deadline);
            continue;
        }
        for (const auto& worker : workers_) {
            if (!worker->finished && worker->os_thread) pthread_kill(worker->os_thread, kInterrupt);
        }
        ended_.wait_until(lock, std::min(deadline, now + kInterruptInterval));
    }
    return true;
}

void Launch::cancel() { cancelled = true; }

void Launch::stop_after(int64_t cta) {
    int64_t last = last_cta_.load();
    while (cta < last && !last_cta_.compare_exchange_weak(last, cta)) {
    }
}

// Makes the addresses of an example relative to the buffer or array that holds them; without one that holds them all,
// the example is dropped.
void Launch::place_example(SiteCounter& counter) const {
    if (counter.example_order == 0) return;
    const Ranges& ranges = counter.space == Space::shared ? shared_arrays : memory.buffers();
    int range = -1;
    for (int64_t& address : counter.example) {
        if (address < 0) continue;
        const int found = ranges.find(uint64_t(address), uint64_t(counter.bytes), range);
        if (found < 0 || (range >= 0 && found != range)) {
            counter.example_order = 0;
            return;
        }
        range = found;
        address -= int64_t(ranges.begin(range));
    }
    counter.buffer = range;
}

// The mbarriers of all CTAs, which mostly are at the same places; each place once.
void Launch::collect_barriers() {
    for (const auto& worker : workers_) {
        for (const BarrierSpec& barrier : worker->barriers_seen) {
            const auto same = [&](const BarrierSpec& other) { return other.offset == barrier.offset; };
            if (std::none_of(barriers_seen_.begin(), barriers_seen_.end(), same)) barriers_seen_.push_back(barrier);
        }
    }
}

const Result& Launch::finish() {
    for (std::thread& thread : os_threads_) thread.join();
    os_threads_.clear();
    memory.copy_back();

    std::unordered_map<int64_t, size_t> place;   // of each site among the counters
    for (const auto& worker : workers_) {
        reports_.merge(worker->reports);
        result_.barriers += worker->barriers;
        result_.ctas += worker->ctas;
        result_.steps += worker->steps;
        for (int i = 0; i < kTotals; ++i) result_.totals[i] += worker->totals[i];
        for (const auto& site : worker->tracer.sites()) {
            const SiteCounter& counter = site->counter;
            const auto [found, is_new] =
                place.try_emplace(counter.code * 2 + int64_t(counter.space), counters_.size());
            if (is_new) {
                counters_.push_back(counter);
                place_example(counters_.back());
                continue;
            }
            SiteCounter& sum = counters_[found->second];
            sum.requests += counter.requests;
            sum.lanes += counter.lanes;
            sum.transactions += counter.transactions;
            sum.ideal += counter.ideal;
            if (counter.example_order != 0) {
                sum.example_order = counter.example_order;
                std::copy_n(counter.example, kWarp, sum.example);
                place_example(sum);
            }
        }
    }
    if (const uint64_t address = memory.stray_write()) {
        Report report;
        report.kind = Kind::stray_write;
        report.buffer = memory.buffers().nearest(address);
        report.offset = int64_t(address - memory.buffers().begin(report.buffer));
        reports_.add(report, 0);
    }
    collect_barriers();
    reports_.list(last_cta_, listed_reports_, listed_states_);
    result_.reports = listed_reports_.data();
    result_.states = listed_states_.data();
    result_.counters = counters_.data();
    result_.mbarriers = barriers_seen_.data();
    result_.mbarrier_count = int64_t(barriers_seen_.size());
    result_.report_count = int64_t(listed_reports_.size());
    result_.state_count = int64_t(listed_states_.size());
    result_.counter_count = int64_t(counters_.size());
    return result_;
}

}   // namespace emulator

// What Python calls. One launch at a time.
namespace {

struct RunningLaunch {
    emulator::FaultHandlers handlers;
    emulator::Launch launch;
    explicit RunningLaunch(const emulator::LaunchSpec& spec) : launch(spec) {}
};

}   // namespace

extern "C" {

int emulator_protocol_version() { return emulator::kProtocolVersion; }

// The sizes of the records, in the order of RECORDS in protocol.py. Returns how many there are.
int emulator_record_sizes(int32_t* out) {
    using namespace emulator;
    const size_t sizes[] = {sizeof(BufferSpec), sizeof(ArraySpec), sizeof(LaunchSpec), sizeof(Place), sizeof(Report),
                            sizeof(WarpState), sizeof(BarrierSpec), sizeof(SiteCounter), sizeof(Result)};
    std::copy(std::begin(sizes), std::end(sizes), out);
    return int(std::size(sizes));
}

// Starts a launch; nullptr if the machine lacks the memory or the threads for it.
RunningLaunch* emulator_start(const emulator::LaunchSpec* spec) {
    try {
        auto running = std::make_unique<RunningLaunch>(*spec);
        running->launch.start();
        return running.release();
    } catch (const std::exception&) {
        return nullptr;
    }
}

int emulator_wait(RunningLaunch* running, int milliseconds) { return running->launch.wait(milliseconds); }

void emulator_cancel(RunningLaunch* running) { running->launch.cancel(); }

// The result stays valid until emulator_free.
const emulator::Result* emulator_finish(RunningLaunch* running) { return &running->launch.finish(); }

void emulator_free(RunningLaunch* running) { delete running; }
}
