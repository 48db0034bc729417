// hopper.cuh: the PTX instructions of Hopper that the rungs use, each once, as a function named after it.
//
// Kernels contain no `asm`: what they need stands here. The emulator has a header of the same name with the same
// functions (helpers/emulator/include/hopper.cuh), so the same kernel runs on both.
// Source of every rule quoted here: PTX ISA, "Asynchronous operations", "mbarrier", "cp.async.bulk.tensor",
// "wgmma.mma_async", "Memory consistency model".
//
// Two words that return below:
//   generic proxy   the path of ordinary loads and stores of threads
//   async proxy     the path of TMA and wgmma; a write by one proxy is seen by the other after a proxy fence, or after
//                   the mbarrier wait that TMA's completion belongs to
#pragma once

#ifdef __CUDACC_RTC__   // NVRTC has no <cstdint>
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif

// ---- Addresses ------------------------------------------------------------------------------------------------------

// The address of a shared variable within the CTA's shared memory, as PTX instructions want it.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return uint32_t(__cvta_generic_to_shared(pointer));
}

// The address of the same shared variable in CTA number `cta` of the cluster.
// PTX: mapa.shared::cluster
__device__ __forceinline__ uint32_t mapa(const void* pointer, uint32_t cta) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(cta));
    return address;
}

// ---- mbarriers: 64-bit objects in shared memory that count arrivals and bytes ---------------------------------------
// A phase ends when all expected arrivals have come and all expected bytes have landed; then the next one begins.
// Phases are numbered from 0; a wait names the parity of the phase that must have ended.

// Makes a barrier whose phases end after `arrivals` arrivals.
// PTX: mbarrier.init
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Ends the life of a barrier: its memory may be used for something else.
// PTX: mbarrier.inval
__device__ __forceinline__ void mbarrier_inval(uint64_t* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Shows the barriers that this thread has made to the async proxy and to the other CTAs of the cluster.
// PTX: fence.mbarrier_init.release.cluster
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives: one of the arrivals that the phase waits for. What this thread wrote before is seen by those who wait.
// PTX: mbarrier.arrive (release, CTA scope)
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Tells the current phase to wait for so many more bytes of asynchronous copies.
// PTX: mbarrier.expect_tx (relaxed)
__device__ __forceinline__ void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Both in one: expects bytes, then arrives.
// PTX: mbarrier.arrive.expect_tx (release, CTA scope)
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Arrives at the same barrier of CTA number `cta` of the cluster. Relaxed: it hands over no writes of this thread.
// That is enough to say "I have finished reading", and a release at cluster scope would flush the thread's writes to
// all of the GPU first, which costs a quarter of a matmul's speed.
// PTX: mapa, mbarrier.arrive.relaxed.cluster
__device__ __forceinline__ void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t cta) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(barrier, cta)) : "memory");
}

// The same, and what this thread wrote before is seen by those in the cluster who wait with mbarrier_wait_cluster.
// PTX: mapa, mbarrier.arrive.release.cluster
__device__ __forceinline__ void mbarrier_arrive_release_cluster(uint64_t* barrier, uint32_t cta) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(barrier, cta)) : "memory");
}

// Whether the phase of this parity has ended. May suspend the thread for a while before it says no.
// PTX: mbarrier.try_wait.parity (acquire, CTA scope)
__device__ __forceinline__ bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return done != 0;
}

// Waits until the phase of this parity has ended. The hardware suspends the thread between its tries.
// A new barrier counts as if the phase of parity 1 had ended just before.
// PTX: mbarrier.try_wait.parity (acquire, CTA scope)
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "TRY:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra TRY;\n"
        "}" ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// The same for arrivals from other CTAs of the cluster.
// PTX: mbarrier.try_wait.parity.acquire.cluster
__device__ __forceinline__ void mbarrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "TRY:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra TRY;\n"
        "}" ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// ---- TMA: one thread moves a box of a matrix ------------------------------------------------------------------------
// x counts along the rows of the matrix (its fastest dimension), y counts rows; both in elements, and both may lie
// outside of the matrix. What lies outside is loaded as zeros and is not stored.

