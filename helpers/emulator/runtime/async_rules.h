// What the runtime asks of its asynchronous part (copies, wgmma): a place for its state, and to be told of a CTA's life.
#pragma once
#include <memory>

#include "cta.h"

namespace emulator {

// The state that the asynchronous part keeps of one CTA; only that part knows what is in it.
struct AsyncState;

// A new worker: made once, used for one CTA after the other.
std::shared_ptr<AsyncState> make_async_state();

// A CTA is about to start; cta.async_state is to be as new.
void async_cta_begins(Cta& cta);

// A thread's function has returned. Called on its fiber: may report, and must not block.
void async_thread_exits(Thread& thread);

// A thread reads or writes a variable on its stack, which may be an accumulator. Only with counters.
void local_access(Thread& thread, const void* address, Op op, int64_t code);

// A thread executes fence.proxy.async.
void async_proxy_fence(Thread& thread);

// The last thread of a CTA has exited; called on its fiber after async_thread_exits.
void async_cta_exits(Thread& last);

}   // namespace emulator
