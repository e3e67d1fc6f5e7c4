/* Two queues of work on a CUDA device: one for kernels and their results, the other for images that are copied
 * meanwhile. `host` memory is page-locked (device_host_new, common/device.h). */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_STREAM_H
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_STREAM_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STREAM_SLOTS = 2, STREAM_STAGES = 2 };

struct stream_cuda;
/* Creates the queues of CUDA device number `device`, and makes it current in this thread. */
enum status stream_cuda_create(int device, struct stream_cuda **ret_stream, struct err *err);
void stream_cuda_destroy(struct stream_cuda **stream);
/* Returns the cudaStream_t of kernels. */
void *stream_cuda_kernels(const struct stream_cuda *stream);

/* Returns the timer of the work on the queue of kernels. */
struct device_busy *stream_cuda_busy(const struct stream_cuda *stream);

/* Queue work on the queue of kernels. */
enum status stream_cuda_zero(struct stream_cuda *stream, void *to, size_t bytes, struct err *err);
enum status stream_cuda_put(struct stream_cuda *stream, void *to, const void *host, size_t bytes, struct err *err);
/* Copies within device memory. */
enum status stream_cuda_copy(struct stream_cuda *stream, void *to, const void *from, size_t bytes, struct err *err);
enum status stream_cuda_get(struct stream_cuda *stream, void *host, const void *from, size_t bytes, struct err *err);
/* Begin and end a stretch of work: kernels queued between the two calls count as time that the device works. The host
 * only queues in between. */
enum status stream_cuda_begin(struct stream_cuda *stream, struct err *err);
enum status stream_cuda_end(struct stream_cuda *stream, struct err *err);
/* Returns the seconds of work so far. */
enum status stream_cuda_seconds(struct stream_cuda *stream, double *ret_seconds, struct err *err);
/* Makes the device current in another thread than the one that created the stream, before that thread copies images;
 * one thread at a time. */
enum status stream_cuda_adopt(const struct stream_cuda *stream, struct err *err);
/* Waits for all queued kernels. */
enum status stream_cuda_wait(struct stream_cuda *stream, struct err *err);

/* Copies the data of a slot's next work, once kernels no longer need the slot's current data (stream_cuda_release). */
enum status stream_cuda_bring(struct stream_cuda *stream, int slot, void *to, const void *host, size_t bytes,
                              struct err *err);
/* Marks the copies queued so far as the last that read a stage: page-locked memory through which images pass. */
enum status stream_cuda_stage_sent(struct stream_cuda *stream, int stage, struct err *err);
/* Waits until the stage may be overwritten. */
enum status stream_cuda_stage_free(struct stream_cuda *stream, int stage, struct err *err);
/* Makes kernels queued from here on wait for the slot's data. */
enum status stream_cuda_await(struct stream_cuda *stream, int slot, struct err *err);
/* Marks the kernels queued so far as the last that read the slot. */
enum status stream_cuda_release(struct stream_cuda *stream, int slot, struct err *err);
/* Waits until kernels have released the slot. */
enum status stream_cuda_released(struct stream_cuda *stream, int slot, struct err *err);
/* Waits until the host's side of the slot may be overwritten. */
enum status stream_cuda_brought(struct stream_cuda *stream, int slot, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
