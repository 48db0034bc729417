// appendix_fitted_tiles: tiles as tall as fill the last round.
//
// Idea      Persistent clusters go over the tiles of C in rounds, and a last round of a few tiles takes as long as a
//           full one: 289 tiles for 66 clusters are four rounds and a bit, and cost five. Of less tall tiles there are
//           more, and they fill five shorter rounds. A wgmma's M is 64, but its N is any multiple of 8 up to 256; so N
//           runs along the rows of C here: wgmma computes C transposed, as B^T times A^T.
// Changed   In 10_clusters N runs along the columns of C. There a tile whose width is no multiple of 64 would begin
//           amid a line of memory, 128 bytes, in every row of B; but a tile may begin at any row of A. So A and B
//           change roles: the CTAs of a cluster lie side by side and share A. All SMs are at work, and not 128 of them.
// Layout    A stage: HEIGHT rows of 64 k of A, in four boxes; two boxes of 64 x 64 of B, one a consumer; 128-byte
//           swizzle. A cluster is two CTAs side by side, which need the same rows of A: each fetches half of them for
//           both. Staging: two boxes of HEIGHT / 4 x 64 a consumer, swizzled; stmatrix turns the sums as it writes.
//           order[i] = row of cluster tiles (HEIGHT x 256) | column << 16; cluster c takes c, c + clusters, ...
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M; N and K multiples of 8; bases 16-byte
//           aligned. What lies outside of A and B arrives as zeros; what lies outside of C is not stored.
// Launch    grid (2 * min(66, cluster tiles)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map and C_map: box of 64 x HEIGHT / 4 (columns x rows); B_map: box of 64 x 64; with 128-byte swizzle.
//           A programmatic dependent launch: it makes its barriers while the launch before ends.
//           -DHEIGHT= 192, 224 or 256; -DSTAGES= 2 to 4.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef HEIGHT   // rows of a tile of C
#define HEIGHT 224
#endif
#ifndef STAGES
#define STAGES 4
#endif
static_assert(HEIGHT == 192 || HEIGHT == 224 || HEIGHT == 256, "wgmma() is there for these");
static_assert(STAGES >= 2, "a stage is given back one step after it was read: a ring of one would wait forever");
constexpr int BN = 128, BK = 64;             // columns of the CTA's tile of C, and the depth of a step
constexpr int CLUSTER = 2;                   // CTAs side by side, with the same rows of C
constexpr int CONSUMERS = 2;                 // warpgroups that multiply; each HEIGHT x 64 of C
constexpr int WARPS = 4;                     // in a warpgroup
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int WGMMA_K = 16;                  // depth of one wgmma
constexpr int BLOCKS = 4;                    // boxes down a tile: of A in a stage, and of C in a consumer's share
constexpr int BLOCK_ROWS = HEIGHT / BLOCKS;  // a multiple of 8, within which the swizzle permutes
constexpr int PACE_STEPS = 16;               // from checkpoint to checkpoint
constexpr int CHECKPOINTS = 8;               // that are counted apart; clusters are at three of them at most
constexpr int PACE_TRIES = 50;               // a cluster looks so often, 1 us or so each time, and waits no longer
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;   // a thread; 128 * (40 + 2 * 232) < 65,536

__device__ int arrived[CHECKPOINTS];   // clusters that have come to a checkpoint; the first cluster clears them

struct Shared {
    __nv_bfloat16 A[STAGES][BLOCKS][BLOCK_ROWS * BK];
    __nv_bfloat16 B[STAGES][CONSUMERS][BK * 64];
    __nv_bfloat16 C[CONSUMERS][2][BLOCK_ROWS * 64];   // staging; a store may still read one while the other is written
    uint64_t full[STAGES];                            // mbarriers: the stage's bytes have landed, from both CTAs
    uint64_t empty[STAGES];                           // mbarriers: all that read what this CTA sends have read it
};
constexpr int STAGE_BYTES = (HEIGHT + BN) * BK * sizeof(__nv_bfloat16);   // of A and B

// A place in the ring, and the parity of its current phase. Both sides walk the ring in the same order.
struct Place {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ int previous() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};

// A consumer's finished HEIGHT x 64 sums on their way to C. A pair is two elements of a column, one above the other.
struct Finished {
    uint32_t pairs[HEIGHT / 4];
    int row, column;         // of its first element in C
    bool pending = false;
};

