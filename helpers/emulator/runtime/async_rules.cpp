#include "async_rules.h"

#include "async_state.h"
#include "launch.h"
#include "worker.h"

namespace emulator {

std::shared_ptr<AsyncState> make_async_state() { return std::make_shared<AsyncState>(); }

void async_cta_begins(Cta& cta) { cta.async_state->ready = false; }

AsyncState& used_state(Cta& cta) {
    AsyncState& state = *cta.async_state;
    if (state.ready) return state;
    state.ready = true;
    state.chunks.reset(cta.worker->launch.spec.shared_bytes);
    state.loads.clear();
    state.stores.clear();
    state.groups.clear();
    state.warpgroups.clear();
    state.proxy_fences = 0;
    state.fences_seen.clear();
    state.shown.clear();
    state.matrix_turn.assign(cta.threads.size(), 0);
    return state;
}

void async_thread_exits(Thread& thread) {
    if (!thread.cta->async_state->ready) return;
    tma_thread_exits(thread);
    wgmma_thread_exits(thread);
}

void async_proxy_fence(Thread& thread) { used_state(*thread.cta).proxy_fences += 1; }

// Loads that are still on their way are reported with the barriers that they belong to: see mbarriers_cta_exits.
void async_cta_exits(Thread&) {}

}   // namespace emulator
