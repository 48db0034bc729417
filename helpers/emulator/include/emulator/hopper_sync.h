// The synchronising half of hopper.cuh: mbarriers, named barriers, the cluster, setmaxnreg, fences.
// Every function has the name, the parameters and the meaning of its twin in kernels/hopper.cuh.
#pragma once
#include "emulator/language.h"
#include "emulator/vector_types.h"

// Tells the launch that this kernel uses the header.
extern "C" __attribute__((used, visibility("default"))) inline int emulator_uses_hopper() { return 1; }

// Addresses ---------------------------------------------------------------------------------------------------------

// The address of a shared variable within the CTA's shared memory, as PTX instructions want it.
EMULATOR_INLINE uint32_t shared_address(const void* pointer, EMULATOR_LINE) {
    return emulator_shared_offset(pointer, line);
}

// The address of the same shared variable in CTA number `cta` of the cluster.
// PTX: mapa.shared::cluster
EMULATOR_INLINE uint32_t mapa(const void* pointer, uint32_t cta, EMULATOR_LINE) {
    return emulator_mapa(pointer, cta, line);
}

// mbarriers ---------------------------------------------------------------------------------------------------------

// Makes a barrier whose phases end after `arrivals` arrivals.
// PTX: mbarrier.init
EMULATOR_INLINE void mbarrier_init(uint64_t* barrier, uint32_t arrivals, EMULATOR_LINE) {
    emulator_mbarrier_init(barrier, arrivals, line);
}

// Shows the barriers that this thread has made to the async proxy and to the other CTAs of the cluster.
// PTX: fence.mbarrier_init.release.cluster
EMULATOR_INLINE void fence_mbarrier_init(EMULATOR_LINE) { emulator_mbarrier_fence(line); }

// Ends the life of a barrier: its memory may be used for something else.
// PTX: mbarrier.inval
EMULATOR_INLINE void mbarrier_inval(uint64_t* barrier, EMULATOR_LINE) { emulator_mbarrier_inval(barrier, line); }

// Arrives: one of the arrivals that the phase waits for. What this thread wrote before is seen by those who wait.
// PTX: mbarrier.arrive (release, CTA scope)
EMULATOR_INLINE void mbarrier_arrive(uint64_t* barrier, EMULATOR_LINE) {
    emulator_mbarrier_arrive(barrier, 1, 0, line);
}

// Tells the current phase to wait for so many more bytes of asynchronous copies.
// PTX: mbarrier.expect_tx (relaxed)
EMULATOR_INLINE void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes, EMULATOR_LINE) {
    emulator_mbarrier_arrive(barrier, 0, bytes, line);
}

// Both in one: expects bytes, then arrives.
// PTX: mbarrier.arrive.expect_tx (release, CTA scope)
EMULATOR_INLINE void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes, EMULATOR_LINE) {
    emulator_mbarrier_arrive(barrier, 1, bytes, line);
}

// Arrives at the same barrier of CTA number `cta` of the cluster. Relaxed: it hands over no writes of this thread.
// That is enough to say "I have finished reading", and a release at cluster scope would flush the thread's writes to
// all of the GPU first, which costs a quarter of a matmul's speed.
// PTX: mapa, mbarrier.arrive.relaxed.cluster
EMULATOR_INLINE void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t cta, EMULATOR_LINE) {
    emulator_mbarrier_arrive_cluster(barrier, cta, false, line);
}

// The same, and what this thread wrote before is seen by those in the cluster who wait with mbarrier_wait_cluster.
// PTX: mapa, mbarrier.arrive.release.cluster
EMULATOR_INLINE void mbarrier_arrive_release_cluster(uint64_t* barrier, uint32_t cta, EMULATOR_LINE) {
    emulator_mbarrier_arrive_cluster(barrier, cta, true, line);
}

// Whether the phase of this parity has ended. May suspend the thread for a while before it says no.
// PTX: mbarrier.try_wait.parity (acquire, CTA scope)
EMULATOR_INLINE bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity, EMULATOR_LINE) {
    return emulator_mbarrier_wait(barrier, parity, true, false, line);
}

// Waits until the phase of this parity has ended. The hardware suspends the thread between its tries.
// A new barrier counts as if the phase of parity 1 had ended just before.
// PTX: mbarrier.try_wait.parity (acquire, CTA scope)
EMULATOR_INLINE void mbarrier_wait(uint64_t* barrier, uint32_t parity, EMULATOR_LINE) {
    emulator_mbarrier_wait(barrier, parity, false, false, line);
}

// The same for arrivals from other CTAs of the cluster.
// PTX: mbarrier.try_wait.parity.acquire.cluster
EMULATOR_INLINE void mbarrier_wait_cluster(uint64_t* barrier, uint32_t parity, EMULATOR_LINE) {
    emulator_mbarrier_wait(barrier, parity, false, true, line);
}

// Barriers of the cluster and of some warps -------------------------------------------------------------------------

// This CTA's number within its cluster.
// PTX: %cluster_ctarank
EMULATOR_INLINE uint32_t cluster_ctarank() { return emulator_cluster_rank(); }

// The number of CTAs in the cluster.
// PTX: %cluster_nctarank
EMULATOR_INLINE uint32_t cluster_nctarank() { return emulator_cluster_size(); }

// The number of the SM that this thread runs on, from 0.
// PTX: %smid
EMULATOR_INLINE uint32_t sm_number() { return emulator_sm_number(); }

