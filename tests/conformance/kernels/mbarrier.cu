// What a barrier in shared memory answers at chosen points, to a script of operations.
//
// A pair of CTAs goes through the script in step, with a barrier of the cluster between two operations. Each CTA has a
// barrier of its own. A step is {ranks, operation, operand}: thread 0 of each CTA whose bit is set in `ranks` acts
// (with `arrive_threads`: as many threads as the operand says). answers[step][rank] is 1 or 0 where a try was made,
// else -1.
#include "hopper.cuh"

enum Operation {
    INIT = 0,             // for so many arrivals
    INVALIDATE = 1,
    ARRIVE = 2,
    ARRIVE_THREADS = 3,   // so many threads
    EXPECT = 4,           // so many bytes
    ARRIVE_EXPECT = 5,    // so many bytes
    TRY = 6,              // the phase of this parity; told in `answers`
    WAIT = 7,             // for the phase of this parity
    WAIT_CLUSTER = 8,     // the same, seeing what the other CTA wrote
    ARRIVE_AT = 9,        // the barrier of that CTA
    RELEASE_AT = 10,      // the same, showing what was written
    LOAD = 11,            // a box, at row `operand`
    LOAD_MULTICAST = 12,  // a box at row 0, to the CTAs of that mask
    SEND = 13,            // a number, to that CTA
};

struct Step {
    int ranks, operation, operand;
};

struct Shared {
    alignas(1024) uint8_t box[1024];
    uint64_t barrier;
    int numbers[2];   // by the rank of who sent it
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
run_script(const __grid_constant__ TensorMap map, const int* script, int* answers, int steps) {
    extern __shared__ __align__(1024) uint8_t smem[];
    Shared& shared = *reinterpret_cast<Shared*>(smem);
    uint64_t* barrier = &shared.barrier;
    const int rank = cluster_ctarank();
    for (int number = 0; number < steps; ++number) {
        const Step step = {script[3 * number], script[3 * number + 1], script[3 * number + 2]};
        const bool mine = step.ranks >> rank & 1;
        int answer = -1;
        if (mine && step.operation == ARRIVE_THREADS && int(threadIdx.x) < step.operand) mbarrier_arrive(barrier);
        if (mine && threadIdx.x == 0) {
            switch (step.operation) {
                case INIT: mbarrier_init(barrier, step.operand); fence_mbarrier_init(); break;
                case INVALIDATE: mbarrier_inval(barrier); break;
                case ARRIVE: mbarrier_arrive(barrier); break;
                case EXPECT: mbarrier_expect_tx(barrier, step.operand); break;
                case ARRIVE_EXPECT: mbarrier_arrive_expect_tx(barrier, step.operand); break;
                case TRY: answer = mbarrier_try_wait_parity(barrier, step.operand); break;
                case WAIT: mbarrier_wait(barrier, step.operand); break;
                case WAIT_CLUSTER: mbarrier_wait_cluster(barrier, step.operand); break;
                case ARRIVE_AT: mbarrier_arrive_cluster(barrier, step.operand); break;
                case RELEASE_AT: mbarrier_arrive_release_cluster(barrier, step.operand); break;
                case LOAD: cp_async_bulk_tensor_load(shared.box, &map, barrier, 0, step.operand); break;
                case LOAD_MULTICAST:
                    cp_async_bulk_tensor_load_multicast(shared.box, &map, barrier, 0, 0, uint16_t(step.operand));
                    break;
                case SEND: st_async(&shared.numbers[rank], number, barrier, step.operand); break;
                default: break;
            }
        }
        if (threadIdx.x == 0) answers[2 * number + rank] = answer;
        __syncthreads();
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

// Bytes handed from one CTA's threads to the other's: written to global memory before a remote arrive with release,
// read after the wait with acquire. Both CTAs at once, `rounds` times, through both phases.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
hand_over(int* mailbox, int* dump, int rounds) {
    extern __shared__ __align__(1024) uint8_t smem[];
    uint64_t* barrier = &reinterpret_cast<Shared*>(smem)->barrier;
    const int rank = cluster_ctarank(), peer = 1 - rank, thread = threadIdx.x;
    if (thread == 0) {
        mbarrier_init(barrier, 64);
        fence_mbarrier_init();
    }
    __syncthreads();
    barrier_cluster_arrive();
    barrier_cluster_wait();
    for (int round = 0; round < rounds; ++round) {
        mailbox[(round * 2 + rank) * 64 + thread] = 1000 * round + 100 * rank + thread;
        mbarrier_arrive_release_cluster(barrier, peer);
        mbarrier_wait_cluster(barrier, round & 1);
        dump[(round * 2 + rank) * 64 + thread] = *(volatile int*)&mailbox[(round * 2 + peer) * 64 + 63 - thread];
        __syncthreads();
        barrier_cluster_arrive();   // else a fast CTA could end two phases before a slow thread has seen the first
        barrier_cluster_wait();
    }
}
