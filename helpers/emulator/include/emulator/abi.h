// What the runtime library offers to compiled kernels. Included by both sides, so that they cannot disagree.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 {
    unsigned int x, y, z;
};

extern "C" {

// Where the calling CUDA thread is. `const`: the value never changes during a thread's life, so the compiler may
// call once and keep the result, as it would with the special registers of a GPU.
uint3 emulator_thread_index() __attribute__((const));
uint3 emulator_block_index() __attribute__((const));
uint3 emulator_block_size() __attribute__((const));
uint3 emulator_grid_size() __attribute__((const));
int emulator_lane() __attribute__((const));
uint32_t emulator_cluster_rank() __attribute__((const));
uint32_t emulator_cluster_size() __attribute__((const));
// CTAs lie on the SMs in turn, cluster by cluster, in every second cluster the last rank first: the place in this line
// modulo the SMs that are played.
uint32_t emulator_sm_number() __attribute__((const));

// Synchronisation. `line` is the line of the kernel's source, for reports.
void emulator_syncthreads(int line);
void emulator_syncwarp(uint32_t mask, int line);
uint64_t emulator_shuffle(uint32_t mask, uint64_t value, int source_lane, int line);
uint32_t emulator_ballot(uint32_t mask, bool predicate, int line);
bool emulator_elect(uint32_t mask, int line);
void emulator_named_barrier(int id, int threads, bool wait, int line);
void emulator_cluster_arrive(bool release, int line);
void emulator_cluster_wait(int line);
// Reads 16 bytes at the same place of another CTA's shared memory into `value`.
void emulator_ld_shared_cluster(void* value, const void* address, uint32_t cta, int line);
// Starts to write `value` to the same place of another CTA's shared memory, for the barrier of the same offset there.
void emulator_st_async(int* to, int value, uint64_t* barrier, uint32_t cta, int line);

// mbarriers. `barrier`: in the calling CTA's shared memory.
void emulator_mbarrier_init(uint64_t* barrier, uint32_t arrivals, int line);
void emulator_mbarrier_inval(uint64_t* barrier, int line);
void emulator_mbarrier_fence(int line);
// Announces bytes, and arrives if `arrivals` is 1 (with 0 it only announces).
void emulator_mbarrier_arrive(uint64_t* barrier, uint32_t arrivals, uint32_t bytes, int line);
// Arrives at the barrier of the same offset in another CTA of the cluster.
void emulator_mbarrier_arrive_cluster(uint64_t* barrier, uint32_t cta, bool release, int line);
// Waits until the phase of this parity has completed. A try may end without that, and tells whether it has.
bool emulator_mbarrier_wait(uint64_t* barrier, uint32_t parity, bool is_try, bool of_cluster, int line);

// Other rules of the asynchronous proxy and of warpgroups.
void emulator_fence_proxy_async(int line);
void emulator_setmaxnreg(int registers, bool increase, int line);
void emulator_griddepcontrol_wait(int line);
void emulator_griddepcontrol_launch_dependents(int line);

// Accesses to global memory that other CTAs may race with.
int emulator_ld_relaxed(const int* pointer, int line);
void emulator_st_relaxed(int* pointer, int value, int line);
void emulator_red_add_relaxed(int* pointer, int value, int line);
int emulator_atom_add_relaxed(int* pointer, int value, int line);

// The offset of an address within the CTA's shared memory.
uint32_t emulator_shared_offset(const void* address, int line);
uint32_t emulator_mapa(const void* address, uint32_t cta, int line);

// Ends the launch with a report.
[[noreturn]] void emulator_trap(int line);
}
