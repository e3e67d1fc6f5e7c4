/* Declares the kernels that the .cu files of kernels/texture share.
 *
 * Two kernels run in turn for some lengths at a time: slide writes the running sums of each matrix as a record, and
 * gather computes features from the records. They are separate because slide counts in shared memory with few threads,
 * and gather divides in double with many threads. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_CUH
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "common/device_cuda.h"
#include "kernels/texture/texture_private.h"

/* The struct texture_sums of one matrix, in two sectors of memory and in the order in which warps write the members. */
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
    int positions, steps, stride, side, window, pixels; /* as in struct texture_geometry; window and side in px */
    const struct texture_displacement *displacements;
    const struct texture_tables *tables;
    const int *reach;  /* [positions] as in struct texture_geometry */
    const int *number; /* [positions] number of each row's first evaluated pixel */
};

/* Displacements of some lengths, handled together. */
struct texture_chunk {
    int first, count; /* number of the first displacement; number of displacements */
    int first_length, last_length;
};

/* The aggregates of one feature over the pixels of one block of gather. */
struct texture_partial {
    double total;
    float largest, smallest;
};

enum { TEXTURE_GATHER_THREADS = 128 };
/* Returns the number of blocks of gather for `pixels` evaluated pixels. */
static inline int texture_gather_blocks(int pixels) {
    return (pixels + TEXTURE_GATHER_THREADS - 1) / TEXTURE_GATHER_THREADS;
}

/* Gives the slide kernels shared memory for the counts of a warp. Call it before the first launch. window: px. */
enum status texture_slide_prepare(int window, struct err *err);
/* Computes records[chunk.count][pixels] from planes[2][side][side], grey levels 0 .. levels − 1. planes[0]: rows along
 * x; planes[1]: the transposed plane. */
enum status texture_slide_launch(const struct texture_view *view, const struct texture_chunk *chunk, int levels,
                                 const uint8_t *planes, struct texture_record *records, cudaStream_t stream,
                                 struct err *err);
/* Transposes the first plane of each pair into the second: planes[TEXTURE_QUANTISATIONS][2][side][side]. */
enum status texture_turn_launch(int side, uint8_t *planes, cudaStream_t stream, struct err *err);
/* Computes partials[TEXTURE_LENGTHS][gather blocks][TEXTURE_FEATURES] for the chunk's lengths.
 * first[TEXTURE_LENGTHS + 2]: as in struct texture_geometry. */
enum status texture_gather_launch(const struct texture_view *view, const struct texture_chunk *chunk, const int *first,
                                  const struct texture_record *records, struct texture_partial *partials,
                                  cudaStream_t stream, struct err *err);
/* Computes values[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES] for lengths 1 … lengths. */
enum status texture_finish_launch(const struct texture_view *view, int lengths, const int *first,
                                  const struct texture_partial *partials, float *values, cudaStream_t stream,
                                  struct err *err);

#endif
