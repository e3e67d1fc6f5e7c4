/* Rates of a CUDA device that bound the correction of motion. */
#ifndef ICESTREAM_TESTS_BENCHMARKS_MOTION_TIMES_H
#define ICESTREAM_TESTS_BENCHMARKS_MOTION_TIMES_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct motion_rates {
    double upload, copy; /* bytes per second: from page-locked memory; inside the device, read and written */
    double taps;         /* multiply-adds per second with one operand from shared memory: a lane's load each */
};

#ifdef ICESTREAM_HAVE_CUDA
enum status motion_rates_measure(struct motion_rates *ret_rates, struct err *err);
/* Waits until the device has done everything. */
enum status motion_rates_wait(struct err *err);
#else
static inline enum status motion_rates_measure(struct motion_rates *ret_rates, struct err *err) {
    (void)ret_rates;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA");
}
static inline enum status motion_rates_wait(struct err *err) {
    (void)err;
    return STATUS_OK;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
