/* Real ↔ half-complex transforms on FFTW (single precision), plans kept by the caller.
 *
 * Shapes are given slowest first: {ny, nx} or {nz, ny, nx}. The complex side is [..][nx/2+1], re im interleaved. No
 * factor is applied either way: fft_run(forward) then fft_run(inverse) multiplies by the number of real values.
 * Buffers come from mem_aligned. The inverse destroys its input. A plan may run in several threads at once, each on
 * its own buffers; creating and destroying plans is locked inside (FFTW's planner is one per process). */
#ifndef ICESTREAM_COMMON_FFT_H
#define ICESTREAM_COMMON_FFT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* As many threads as a parallel region would have. Results do not depend on threads. */
enum { FFT_ALL_THREADS = -1 };

/* FFT_COMPLEX: forward, complex to complex, in place. */
enum fft_direction { FFT_FORWARD, FFT_INVERSE, FFT_COMPLEX };

struct fft_options {
    int rank;     /* 1 to 3 */
    int shape[3]; /* slowest first */
    int batch;    /* transforms side by side, each contiguous; 0 counts as 1 */
    enum fft_direction direction;
    bool measure; /* let FFTW time its choices: for plans that run thousands of times */
    int threads;  /* inside one transform, or FFT_ALL_THREADS; 0 counts as 1 */
};

struct fft_plan;

enum status fft_create(const struct fft_options *options, struct fft_plan **ret_plan, struct err *err);
void fft_destroy(struct fft_plan **plan);
/* forward: in = reals, out = complex; inverse: the other way; neither in place. complex: in = out. */
void fft_run(const struct fft_plan *plan, float *in, float *out);

/* Floats on the real and on the complex side of one transform. */
size_t fft_real_count(const struct fft_plan *plan);
size_t fft_complex_floats(const struct fft_plan *plan);

/* The least even size ≥ n whose prime factors are 2, 3, 5 and 7. */
int fft_good_size(int n);

#endif
