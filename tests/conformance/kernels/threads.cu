// Who a thread is: ranks in a cluster, the elected lane, addresses; named barriers; reads and numbers sent within a
// cluster; and draws from a count in global memory.
#include "hopper.cuh"

// Per CTA: block x, block y, rank in the cluster, CTAs of the cluster.
__device__ __forceinline__ void tell_rank(int* dump) {
    if (threadIdx.x != 0) return;
    int* mine = dump + 4 * (blockIdx.y * gridDim.x + blockIdx.x);
    mine[0] = blockIdx.x;
    mine[1] = blockIdx.y;
    mine[2] = cluster_ctarank();
    mine[3] = cluster_nctarank();
}

extern "C" __global__ void ranks_without_cluster(int* dump) { tell_rank(dump); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) ranks_2_1(int* dump) { tell_rank(dump); }
extern "C" __global__ void __cluster_dims__(1, 2, 1) ranks_1_2(int* dump) { tell_rank(dump); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) ranks_4_1(int* dump) { tell_rank(dump); }
extern "C" __global__ void __cluster_dims__(2, 2, 1) ranks_2_2(int* dump) { tell_rank(dump); }
extern "C" __global__ void __cluster_dims__(8, 1, 1) ranks_8_1(int* dump) { tell_rank(dump); }

// How often each lane of each warp is elected in four elections.
extern "C" __global__ void elections(int* dump) {
    int elected = 0;
    for (int election = 0; election < 4; ++election) {
        elected += elect_sync();
        __syncwarp();
    }
    dump[threadIdx.x] = elected;
}

// Differences of addresses in a cluster: between two variables of the own CTA, and of one variable in all CTAs. An H200
// gives CTA r the addresses from r << 24, which shared_address() has in it, too. The emulator's has not: only the offset,
// the low 24 bits, is to be relied on.
extern "C" __global__ void __cluster_dims__(4, 1, 1) addresses(int* dump) {
    extern __shared__ __align__(1024) uint8_t smem[];
    if (threadIdx.x != 0) return;
    int* mine = dump + 8 * blockIdx.x;
    mine[0] = shared_address(smem) % 1024;
    mine[1] = shared_address(smem + 520) - shared_address(smem);
    mine[2] = mapa(smem + 520, 2) - mapa(smem, 2);
    mine[3] = (mapa(smem, 1) - shared_address(smem)) & 0xffffff;
    for (int cta = 0; cta < 4; ++cta) mine[4 + cta] = mapa(smem, cta) - mapa(smem, 0);
}

// Named barriers as the ladder uses them. Warps 0 and 1 write and arrive at barrier 1, warps 2 and 3 wait there and
// read; then they write, and pairs of warps meet at barriers 2 (warps 2 and 3) and 3 (all four). Several rounds.
extern "C" __global__ void __launch_bounds__(128) named_barriers(int* dump, int rounds) {
    extern __shared__ __align__(1024) uint8_t smem[];
    int* values = reinterpret_cast<int*>(smem);
    const int thread = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int seen = -1;
        if (thread < 64) {
            values[thread] = 1000 * round + thread;
            barrier_arrive(1, 128);
        } else {
            barrier_sync(1, 128);
            const int received = values[127 - thread];
            values[thread] = received + 500;
            barrier_sync(2, 64);
            seen = values[thread ^ 32];
        }
        dump[round * 128 + thread] = seen;
        barrier_sync(3, 128);
    }
}

// The two halves of the cluster barrier with work in between: each CTA writes to global memory, arrives, does something
// else, waits, and reads what the others wrote.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_barrier(int* mailbox, int* dump, int rounds) {
    const int rank = cluster_ctarank(), thread = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int* letters = mailbox + round * 4 * 32;
        letters[rank * 32 + thread] = 1000 * round + 100 * rank + thread;
        barrier_cluster_arrive();
        const int own = rank * 1000000;
        barrier_cluster_wait();
        const int next = (rank + 1) % 4;
        dump[(round * 4 + rank) * 32 + thread] = own + *(volatile int*)&letters[next * 32 + 31 - thread];
    }
}

// Each CTA writes its shared memory, and after a barrier of the cluster reads 16 bytes of every CTA, its own too, where
// another thread has written. A second barrier lets all read before the next round writes.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_reads(int* dump, int rounds) {
    extern __shared__ __align__(1024) uint8_t smem[];
    float4* values = reinterpret_cast<float4*>(smem);
    const int rank = cluster_ctarank(), thread = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        const float first = 100000 * blockIdx.y + 10000 * round + 1000 * rank + 4 * thread;
        values[thread] = make_float4(first, first + 1, first + 2, first + 3);
        barrier_cluster_arrive();
        barrier_cluster_wait();
        for (int cta = 0; cta < 4; ++cta) {
            const float4 found = ld_shared_cluster(&values[(thread + 5 * cta) % 32], cta);
            int* told = dump + ((((blockIdx.y * rounds + round) * 4 + rank) * 4 + cta) * 32 + thread) * 4;
            told[0] = int(found.x);
            told[1] = int(found.y);
            told[2] = int(found.z);
            told[3] = int(found.w);
        }
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

// Each thread of each CTA sends a number to every CTA of the cluster, its own too, and all wait for those that come. A
// barrier of the cluster lets all read before the next round sends.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sends(int* dump, int rounds) {
    extern __shared__ __align__(1024) uint8_t smem[];
    int* numbers = reinterpret_cast<int*>(smem);   // [CTA][thread] of who has sent them
    uint64_t* full = reinterpret_cast<uint64_t*>(smem + 512);
    const int rank = cluster_ctarank(), thread = threadIdx.x;
    if (thread == 0) mbarrier_init(full, 1);
    barrier_cluster_arrive();   // with release: the barrier needs no fence
    barrier_cluster_wait();
    for (int round = 0; round < rounds; ++round) {
        if (thread == 0) mbarrier_arrive_expect_tx(full, 4 * 32 * sizeof(int));
        for (int cta = 0; cta < 4; ++cta) {
            const int value = 1000000 * blockIdx.y + 100000 * round + 10000 * rank + 1000 * cta + thread;
            st_async(&numbers[rank * 32 + thread], value, full, cta);
        }
        mbarrier_wait_cluster(full, round % 2);
        int* told = dump + ((blockIdx.y * rounds + round) * 4 + rank) * 4 * 32;
        for (int cta = 0; cta < 4; ++cta) told[cta * 32 + thread] = numbers[cta * 32 + (thread + 5 * cta) % 32];
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

// Each thread draws numbers from count[0] and marks them in `dump`: all are drawn, each once.
extern "C" __global__ void draws(int* count, int* dump, int rounds) {
    for (int round = 0; round < rounds; ++round) red_add_relaxed_gpu(&dump[atom_add_relaxed_gpu(count, 1)], 1);
}