// Two fp32 as a pair of bf16, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// The wgmma for a tile of so many rows. Its first operand is B, where a row is one k: wgmma's M is contiguous.
__device__ __forceinline__ void wgmma(float (&sums)[96], uint64_t b, uint64_t a, bool accumulate) {
    wgmma_m64n192k16<Major::MN, Major::K>(sums, b, a, accumulate);
}
__device__ __forceinline__ void wgmma(float (&sums)[112], uint64_t b, uint64_t a, bool accumulate) {
    wgmma_m64n224k16<Major::MN, Major::K>(sums, b, a, accumulate);
}
__device__ __forceinline__ void wgmma(float (&sums)[128], uint64_t b, uint64_t a, bool accumulate) {
    wgmma_m64n256k16<Major::MN, Major::K>(sums, b, a, accumulate);
}

// Multiplies one stage: four wgmma in one group, left in flight. A, B: the consumer's operands in the first stage.
__device__ __forceinline__ void multiply(uint64_t A, uint64_t B, int stage, float (&sums)[HEIGHT / 2],
                                         bool accumulate) {
    A = wgmma_descriptor_advance(A, stage * (HEIGHT * BK * 2));   // bytes
    B = wgmma_descriptor_advance(B, stage * (BN * BK * 2));
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K) {   // along the rows of A, across those of B
        const uint64_t a = wgmma_descriptor_advance(A, k * 2), b = wgmma_descriptor_advance(B, k * 64 * 2);
        wgmma(sums, b, a, accumulate || k > 0);
    }
    wgmma_commit_group();
}

// Tells both producers that filled this stage that this warp has read it. Relaxed, as in 10_clusters.
__device__ __forceinline__ void release(Shared& shared, int stage, int thread) {
    const int lane = thread % 32;
    if (lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);
}

// Counts this cluster in at a checkpoint, and waits until `expected` clusters have been counted at the one before: a
// hint, as in 10_clusters. Returns false where others did not come: then this cluster goes on by itself.
__device__ __forceinline__ bool keep_pace(int checkpoint, int expected, bool clears) {
    red_add_relaxed_gpu(&arrived[checkpoint % CHECKPOINTS], 1);
    int tries = 0;
    while (ld_relaxed_gpu(&arrived[(checkpoint - 1) % CHECKPOINTS]) < expected && tries < PACE_TRIES) ++tries;
    if (clears) st_relaxed_gpu(&arrived[(checkpoint + 4) % CHECKPOINTS], 0);   // all are past its last use
    return tries < PACE_TRIES;
}

