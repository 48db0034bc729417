// appendix_partitions: each half of the chip computes rows of C that lie next to each other.
//
// Idea      L2 is in two partitions, and each SM is connected to one of them. A line that SMs of both need crosses from
//           one to the other and takes room in both. So when a cluster has begun its first tile it draws a number:
//           those near partition 0 from 0 upwards, the others from the last one downwards. The list has the upper rows
//           of each round first. So from the second round on most rows of A are read near one partition only.
// Changed   10_clusters gives cluster c the tiles c, c + clusters, ... wherever it lies.
//           What that file can leave away to be measured (multicast, TMA stores, pace) is always there in this one.
// Layout    As 10_clusters. order[i] = row of cluster tiles (256 x 256) | column of them << 16, the upper rows of each
//           round first; a cluster takes tile c in the first round, then tile number + round * clusters.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation. Any M; N and K multiples of 8; bases 16-byte
//           aligned. What lies outside of A and B arrives as zeros; what lies outside of C is not stored.
//           partition_of[SM]: 0 or 1; where it is wrong the kernel is slower, and no result hangs on it. drawn: a zero,
//           and again when the launch has ended. Two launches that run at once need one each.
// Launch    grid (2 * min(64, cluster tiles)), block (THREADS), dynamic shared memory sizeof(Shared).
//           A_map: box of 64 x 128 (columns x rows); B_map and C_map: box of 64 x 64; all with 128-byte swizzle.
//           A programmatic dependent launch: it makes its barriers while the launch before ends.
//           -DPARTITIONS=0: each cluster goes on as it began.
#include <cuda_bf16.h>

#include "hopper.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef PARTITIONS
#define PARTITIONS 1
#endif
static_assert(STAGES >= 2, "a stage is given back one step after it was read: a ring of one would wait forever");
constexpr int CLUSTER = 2;                   // CTAs one below the other, with the same columns of C
constexpr int BM = 128, BN = 256, BK = 64;   // the CTA's tile of C, and the depth of a step
constexpr int CONSUMERS = 2;                 // warpgroups that multiply; each 64 x 256 of C
constexpr int WARPS = 4;                     // in a warpgroup
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int WGMMA_K = 16;                  // depth of one wgmma
constexpr int BLOCKS = BN / 64;              // boxes across a tile: of B in a stage, and of C in a consumer's share
constexpr int PACE_STEPS = 16;               // from checkpoint to checkpoint
constexpr int CHECKPOINTS = 8;               // that are counted apart; clusters are at three of them at most
constexpr int PACE_TRIES = 50;               // a cluster looks so often, 1 us or so each time, and waits no longer
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;   // a thread; 128 * (40 + 2 * 232) < 65,536

__device__ int arrived[CHECKPOINTS];   // clusters that came to a checkpoint; who has a round's first tile clears them

struct Shared {
    __nv_bfloat16 A[STAGES][BM * BK];
    __nv_bfloat16 B[STAGES][BLOCKS][BK * 64];
    __nv_bfloat16 C[CONSUMERS][2][64 * 64];  // staging; a store may still read one box while the other is written
    uint64_t full[STAGES];                   // mbarriers: the stage's bytes have landed, from both CTAs
    uint64_t empty[STAGES];                  // mbarriers: all that read what this CTA sends have read it
    uint64_t has_number;                     // mbarrier: the cluster's number has landed
    int number;                              // that it has drawn
};
constexpr int STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);   // of A and B

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

// A consumer's finished 64 x 256 sums as pairs of bf16, on their way to C.
struct Finished {
    uint32_t pairs[BN / 4];
    int row, column;         // of its first element in C
    bool pending = false;
};

// Two fp32 as a pair of bf16, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// Multiplies one stage: four wgmma in one group, left in flight. A, B: the consumer's operands in the first stage.
__device__ __forceinline__ void multiply(uint64_t A, uint64_t B, int stage, float (&sums)[BN / 2], bool accumulate) {
    A = wgmma_descriptor_advance(A, stage * (BM * BK * 2));   // bytes
    B = wgmma_descriptor_advance(B, stage * (BN * BK * 2));
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K) {   // along the rows of A, across those of B
        const uint64_t a = wgmma_descriptor_advance(A, k * 2), b = wgmma_descriptor_advance(B, k * 64 * 2);
        wgmma_m64n256k16<Major::K, Major::MN>(sums, a, b, accumulate || k > 0);
    }
    wgmma_commit_group();
}

