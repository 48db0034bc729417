// partitions: which SMs are connected to the same partition of L2.
//
// An H100 or H200 has its L2 cache in two partitions, and each SM is connected to one of them. Atomics are done where
// their address is at home, so one takes longer from the SMs of the other partition.
// Launch    atomic_cycles: grid (SMs), block (1); shared memory so that an SM has room for one CTA. `words` has
//           WORDS * DISTANCE zeros, and keeps them. cycles[sm * WORDS + i] = cycles of CHAIN atomics, one after the
//           other, on word i * DISTANCE: the least of REPEATS. All SMs but one return at once, so that nobody disturbs.
#include "hopper.cuh"

constexpr int WORDS = 32, DISTANCE = 1056;   // words of 4 bytes, far enough apart to have different homes
constexpr int CHAIN = 8, REPEATS = 4;

__device__ __forceinline__ long long clock_now() {
    long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) : : "memory");
    return cycles;
}

extern "C" __global__ void atomic_cycles(int* words, int* cycles, int sm) {
    if (sm_number() != uint32_t(sm)) return;
    for (int i = 0; i < WORDS; ++i) {
        int least = 1 << 30;
        for (int repeat = 0; repeat < REPEATS; ++repeat) {
            int zero = 0;
            const long long begin = clock_now();
            // What was there is zero: an address that hangs on it makes the next atomic wait for this one.
            for (int j = 0; j < CHAIN; ++j) zero = atom_add_relaxed_gpu(words + i * DISTANCE + zero, 0);
            least = min(least, int(clock_now() - begin) + zero);
        }
        cycles[sm * WORDS + i] = least;
    }
}
