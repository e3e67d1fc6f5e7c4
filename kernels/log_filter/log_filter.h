/* Laplacian of Gaussian over a list of diameters: bright discs of diameter d give maxima at their centres.
 * For each diameter iota = size·pixel/(2 d)  (Fourier px of the micrograph's square), filter
 *   H(r) = (r²/iota²) exp(−r²/(2 iota²)); the greatest response over the diameters and which it was are kept. */
#ifndef ICESTREAM_KERNELS_LOG_FILTER_H
#define ICESTREAM_KERNELS_LOG_FILTER_H

#include <stdint.h>

#include "common/status.h"

struct log_filter;

/* size, work: px, even; diameters in px of the micrograph. */
enum status log_filter_create(int size, int work, const double *diameters, int count, int threads,
                              struct log_filter **ret_filter, struct err *err);
void log_filter_destroy(struct log_filter **filter);

/* image: work half plane with the factor 1/size²; response, which: work² each (which: index of the diameter). */
void log_filter_run(struct log_filter *filter, const float *image, float *response, uint16_t *which);

#endif
