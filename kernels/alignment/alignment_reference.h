/* The E-step exactly as its formulas: each pose separately, with differences, weights and sums in double, one particle
 * at a time. Tests compare all fast versions with it; it is thousands of times slower. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_REFERENCE_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_REFERENCE_H

#include "kernels/alignment/alignment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compares one particle and adds it to iteration->sums. Ignores device, threads and memory of options. ret_margin: two
 * computations whose weights agree to this relative error keep the same poses and choose the same best pose. */
enum status alignment_reference(const struct alignment_options *options, const struct alignment_iteration *iteration,
                                const struct alignment_particle *particle, struct alignment_result *result,
                                double *ret_margin, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
