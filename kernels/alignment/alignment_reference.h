/* The E-step as the mathematics has it: every pose by itself, differences, weights and sums in double, one particle at a
 * time. What every fast path is tested against; thousands of times slower than they are. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_REFERENCE_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_REFERENCE_H

#include "kernels/alignment/alignment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One particle, compared and added to iteration->sums. options: device, threads and memory say nothing here. ret_margin:
 * of two computations whose weights agree to so much (relative), both keep the same poses and call the same one the
 * best. */
enum status alignment_reference(const struct alignment_options *options, const struct alignment_iteration *iteration,
                                const struct alignment_particle *particle, struct alignment_result *result,
                                double *ret_margin, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
