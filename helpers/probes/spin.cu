// spin: keeps one thread of the GPU busy for a number of SM cycles.
//
// Launches queued behind it are in the GPU's queue before the first of them may start, so that an event
// between the spin and the first launch does not time how fast the CPU launches.
// Launch    grid (1), block (1).
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
