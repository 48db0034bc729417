#include "ordering.h"

#include "ordering_state.h"

namespace emulator {

Ordering::Ordering(int, int, uint64_t) {}
void Ordering::begin() {}
void Ordering::cluster_barrier_arrive(Thread&, bool) {}
void Ordering::cluster_barrier_passed() {}
void Ordering::cluster_barrier_wait(Thread&) {}
void Ordering::arrive(Meeting&, Thread&) {}
void Ordering::passed(Meeting&) {}
void Ordering::leave(const Meeting&, Thread&) {}
void Ordering::barrier_initialised(Mbarrier&) {}
void Ordering::release_to(Mbarrier&, Thread&, bool) {}
void Ordering::phase_completed(Mbarrier&) {}
void Ordering::acquire_from(const Mbarrier&, Thread&) {}

void order_async_write_issued(Thread&, Cta&, uint32_t, uint32_t, uint32_t, int) {}
void order_async_write_done(Cta&, uint32_t, uint32_t, uint32_t) {}
uint32_t order_async_read_issued(Thread&, uint32_t, uint32_t, AsyncReader, int) { return 0; }
void order_async_read_done(Thread&, AsyncReader, uint32_t) {}
void order_proxy_fence(Thread&) {}

}   // namespace emulator