// Stores a quarter of a finished tile's rows: registers, staging, C.
__device__ __forceinline__ void store_block(Shared& shared, const TensorMap& C_map, const Finished& finished, int block,
                                            int consumer, int thread) {
    __nv_bfloat16* box = shared.C[consumer][block % 2];
    if (thread == 0) cp_async_bulk_wait_group_read<1>();   // the store before last has read this box,
    barrier_sync(1 + consumer, 128);                       // and the other threads know

    // A warp has 16 columns of C, two chunks. It holds 8 x 8 of C as columns, and stmatrix stores them as rows.
    const int row = thread % 8, chunk = thread / 32 * 2 + thread / 8 % 2;
    __nv_bfloat16* place = box + row * 64 + (chunk ^ row) * 8;   // the XOR is the 128-byte swizzle
#pragma unroll
    for (int i = 0; i < BLOCK_ROWS / 8; ++i) {
        const uint32_t* pairs = finished.pairs + (block * BLOCK_ROWS / 8 + i) * 2;
        stmatrix_x2_trans(place + i * 8 * 64, pairs[0], pairs[1]);
    }
    fence_proxy_async();               // each thread shows TMA what it wrote,
    barrier_sync(1 + consumer, 128);   // and only then one of them
    if (thread == 0) {
        cp_async_bulk_tensor_store(&C_map, box, finished.column, finished.row + block * BLOCK_ROWS);
        cp_async_bulk_commit_group();
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
       const __grid_constant__ TensorMap C_map, const int* __restrict__ order, int tiles, int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_memory);

    // The shuffle changes nothing but what the compiler knows: that all lanes of a warp have the same number.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    const int rank = cluster_ctarank(), first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    const int steps = (K + BK - 1) / BK;
    int next = first < tiles ? order[first] : 0;   // read a tile ahead; no launch writes the list

    // 1. Barriers. Full: the own producer's arrival and the bytes, whoever sends them. Empty: both CTAs' consumers.
    if (threadIdx.x == 0) {
        prefetch_tensormap(&A_map);
        prefetch_tensormap(&B_map);
        prefetch_tensormap(&C_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS * WARPS);
        }
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();   // the peer sends bytes and arrivals here: it must know that the barriers exist
    barrier_cluster_wait();
    griddepcontrol_wait();      // until here the launch before may have been at work on A, B and C

    Place place;
    if (warpgroup == 0) {
        // 2. Producer: B for this CTA; its half of A for both. A full barrier counts the bytes of both halves.
        //    Every second tile walks K backwards: it begins with what the tile before has just left in L2.
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (thread == 0) {
            bool backwards = false, keeps_pace = rank == 0;   // the peer goes along, since it waits for A
            int loaded = 0;                                   // steps
            if (keeps_pace && first == 0) {
                for (int i = 0; i < CHECKPOINTS; ++i) st_relaxed_gpu(&arrived[i], 0);
            }
            for (int i = first; i < tiles; i += clusters, backwards = !backwards) {
                const int m0 = (next & 0xffff) * HEIGHT, n0 = ((next >> 16) * CLUSTER + rank) * BN;
                if (i + clusters < tiles) next = order[i + clusters];
                for (int step = 0; step < steps; ++step, place.advance()) {
                    const int k0 = (backwards ? steps - 1 - step : step) * BK;
                    uint64_t* full = &shared.full[place.stage];
                    mbarrier_wait_cluster(&shared.empty[place.stage], place.parity ^ 1);
                    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
                    for (int box = 0; box < CONSUMERS; ++box) {
                        cp_async_bulk_tensor_load(shared.B[place.stage][box], &B_map, full, n0 + box * 64, k0);
                    }
                    const int half = rank * (BLOCKS / CLUSTER);
                    for (int box = half; box < half + BLOCKS / CLUSTER; ++box) {
                        cp_async_bulk_tensor_load_multicast(shared.A[place.stage][box], &A_map, full, k0,
                                                            m0 + box * BLOCK_ROWS, (1 << CLUSTER) - 1);
                    }
                    if (keeps_pace && ++loaded % PACE_STEPS == 0) {
                        const int before = loaded - PACE_STEPS;   // some clusters may have no tile in the last round
                        const int expected = before ? min(clusters, tiles - (before - 1) / steps * clusters) : 0;
                        keeps_pace = keep_pace(loaded / PACE_STEPS, expected, first == 0);
                    }
                }
            }
        }
        barrier_cluster_arrive();   // this warp sends the peer nothing more
    } else {
        // 3. Consumers: one group of wgmma runs while the next is issued; then the stage before is given back.
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const uint64_t A = wgmma_descriptor(shared.A[0][0], 16, 1024);   // both described once, as in 10_clusters
        const uint64_t B = wgmma_descriptor(shared.B[0][consumer], 8192, 1024);
        float sums[HEIGHT / 2];
        Finished finished;
        for (int i = first; i < tiles; i += clusters) {
            const int m0 = (next & 0xffff) * HEIGHT, n0 = ((next >> 16) * CLUSTER + rank) * BN + consumer * 64;
            if (i + clusters < tiles) next = order[i + clusters];
            auto do_step = [&](int step) {
                mbarrier_wait(&shared.full[place.stage], place.parity);
                multiply(A, B, place.stage, sums, step > 0);
                if (step > 0) {
                    wgmma_wait_group<1>();
                    release(shared, place.previous(), thread);
                }
                place.advance();
            };
            // The first four steps also store a quarter each of the tile before.
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                if (block < steps) do_step(block);
                if (finished.pending) store_block(shared, C_map, finished, block, consumer, thread);
            }
            for (int step = BLOCKS; step < steps; ++step) do_step(step);
            wgmma_wait_group<0>();
            release(shared, place.previous(), thread);

#pragma unroll
            for (int j = 0; j < HEIGHT / 4; ++j) finished.pairs[j] = pack(sums[2 * j], sums[2 * j + 1]);
            finished.row = m0;
            finished.column = n0;
            finished.pending = true;
        }
        barrier_cluster_arrive();   // all that came from the peer has been read, and all arrivals are sent

        // 4. The last tile has no next one to hide behind.
        if (finished.pending) {
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) store_block(shared, C_map, finished, block, consumer, thread);
        }
        if (thread == 0) cp_async_bulk_wait_group_read<0>();   // the staging ends with the CTA: TMA must have read it
    }

    // 5. The peer arrives at this CTA's barriers and multicasts into its stages: until it has done so for the last
    //    time, this shared memory must live. The peer may then still be storing its last tile.
    barrier_cluster_wait();
}
