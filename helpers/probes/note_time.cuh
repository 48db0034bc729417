// note_time.cuh: the two clocks of a GPU, for probes.
#pragma once

// Notes the cycles of this SM and the nanoseconds of the GPU, now; zeros where there are no times (on the emulator).
__device__ __forceinline__ void note_time(unsigned long long* to) {
    unsigned long long nanoseconds = 0, cycles = 0;
#ifdef __CUDACC_RTC__
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds) : : "memory");
    cycles = clock64();
#endif
    to[0] = cycles;
    to[1] = nanoseconds;
}