// Describes a matrix and a box to TMA. Made on the host (helpers/tensor_map.py); a kernel takes it as
// `const __grid_constant__ TensorMap`.
struct __align__(64) TensorMap {
    uint64_t opaque[16];
};

// Fetches a map before its first use.
// PTX: prefetch.tensormap
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Starts to copy a box from global to shared memory; `barrier` gets its bytes when they have landed. Zeros for what
// lies outside are counted too. x is a multiple of 16 bytes (8 bf16), or the GPU stops with an illegal instruction; x
// and y may be negative.
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
__device__ __forceinline__ void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                          int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
        : "memory");
}

// The same with a hint for the L2 cache, made by createpolicy.
// PTX: cp.async.bulk.tensor.2d ... .L2::cache_hint
__device__ __forceinline__ void cp_async_bulk_tensor_load(void* to, const TensorMap* map, uint64_t* barrier, int x,
                                                          int y, uint64_t cache_policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4}], [%2], %5;"
        ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "l"(cache_policy)
        : "memory");
}

// Copies a box to the same place in several CTAs of the cluster, those whose bit is set in `ctas`. Each one's own
// barrier gets the bytes.
// PTX: cp.async.bulk.tensor.2d ... .multicast::cluster
__device__ __forceinline__ void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier,
                                                                    int x, int y, uint16_t ctas) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4}], [%2], %5;"
        ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(ctas)
        : "memory");
}

// The same with a hint for the L2 cache.
// PTX: cp.async.bulk.tensor.2d ... .multicast::cluster.L2::cache_hint
__device__ __forceinline__ void cp_async_bulk_tensor_load_multicast(void* to, const TensorMap* map, uint64_t* barrier,
                                                                    int x, int y, uint16_t ctas,
                                                                    uint64_t cache_policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;"
        ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(ctas), "l"(cache_policy)
        : "memory");
}

// Starts to copy a box from shared to global memory. It belongs to this thread's next group.
// x is a multiple of 16 bytes, and neither x nor y is negative, or the GPU stops with an illegal instruction. Where the
// matrix ends amid 16 bytes of a row, all 16 are written.
// PTX: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
__device__ __forceinline__ void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(x), "r"(y)
                 : "memory");
}

// The same with a hint for the L2 cache.
// PTX: cp.async.bulk.tensor.2d ... .bulk_group.L2::cache_hint
__device__ __forceinline__ void cp_async_bulk_tensor_store(const TensorMap* map, const void* from, int x, int y,
                                                           uint64_t cache_policy) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;"
                 ::"l"(map), "r"(shared_address(from)), "r"(x), "r"(y), "l"(cache_policy)
                 : "memory");
}

// Makes a group of the stores that this thread has started since the last one.
// PTX: cp.async.bulk.commit_group
__device__ __forceinline__ void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the last N groups of this thread have written global memory.
// PTX: cp.async.bulk.wait_group
template <int N>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// Waits until all but the last N groups have read their shared memory, which may then be written again.
// PTX: cp.async.bulk.wait_group.read
template <int N>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// A hint that data will not be needed again soon.
// PTX: createpolicy.fractional.L2::evict_first
__device__ __forceinline__ uint64_t createpolicy_evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// A hint that data should stay in L2.
// PTX: createpolicy.fractional.L2::evict_last
__device__ __forceinline__ uint64_t createpolicy_evict_last() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Shows what this thread has written to shared memory to the async proxy: before TMA stores it, before wgmma reads it.
// PTX: fence.proxy.async.shared::cta
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- wgmma: a warpgroup (128 threads) multiplies tiles in shared memory ---------------------------------------------

// Along which dimension an operand's elements are neighbours in memory: along K, or along M (of A) or N (of B).
enum class Major { K = 0, MN = 1 };

// How the 16-byte chunks of an operand are permuted in shared memory; the values are those of the descriptor's field.
enum class Swizzle { none = 0, bytes_128 = 1 };

