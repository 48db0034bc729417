// note_time.cuh: the two clocks of a GPU, for probes. Without a GPU there are none: then nothing is noted.
//
// Over all launches a CTA sums up the cycles of its SM and the nanoseconds of the GPU between its begin and its end.
// A log has four places for each CTA: cycles and nanoseconds at the begin, then both sums. The CPU sets it to zero.

#ifdef __CUDACC_RTC__
__device__ __forceinline__ unsigned long long global_timer() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds) : : "memory");
    return nanoseconds;
}

// For one thread of a CTA, before the work. own: the four places of this CTA.
__device__ __forceinline__ void note_begin(unsigned long long* own) {
    own[0] = clock64();
    own[1] = global_timer();
}

// For the same thread, after the work.
__device__ __forceinline__ void note_end(unsigned long long* own) {
    own[2] += clock64() - own[0];
    own[3] += global_timer() - own[1];
}
#else
inline void note_begin(unsigned long long*) {}
inline void note_end(unsigned long long*) {}
#endif
