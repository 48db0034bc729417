// Where stmatrix puts its values: each lane of a warp gives the address of a row of 16 bytes and four registers.
#include "hopper.cuh"

constexpr int TILE_BYTES = 4096;
constexpr uint32_t FILLING = 0xa5a5a5a5u;

// offsets[lane]: of the lane's row, in bytes. Register r of lane l holds the 16-bit numbers 8 l + 2 r and one more.
extern "C" __global__ void __launch_bounds__(32) store_matrices(const int* offsets, uint32_t* dump) {
    extern __shared__ __align__(1024) uint8_t smem[];
    uint32_t* words = reinterpret_cast<uint32_t*>(smem);
    for (int word = threadIdx.x; word < TILE_BYTES / 4; word += 32) words[word] = FILLING;
    __syncthreads();
    uint32_t values[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const uint32_t low = 8 * threadIdx.x + 2 * r;
        values[r] = low | (low + 1) << 16;
    }
    stmatrix_x4(smem + offsets[threadIdx.x], values[0], values[1], values[2], values[3]);
    __syncthreads();
    for (int word = threadIdx.x; word < TILE_BYTES / 4; word += 32) dump[word] = words[word];
}

// The same with two matrices, which are transposed: lanes from 16 on have no row.
extern "C" __global__ void __launch_bounds__(32) store_two_transposed(const int* offsets, uint32_t* dump) {
    extern __shared__ __align__(1024) uint8_t smem[];
    uint32_t* words = reinterpret_cast<uint32_t*>(smem);
    for (int word = threadIdx.x; word < TILE_BYTES / 4; word += 32) words[word] = FILLING;
    __syncthreads();
    const uint32_t low = 8 * threadIdx.x;
    stmatrix_x2_trans(smem + offsets[threadIdx.x], low | (low + 1) << 16, (low + 2) | (low + 3) << 16);
    __syncthreads();
    for (int word = threadIdx.x; word < TILE_BYTES / 4; word += 32) dump[word] = words[word];
}
