/* Tiles in double on tensor cores. Coordinates are single in memory and become double in registers. */
#include <cuda_runtime.h>

#include "common/device_cuda.h"
#include "kernels/superpose/superpose_tile.cuh"

/* A warp has 48 × 24 of the tile's 96 × 96 elements of R: 3 × 3 products of 16 × 8 over SLAB atoms, as many registers
 * as let two blocks share a processor (measured against products over 16 atoms, and against larger shares of a warp).
 * Rows of 8 floats lie next to each other in shared memory, and a thread reads two atoms at once: which of them is the
 * k-th of the product does not matter as long as both sides agree. RESULT_PITCH keeps threads that write R apart from
 * bank to bank. */
enum { STAGES = 4, SLAB = 8, SLABS = SUPERPOSE_CHUNK / SLAB, SLAB_FLOATS = 2 * TILE_ROWS * SLAB };
enum { STAGE_FLOATS = SLABS * SLAB_FLOATS, PRODUCTS = 3, RESULT_PITCH = 104 };
static const size_t SHARED_BYTES = TILE_ROWS * RESULT_PITCH * sizeof(double);
static_assert(STAGES * STAGE_FLOATS * sizeof(float) <= TILE_ROWS * RESULT_PITCH * sizeof(double), "shared memory");

static __device__ __forceinline__ void multiply(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                         : "d"(a[2 * k + half]), "d"(b[k]));
#endif
}

static __device__ __forceinline__ float2 two(const float *from) {
    return *(const float2 *)from;
}

static __device__ __forceinline__ void multiply_slab(const float *slab, double (&c)[PRODUCTS][PRODUCTS][4]) {
    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const float *first = slab + (warp / 4 * 48 + group) * SLAB + member * 2;
    const float *second = slab + (TILE_ROWS + warp % 4 * 24 + group) * SLAB + member * 2;
    double b[PRODUCTS][2];
#pragma unroll
    for (int n = 0; n < PRODUCTS; n++) {
        float2 v = two(second + n * 8 * SLAB);
        b[n][0] = v.x, b[n][1] = v.y;
    }
#pragma unroll
    for (int m = 0; m < PRODUCTS; m++) {
        float2 u = two(first + m * 16 * SLAB), v = two(first + (m * 16 + 8) * SLAB);
        double a[4] = {u.x, v.x, u.y, v.y};
#pragma unroll
        for (int n = 0; n < PRODUCTS; n++)
            multiply(c[m][n], a, b[n]);
    }
}

static __device__ __forceinline__ void store_result(double *result, const double (&c)[PRODUCTS][PRODUCTS][4]) {
    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    double *to = result + (warp / 4 * 48 + group) * RESULT_PITCH + warp % 4 * 24 + member * 2;
#pragma unroll
    for (int m = 0; m < PRODUCTS; m++)
#pragma unroll
        for (int n = 0; n < PRODUCTS; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(double2 *)(to + (m * 16 + half * 8) * RESULT_PITCH + n * 8) =
                    make_double2(c[m][n][2 * half], c[m][n][2 * half + 1]);
}

/* A thread solves one pair of each of four rows; a warp's pairs are neighbours in the output. */
static __device__ __forceinline__ void solve(const struct superpose_tiles &t, const double *result, int tile_i,
                                             int tile_j) {
    int lane = threadIdx.x % 32, j = tile_j + lane;
    if (j >= t.range.n) return;
    double norm_j = t.norms[j];
    for (int row = threadIdx.x / 32; row < SUPERPOSE_TILE; row += TILE_THREADS / 32) {
        int i = tile_i + row;
        if (i >= j || i >= t.range.end) continue;
        double r[9];
#pragma unroll
        for (int k = 0; k < 9; k++)
            r[k] = result[(3 * row + k / 3) * RESULT_PITCH + 3 * lane + k % 3];
        double norms = t.norms[i] + norm_j;
        double lambda = t.bare ? r[0] : superpose_lambda((enum superpose_method)t.method, r, 0.5 * norms);
        t.out[superpose_place(t, i, j)] = (float)superpose_rmsd(norms, lambda, t.total);
    }
}

static __global__ __launch_bounds__(TILE_THREADS, 2) void tiles_double(struct superpose_tiles t) {
    extern __shared__ __align__(16) double shared[];
    float *stages = (float *)shared;
    int tile_i = t.range.begin + blockIdx.x * SUPERPOSE_TILE, tile_j = t.range.begin + blockIdx.y * SUPERPOSE_TILE;
    if (tile_j < tile_i) return;
    const float *first = t.rows + (size_t)3 * tile_i * t.stride, *second = t.rows + (size_t)3 * tile_j * t.stride;
    int chunks = t.stride / SUPERPOSE_CHUNK;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < chunks) copy_chunk<SLAB, SLAB>(stages + s * STAGE_FLOATS, first, second, t.stride, s);
        copy_commit();
    }
    double c[PRODUCTS][PRODUCTS][4] = {};
    /* So many that each has its stage known when it is compiled. */
#pragma unroll 4
    for (int chunk = 0; chunk < chunks; chunk++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        int next = chunk + STAGES - 1;
        if (next < chunks) copy_chunk<SLAB, SLAB>(stages + next % STAGES * STAGE_FLOATS, first, second, t.stride, next);
        copy_commit();
#pragma unroll
        for (int slab = 0; slab < SLABS; slab++)
            multiply_slab(stages + chunk % STAGES * STAGE_FLOATS + slab * SLAB_FLOATS, c);
    }
    copy_wait<0>();
    __syncthreads();
    store_result(shared, c);
    __syncthreads();
    solve(t, shared, tile_i, tile_j);
}

enum status superpose_tiles_double(const struct superpose_tiles *tiles, cudaStream_t stream, struct err *err) {
    CUDA_TRY(cudaFuncSetAttribute(tiles_double, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_BYTES), err,
             "asking for shared memory");
    tiles_double<<<superpose_grid(&tiles->range), TILE_THREADS, SHARED_BYTES, stream>>>(*tiles);
    CUDA_TRY(cudaGetLastError(), err, "superposing");
    return STATUS_OK;
}
