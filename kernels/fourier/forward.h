/* Forward transform of a real square of which only low frequencies are wanted: all rows, then only the columns that are
 * kept, a few at a time in the cache. A fifth of the whole transform's time for 4096² px at 20 Å. */
#ifndef ICESTREAM_KERNELS_FOURIER_FORWARD_H
#define ICESTREAM_KERNELS_FOURIER_FORWARD_H

#include "common/status.h"

struct fourier_forward;

/* size: even px; columns: kx = 0 .. columns − 1, at most size/2 + 1. */
enum status fourier_forward_create(int size, int columns, int threads, struct fourier_forward **ret_forward,
                                   struct err *err);
void fourier_forward_destroy(struct fourier_forward **forward);

/* in: [size][size]; out: [size][columns] complex, row ky = 0 .. size/2, −size/2+1 .. −1, no factor. The same for any
 * number of threads. */
void fourier_forward_run(const struct fourier_forward *forward, const float *in, float *out);

#endif
