/* Tiles in single precision, for devices whose double is slow; pairs that come out close are summed again in double. */
#include <cuda_runtime.h>

#include "common/device_cuda.h"
#include "kernels/superpose/superpose_tile.cuh"

/* 16 × 16 threads; each has the pairs of two structures with two, 16 apart, so that it holds R as a whole. With rows 20
 * floats apart, eight threads that read neighbouring structures meet no bank twice. Sums of SUM_CHUNKS chunks are added
 * up apart, so that rounding does not grow with the number of atoms. */
enum { STAGES = 3, PITCH = SUPERPOSE_CHUNK + 4, SIDE = 16, SUM_CHUNKS = 8 };
static const size_t SHARED_BYTES = STAGES * 2 * TILE_ROWS * PITCH * sizeof(float);

static __device__ __forceinline__ int row_of(int side, int k) {
    return k < 3 ? 3 * side + k : 3 * (SIDE + side) + k - 3;
}

static __device__ __forceinline__ void multiply_chunk(const float *stage, float (&c)[6][6]) {
    int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
#pragma unroll
    for (int part = 0; part < SUPERPOSE_CHUNK; part += 4) {
        float4 a[6];
#pragma unroll
        for (int m = 0; m < 6; m++)
            a[m] = *(const float4 *)(stage + row_of(y, m) * PITCH + part);
#pragma unroll
        for (int n = 0; n < 6; n++) {
            float4 b = *(const float4 *)(stage + (TILE_ROWS + row_of(x, n)) * PITCH + part);
#pragma unroll
            for (int m = 0; m < 6; m++)
                c[m][n] = fmaf(a[m].x, b.x, fmaf(a[m].y, b.y, fmaf(a[m].z, b.z, fmaf(a[m].w, b.w, c[m][n]))));
        }
    }
}

/* Sums R of a pair in double by a whole warp; all of its threads get the result. */
static __device__ void sum_again(const struct superpose_tiles &t, int i, int j, double *r) {
    const float *p = t.rows + (size_t)3 * i * t.stride, *q = t.rows + (size_t)3 * j * t.stride;
    for (int k = 0; k < 9; k++)
        r[k] = 0;
    for (int atom = threadIdx.x % 32; atom < t.stride; atom += 32)
#pragma unroll
        for (int k = 0; k < 9; k++)
            r[k] += (double)p[(size_t)(k / 3) * t.stride + atom] * (double)q[(size_t)(k % 3) * t.stride + atom];
#pragma unroll
    for (int k = 0; k < 9; k++)
        for (int half = 16; half > 0; half /= 2)
            r[k] += __shfl_xor_sync(0xffffffffu, r[k], half);
}

/* All threads of a warp must take part, even those without a pair. */
static __device__ __forceinline__ void solve(const struct superpose_tiles &t, int i, int j, const float *sums) {
    bool wanted = i < j && i < t.range.end && j < t.range.n;
    double r[9], norms = wanted ? t.norms[i] + t.norms[j] : 0, rmsd = 0;
    enum superpose_method method = (enum superpose_method)t.method;
    for (int k = 0; k < 9; k++)
        r[k] = sums[k];
    if (wanted) rmsd = superpose_rmsd(norms, t.bare ? r[0] : superpose_lambda(method, r, 0.5 * norms), t.total);
    bool close = wanted && !t.bare && superpose_is_close(norms, rmsd, t.total);
    for (unsigned left = __ballot_sync(0xffffffffu, close); left; left &= left - 1) {
        int owner = __ffs((int)left) - 1;
        double again[9];
        sum_again(t, __shfl_sync(0xffffffffu, i, owner), __shfl_sync(0xffffffffu, j, owner), again);
        if ((int)threadIdx.x % 32 == owner)
            rmsd = superpose_rmsd(norms, superpose_lambda(method, again, 0.5 * norms), t.total);
    }
    if (wanted) t.out[superpose_place(t, i, j)] = (float)rmsd;
}

static __global__ __launch_bounds__(TILE_THREADS, 2) void tiles_single(struct superpose_tiles t) {
    extern __shared__ __align__(16) float stages[];
    const int stage_floats = 2 * TILE_ROWS * PITCH;
    int tile_i = t.range.begin + blockIdx.x * SUPERPOSE_TILE, tile_j = t.range.begin + blockIdx.y * SUPERPOSE_TILE;
    if (tile_j < tile_i) return;
    const float *first = t.rows + (size_t)3 * tile_i * t.stride, *second = t.rows + (size_t)3 * tile_j * t.stride;
    int chunks = t.stride / SUPERPOSE_CHUNK;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < chunks) copy_chunk<SUPERPOSE_CHUNK, PITCH>(stages + s * stage_floats, first, second, t.stride, s);
        copy_commit();
    }
    float c[6][6] = {}, sums[6][6] = {};
    for (int chunk = 0; chunk < chunks; chunk++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        int next = chunk + STAGES - 1;
        if (next < chunks)
            copy_chunk<SUPERPOSE_CHUNK, PITCH>(stages + next % STAGES * stage_floats, first, second, t.stride, next);
        copy_commit();
        multiply_chunk(stages + chunk % STAGES * stage_floats, c);
        if (chunk % SUM_CHUNKS < SUM_CHUNKS - 1 && chunk + 1 < chunks) continue;
#pragma unroll
        for (int k = 0; k < 36; k++) {
            sums[k / 6][k % 6] += c[k / 6][k % 6];
            c[k / 6][k % 6] = 0;
        }
    }
    copy_wait<0>();
    int y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
        float r[9];
#pragma unroll
        for (int k = 0; k < 9; k++)
            r[k] = sums[pair / 2 * 3 + k / 3][pair % 2 * 3 + k % 3];
        solve(t, tile_i + y + pair / 2 * SIDE, tile_j + x + pair % 2 * SIDE, r);
    }
}

enum status superpose_tiles_single(const struct superpose_tiles *tiles, cudaStream_t stream, struct err *err) {
    CUDA_TRY(cudaFuncSetAttribute(tiles_single, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_BYTES), err,
             "asking for shared memory");
    tiles_single<<<superpose_grid(&tiles->range), TILE_THREADS, SHARED_BYTES, stream>>>(*tiles);
    CUDA_TRY(cudaGetLastError(), err, "superposing");
    return STATUS_OK;
}
