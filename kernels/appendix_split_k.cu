// appendix_split_k: the CTAs of a cluster divide K among themselves and add up what they have.
//
// Idea      With few rows, as when a language model writes one token after the other, C has too few tiles for all SMs,
//           and the time goes into reading B. A cluster of SPLIT CTAs shares one tile of C: each walks its part of K,
//           so that SPLIT times as many SMs read. Then each adds up a part of the tile from the shared memory of all,
//           always in the same order: the result does not depend on timing.
// Changed   07_pipelining gave a CTA all of K and a tile of 128 x 256, whatever the shape.
// Layout    A stage: TILE_M rows of 64 of A, and TILE_N / 64 boxes of 64 x 64 of B, 128-byte swizzle. When K is done the
//           fp32 sums take the ring's place: partial[block][thread], 4 sums of 8 columns, so that neighbouring threads
//           write and read neighbouring 16 bytes.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M, but M <= A_ROWS if A_ROWS < TILE_M; N
//           and K multiples of 8; bases 16-byte aligned. What lies outside of A and B arrives as zeros; what lies
//           outside of C is not stored.
// Launch    grid (SPLIT, ceil(N / TILE_N), ceil(M / TILE_M)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map: box of 64 x A_ROWS (columns x rows); B_map: box of 64 x 64; both with 128-byte swizzle.
//           A programmatic dependent launch: its CTAs set up while the launch before comes to its end.
//           -DTILE_M= 64 or 128, -DTILE_N= 64, 128, 192 or 256, -DSTAGES=, -DSPLIT= 1 to 8, -DA_ROWS= 8 to TILE_M.
//           -DEARLY=0: the next launch's CTAs come when this one's have left, and not beside them.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef SPLIT
#define SPLIT 4
#endif
#ifndef A_ROWS   // rows of A that are loaded, where M is no larger; the tile's others stay zero
#define A_ROWS TILE_M
#endif
#ifndef EARLY
#define EARLY 1
#endif
constexpr int BK = 64;                       // depth of a step
constexpr int CONSUMERS = TILE_M / 64;       // warpgroups that multiply; each 64 x TILE_N of C
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int WGMMA_K = 16;                  // depth of one wgmma
constexpr int BOXES = TILE_N / 64;           // of B in a stage
constexpr int BLOCKS = TILE_N / 8;           // of 8 columns; a thread has 4 sums of each
static_assert(TILE_M == 64 || TILE_M == 128, "one or two consumers");
static_assert(TILE_N % 64 == 0 && TILE_N >= 64 && TILE_N <= 256, "wgmma is called for these");
static_assert(SPLIT >= 1 && SPLIT <= 8, "a cluster has up to 8 CTAs on every Hopper GPU");
static_assert(A_ROWS % 8 == 0 && A_ROWS >= 8 && A_ROWS <= TILE_M, "the swizzle permutes within 8 rows");

struct Ring {
    __nv_bfloat16 A[STAGES][TILE_M * BK];
    __nv_bfloat16 B[STAGES][BOXES][BK * 64];
};
struct Shared {
    union {
        Ring ring;                                   // while there are steps,
        float4 partial[BLOCKS][CONSUMERS * 128];     // and then this CTA's sums, for the whole cluster
    };
    uint64_t full[STAGES];                           // mbarriers: the stage's bytes have landed
    uint64_t empty[STAGES];                          // mbarriers: every consumer warp has read it
};
constexpr int STAGE_BYTES = (A_ROWS + TILE_N) * BK * sizeof(__nv_bfloat16);

// A place in the ring, and the parity of its current phase. Both sides walk the ring in the same order.
struct Place {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Two fp32 as a pair of bf16, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// The widest wgmma for a tile of so many columns.
__device__ __forceinline__ void wgmma(float (&sums)[32], uint64_t a, uint64_t b) {
    wgmma_m64n64k16<Major::K, Major::MN>(sums, a, b, true);
}
__device__ __forceinline__ void wgmma(float (&sums)[64], uint64_t a, uint64_t b) {
    wgmma_m64n128k16<Major::K, Major::MN>(sums, a, b, true);
}
__device__ __forceinline__ void wgmma(float (&sums)[96], uint64_t a, uint64_t b) {
    wgmma_m64n192k16<Major::K, Major::MN>(sums, a, b, true);
}
__device__ __forceinline__ void wgmma(float (&sums)[128], uint64_t a, uint64_t b) {
    wgmma_m64n256k16<Major::K, Major::MN>(sums, a, b, true);
}

// Multiplies one stage: four wgmma in one group, waited for.
__device__ __forceinline__ void multiply(const Ring& ring, int stage, int consumer, float (&sums)[TILE_N / 2]) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K) {
        wgmma(sums, wgmma_descriptor(ring.A[stage] + consumer * 64 * BK + k, 16, 1024),
              wgmma_descriptor(ring.B[stage][0] + k * 64, 8192, 1024));
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

// Stores two neighbouring blocks of a thread's sums, 8 columns each, as 07_pipelining does: neighbours swap, and four
// lanes write a whole sector of 32 bytes. row, column: of the warpgroup's first element of these blocks in C.
__device__ __forceinline__ void store_blocks(float4 left, float4 right, __nv_bfloat16* C, int row, int column, int M,
                                             int N) {
    const int thread = threadIdx.x % 128, is_odd = thread % 2;
    row += thread / 32 * 16 + thread % 32 / 4;
    column += 8 * is_odd + thread % 4 / 2 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half, row += 8) {
        const uint32_t l = half ? pack(left.z, left.w) : pack(left.x, left.y);
        const uint32_t r = half ? pack(right.z, right.w) : pack(right.x, right.y);
        const uint32_t swapped = __shfl_xor_sync(~0u, is_odd ? l : r, 1);
        const uint2 four = is_odd ? make_uint2(swapped, r) : make_uint2(l, swapped);
        if (row < M && column < N) *reinterpret_cast<uint2*>(C + size_t(row) * N + column) = four;
    }
}

