#include "cluster.h"

#include <utility>

#include "launch.h"
#include "mbarrier.h"
#include "ordering_state.h"
#include "standstill.h"
#include "worker.h"

namespace emulator {
namespace {

// Tries that fail while nothing else happens are a loop without end.
constexpr int64_t kMostIdleTries = 1000;

bool always(const Wait&) { return true; }

bool is_eager_or_lazy(const Launch& launch) { return launch.spec.schedule != Schedule::random; }

}   // namespace

Cluster::Cluster(Launch& launch, std::vector<Worker*> workers) : launch_(launch), workers_(std::move(workers)) {
    for (Worker* worker : workers_) {
        worker->cta.cluster = this;
        ctas.push_back(&worker->cta);
    }
    cta_order_.resize(workers_.size());
    if (launch.spec.counters && launch.spec.uses_hopper) {
        ordering_ = std::make_unique<Ordering>(size(), launch.thread_count, launch.spec.shared_bytes);
    }
}

Cluster::~Cluster() = default;

void Cluster::issue(std::unique_ptr<AsyncOperation> operation) {
    async.issue(std::move(operation), launch_.spec.schedule);
}

// Does something for a CTA on the OS thread to which its shared memory belongs.
template <class Work>
void Cluster::on_its_thread(int rank, Work&& work) {
    if (rank == 0) {
        work();
    } else {
        workers_[size_t(rank)]->turn.give([](void* subject) { (*static_cast<Work*>(subject))(); }, &work);
    }
}

void Cluster::begin(int64_t number) {
    const LaunchSpec& spec = launch_.spec;
    const int64_t clusters_x = spec.grid[0] / spec.cluster[0], clusters_y = spec.grid[1] / spec.cluster[1];
    const uint32_t at[3] = {uint32_t(number % clusters_x), uint32_t(number / clusters_x % clusters_y),
                            uint32_t(number / clusters_x / clusters_y)};
    async.clear();
    barrier = {};
    stopped = false;
    events = 0;
    idle_tries_ = 0;
    random = Random(spec.seed * 0x100000001b3ull + uint64_t(number * size()));
    if (ordering_) ordering_->begin();
    for (int rank = 0; rank < size(); ++rank) {
        const uint32_t r = uint32_t(rank);
        const uint3 index = {at[0] * spec.cluster[0] + r % spec.cluster[0],
                             at[1] * spec.cluster[1] + r / spec.cluster[0] % spec.cluster[1],
                             at[2] * spec.cluster[2] + r / spec.cluster[0] / spec.cluster[1]};
        on_its_thread(rank, [&] { workers_[size_t(rank)]->begin(number * size() + rank, index); });
    }
}

bool Cluster::is_over() const {
    for (const Cta* cta : ctas) {
        if (!cta->has_exited()) return false;
    }
    return true;
}

void Cluster::run(int64_t number) {
    begin(number);
    while (!is_over() && !stopped) {
        if (launch_.cancelled) {
            report_cancelled(*this, nullptr);
        } else if (launch_.is_stopped(ctas[0]->number)) {
            break;
        } else if (run_all_ctas() || stopped || launch_.cancelled) {
            continue;
        } else if (async.complete_one(launch_.spec.schedule, random)) {
            events += 1;
        } else if (!end_tries()) {
            report_standstill(*this);
        }
    }
    async.clear();   // while what the operations refer to still exists
    for (Worker* worker : workers_) worker->end();
}

// In the same spirit as the order of warps: see Worker::order_warps.
void Cluster::order_ctas() {
    const int count = size();
    for (int i = 0; i < count; ++i) cta_order_[size_t(i)] = launch_.spec.schedule == Schedule::lazy ? count - 1 - i : i;
    if (is_eager_or_lazy(launch_)) return;
    for (int i = count; i > 1; --i) std::swap(cta_order_[size_t(i - 1)], cta_order_[random.below(uint32_t(i))]);
}

bool Cluster::run_all_ctas() {
    if (size() == 1) return workers_[0]->run_all_warps();
    bool progress = false;
    order_ctas();
    for (int rank : cta_order_) {
        Worker& worker = *workers_[size_t(rank)];
        if (!worker.can_go_on()) continue;   // handing over the turn is slow
        on_its_thread(rank, [&] {
            // A whole stretch at a time, for the same reason; a random schedule has shorter turns.
            const bool until_blocked = is_eager_or_lazy(launch_);
            while (worker.run_all_warps() && until_blocked && !stopped && !launch_.cancelled) {
            }
        });
        progress = true;
        if (stopped || launch_.cancelled) break;
    }
    return progress;
}

// Nothing else can happen: the tries end without success. Returns false if there are none, or if that has led nowhere.
bool Cluster::end_tries() {
    if (events != events_at_last_tries_) idle_tries_ = 0;
    events_at_last_tries_ = events;
    if (++idle_tries_ > kMostIdleTries) return false;
    bool some = false;
    for (Cta* cta : ctas) {
        for (Thread& thread : cta->threads) {
            if (thread.exited || !thread.wait.is_try) continue;
            thread.wait.ready = always;
            cta->warps[size_t(thread.warp)].wait_count = -1;
            some = true;
        }
    }
    return some;
}

// The cluster's barrier -----------------------------------------------------------------------------------------

namespace {

int live_threads(const Cluster& cluster) {
    int live = 0;
    for (const Cta* cta : cluster.ctas) live += cta->live;
    return live;
}

bool has_passed(const Wait& wait) { return static_cast<const ClusterBarrier*>(wait.object)->phase != wait.ticket; }

void describe(const Wait& wait, WarpState& state) {
    const ClusterBarrier& barrier = *static_cast<const ClusterBarrier*>(wait.object);
    state.values[0] = barrier.arrived;
}

void release_if_complete(Cluster& cluster) {
    ClusterBarrier& barrier = cluster.barrier;
    if (barrier.arrived == 0 || barrier.arrived < live_threads(cluster)) return;
    barrier.arrived = 0;
    barrier.phase += 1;
    cluster.events += 1;
    cluster.ctas[0]->worker->add_total(Total::cluster_barriers);
    for (Cta* cta : cluster.ctas) cta->syncs += 1;
    if (Ordering* ordering = cluster.ordering()) ordering->pass(ordering->cluster_meeting());
}

}   // namespace

void cluster_barrier_arrive(Thread& thread, bool release, int line) {
    Cluster& cluster = *thread.cta->cluster;
    if (thread.cluster_arrive_line != 0) {
        Report report;
        report.kind = Kind::cluster_barrier;
        report.place.line = line;
        report.other = {-1, thread.cluster_arrive_line, thread.linear};
        report.detail = 0;   // arrives again
        thread.cta->worker->fail(thread, report);
    }
    thread.cluster_arrive_line = line;
    cluster.barrier.arrived += 1;
    if (release) {
        thread.cta->mbarriers->release(thread);
        thread.cta->released_cluster_phase = std::max(thread.cta->released_cluster_phase, thread.cluster_phase + 1);
    }
    Ordering* ordering = cluster.ordering();
    if (ordering != nullptr) {
        Meeting& meeting = ordering->cluster_meeting();
        release ? ordering->arrive(meeting, thread) : ordering->arrive_relaxed(meeting, thread);
    }
    release_if_complete(cluster);
}

void cluster_barrier_wait(Thread& thread, int line) {
    Cluster& cluster = *thread.cta->cluster;
    if (thread.cluster_arrive_line == 0) {
        Report report;
        report.kind = Kind::cluster_barrier;
        report.place.line = line;
        report.detail = 1;   // waits without having arrived
        thread.cta->worker->fail(thread, report);
    }
    // It has arrived once, so the barrier is at this phase or has just passed it.
    if (cluster.barrier.phase == thread.cluster_phase) {
        block_on(thread, {has_passed, &cluster.barrier, thread.cluster_phase, State::cluster_barrier, line, describe});
    }
    thread.cluster_arrive_line = 0;
    thread.cluster_phase += 1;
    if (Ordering* ordering = cluster.ordering()) ordering->leave(ordering->cluster_meeting(), thread);
}

void cluster_thread_exits(Thread& thread) {
    Cluster& cluster = *thread.cta->cluster;
    cluster.events += 1;
    const bool counted = thread.cluster_arrive_line != 0 && thread.cluster_phase == cluster.barrier.phase;
    if (counted) cluster.barrier.arrived -= 1;
    if (!cluster.stopped) release_if_complete(cluster);
}

}   // namespace emulator

using namespace emulator;

uint32_t emulator_cluster_rank() { return uint32_t(current_thread->cta->rank); }

uint32_t emulator_cluster_size() { return uint32_t(current_thread->cta->cluster->size()); }

uint32_t emulator_sm_number() {
    const Cta& cta = *current_thread->cta;
    const int64_t size = cta.cluster->size(), first = cta.number - cta.rank;
    const int64_t place = first / size % 2 ? size - 1 - cta.rank : cta.rank;   // no rank may count on the lower number
    return uint32_t((first + place) % cta.worker->launch.spec.sms);
}

void emulator_cluster_arrive(bool release, int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    cluster_barrier_arrive(thread, release, line);
}

void emulator_cluster_wait(int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    cluster_barrier_wait(thread, line);
}
