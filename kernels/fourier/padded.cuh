/* Declares the arrays and steps of a padded transform, for code that fills the first array or reads the last array.
 * n = 2 box. Slots are the n places of an axis, in the order of frequencies 0, 1 .. −1. Columns are the frequencies
 * x = 0 .. columns − 1, beyond which all values are zero.
 *
 *   lines  [rows][columns][n or 1]   z fastest: some rows y at a time; 1 in 2-D
 *   sheets [box or 1][columns][n]    y fastest
 *   planes [box or 1][box][n/2 + 1]  x fastest; as reals [..][n + 2]
 *
 * To the map: for each part of the rows, fill lines and call padded_lines_to_sheets; then call padded_sheets_to_planes.
 * The map is in its reals, from n/4·2 on.
 *
 * From the map: fill the reals of planes; call padded_planes_to_sheets; then padded_sheets_to_lines for each part of
 * the rows. */
#ifndef ICESTREAM_KERNELS_FOURIER_PADDED_CUH
#define ICESTREAM_KERNELS_FOURIER_PADDED_CUH

#include <cuda_runtime.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/fourier/padded_cuda.h"

struct padded_cuda {
    int dimensions, box, n;
    /* depth: of the map (box, or 1 in 2-D). n_z: of lines (n, or 1). first, first_z: first index of the map in the
     * padded map. */
    int depth, n_z, first, first_z;
    int batch;                               /* lines that a plan transforms at a time */
    cufftHandle complex, to_real, from_real; /* 0: no plan */
    size_t work;                             /* bytes of the plans' work area */
    float *correction; /* [dimensions · (box/2)² + 1], by squared distance from the centre: 1/sinc² of interpolation */
};

struct padded_memory {
    float2 *lines, *sheets, *planes;
    int columns, rows; /* rows that lines holds at a time */
    char *rest;        /* memory after the part that padded_cuda_scratch counts */
};

/* Divides scratch into arrays, and gives the plans their work area and the stream. size: frequencies up to size/2. */
enum status padded_begin(struct padded_cuda *p, int columns, int size, void *scratch, cudaStream_t stream,
                         struct padded_memory *ret_memory, struct err *err);
/* Steps to the map. Rows go to consecutive slots from `slot` on. padded_clear_sheets zeroes the other slots. */
enum status padded_clear_sheets(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                struct err *err);
enum status padded_lines_to_sheets(const struct padded_cuda *p, const struct padded_memory *m, int rows, int slot,
                                   cudaStream_t stream, struct err *err);
enum status padded_sheets_to_planes(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                    struct err *err);
/* Steps from the map. Rows come from consecutive slots, mod n. */
enum status padded_planes_to_sheets(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                    struct err *err);
enum status padded_sheets_to_lines(const struct padded_cuda *p, const struct padded_memory *m, int rows, int slot,
                                   cudaStream_t stream, struct err *err);

/* Copies out[outer][row][column] = factor · in[outer][column − first_column][(row + first) mod wrap]; 0 where the input
 * has no such line. alternating: times −1 where outer + row + column + parity is odd. real_ends: makes the first and
 * the last column real, as the next transform assumes. */
struct padded_move {
    const float2 *in;
    float2 *out;
    size_t in_outer, in_line, out_outer, out_row; /* strides */
    int outer, rows, columns, in_lines, first_column, first, wrap;
    float factor;
    bool alternating, real_ends;
    int parity;
};
enum status padded_run_move(const struct padded_move *move, cudaStream_t stream, struct err *err);

#endif