// Tells the producers that filled this stage that this warp has read it: its own CTA's, and the peer's, whose half of
// B it was. Relaxed, since nothing written is handed over.
__device__ __forceinline__ void release(Shared& shared, int stage, int thread) {
    const int lane = thread % 32;
    if (lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);
}

// Draws the cluster's number for all rounds but the first, and sends it to both CTAs: near partition 0 they are drawn
// from 0 upwards, near partition 1 from the last one downwards. So each number is drawn once, by whoever comes.
__device__ __forceinline__ void draw_number(Shared& shared, const int* partition_of, int* drawn, int clusters) {
    const int partition = partition_of[sm_number()];
    const int before = atom_add_relaxed_gpu(drawn, partition == 0 ? 1 : 1 << 16);   // two counters in one int
    const int near_0 = before & 0xffff, near_1 = before >> 16;
    const int number = partition == 0 ? near_0 : clusters - 1 - near_1;
    if (near_0 + near_1 == clusters - 1) st_relaxed_gpu(drawn, 0);   // all have drawn: ready for the next launch
    for (int cta = 0; cta < CLUSTER; ++cta) st_async(&shared.number, number, &shared.has_number, cta);
}

// Counts this cluster in at a checkpoint, and waits until `expected` clusters have been counted at the one before. No
// result hangs on it: it orders nothing (relaxed), and nobody waits for long. Returns false where others did not come,
// since another launch has their SMs or counts here too: then this cluster goes on by itself.
__device__ __forceinline__ bool keep_pace(int checkpoint, int expected, bool clears) {
    red_add_relaxed_gpu(&arrived[checkpoint % CHECKPOINTS], 1);
    int tries = 0;
    while (ld_relaxed_gpu(&arrived[(checkpoint - 1) % CHECKPOINTS]) < expected && tries < PACE_TRIES) ++tries;
    if (clears) st_relaxed_gpu(&arrived[(checkpoint + 4) % CHECKPOINTS], 0);   // all are past its last use
    return tries < PACE_TRIES;
}