// Describes an operand in shared memory: bits 0-13 address / 16, 16-29 leading byte offset / 16, 32-45 stride byte
// offset / 16, 62-63 swizzle mode.
// PTX ISA: "Matrix descriptor format" of wgmma
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes,
                                                     Swizzle swizzle = Swizzle::bytes_128) {
    return uint64_t(swizzle) << 62 | uint64_t(stride_bytes >> 4 & 0x3fff) << 32 |
           uint64_t(leading_bytes >> 4 & 0x3fff) << 16 | (shared_address(tile) >> 4 & 0x3fff);
}

// Describes the same operand so many bytes further on, a multiple of 16. Shared memory is so small that the address
// never outgrows its bits, so one addition of 32 bits does what wgmma_descriptor needs half a dozen instructions for.
__device__ __forceinline__ uint64_t wgmma_descriptor_advance(uint64_t descriptor, int bytes) {
    return (descriptor & ~uint64_t(0xffffffff)) | uint32_t(uint32_t(descriptor) + bytes / 16);
}

// Orders the warpgroup's accesses to accumulator registers before the wgmma that follow. Needed before the first one.
// PTX: wgmma.fence.sync.aligned
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Makes a group of the wgmma issued since the last one.
// PTX: wgmma.commit_group.sync.aligned
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all but the last N groups are done: accumulators may be read, operands overwritten.
// PTX: wgmma.wait_group.sync.aligned
template <int N>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Keeps the compiler from moving accesses to accumulators across this point. No instruction.
template <int N>
__device__ __forceinline__ void wgmma_fence_operand(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The five shapes below compute D = A * B + (accumulate ? D : 0), asynchronously: A is 64 x 16 and B 16 x N bf16 in
// shared memory, D 64 x N fp32 in the registers of the warpgroup. Thread t holds, in d[4 * j + 2 * h + i], the element
// in row 16 * (t / 32) + t % 32 / 4 + 8 * h and column 8 * j + t % 4 * 2 + i.

// PTX: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n"
        ".reg .pred accumulate;\n"
        "setp.ne.b32 accumulate, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, accumulate, 1, 1, %35, %36;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_MAJOR)), "n"(int(B_MAJOR)));
}

// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n"
        ".reg .pred accumulate;\n"
        "setp.ne.b32 accumulate, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, accumulate, 1, 1, %67, %68;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_MAJOR)), "n"(int(B_MAJOR)));
}

// PTX: wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void wgmma_m64n192k16(float (&d)[96], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n"
        ".reg .pred accumulate;\n"
        "setp.ne.b32 accumulate, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, accumulate, 1, 1, %99, %100;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_MAJOR)), "n"(int(B_MAJOR)));
}

// PTX: wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void wgmma_m64n224k16(float (&d)[112], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n"
        ".reg .pred accumulate;\n"
        "setp.ne.b32 accumulate, %114, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111}, "
        "%112, %113, accumulate, 1, 1, %115, %116;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
          "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_MAJOR)), "n"(int(B_MAJOR)));
}

// PTX: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
template <Major A_MAJOR, Major B_MAJOR>
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n"
        ".reg .pred accumulate;\n"
        "setp.ne.b32 accumulate, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, accumulate, 1, 1, %131, %132;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
          "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
          "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A_MAJOR)), "n"(int(B_MAJOR)));
}

// ---- Registers, clusters, barriers ----------------------------------------------------------------------------------

// Stores four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, 16
// byte aligned); register i of lane l holds the elements in row l / 4, columns l % 4 * 2 and the next, of matrix i.
// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16
__device__ __forceinline__ void stmatrix_x4(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

// Stores two 8 x 8 matrices of 16-bit elements, transposed. Lane l below 16 gives the address of row l % 8 of matrix
// l / 8 (16 bytes, 16 byte aligned); register i of lane l holds the elements in column l / 4, rows l % 4 * 2 and the
// next, of matrix i.
// PTX: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16
__device__ __forceinline__ void stmatrix_x2_trans(void* row, uint32_t r0, uint32_t r1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)), "r"(r0),
                 "r"(r1)
                 : "memory");
}

