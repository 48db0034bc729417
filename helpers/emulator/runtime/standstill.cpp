#include "standstill.h"

#include <cstring>

#include "launch.h"
#include "worker.h"

namespace emulator {
namespace {

State state_of(const Thread& thread) {
    if (thread.exited) return State::exited;
    if (!thread.started) return State::not_started;
    const bool is_free = thread.wait.ready == nullptr || thread.wait.ready(thread.wait);   // if only it had its turn
    return is_free ? State::running : thread.wait.state;
}

WarpState row_of(const Thread& thread) {
    WarpState row{};
    row.warp = thread.warp;
    row.lanes = 1u << thread.lane;
    row.state = state_of(thread);
    name_cta(row.cta, *thread.cta);
    if (row.state == State::exited || row.state == State::not_started) return row;
    row.place = {row.state == State::running ? thread.code : -1, thread.wait.line, thread.linear};
    if (row.state != State::running && thread.wait.describe != nullptr) thread.wait.describe(thread.wait, row);
    return row;
}

bool is_same(const WarpState& a, const WarpState& b) {
    return a.state == b.state && a.place.line == b.place.line && a.place.code == b.place.code &&
           a.barrier == b.barrier && std::memcmp(a.values, b.values, sizeof a.values) == 0;
}

// How well an mbarrier's phase explains that nothing goes on. If its bytes are missing, no copy is on its way that could
// bring them; if some arrivals have come, those who should make the others are at fault; if none have, they may wait too.
int importance_of_mbarrier(const WarpState& row) {
    const int64_t missing = row.values[2], expected = row.values[3], bytes = row.values[4];
    if (bytes != 0) return 5;
    return missing < expected ? 4 : 3;
}

// How well a wait explains a standstill: the best is named in the report's sentence.
int importance(const Thread& thread) {
    const State state = state_of(thread);
    switch (state) {
        case State::registers: return 6;
        case State::mbarrier: return importance_of_mbarrier(row_of(thread));
        case State::named_barrier: return 4;   // where some have come
        case State::syncthreads: return 1;
        case State::syncwarp: return 1;
        default: return int(state) >= 20 ? 2 : 0;
    }
}

}   // namespace

std::vector<WarpState> warp_states(const Cluster& cluster) {
    std::vector<WarpState> table;
    for (const Cta* cta : cluster.ctas) {
        for (const Warp& warp : cta->warps) {
            const size_t first_row = table.size();
            for (int lane = 0; lane < warp.size; ++lane) {
                const WarpState state = row_of(cta->threads[size_t(warp.first + lane)]);
                size_t row = first_row;
                while (row < table.size() && !is_same(table[row], state)) ++row;
                if (row < table.size()) {
                    table[row].lanes |= state.lanes;
                } else {
                    table.push_back(state);
                }
            }
        }
    }
    return table;
}

void report_standstill(Cluster& cluster) {
    const Thread* named = nullptr;   // the thread whose wait the sentence is about
    int highest = 0;                 // its importance
    int waiting = 0;                 // at __syncthreads, in the named thread's CTA
    for (const Cta* cta : cluster.ctas) {
        for (const Thread& thread : cta->threads) {
            const int rank = importance(thread);
            if (rank <= highest) continue;
            highest = rank;
            named = &thread;
        }
    }
    if (named == nullptr) named = &cluster.ctas[0]->threads[0];
    for (const Thread& thread : named->cta->threads) waiting += state_of(thread) == State::syncthreads;

    const State state = row_of(*named).state;   // which tells a wait for registers from one for other warps
    Report report;
    report.kind = Kind::deadlock;
    if (state == State::registers) report.kind = Kind::register_budget;
    if (waiting > 0 && highest <= 1) {
        report.kind = Kind::barrier_divergence;
        for (const Thread& thread : named->cta->threads) {
            if (state_of(thread) == State::syncthreads) {
                named = &thread;
                break;
            }
        }
    }
    if (report.kind != Kind::deadlock || highest > 1) {
        const WarpState row = row_of(*named);
        report.place = row.place;
        report.barrier = row.barrier;
        std::memcpy(report.values, row.values, sizeof row.values);
        report.values[7] = int64_t(state);
    }
    report.detail = waiting;
    named->cta->worker->stop(report, true);
}

void report_cancelled(Cluster& cluster, const Thread* running) {
    Report report;
    report.kind = Kind::time_limit;
    if (running != nullptr) report.place = {running->code, 0, running->linear};
    Cta& cta = running != nullptr ? *running->cta : *cluster.ctas[0];
    cta.worker->stop(report, true);
}

}   // namespace emulator