// Stores 64 columns of a finished tile: registers, staging, C.
__device__ __forceinline__ void store_block(Shared& shared, const TensorMap& C_map, const Finished& finished, int block,
                                            int consumer, int thread) {
    __nv_bfloat16* box = shared.C[consumer][block % 2];
    if (thread == 0) cp_async_bulk_wait_group_read<1>();   // the store before last has read this box,
    barrier_sync(1 + consumer, 128);                       // and the other threads know

    // A warp has 16 rows. Matrices 0 and 1 of an stmatrix are rows 0-7 and 8-15 of one chunk (8 columns), matrices 2
    // and 3 those of the next chunk.
    const int row = thread / 32 * 16 + thread % 16, chunk = thread % 32 / 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t* pairs = finished.pairs + block * 16 + i * 4;
        const int place = row * 8 + ((2 * i + chunk) ^ row % 8);   // in chunks; the XOR is the 128-byte swizzle
        stmatrix_x4(box + place * 8, pairs[0], pairs[1], pairs[2], pairs[3]);
    }
    fence_proxy_async();               // each thread shows TMA what it wrote,
    barrier_sync(1 + consumer, 128);   // and only then one of them
    if (thread == 0) {
        cp_async_bulk_tensor_store(&C_map, box, finished.column + block * 64, finished.row);
        cp_async_bulk_commit_group();
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
       const __grid_constant__ TensorMap C_map, const int* __restrict__ order, int tiles,
       const int* __restrict__ partition_of, int* __restrict__ drawn, int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_memory[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_memory);

    // The shuffle changes nothing but what the compiler knows: that all lanes of a warp have the same number.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    const int rank = cluster_ctarank(), first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    const int steps = (K + BK - 1) / BK;
    int next = order[first];   // the cluster's next tile; no launch writes the list

    // 1. Barriers. Full: the own producer's arrival and the bytes, whoever sends them. Empty: every reader's consumers.
    //    The number's: four bytes.
    if (threadIdx.x == 0) {
        prefetch_tensormap(&A_map);
        prefetch_tensormap(&B_map);
        prefetch_tensormap(&C_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&shared.full[stage], 1);
            mbarrier_init(&shared.empty[stage], CLUSTER * CONSUMERS * WARPS);
        }
        mbarrier_init(&shared.has_number, 1);
        if (PARTITIONS) mbarrier_arrive_expect_tx(&shared.has_number, sizeof(shared.number));
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();   // the peer sends bytes and arrivals here: it must know that the barriers exist
    barrier_cluster_wait();
    griddepcontrol_wait();      // until here the launch before may have been at work on A, B and C

    // From tile i of the list to the cluster's next one. After the first it is the number that counts; later tiles are
    // read from the list a tile ahead.
    auto read_ahead = [&](int i) {
        if (i >= clusters && i + clusters < tiles) next = order[i + clusters];
    };
    auto following = [&](int i) {
        if (i >= clusters) return i + clusters;
        if (PARTITIONS) mbarrier_wait_cluster(&shared.has_number, 0);
        i = (PARTITIONS ? shared.number : first) + clusters;
        if (i < tiles) next = order[i];
        return i;
    };

    Place place;
    if (warpgroup == 0) {
        // 2. Producer: A for this CTA; its half of B for both. A full barrier counts the bytes of both halves.
        //    Every second tile walks K backwards: it begins with what the tile before has just left in L2.
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (thread == 0) {
            bool backwards = false, keeps_pace = rank == 0;   // by multicast the peer goes along with it
            int loaded = 0;   // steps
            if (rank == 0 && first == 0) {
                for (int i = 0; i < CHECKPOINTS; ++i) st_relaxed_gpu(&arrived[i], 0);
            }
            for (int i = first; i < tiles; i = following(i), backwards = !backwards) {
                const int m0 = ((next & 0xffff) * CLUSTER + rank) * BM, n0 = (next >> 16) * BN;
                const bool clears = i % clusters == 0;   // the round's first tile: there is one in every round
                read_ahead(i);
                for (int step = 0; step < steps; ++step, place.advance()) {
                    const int k0 = (backwards ? steps - 1 - step : step) * BK;
                    uint64_t* full = &shared.full[place.stage];
                    mbarrier_wait_cluster(&shared.empty[place.stage], place.parity ^ 1);
                    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
                    cp_async_bulk_tensor_load(shared.A[place.stage], &A_map, full, k0, m0);
                    const int share = rank * (BLOCKS / CLUSTER);
                    for (int box = share; box < share + BLOCKS / CLUSTER; ++box) {
                        cp_async_bulk_tensor_load_multicast(shared.B[place.stage][box], &B_map, full, n0 + box * 64, k0,
                                                            (1 << CLUSTER) - 1);
                    }
                    // The consumers have a ring full to multiply: now there is time to wait for an answer.
                    ++loaded;
                    if (PARTITIONS && rank == 0 && loaded == min(STAGES, steps)) {
                        draw_number(shared, partition_of, drawn, clusters);
                    }
                    if (keeps_pace && loaded % PACE_STEPS == 0) {
                        const int before = loaded - PACE_STEPS;   // some clusters may have no tile in the last round
                        const int expected = before ? min(clusters, tiles - (before - 1) / steps * clusters) : 0;
                        keeps_pace = keep_pace(loaded / PACE_STEPS, expected, clears);
                    }
                }
            }
        }
        barrier_cluster_arrive();   // this warp sends the peer nothing more
    } else {
        // 3. Consumers: one group of wgmma runs while the next is issued; then the stage before is given back.
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const uint64_t A = wgmma_descriptor(shared.A[0] + consumer * 64 * BK, 16, 1024);
        const uint64_t B = wgmma_descriptor(shared.B[0][0], 8192, 1024);
        float sums[BN / 2];
        Finished finished;
        for (int i = first; i < tiles; i = following(i)) {
            const int m0 = ((next & 0xffff) * CLUSTER + rank) * BM + consumer * 64, n0 = (next >> 16) * BN;
            read_ahead(i);
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
            for (int j = 0; j < BN / 4; ++j) finished.pairs[j] = pack(sums[2 * j], sums[2 * j + 1]);
            finished.row = m0;
            finished.column = n0;
            finished.pending = true;
        }
        barrier_cluster_arrive();   // all that came from the peer has been read, and all arrivals are sent

        // 4. The last tile has no next one to hide behind.
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) store_block(shared, C_map, finished, block, consumer, thread);
        if (thread == 0) cp_async_bulk_wait_group_read<0>();   // the staging ends with the CTA: TMA must have read it
    }

    // 5. The peer arrives at this CTA's barriers and multicasts into its stages: until it has done so for the last
    //    time, this shared memory must live. The peer may then still be storing its last tile.
    barrier_cluster_wait();
}