// Raises the registers of each of the warpgroup's threads to N; waits until others have given them up.
// PTX: setmaxnreg.inc.sync.aligned
template <int N>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// Gives up all registers of the warpgroup's threads beyond N.
// PTX: setmaxnreg.dec.sync.aligned
template <int N>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// True in one lane of the warp, the same one every time. All 32 lanes must call it.
// PTX: elect.sync
__device__ __forceinline__ bool elect_sync() {
    uint32_t elected;
    asm volatile(
        "{\n"
        ".reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n"
        "}"
        : "=r"(elected)::"memory");
    return elected != 0;
}

// This CTA's number within its cluster.
// PTX: %cluster_ctarank
__device__ __forceinline__ uint32_t cluster_ctarank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The number of CTAs in the cluster.
// PTX: %cluster_nctarank
__device__ __forceinline__ uint32_t cluster_nctarank() {
    uint32_t count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

// The number of the SM that this thread runs on, from 0.
// PTX: %smid
__device__ __forceinline__ uint32_t sm_number() {
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// Starts to write a number to the same place in the shared memory of CTA number `cta` of the cluster. The same barrier
// there gets its four bytes when it has landed, and who has waited for them with mbarrier_wait_cluster sees it.
// PTX: mapa, st.async.weak.shared::cluster.mbarrier::complete_tx::bytes
__device__ __forceinline__ void st_async(int* to, int value, uint64_t* barrier, uint32_t cta) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
                 ::"r"(mapa(to, cta)), "r"(value), "r"(mapa(barrier, cta))
                 : "memory");
}

// Four floats of the same shared array in CTA number `cta` of the cluster; a multiple of 16 bytes. It takes a barrier of
// the cluster to see what that CTA wrote, and another one before that CTA overwrites it or exits.
// PTX: mapa, ld.shared::cluster.v4.f32
__device__ __forceinline__ float4 ld_shared_cluster(const float4* pointer, uint32_t cta) {
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(mapa(pointer, cta))
                 : "memory");
    return value;
}

// Reads a number in global memory that other CTAs may be writing: an old value or a new one, never a mixture. Relaxed:
// it says nothing about other accesses.
// PTX: ld.relaxed.gpu
__device__ __forceinline__ int ld_relaxed_gpu(const int* pointer) {
    int value;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(pointer))
                 : "memory");
    return value;
}

// Writes such a number.
// PTX: st.relaxed.gpu
__device__ __forceinline__ void st_relaxed_gpu(int* pointer, int value) {
    asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "r"(value) : "memory");
}

// Adds to such a number; nothing comes back, so nobody waits for it.
// PTX: red.relaxed.gpu.add
__device__ __forceinline__ void red_add_relaxed_gpu(int* pointer, int value) {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;"
                 ::"l"(__cvta_generic_to_global(pointer)), "r"(value)
                 : "memory");
}

// Adds to such a number and returns what was there before: of all that add, each gets another answer.
// PTX: atom.relaxed.gpu.add
__device__ __forceinline__ int atom_add_relaxed_gpu(int* pointer, int value) {
    int before;
    asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(pointer)), "r"(value)
                 : "memory");
    return before;
}

// Waits until the launches before this one have ended and their writes are seen. Where the launch is no programmatic
// dependent one, that has happened already.
// PTX: griddepcontrol.wait
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the next launch in the stream begin early, if it is a programmatic dependent one: as soon as each CTA of this one
// has called this or ended. A CTA's first call counts, whichever thread's it is; more change nothing. What the next
// launch's griddepcontrol_wait waits for stays the same: the end of this whole launch, with its writes seen.
// PTX: griddepcontrol.launch_dependents
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Arrives at the barrier of all threads of the cluster; what this thread wrote before is seen after the wait.
// PTX: barrier.cluster.arrive.release
__device__ __forceinline__ void barrier_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

// Arrives without handing over writes.
// PTX: barrier.cluster.arrive.relaxed
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

// Waits until all threads of the cluster have arrived.
// PTX: barrier.cluster.wait.acquire
__device__ __forceinline__ void barrier_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Arrives at barrier `id` (0-15; 0 is __syncthreads) of the CTA and waits until `threads` threads have arrived.
// PTX: barrier.sync
__device__ __forceinline__ void barrier_sync(int id, int threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting.
// PTX: barrier.arrive
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
