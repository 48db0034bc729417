// Small kernels for tests of mbarriers, named barriers, clusters and register budgets: right ones, and planted faults.
// A fault's line ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif

// ---- mbarriers

// The first warp hands `rounds` values to the second through a ring of two slots.
// 1: the consumer does not wait. 2: the producer does not wait. 3: the consumer does not free the slot.
// 4: the producer waits for the wrong parity.
extern "C" __global__ void ring(int* out, int rounds) {
    __shared__ int slots[2][32];
    __shared__ uint64_t full[2], empty[2];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&full[i], 32);
            mbarrier_init(&empty[i], 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        const int slot = round % 2, parity = round / 2 % 2;
        if (threadIdx.x < 32) {
            if (FAULT != 2) mbarrier_wait(&empty[slot], FAULT == 4 ? parity : parity ^ 1);   // !producer_wait
            slots[slot][lane] = round * 32 + lane;   // !ring_write
            mbarrier_arrive(&full[slot]);   // !ring_arrive
        } else {
            if (FAULT != 1) mbarrier_wait(&full[slot], parity);   // !consumer_wait
            out[round * 32 + lane] = slots[slot][lane ^ 1];   // !ring_read
            if (FAULT != 3) mbarrier_arrive(&empty[slot]);
        }
    }
}

// Both halves of the block meet twice, with a value handed over each time. Polls instead of waiting.
extern "C" __global__ void polled(int* out) {
    __shared__ uint64_t barrier;
    __shared__ int value;
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 7;
        if (FAULT != 1) mbarrier_arrive(&barrier);
    } else if (threadIdx.x == 32) {
        int tries = 1;
        while (!mbarrier_try_wait_parity(&barrier, 0)) ++tries;   // !poll
        out[0] = value;
        out[1] = tries;
    }
}

// A poll that gives up, since its phase only completes once it has.
extern "C" __global__ void polled_in_vain(int* out) {
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        out[0] = mbarrier_try_wait_parity(&barrier, 0);
        mbarrier_arrive(&barrier);
        out[1] = mbarrier_try_wait_parity(&barrier, 0);
        out[2] = mbarrier_try_wait_parity(&barrier, 1);
    }
}

struct Together {
    uint64_t first, second;
    uint64_t many[3];
};

// Misuse of a barrier, one kind each.
extern "C" __global__ void misuse(int* out) {
    extern __shared__ __align__(128) uint8_t memory[];
    Together& shared = *reinterpret_cast<Together*>(memory);
    uint64_t local = 0;
    if (FAULT == 2) mbarrier_init(&shared.first, 32);   // !initialised_twice
    if (threadIdx.x == 0) {
        if (FAULT == 3) mbarrier_init(&shared.first, 0);   // !no_arrivals
        if (FAULT != 1 && FAULT != 2 && FAULT != 3) mbarrier_init(&shared.first, 1);   // !init_first
        for (int i = 0; i < 3; ++i) mbarrier_init(shared.many + i, 2);
        if (FAULT == 4) *reinterpret_cast<volatile int*>(&shared.first) = 5;
        if (FAULT == 5) mbarrier_inval(&shared.first);
    }
    if (FAULT != 6) __syncthreads();
    if (threadIdx.x == 40) {
        if (FAULT == 1 || FAULT == 4 || FAULT == 5 || FAULT == 6) mbarrier_arrive(&shared.first);   // !arrive_first
        if (FAULT == 7) mbarrier_wait(&shared.first, 2);   // !bad_parity
        if (FAULT == 8) mbarrier_arrive(&local);   // !not_shared
        if (FAULT == 9) mbarrier_arrive(reinterpret_cast<uint64_t*>(memory + 12));   // !not_aligned
        if (FAULT == 10) {
            mbarrier_arrive_expect_tx(&shared.first, 64);   // !expected
            mbarrier_arrive(&shared.first);   // !one_too_many
        }
        if (FAULT == 11) mbarrier_arrive_expect_tx(&shared.first, 64);   // !never_comes
        if (FAULT == 12) {
            mbarrier_expect_tx(&shared.first, 1 << 19);
            mbarrier_expect_tx(&shared.first, 1 << 19);   // !too_many_bytes
        }
        if (FAULT == 15) mbarrier_arrive(reinterpret_cast<uint64_t*>(memory + 128));   // !past_the_end
        if (FAULT == 16) mbarrier_arrive(reinterpret_cast<uint64_t*>(memory + (400 << 10)));   // !far_past_the_end
        if (FAULT == 13) mbarrier_wait(&shared.many[1], 0);   // !nobody_comes
        if (FAULT == 14) {
            mbarrier_arrive(&shared.many[2]);
            mbarrier_wait(&shared.many[2], 0);   // !one_comes
        }
        out[0] = 1;
    }
}

