// Numbers that a thread sends into the shared memory of its cluster: right kernels, and planted faults.
// A fault's line, or a line that its report names, ends in `// !name`.
#include "hopper.cuh"

#ifndef FAULT
#define FAULT 0
#endif
#ifndef CTAS
#define CTAS 2
#endif
#ifndef TO   // the CTA that `misplaced` sends to
#define TO 1
#endif

// In each round the first CTA's first thread sends 100 * round + rank to all CTAs of the cluster, all of whose threads
// wait for it, read it, and tell the first CTA so; then the next may be sent. It lies in one granule of 16 bytes with
// the one before and with a word of thread 1.
// 1: nobody waits. 2: all wait with the scope of the CTA. 3: they poll with it. 4: the next number does not wait for the
// readers. 5: they tell by relaxed arrivals, which order no reads. 6: it is sent twice. 7: a thread writes there before
// it has come. 8: another CTA reads there before it has come.
extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) send_numbers(int* out, int rounds) {
    __shared__ __align__(16) int words[4];
    __shared__ uint64_t full, empty;
    const int thread = threadIdx.x, rank = cluster_ctarank(), threads = blockDim.x;
    const bool is_sender = rank == 0 && thread == 0, is_peer = rank == CTAS - 1 && thread == 0;
    if (thread == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, CTAS * threads);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    for (int round = 0; round < rounds; ++round) {
        int* word = &words[FAULT == 0 ? round % 2 * 2 : 0];
        if (thread == 1) words[1] = round;
        if (thread == 0) mbarrier_arrive_expect_tx(&full, FAULT == 6 ? 8 : 4);
        if (is_sender) {
            if (round > 0 && FAULT != 4) mbarrier_wait_cluster(&empty, (round - 1) % 2);
            for (int cta = 0; cta < CTAS; ++cta) {
                st_async(word, 100 * round + cta, &full, cta);                  // !send
                if (FAULT == 6) st_async(word, 100 * round + cta, &full, cta);  // !again
            }
        }
        if (FAULT == 7 && is_peer) *word = 3;                                                              // !overwrite
        if (FAULT == 8 && is_peer) out[0] = int(ld_shared_cluster(reinterpret_cast<float4*>(words), 0).x);   // !peek
        if (FAULT == 2) mbarrier_wait(&full, round % 2);   // !wait
        if (FAULT == 3) {
            while (!mbarrier_try_wait_parity(&full, round % 2)) {}   // !poll
        }
        if (FAULT == 0 || FAULT > 3) mbarrier_wait_cluster(&full, round % 2);
        if (FAULT == 4) __syncthreads();   // before the next phase begins
        out[(blockIdx.x * rounds + round) * threads + thread] = *word;   // !read
        FAULT == 5 ? mbarrier_arrive_cluster(&empty, 0) : mbarrier_arrive_release_cluster(&empty, 0);
    }
    if (FAULT == 1) mbarrier_wait_cluster(&full, (rounds - 1) % 2);
    if (is_sender) mbarrier_wait_cluster(&empty, (rounds - 1) % 2);
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

// One number, sent by thread 37 of the first of two CTAs to CTA `TO`. 1: a CTA that is not there. 2: amid a number. 3:
// past the end. 4: to a variable of the thread. 5: for a variable of the thread. 6: for 8 bytes that are no barrier. 7:
// amid a barrier. 8: nothing makes the barrier known to the cluster. 9: a relaxed barrier of the cluster does not.
// 10: right, a releasing one does, with no fence. 11: the other CTA has exited. 12: it exits meanwhile. 13: it reads, but
// does not wait, and its barrier wants fewer bytes.
extern "C" __global__ void __cluster_dims__(2, 1, 1) misplaced(int* out) {
    __shared__ __align__(16) int words[4];
    __shared__ uint64_t full, no_barrier;
    const int thread = threadIdx.x, rank = cluster_ctarank();
    int local = 0;
    uint64_t local_barrier = 0;
    if (thread == 0) {
        mbarrier_init(&full, 1);   // !made
        if (FAULT != 9 && FAULT != 10) fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, rank != TO || FAULT == 13 ? 0 : 4);
    }
    if (thread == 1) no_barrier = words[0] = 0;   // st_async is no work of another proxy: it needs no fence
    FAULT == 9 ? barrier_cluster_arrive_relaxed() : barrier_cluster_arrive();
    FAULT == 8 ? __syncthreads() : barrier_cluster_wait();
    const bool leaves = rank == 1 && (FAULT == 11 || FAULT == 12);
    if (FAULT == 11) {   // the others wait for those that leave
        if (leaves) return;
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
    int* to = words;
    uint64_t* barrier = &full;
    if (FAULT == 2) to = reinterpret_cast<int*>(reinterpret_cast<char*>(words) + 2);
    if (FAULT == 3) to = words + 400;
    if (FAULT == 4) to = &local;
    if (FAULT == 5) barrier = &local_barrier;
    if (FAULT == 6) barrier = &no_barrier;
    if (FAULT == 7) barrier = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(&full) + 4);
    if (rank == 0 && thread == 37) st_async(to, 5, barrier, FAULT == 1 ? 2 : TO);   // !sent
    if (FAULT == 12) {
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
    if (rank == TO && !leaves && FAULT != 8 && FAULT != 13) {
        mbarrier_wait_cluster(&full, 0);
        out[thread] = words[0];
    }
    if (FAULT == 8) barrier_cluster_wait();
    if (FAULT == 11 || FAULT == 12) return;
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (FAULT == 13 && rank == TO) out[thread] = words[0];
}

// The threads of a warp send themselves a row of numbers, which TMA stores. 1: with no fence. 2: with no wait for them.
// 3: they are sent anew while TMA may still read them. 4: TMA loads over them, with no fence. 5: it does so while they
// are under way. 6: they are sent while a TMA load is under way there. 7: right, the thread that loads has waited for
// them, and the others wait for the load only.
extern "C" __global__ void pass_to_tma(const __grid_constant__ TensorMap map) {
    __shared__ __align__(128) int row[32];
    __shared__ uint64_t full, loaded;
    const int thread = threadIdx.x;
    if (thread == 0) {
        mbarrier_init(&full, 32);
        mbarrier_init(&loaded, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    const bool loads = FAULT >= 4 && thread == 0;
    if (FAULT >= 6 && loads) mbarrier_arrive_expect_tx(&loaded, 128);
    if (FAULT == 6 && loads) {
        cp_async_bulk_tensor_load(row, &map, &loaded, 0, 0);   // !load_first
    }
    __syncwarp();
    mbarrier_arrive_expect_tx(&full, 4);
    st_async(&row[thread], 1000 + thread, &full, 0);   // !number
    if (FAULT != 2 && FAULT != 5 && (FAULT != 7 || loads)) mbarrier_wait_cluster(&full, 0);
    if (FAULT != 1 && FAULT != 4) fence_proxy_async();
    if (FAULT != 7) __syncwarp();
    if (FAULT != 6 && loads) {
        if (FAULT != 7) mbarrier_arrive_expect_tx(&loaded, 128);
        cp_async_bulk_tensor_load(row, &map, &loaded, 0, 0);   // !load
    }
    if (loads || FAULT == 7) mbarrier_wait(&loaded, 0);
    if (FAULT == 7 && row[thread] != 0) __trap();
    if (FAULT < 4 && thread == 0) {
        cp_async_bulk_tensor_store(&map, row, 0, 0);   // !store
        cp_async_bulk_commit_group();
        if (FAULT != 3) cp_async_bulk_wait_group_read<0>();
    }
    __syncwarp();
    if (FAULT == 3) {
        mbarrier_arrive_expect_tx(&full, 4);
        st_async(&row[thread], thread, &full, 0);   // !anew
        mbarrier_wait_cluster(&full, 1);
        if (thread == 0) cp_async_bulk_wait_group_read<0>();
    }
    if (FAULT == 2 || FAULT == 5) mbarrier_wait_cluster(&full, 0);
}

// Numbers that look like memory to which nothing was written, which another CTA reads. It knows of them from the
// cluster's barrier. 1: which is relaxed.
extern "C" __global__ void __cluster_dims__(2, 1, 1) all_ones(int* out) {
    __shared__ __align__(16) int words[4];
    __shared__ uint64_t full;
    const int thread = threadIdx.x, rank = cluster_ctarank();
    if (thread == 0) mbarrier_init(&full, 1);
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (rank == 0 && thread == 0) {
        mbarrier_arrive_expect_tx(&full, 16);
        for (int i = 0; i < 4; ++i) st_async(&words[i], -1, &full, 0);   // !ones
        mbarrier_wait_cluster(&full, 0);
    }
    FAULT == 1 ? barrier_cluster_arrive_relaxed() : barrier_cluster_arrive();
    barrier_cluster_wait();
    if (rank == 1) {
        const float4 found = ld_shared_cluster(reinterpret_cast<const float4*>(words), 0);   // !far
        out[thread] = __float_as_int(found.w);
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

// The number of each CTA's SM.
extern "C" __global__ void sms(int* out) { out[blockIdx.x + gridDim.x * blockIdx.y] = sm_number(); }
extern "C" __global__ void __cluster_dims__(2, 2, 1) sms_of_clusters(int* out) {
    out[blockIdx.x + gridDim.x * blockIdx.y] = sm_number();
}
