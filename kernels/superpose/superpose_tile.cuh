/* Computes tiles of pairs on a CUDA device: product and eigenvalues in one kernel. A block computes SUPERPOSE_TILE²
 * pairs from 96 + 96 rows of coordinates. It copies SUPERPOSE_CHUNK atoms at a time to shared memory, ahead of the
 * arithmetic. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_TILE_CUH
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_TILE_CUH

#include "kernels/superpose/superpose_cuda.h"
#include "kernels/superpose/superpose_solve.h"

enum { TILE_ROWS = 3 * SUPERPOSE_TILE, TILE_THREADS = 256 };

struct superpose_tiles {
    const float *rows;
    const double *norms;
    float *out;
    double total;
    int stride, method;
    struct superpose_range range;
    bool packed; /* as in superpose_ensemble_run */
    bool bare;   /* for benchmarks: leave out the eigenvalues */
};

/* Enqueues the tiles of a range. */
enum status superpose_tiles_double(const struct superpose_tiles *tiles, cudaStream_t stream, struct err *err);
enum status superpose_tiles_single(const struct superpose_tiles *tiles, cudaStream_t stream, struct err *err);

/* Returns the grid of a launch. Blocks with neighbouring numbers share their columns, so the columns stay in the
 * second-level cache. */
static inline dim3 superpose_grid(const struct superpose_range *range) {
    return dim3((unsigned)((range->end - range->begin + SUPERPOSE_TILE - 1) / SUPERPOSE_TILE),
                (unsigned)((range->n - range->begin + SUPERPOSE_TILE - 1) / SUPERPOSE_TILE));
}

#ifdef __CUDACC__
/* Returns the place of pair i < j in t.out. */
static __device__ __forceinline__ size_t superpose_place(const struct superpose_tiles &t, int i, int j) {
    size_t row = (size_t)(i - t.range.begin), columns = (size_t)(t.range.n - t.range.begin);
    /* If packed, row k of the range has columns − 1 − k entries. */
    return t.packed ? row * (2 * columns - row - 1) / 2 + (size_t)(j - i - 1)
                    : row * columns + (size_t)(j - t.range.begin);
}

/* Start a copy of 16 bytes, close a group of copies, and wait until at most PENDING groups are unfinished. */
static __device__ __forceinline__ void copy_ahead(float *to, const float *from) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
}
static __device__ __forceinline__ void copy_commit(void) {
    asm volatile("cp.async.commit_group;");
}
template <int PENDING> static __device__ __forceinline__ void copy_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Starts to copy chunk `chunk` of the tile's 192 rows. The stage in shared memory consists of slabs of WIDTH atoms, in
 * which rows stand PITCH floats apart. */
template <int WIDTH, int PITCH>
static __device__ __forceinline__ void copy_chunk(float *stage, const float *first, const float *second, int stride,
                                                  int chunk) {
#pragma unroll
    for (int k = 0; k < 2 * TILE_ROWS * (SUPERPOSE_CHUNK / 4) / TILE_THREADS; k++) {
        int piece = threadIdx.x + k * TILE_THREADS, row = piece / 4, atom = piece % 4 * 4;
        const float *from =
            row < TILE_ROWS ? first + (size_t)row * stride : second + (size_t)(row - TILE_ROWS) * stride;
        copy_ahead(stage + atom / WIDTH * (2 * TILE_ROWS * PITCH) + row * PITCH + atom % WIDTH,
                   from + chunk * SUPERPOSE_CHUNK + atom);
    }
}
#endif

#endif
