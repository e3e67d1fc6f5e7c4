/* Measures how long a CUDA device worked: the spans between two marks in a stream, by the device's own clock. Between
 * the two marks of a span the host must only queue work, not compute or wait. */
#ifndef ICESTREAM_COMMON_DEVICE_BUSY_CUDA_H
#define ICESTREAM_COMMON_DEVICE_BUSY_CUDA_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device_busy;
/* Makes a clock for streams of the calling thread's current device. */
enum status device_busy_create(struct device_busy **ret_busy, struct err *err);
void device_busy_destroy(struct device_busy **busy); /* accepts NULL */

/* Queue a mark on `stream` (a cudaStream_t). A second begin without an end starts the span anew. */
enum status device_busy_begin(struct device_busy *busy, void *stream, struct err *err);
enum status device_busy_end(struct device_busy *busy, void *stream, struct err *err);
/* Returns the seconds of all spans so far; waits for those that are not finished. */
enum status device_busy_seconds(struct device_busy *busy, double *ret_seconds, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