// Starts to write a number to the same place in the shared memory of CTA number `cta` of the cluster. The same barrier
// there gets its four bytes when it has landed, and who has waited for them with mbarrier_wait_cluster sees it.
// PTX: mapa, st.async.weak.shared::cluster.mbarrier::complete_tx::bytes
EMULATOR_INLINE void st_async(int* to, int value, uint64_t* barrier, uint32_t cta, EMULATOR_LINE) {
    emulator_st_async(to, value, barrier, cta, line);
}

// Four floats of the same shared array in CTA number `cta` of the cluster; a multiple of 16 bytes. It takes a barrier of
// the cluster to see what that CTA wrote, and another one before that CTA overwrites it or exits.
// PTX: mapa, ld.shared::cluster.v4.f32
EMULATOR_INLINE float4 ld_shared_cluster(const float4* pointer, uint32_t cta, EMULATOR_LINE) {
    float4 value;
    emulator_ld_shared_cluster(&value, pointer, cta, line);
    return value;
}

// Reads a number in global memory that other CTAs may be writing: an old value or a new one, never a mixture. Relaxed:
// it says nothing about other accesses.
// PTX: ld.relaxed.gpu
EMULATOR_INLINE int ld_relaxed_gpu(const int* pointer, EMULATOR_LINE) { return emulator_ld_relaxed(pointer, line); }

// Writes such a number.
// PTX: st.relaxed.gpu
EMULATOR_INLINE void st_relaxed_gpu(int* pointer, int value, EMULATOR_LINE) {
    emulator_st_relaxed(pointer, value, line);
}

// Adds to such a number; nothing comes back, so nobody waits for it.
// PTX: red.relaxed.gpu.add
EMULATOR_INLINE void red_add_relaxed_gpu(int* pointer, int value, EMULATOR_LINE) {
    emulator_red_add_relaxed(pointer, value, line);
}

// Adds to such a number and returns what was there before: of all that add, each gets another answer.
// PTX: atom.relaxed.gpu.add
EMULATOR_INLINE int atom_add_relaxed_gpu(int* pointer, int value, EMULATOR_LINE) {
    return emulator_atom_add_relaxed(pointer, value, line);
}

// Waits until the launches before this one have ended and their writes are seen. Where the launch is no programmatic
// dependent one, that has happened already.
// PTX: griddepcontrol.wait
EMULATOR_INLINE void griddepcontrol_wait(EMULATOR_LINE) { emulator_griddepcontrol_wait(line); }

// Lets the next launch in the stream begin early, if it is a programmatic dependent one: as soon as each CTA of this one
// has called this or ended. A CTA's first call counts, whichever thread's it is; more change nothing. What the next
// launch's griddepcontrol_wait waits for stays the same: the end of this whole launch, with its writes seen.
// PTX: griddepcontrol.launch_dependents
EMULATOR_INLINE void griddepcontrol_launch_dependents(EMULATOR_LINE) {
    emulator_griddepcontrol_launch_dependents(line);
}

// Arrives at the barrier of all threads of the cluster; what this thread wrote before is seen after the wait.
// PTX: barrier.cluster.arrive.release
EMULATOR_INLINE void barrier_cluster_arrive(EMULATOR_LINE) { emulator_cluster_arrive(true, line); }

// Arrives without handing over writes.
// PTX: barrier.cluster.arrive.relaxed
EMULATOR_INLINE void barrier_cluster_arrive_relaxed(EMULATOR_LINE) { emulator_cluster_arrive(false, line); }

// Waits until all threads of the cluster have arrived.
// PTX: barrier.cluster.wait.acquire
EMULATOR_INLINE void barrier_cluster_wait(EMULATOR_LINE) { emulator_cluster_wait(line); }

// Arrives at barrier `id` (0-15; 0 is __syncthreads) of the CTA and waits until `threads` threads have arrived.
// PTX: barrier.sync
EMULATOR_INLINE void barrier_sync(int id, int threads, EMULATOR_LINE) {
    emulator_named_barrier(id, threads, true, line);
}

// Arrives without waiting.
// PTX: barrier.arrive
EMULATOR_INLINE void barrier_arrive(int id, int threads, EMULATOR_LINE) {
    emulator_named_barrier(id, threads, false, line);
}

// Warps and warpgroups ----------------------------------------------------------------------------------------------

// True in one lane of the warp, the same one every time. All 32 lanes must call it.
// PTX: elect.sync
EMULATOR_INLINE bool elect_sync(EMULATOR_LINE) { return emulator_elect(0xffffffffu, line); }

// Gives up all registers of the warpgroup's threads beyond N.
// PTX: setmaxnreg.dec.sync.aligned
template <int N>
EMULATOR_INLINE void setmaxnreg_dec(EMULATOR_LINE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes a multiple of 8 from 24 to 256");
    emulator_setmaxnreg(N, false, line);
}

// Raises the registers of each of the warpgroup's threads to N; waits until others have given them up.
// PTX: setmaxnreg.inc.sync.aligned
template <int N>
EMULATOR_INLINE void setmaxnreg_inc(EMULATOR_LINE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "setmaxnreg takes a multiple of 8 from 24 to 256");
    emulator_setmaxnreg(N, true, line);
}

// Shows what this thread has written to shared memory to the async proxy: before TMA stores it, before wgmma reads it.
// PTX: fence.proxy.async.shared::cta
EMULATOR_INLINE void fence_proxy_async(EMULATOR_LINE) { emulator_fence_proxy_async(line); }
