/* Real ↔ half-complex transforms with FFTW (single precision); the caller keeps the plans.
 *
 * Shapes are given slowest first: {ny, nx} or {nz, ny, nx}. The complex side is [..][nx/2+1], re and im interleaved.
 * Neither direction applies a factor: fft_run(forward), then fft_run(inverse), multiplies by the number of real values.
 * Buffers come from mem_aligned. The inverse destroys its input. Several threads may run one plan at once, each on its
 * own buffers. Creating and destroying plans locks inside, because FFTW has one planner per process.
 *
 * FFTW ends the process when an allocation of its own fails. fft_create therefore looks for room first, and mem_new
 * leaves MEM_HEADROOM of address space untouched, which is for FFTW's small buffers while plans run. Two gaps stay:
 * memory that other threads take with malloc between the look and FFTW's allocations, and the memory killer, which does
 * not ask. */
#ifndef ICESTREAM_COMMON_FFT_H
#define ICESTREAM_COMMON_FFT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* The number of threads that a parallel region would have. Results do not depend on the number of threads. */
enum { FFT_ALL_THREADS = -1 };

/* FFT_COMPLEX: forward, from complex to complex, in place; FFT_COMPLEX_INVERSE: back. */
enum fft_direction { FFT_FORWARD, FFT_INVERSE, FFT_COMPLEX, FFT_COMPLEX_INVERSE };

struct fft_options {
    int rank;     /* 1 to 3 */
    int shape[3]; /* slowest first */
    int batch;    /* transforms side by side, each of them contiguous; 0 counts as 1 */
    int stride;   /* rank 1, complex: from value to value, with the batch's transforms one value apart; 0: contiguous */
    enum fft_direction direction;
    bool measure; /* FFTW times its choices: for plans that run thousands of times */
    int threads;  /* threads inside one transform, or FFT_ALL_THREADS; 0 counts as 1 */
};

struct fft_plan;

/* Makes a plan. STATUS_NO_MEMORY when there is no room for it, and for what it takes while it runs. */
enum status fft_create(const struct fft_options *options, struct fft_plan **ret_plan, struct err *err);
/* Frees a plan. */
void fft_destroy(struct fft_plan **plan);
/* Runs a plan. forward: in = reals, out = complex; inverse: the other way; neither works in place. complex: in =
 * out. */
void fft_run(const struct fft_plan *plan, float *in, float *out);

/* Return the floats on the real and on the complex side of one transform. */
size_t fft_real_count(const struct fft_plan *plan);
size_t fft_complex_floats(const struct fft_plan *plan);

/* Returns the smallest even size ≥ n whose only prime factors are 2, 3, 5 and 7. */
int fft_good_size(int n);

#endif
