/* How long a CUDA device was at work: spans between two marks in a stream, by the device's own clock. Between the marks
 * of a span the host must not work or wait itself, only queue. */
#ifndef ICESTREAM_COMMON_DEVICE_BUSY_CUDA_H
#define ICESTREAM_COMMON_DEVICE_BUSY_CUDA_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device_busy;
/* For streams of the calling thread's current device. */
enum status device_busy_create(struct device_busy **ret_busy, struct err *err);
void device_busy_destroy(struct device_busy **busy); /* accepts NULL */

/* Marks, queued on `stream` (a cudaStream_t). A span that was begun and not ended is begun anew. */
enum status device_busy_begin(struct device_busy *busy, void *stream, struct err *err);
enum status device_busy_end(struct device_busy *busy, void *stream, struct err *err);
/* s of all spans so far; waits for those that are not done. */
enum status device_busy_seconds(struct device_busy *busy, double *ret_seconds, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
