// The synchronising half of hopper.cuh: mbarriers, named barriers, the cluster, setmaxnreg, fences.
// Every function has the name, the parameters and the meaning of its twin in kernels/hopper.cuh.
#pragma once
#include "emulator/language.h"

// Tells the launch that this kernel uses the header.
extern "C" __attribute__((used, visibility("default"))) inline int emulator_uses_hopper() { return 1; }

// Addresses ---------------------------------------------------------------------------------------------------------

// The address of a shared variable in the 32-bit shared window (.shared::cta).
EMULATOR_INLINE uint32_t shared_address(const void* p, EMULATOR_LINE) { return emulator_shared_offset(p, line); }

// The address of the same variable in another CTA of the cluster (.shared::cluster). PTX: mapa.
EMULATOR_INLINE uint32_t mapa(const void* p, uint32_t cta, EMULATOR_LINE) { return emulator_mapa(p, cta, line); }

// mbarriers ---------------------------------------------------------------------------------------------------------

// Makes `b` a barrier whose phases complete after this many arrivals. By one thread; then fence_mbarrier_init() and a
// barrier of the CTA (of the cluster, if other CTAs use it).
EMULATOR_INLINE void mbarrier_init(uint64_t* b, uint32_t arrivals, EMULATOR_LINE) {
    emulator_mbarrier_init(b, arrivals, line);
}

// Makes initialisations visible to the async proxy and to the cluster. PTX: fence.mbarrier_init.release.cluster.
EMULATOR_INLINE void fence_mbarrier_init(EMULATOR_LINE) { emulator_mbarrier_fence(line); }

// Ends the barrier's life: its memory may be used for something else.
EMULATOR_INLINE void mbarrier_inval(uint64_t* b, EMULATOR_LINE) { emulator_mbarrier_inval(b, line); }

// One arrival (release, CTA scope).
EMULATOR_INLINE void mbarrier_arrive(uint64_t* b, EMULATOR_LINE) { emulator_mbarrier_arrive(b, 1, 0, line); }

// Announces bytes that asynchronous copies will bring: the phase also waits for them.
EMULATOR_INLINE void mbarrier_expect_tx(uint64_t* b, uint32_t bytes, EMULATOR_LINE) {
    emulator_mbarrier_arrive(b, 0, bytes, line);
}

// Both at once: first announces the bytes, then arrives.
EMULATOR_INLINE void mbarrier_arrive_expect_tx(uint64_t* b, uint32_t bytes, EMULATOR_LINE) {
    emulator_mbarrier_arrive(b, 1, bytes, line);
}

// One arrival at the same barrier of a CTA of the cluster, without ordering memory. PTX: arrive.relaxed.cluster.
EMULATOR_INLINE void mbarrier_arrive_cluster(uint64_t* b, uint32_t cta, EMULATOR_LINE) {
    emulator_mbarrier_arrive_cluster(b, cta, false, line);
}

// The same, and what the thread did before happens before what follows the wait. PTX: arrive.release.cluster.
EMULATOR_INLINE void mbarrier_arrive_release_cluster(uint64_t* b, uint32_t cta, EMULATOR_LINE) {
    emulator_mbarrier_arrive_cluster(b, cta, true, line);
}

// One try: whether the phase of this parity has completed. May wait for a while.
EMULATOR_INLINE bool mbarrier_try_wait_parity(uint64_t* b, uint32_t parity, EMULATOR_LINE) {
    return emulator_mbarrier_wait(b, parity, true, line);
}

// Waits until the barrier has completed the phase of the given parity (acquire, CTA scope).
EMULATOR_INLINE void mbarrier_wait(uint64_t* b, uint32_t parity, EMULATOR_LINE) {
    emulator_mbarrier_wait(b, parity, false, line);
}

// The same (acquire, cluster scope).
EMULATOR_INLINE void mbarrier_wait_cluster(uint64_t* b, uint32_t parity, EMULATOR_LINE) {
    emulator_mbarrier_wait(b, parity, false, line);
}

// Barriers of the cluster and of some warps -------------------------------------------------------------------------

// The CTA's number in its cluster, and how many CTAs that has.
EMULATOR_INLINE uint32_t cluster_ctarank() { return emulator_cluster_rank(); }
EMULATOR_INLINE uint32_t cluster_nctarank() { return emulator_cluster_size(); }

// All threads of the cluster arrive, and wait for each other. The relaxed arrival orders no memory.
EMULATOR_INLINE void barrier_cluster_arrive(EMULATOR_LINE) { emulator_cluster_arrive(true, line); }
EMULATOR_INLINE void barrier_cluster_arrive_relaxed(EMULATOR_LINE) { emulator_cluster_arrive(false, line); }
EMULATOR_INLINE void barrier_cluster_wait(EMULATOR_LINE) { emulator_cluster_wait(line); }

// Named barrier `id` (0 to 15) of `threads` threads, a multiple of 32: arrive and wait, or arrive only.
EMULATOR_INLINE void barrier_sync(int id, int threads, EMULATOR_LINE) {
    emulator_named_barrier(id, threads, true, line);
}
EMULATOR_INLINE void barrier_arrive(int id, int threads, EMULATOR_LINE) {
    emulator_named_barrier(id, threads, false, line);
}

// Warps and warpgroups ----------------------------------------------------------------------------------------------

// True for one lane of the warp; all its lanes must come. PTX: elect.sync.
EMULATOR_INLINE bool elect_sync(EMULATOR_LINE) { return emulator_elect(0xffffffffu, line); }

// A warpgroup gives registers back to the CTA, or takes some, and then has N a thread. All its warps must come.
template <int N>
EMULATOR_INLINE void setmaxnreg_dec(EMULATOR_LINE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes a multiple of 8 from 24 to 256");
    emulator_setmaxnreg(N, false, line);
}
template <int N>
EMULATOR_INLINE void setmaxnreg_inc(EMULATOR_LINE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes a multiple of 8 from 24 to 256");
    emulator_setmaxnreg(N, true, line);
}

// Makes the thread's writes to shared memory visible to TMA and wgmma. PTX: fence.proxy.async.shared::cta.
EMULATOR_INLINE void fence_proxy_async(EMULATOR_LINE) { emulator_fence_proxy_async(line); }
