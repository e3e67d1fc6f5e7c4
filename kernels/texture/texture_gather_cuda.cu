/* Computes features of the matrices from the sums that slide has written, and combines them over displacements and
 * pixels. Every sum is made in a fixed order. */
#include "kernels/texture/texture.cuh"

enum { WARP = 32, WARPS = TEXTURE_GATHER_THREADS / WARP };

static __device__ __forceinline__ texture_partial merge(const texture_partial &a, const texture_partial &b) {
    texture_partial both = {a.total + b.total, fmaxf(a.largest, b.largest), fminf(a.smallest, b.smallest)};
    return both;
}

static __device__ __forceinline__ texture_sums sums_of(const texture_record &r) {
    texture_sums s;
    s.cells = r.cells;
    s.sums = r.sums;
    s.differences = r.differences;
    s.marginals = r.marginals;
    s.closeness = r.closeness;
    s.sum_powers = r.sum + ((uint64_t)r.sum_squares << 32);
    s.difference_powers = r.apart + ((uint64_t)r.apart_squares << 32);
    s.squares = r.squares;
    s.equal = r.equal;
    return s;
}

/* Combines one feature of the threads' pixels over a warp; the result is in lane 0. */
static __device__ __forceinline__ texture_partial of_warp(texture_partial p) {
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        texture_partial other = {__shfl_down_sync(0xffffffffu, p.total, apart),
                                 __shfl_down_sync(0xffffffffu, p.largest, apart),
                                 __shfl_down_sync(0xffffffffu, p.smallest, apart)};
        p = merge(p, other);
    }
    return p;
}

/* A thread handles a pixel and goes through the displacements of a length (blockIdx.y). */
static __global__ __launch_bounds__(TEXTURE_GATHER_THREADS) void gather(texture_view view, texture_chunk chunk,
                                                                        const int *__restrict__ first,
                                                                        const texture_record *__restrict__ records,
                                                                        texture_partial *__restrict__ partials) {
    __shared__ texture_partial of_warps[WARPS][TEXTURE_FEATURES];
    int length = chunk.first_length + blockIdx.y, pixel = blockIdx.x * TEXTURE_GATHER_THREADS + threadIdx.x;
    int begin = first[length], end = first[length + 1];
    texture_partial mine[TEXTURE_FEATURES];
#pragma unroll
    for (int k = 0; k < TEXTURE_FEATURES; k++) {
        mine[k].total = 0;
        mine[k].largest = -INFINITY;
        mine[k].smallest = INFINITY;
    }
    for (int d = begin; d < end && pixel < view.pixels; d++) {
        const texture_displacement displacement = view.displacements[d];
        int pairs = (view.window - abs(displacement.dx)) * (view.window - abs(displacement.dy));
        texture_sums sums = sums_of(records[(size_t)(d - chunk.first) * view.pixels + pixel]);
        double terms[TEXTURE_TERMS];
        float f[TEXTURE_FEATURES];
        texture_terms(&sums, view.tables, pairs, terms, 1);
        texture_features_of(terms, 1, pairs, f, 1);
#pragma unroll
        for (int k = 0; k < TEXTURE_FEATURES; k++) {
            mine[k].total += f[k];
            mine[k].largest = fmaxf(mine[k].largest, f[k]);
            mine[k].smallest = fminf(mine[k].smallest, f[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < TEXTURE_FEATURES; k++) {
        /* From here on the range over pixels; a thread without a pixel takes no part. */
        float range = mine[k].largest - mine[k].smallest;
        texture_partial p = {mine[k].total, pixel < view.pixels ? range : 0, pixel < view.pixels ? range : INFINITY};
        p = of_warp(p);
        if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP][k] = p;
    }
    __syncthreads();
    if (threadIdx.x >= TEXTURE_FEATURES) return;
    texture_partial p = of_warps[0][threadIdx.x];
    for (int k = 1; k < WARPS; k++)
        p = merge(p, of_warps[k][threadIdx.x]);
    partials[((size_t)(length - 1) * gridDim.x + blockIdx.x) * TEXTURE_FEATURES + threadIdx.x] = p;
}

/* A warp handles a length (blockIdx.y) and a feature (blockIdx.x). */
static __global__ __launch_bounds__(WARP) void finish(int blocks, int pixels, const int *__restrict__ first,
                                                      const texture_partial *__restrict__ partials,
                                                      float *__restrict__ values) {
    int feature = blockIdx.x, l = blockIdx.y;
    texture_partial p = {0, 0, INFINITY};
    for (int k = threadIdx.x; k < blocks; k += WARP)
        p = merge(p, partials[((size_t)l * blocks + k) * TEXTURE_FEATURES + feature]);
    p = of_warp(p);
    if (threadIdx.x > 0) return;
    float *to = values + (l * TEXTURE_FEATURES + feature) * TEXTURE_AGGREGATES;
    to[TEXTURE_MEAN] = (float)(p.total / ((double)pixels * (first[l + 2] - first[l + 1])));
    to[TEXTURE_LARGEST_RANGE] = p.largest;
    to[TEXTURE_SMALLEST_RANGE] = p.smallest;
}

enum status texture_gather_launch(const struct texture_view *view, const struct texture_chunk *chunk, const int *first,
                                  const struct texture_record *records, struct texture_partial *partials,
                                  cudaStream_t stream, struct err *err) {
    dim3 blocks(texture_gather_blocks(view->pixels), chunk->last_length - chunk->first_length + 1);
    gather<<<blocks, TEXTURE_GATHER_THREADS, 0, stream>>>(*view, *chunk, first, records, partials);
    CUDA_TRY(cudaGetLastError(), err, "making features");
    return STATUS_OK;
}

enum status texture_finish_launch(const struct texture_view *view, int lengths, const int *first,
                                  const struct texture_partial *partials, float *values, cudaStream_t stream,
                                  struct err *err) {
    dim3 blocks(TEXTURE_FEATURES, lengths);
    finish<<<blocks, WARP, 0, stream>>>(texture_gather_blocks(view->pixels), view->pixels, first, partials, values);
    CUDA_TRY(cudaGetLastError(), err, "gathering features");
    return STATUS_OK;
}
