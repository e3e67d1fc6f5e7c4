/* Declarations shared by the .cu files of kernels/texture.
 *
 * Two kernels take turns: slide writes the running sums of every matrix of some lengths, one record each, and gather
 * computes features from them. Pairs are integers in shared memory at few threads, features are divisions in double at
 * many threads; so neither waits for the other. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_CUH
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "common/device_cuda.h"
#include "kernels/texture/texture_private.h"

/* The struct texture_sums of one matrix: two sectors of memory, in the order of the warps that write it. */
struct __align__(16) texture_record {
    int64_t cells;
    uint32_t squares, equal;
    int64_t sums;
    uint32_t sum, sum_squares;
    int64_t differences, closeness;
    uint32_t apart, apart_squares;
    int64_t marginals;
};

/* The geometry on the device. */
struct texture_view {
    int positions, steps, stride, side, window, pixels;
    const struct texture_displacement *displacements;
    const struct texture_tables *tables;
    const int *reach, *number; /* [positions]; number: of a row's first evaluated position */
};

/* Displacements of some lengths, handled together. */
struct texture_chunk {
    int first, count; /* displacements */
    int first_length, last_length;
};

/* Per block of gather and feature. */
struct texture_partial {
    double total;
    float largest, smallest;
};

enum { TEXTURE_GATHER_THREADS = 128 };
static inline int texture_gather_blocks(int pixels) {
    return (pixels + TEXTURE_GATHER_THREADS - 1) / TEXTURE_GATHER_THREADS;
}

/* Must be called before any launch: gives the kernels the shared memory for the counts of a warp. */
enum status texture_slide_prepare(int window, struct err *err);
/* records[chunk.count][pixels] of planes [2: rows along x, rows along y][side][side] of `levels` levels. */
enum status texture_slide_launch(const struct texture_view *view, const struct texture_chunk *chunk, int levels,
                                 const uint8_t *planes, struct texture_record *records, cudaStream_t stream,
                                 struct err *err);
/* planes[TEXTURE_QUANTISATIONS][2][side][side]: the second of each pair from the first. */
enum status texture_turn_launch(int side, uint8_t *planes, cudaStream_t stream, struct err *err);
/* partials[TEXTURE_LENGTHS][gather blocks][TEXTURE_FEATURES]: those of the chunk's lengths. first [TEXTURE_LENGTHS + 2]
 * as in texture_geometry. */
enum status texture_gather_launch(const struct texture_view *view, const struct texture_chunk *chunk, const int *first,
                                  const struct texture_record *records, struct texture_partial *partials,
                                  cudaStream_t stream, struct err *err);
/* values[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES] of lengths 1 … lengths. */
enum status texture_finish_launch(const struct texture_view *view, int lengths, const int *first,
                                  const struct texture_partial *partials, float *values, cudaStream_t stream,
                                  struct err *err);

#endif
