/* Forward transform of a real square, low frequencies only: transforms all rows, then only the columns kept, a few at a
 * time in the cache. Takes a fifth of the time of the whole transform for 4096² px at 20 Å. */
#ifndef ICESTREAM_KERNELS_FOURIER_FORWARD_H
#define ICESTREAM_KERNELS_FOURIER_FORWARD_H

#include "common/status.h"

struct fourier_forward;

/* Creates a plan. size: even, px; columns: kx = 0 .. columns − 1, at most size/2 + 1. */
enum status fourier_forward_create(int size, int columns, int threads, struct fourier_forward **ret_forward,
                                   struct err *err);
void fourier_forward_destroy(struct fourier_forward **forward);

/* Transforms in[size][size] into out[size][columns], complex, rows ky = 0 .. size/2, −size/2+1 .. −1, unscaled. The
 * result does not depend on the number of threads. */
void fourier_forward_run(const struct fourier_forward *forward, const float *in, float *out);

#endif
