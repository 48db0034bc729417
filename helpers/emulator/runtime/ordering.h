// What happened before what: vector clocks, for kernels that use hopper.cuh and are compiled with counters.
//
// Every thread of the cluster has a clock with one component for each thread of the cluster, each mbarrier (phases
// seen) and each warp's reads by wgmma and TMA stores. Barriers pass clocks on. An access is ordered before another if the second's
// thread knows the first's component. The functions below do nothing where there is no ordering (cluster.ordering()
// is nullptr): call them always.
#pragma once
#include <cstdint>

#include "cta.h"

namespace emulator {

enum class AsyncReader : int32_t { wgmma = 0, tma_store = 1 };
enum class AsyncWriter : int32_t { tma_load = 0, st_async = 1 };   // st_async: of four bytes, and of the generic proxy

// A TMA load into `to` or an st_async, issued by `issuer`: every earlier access to the place must have happened before.
// Ranges are offsets in shared memory; each may be called in pieces. `barrier_offset` is that of a barrier of `to`.
void order_async_write_issued(Thread& issuer, Cta& to, uint32_t offset, uint32_t bytes, uint32_t barrier_offset,
                              AsyncWriter writer, int line);

// The data has landed: visible to those who waited for the barrier's phase. Call it before barrier_complete_tx.
void order_async_write_done(Cta& to, uint32_t offset, uint32_t barrier_offset, AsyncWriter writer);

// wgmma or a TMA store will read the place: writes there must have happened before, for wgmma before its issue by each
// thread of the warpgroup; generic writes also need fence.proxy.async on the path. Call it once for each operation and
// range, on the thread that completes the rendezvous. Returns a ticket for order_async_read_done (0: no ordering);
// one ticket is enough for all ranges of an operation: pass that of the last call.
uint32_t order_async_read_issued(Thread& issuer, uint32_t offset, uint32_t bytes, AsyncReader reader, int line);

// `waiter` (each thread that waits, on its own account) has waited until the reads up to this ticket are over. For
// wgmma these are all of its warpgroup's up to the ticket, as far as they read for the waiter's warp: the others must
// wait too before the memory is free. For a TMA store these are those that the thread itself issued.
void order_async_read_done(Thread& waiter, AsyncReader reader, uint32_t ticket);

// fence.proxy.async: what the thread has written or has waited for is now visible to the async proxy.
void order_proxy_fence(Thread& thread);

}   // namespace emulator