// ---- named barriers

// Warps 0 and 1 write, warps 2 and 3 read; the writers only arrive. 1: number 16. 2: 40 threads. 3: counts differ.
// 4: a writer does not come. 5: no barrier.
extern "C" __global__ void named(int* out, int number) {
    __shared__ int values[64];
    const int thread = threadIdx.x % 64;
    const int count = FAULT == 2 ? 40 : FAULT == 3 && threadIdx.x >= 64 ? 96 : 128;
    if (FAULT == 1) number = 16;
    if (threadIdx.x < 64) {
        values[thread] = thread * 3;   // !named_write
        if (FAULT == 4 && threadIdx.x < 32) return;
        if (FAULT != 5) barrier_arrive(number, count);   // !named_arrive
    } else {
        if (FAULT != 5) barrier_sync(number, count);   // !named_sync
        out[thread] = values[63 - thread];   // !named_read
    }
}

// Number 0 is the barrier of __syncthreads().
extern "C" __global__ void named_zero(int* out) {
    if (threadIdx.x < 32) {
        barrier_sync(0, 64);   // !zero
    } else {
        __syncthreads();   // !zero_syncthreads
    }
    out[threadIdx.x] = 1;
}

// Two groups of two warps take turns, with two barriers between them, and each group meets in its turn.
// 1: right, they may use one number for that. 2: not if they meet outside of their turns. 3: the second group does not
// wait for its turn.
extern "C" __global__ void turns(int* out, int rounds) {
    __shared__ int value;
    const int group = threadIdx.x / 64;
    if (threadIdx.x == 0) value = 0;
    __syncthreads();
    if (group == 1) barrier_arrive(1, 128);   // the first group begins
    for (int round = 0; round < rounds; ++round) {
        if (FAULT == 2) barrier_sync(3, 64);   // !outside
        if (FAULT != 3 || group == 0) barrier_sync(1 + group, 128);
        if (threadIdx.x % 64 == 0) value = 2 * value + group;
        barrier_sync(FAULT == 1 ? 3 : 3 + group, 64);
        if (group == 0 && FAULT != 3) barrier_arrive(2, 128);
        if (group == 1 && round + 1 < rounds) barrier_arrive(1, 128);   // !once_more
    }
    __syncthreads();
    out[threadIdx.x] = value;
}

// ---- clusters

// Where the CTAs of a cluster are.
extern "C" __global__ void __cluster_dims__(2, 2, 1) placed(int* out) {
    int* mine = out + 4 * (blockIdx.x + gridDim.x * blockIdx.y);
    mine[0] = cluster_ctarank();
    mine[1] = cluster_nctarank();
    mine[2] = blockIdx.x;
    mine[3] = blockIdx.y;
}