// A thread's four sums of a block: two neighbours in one row, two below them in the row after 8.
__device__ __forceinline__ float4 block_of(const float (&sums)[TILE_N / 2], int block) {
    return make_float4(sums[4 * block], sums[4 * block + 1], sums[4 * block + 2], sums[4 * block + 3]);
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
       __nv_bfloat16* __restrict__ C, int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_memory);

    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    const int rank = cluster_ctarank(), n0 = blockIdx.y * TILE_N, m0 = blockIdx.z * TILE_M;
    const int steps = (K + BK - 1) / BK;
    const int first = steps * rank / SPLIT, end = steps * (rank + 1) / SPLIT;   // this CTA's part of K; may be empty

    // 1. Barriers.
    if (threadIdx.x == 0) {
        prefetch_tensormap(&A_map);
        prefetch_tensormap(&B_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CONSUMERS * 4);
        }
        fence_mbarrier_init();
    }
    if (A_ROWS < TILE_M) {   // rows of A that no load fills
        for (int stage = 0; stage < STAGES; ++stage) {
            uint4* zeros = reinterpret_cast<uint4*>(shared.ring.A[stage] + A_ROWS * BK);
            for (int i = threadIdx.x; i < (TILE_M - A_ROWS) * BK / 8; i += THREADS) zeros[i] = uint4{};
        }
        fence_proxy_async();   // wgmma reads them
    }
    __syncthreads();
    griddepcontrol_wait();   // the launch before may still be storing what this one reads

    Place place;
    const int consumer = warpgroup - 1;
    float sums[TILE_N / 2] = {};   // of a consumer's thread; they stay zero if this CTA has no step
    if (warpgroup == 0) {
        // 2. Producer.
        if (thread == 0) {
            for (int step = first; step < end; ++step, place.advance()) {
                uint64_t* full = &shared.full[place.stage];
                mbarrier_wait(&shared.empty[place.stage], place.parity ^ 1);
                mbarrier_arrive_expect_tx(full, STAGE_BYTES);
                cp_async_bulk_tensor_load(shared.ring.A[place.stage], &A_map, full, step * BK, m0);
                for (int box = 0; box < BOXES; ++box) {
                    __nv_bfloat16* to = shared.ring.B[place.stage][box];
                    const int x = n0 + box * 64, y = step * BK;
                    if (gridDim.z == 1) {   // no other tile needs this part of B
                        cp_async_bulk_tensor_load(to, &B_map, full, x, y, createpolicy_evict_first());
                    } else {
                        cp_async_bulk_tensor_load(to, &B_map, full, x, y);
                    }
                }
            }
            if (EARLY) griddepcontrol_launch_dependents();   // all copies are ordered: the next launch may set up
        }
    } else {
        // 3. Consumers.
        for (int step = first; step < end; ++step, place.advance()) {
            mbarrier_wait(&shared.full[place.stage], place.parity);
            multiply(shared.ring, place.stage, consumer, sums);
            if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);
        }
    }

    // 4. Add up and store. A warp has 16 rows of C; one that lies below C's end has nothing to do.
    const int row0 = m0 + consumer * 64, index = threadIdx.x - 128;
    const bool has_rows = warpgroup > 0 && row0 + thread / 32 * 16 < M;
    if (SPLIT == 1) {
        if (has_rows) {
#pragma unroll
            for (int block = 0; block < BLOCKS; block += 2) {
                store_blocks(block_of(sums, block), block_of(sums, block + 1), C, row0, n0 + block * 8, M, N);
            }
        }
        return;
    }
    if (warpgroup > 0) barrier_sync(1, CONSUMERS * 128);   // the ring has been read: its memory is free
    if (has_rows) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) shared.partial[block][index] = block_of(sums, block);
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();   // all CTAs' sums are there
    if (has_rows) {
        for (int block = 2 * rank; block < BLOCKS; block += 2 * SPLIT) {
            float4 left = {}, right = {};
#pragma unroll
            for (int cta = 0; cta < SPLIT; ++cta) {
                left = left + ld_shared_cluster(&shared.partial[block][index], cta);
                right = right + ld_shared_cluster(&shared.partial[block + 1][index], cta);
            }
            store_blocks(left, right, C, row0, n0 + block * 8, M, N);
        }
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();   // nobody leaves while others still read its sums
}
