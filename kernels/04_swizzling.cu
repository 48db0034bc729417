// 04_swizzling: the shared tiles' chunks change places, and the bank conflicts are gone.
//
// Idea      Chunk c of row r is kept at place c ^ (r % 8) of its row. Eight rows at the same chunk then lie in eight
//           different groups of four banks, and eight chunks of one row still do: rows and columns are both free.
// Changed   03_register_tiling kept chunk c at place c. Only chunk_index() is new: every access goes through it.
// Layout    As before: rows of 128 bytes, eight chunks of 16 bytes. The XOR is the one that TMA's 128-byte swizzle
//           makes: bits 4-6 of the address (the chunk) get bits 7-9 (the row modulo 8) added without carry.
// Contract  C[M,N] = A[M,K] @ B[K,N], row-major bf16, fp32 accumulation.
//           M a multiple of 128, N of 256, K of 64; bases 16-byte aligned.
// Launch    grid (N / BN, M / BM), block (THREADS). -DSWIZZLE=0 takes the XOR away again.
#include <cuda_bf16.h>

#ifndef SWIZZLE
#define SWIZZLE 1
#endif

constexpr int BM = 128, BN = 256, BK = 64;   // the CTA's tile of C, and the depth of a step
constexpr int THREADS = 256;                 // 8 warps, 2 along M and 4 along N; each computes 64 x 64 of C
constexpr int CHUNK = 8;                     // bf16 in 16 bytes, the widest load
constexpr int TM = 8, TN = 2;                // a thread's tile of C: 8 rows, 2 chunks of columns
constexpr int ROW_CHUNKS = 64 / CHUNK;       // chunks in a 128-byte row of a shared tile
constexpr int BOX_CHUNKS = BK * ROW_CHUNKS;  // chunks in one 64 x 64 box of B, the share of one warp column

// Place of a chunk in a shared tile whose first byte lies at a multiple of 1024 bytes.
__device__ __forceinline__ int chunk_index(int row, int chunk) {
    return row * ROW_CHUNKS + (SWIZZLE ? chunk ^ row % 8 : chunk);
}

// The eight bf16 of a chunk as fp32. A bf16 is the upper half of an fp32, so this is a shift or a mask each.
__device__ __forceinline__ void unpack(uint4 chunk, float (&values)[CHUNK]) {
    const unsigned int pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        values[2 * p] = __uint_as_float(pairs[p] << 16);
        values[2 * p + 1] = __uint_as_float(pairs[p] & 0xffff0000u);
    }
}

// Eight fp32 as the bf16 of a chunk, rounded to nearest even.
__device__ __forceinline__ uint4 pack(const float (&values)[CHUNK]) {
    unsigned int pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * p], values[2 * p + 1]);
        pairs[p] = reinterpret_cast<const unsigned int&>(pair);
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
       int M, int N, int K) {
    __shared__ __align__(1024) uint4 A_tile[BM * ROW_CHUNKS];
    __shared__ __align__(1024) uint4 B_tile[BN / 64 * BOX_CHUNKS];

    // A warp's lanes are 8 along M and 4 along N. A thread's rows lie 8 apart: the eight lanes that a 128-bit load
    // serves together then read rows with eight different `row % 8`, so the XOR sends them to eight different places.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int box = warp % 4;                           // the warp's box of B, 64 of the CTA's 256 columns
    const int thread_row = warp / 4 * 64 + lane % 8;    // the thread's rows: this one, then every 8th
    const int thread_chunk = lane / 8;                  // the thread's chunks of the box: this one, then every 4th

    // The matrices as chunks, from this CTA's first row of A and first column of B on. C's rows are as long as B's.
    const size_t A_stride = K / CHUNK, B_stride = N / CHUNK;
    const uint4* A_chunks = reinterpret_cast<const uint4*>(A) + blockIdx.y * BM * A_stride;
    const uint4* B_chunks = reinterpret_cast<const uint4*>(B) + blockIdx.x * (BN / CHUNK);
    uint4* C_chunks = reinterpret_cast<uint4*>(C) + blockIdx.y * BM * B_stride + blockIdx.x * (BN / CHUNK);

    float sums[TM][TN][CHUNK] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // 1. Load: a thread moves 4 chunks of A and 8 of B; eight lanes cover a row of 128 bytes (coalesced).
#pragma unroll
        for (int i = 0; i < BM * ROW_CHUNKS / THREADS; ++i) {
            const int index = i * THREADS + threadIdx.x;
            const int row = index / ROW_CHUNKS, chunk = index % ROW_CHUNKS;
            A_tile[chunk_index(row, chunk)] = A_chunks[row * A_stride + chunk];
        }
#pragma unroll
        for (int i = 0; i < BN / 64 * BOX_CHUNKS / THREADS; ++i) {
            const int index = i * THREADS + threadIdx.x;
            const int to_box = index / BOX_CHUNKS, row = index / ROW_CHUNKS % BK, chunk = index % ROW_CHUNKS;
            B_tile[to_box * BOX_CHUNKS + chunk_index(row, chunk)] =
                B_chunks[row * B_stride + to_box * ROW_CHUNKS + chunk];
        }
        __syncthreads();   // the tiles are read by other threads than wrote them

        // 2. Multiply: a chunk of A holds eight steps of k for one of the thread's rows; each of these steps needs two
        //    chunks of B. The outer loop stays a loop: unrolled, its loads would need more registers than there are.
#pragma unroll 1
        for (int k_chunk = 0; k_chunk < ROW_CHUNKS; ++k_chunk) {
            float a[TM][CHUNK];
#pragma unroll
            for (int i = 0; i < TM; ++i) unpack(A_tile[chunk_index(thread_row + 8 * i, k_chunk)], a[i]);
#pragma unroll
            for (int k = 0; k < CHUNK; ++k) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    float b[CHUNK];
                    unpack(B_tile[box * BOX_CHUNKS + chunk_index(k_chunk * CHUNK + k, thread_chunk + 4 * j)], b);
#pragma unroll
                    for (int i = 0; i < TM; ++i)
#pragma unroll
                        for (int c = 0; c < CHUNK; ++c) sums[i][j][c] += a[i][k] * b[c];
                }
            }
        }
        A_chunks += ROW_CHUNKS;
        B_chunks += BK * B_stride;
        __syncthreads();   // nobody overwrites a tile that a slower warp still reads
    }

    // 3. Store: a chunk is eight neighbours in a row of C; four lanes write 64 bytes, two whole sectors.
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
            C_chunks[(thread_row + 8 * i) * B_stride + box * ROW_CHUNKS + thread_chunk + 4 * j] = pack(sums[i][j]);
}
