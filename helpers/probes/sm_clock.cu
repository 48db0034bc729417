// sm_clock: how many cycles one SM counts while the GPU's wall clock passes some nanoseconds.
//
// clock64 counts the cycles of this SM; %globaltimer counts nanoseconds, but ticks coarsely (32 ns to 1 us, by chip).
// So both ends are taken at a tick: the error is one turn of the loop at either end, some 0.1% of 50 us.
// Launch    grid (1), block (1). out[0] = cycles, out[1] = nanoseconds.
__device__ __forceinline__ unsigned long long global_timer() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds) : : "memory");
    return nanoseconds;
}

// Waits for the next tick and returns the cycle count at it.
__device__ __forceinline__ long long next_tick(unsigned long long& nanoseconds) {
    const unsigned long long before = global_timer();
    do {
        nanoseconds = global_timer();
    } while (nanoseconds == before);
    return clock64();
}

extern "C" __global__ void sm_clock(unsigned long long* out, unsigned long long window_ns) {
    unsigned long long start_ns, end_ns;
    const long long start = next_tick(start_ns);
    while (global_timer() - start_ns < window_ns) {
    }
    const long long end = next_tick(end_ns);
    out[0] = static_cast<unsigned long long>(end - start);
    out[1] = end_ns - start_ns;
}