// Each CTA tells the others, through their barriers, in every round; all wait. The last CTA says how many came.
// 1: no cluster barrier after the initialisation. 2: none at the end. 3: an arrival at CTA 9. 4: arrives twice.
// 5: waits without arriving. 6: one CTA does not arrive at the others. 7, 8: waits and polls with the scope of a CTA.
// 9: right, a barrier of the cluster comes before such a wait. 10: right, a wait of the cluster has seen the phase's end.
extern "C" __global__ void rounds(int* out, int count) {
    __shared__ uint64_t barrier;
    const uint32_t rank = cluster_ctarank(), size = cluster_nctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, size);   // !remote_init
        fence_mbarrier_init();
    }
    if (FAULT == 4) barrier_cluster_arrive();   // !arrives
    if (FAULT != 1 && FAULT != 5) barrier_cluster_arrive();   // !arrives_again
    if (FAULT == 1) __syncthreads();
    if (FAULT != 1) barrier_cluster_wait();   // !waits
    for (int round = 0; round < count; ++round) {
        if (threadIdx.x < size && !(FAULT == 6 && rank == 1 && round == 2)) {
            mbarrier_arrive_cluster(&barrier, FAULT == 3 ? 9 : threadIdx.x);   // !remote_arrive
        }
        if (FAULT == 9) {
            barrier_cluster_arrive();
            barrier_cluster_wait();
        }
        if (threadIdx.x == 0 && FAULT == 10) mbarrier_wait_cluster(&barrier, round % 2);
        if (FAULT == 10) __syncwarp();
        if (threadIdx.x == 1 && FAULT == 10) mbarrier_wait(&barrier, round % 2);
        if (threadIdx.x == 0 && (FAULT == 7 || FAULT == 9)) mbarrier_wait(&barrier, round % 2);   // !own_wait
        if (threadIdx.x == 0 && FAULT == 8) {
            while (!mbarrier_try_wait_parity(&barrier, round % 2)) {   // !own_poll
            }
        }
        if (threadIdx.x == 0) mbarrier_wait_cluster(&barrier, round % 2);   // !remote_wait
        if (FAULT == 2 && round + 1 == count && rank == 0) return;
        __syncwarp();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = count;
    if (FAULT != 2) {
        barrier_cluster_arrive_relaxed();
        barrier_cluster_wait();
    }
}

// The last arrival is at a CTA that need not wait for it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) leaves_early(int* out) {
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (cluster_ctarank() == 1 && threadIdx.x == 0) mbarrier_arrive_cluster(&barrier, 0);   // !late_arrival
    if (FAULT == 0) {
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
    out[blockIdx.x] = 1;
}

// Threads that have exited are not waited for.
extern "C" __global__ void __cluster_dims__(2, 1, 1) some_exit(int* out) {
    if (threadIdx.x >= 32 && cluster_ctarank() == 0) return;
    barrier_cluster_arrive();
    if (threadIdx.x >= 48) return;   // has arrived and does not wait
    barrier_cluster_wait();
    out[blockIdx.x] = 1;
}

// ---- warps and warpgroups

extern "C" __global__ void elected(int* out) {
    if (elect_sync()) out[threadIdx.x / 32] = threadIdx.x % 32 + 1;
}

// Two warpgroups share the registers at launch. 1: together more than there are. 2: fewer by inc. 3: different values in
// one warpgroup. 4: a warp does not come.
extern "C" __global__ void __launch_bounds__(256, 2) registers(int* out) {
    if (threadIdx.x < 128) {
        if (FAULT == 1) {
            setmaxnreg_dec<104>();   // !dec
        } else if (FAULT == 3 && threadIdx.x < 32) {
            setmaxnreg_dec<48>();
        } else if (FAULT != 4 || threadIdx.x >= 32) {
            setmaxnreg_dec<40>();   // !dec_40
        }
    } else {
        if (FAULT == 2) {
            setmaxnreg_inc<56>();   // !inc_less
        } else {
            setmaxnreg_inc<216>();   // !inc
        }
    }
    out[threadIdx.x] = 1;
}

extern "C" __global__ void unbounded(int* out) {
    setmaxnreg_dec<40>();   // !unbounded
    out[threadIdx.x] = 1;
}

// ---- what makes accesses ordered

// A value goes from one thread to others over a chain of different barriers. 1, 2: a link is missing.
extern "C" __global__ void chain(int* out) {
    __shared__ int value;
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
    fence_mbarrier_init();
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 5) value = 11;   // !chain_write
        if (FAULT != 1) __syncwarp();
        if (threadIdx.x == 0) mbarrier_arrive(&barrier);
    } else if (threadIdx.x < 64) {
        if (threadIdx.x == 32) mbarrier_wait(&barrier, 0);
        __syncwarp();
        barrier_arrive(3, 64);
    } else {
        if (FAULT != 2) barrier_sync(3, 64);
        out[threadIdx.x - 64] = value;   // !chain_read
    }
}
