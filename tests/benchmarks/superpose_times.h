/* Times of the superposition of an ensemble on a CUDA device. */
#ifndef ICESTREAM_TESTS_BENCHMARKS_SUPERPOSE_TIMES_H
#define ICESTREAM_TESTS_BENCHMARKS_SUPERPOSE_TIMES_H

#include "common/status.h"
#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds of the device for all pairs: [0] as they are computed, [1] the product alone. The least of `repeats`.
 * superpose: on a CUDA device. */
#ifdef ICESTREAM_HAVE_CUDA
enum status superpose_times(struct superpose *superpose, int repeats, float ret_ms[2], struct err *err);
#else
static inline enum status superpose_times(struct superpose *superpose, int repeats, float ret_ms[2], struct err *err) {
    (void)superpose, (void)repeats, (void)ret_ms;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA");
}
#endif

#ifdef __cplusplus
}
#endif
#endif
