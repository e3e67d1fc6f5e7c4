/* Two queues of work on a CUDA device: kernels and their results on one, images that are brought meanwhile on the
 * other. `host` memory is page-locked (device_host_new, common/device.h). */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_STREAM_H
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_STREAM_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STREAM_SLOTS = 2 };

struct stream_cuda;
enum status stream_cuda_create(int device, struct stream_cuda **ret_stream, struct err *err);
void stream_cuda_destroy(struct stream_cuda **stream);
/* The cudaStream_t of kernels. */
void *stream_cuda_kernels(const struct stream_cuda *stream);

/* What times its work. */
struct device_busy *stream_cuda_busy(const struct stream_cuda *stream);

/* On the queue of kernels. */
enum status stream_cuda_zero(struct stream_cuda *stream, void *to, size_t bytes, struct err *err);
enum status stream_cuda_put(struct stream_cuda *stream, void *to, const void *host, size_t bytes, struct err *err);
/* Both of the device. */
enum status stream_cuda_copy(struct stream_cuda *stream, void *to, const void *from, size_t bytes, struct err *err);
enum status stream_cuda_get(struct stream_cuda *stream, void *host, const void *from, size_t bytes, struct err *err);
/* What is queued for kernels between the two is time that the device is at work. The host only queues between them. */
enum status stream_cuda_begin(struct stream_cuda *stream, struct err *err);
enum status stream_cuda_end(struct stream_cuda *stream, struct err *err);
/* s of it so far. */
enum status stream_cuda_seconds(struct stream_cuda *stream, double *ret_seconds, struct err *err);
/* Before another thread than the one that made it uses it (one at a time): to bring. */
enum status stream_cuda_adopt(const struct stream_cuda *stream, struct err *err);
/* Until all that is queued for kernels is done. */
enum status stream_cuda_wait(struct stream_cuda *stream, struct err *err);

/* Brings what a slot's next work reads, once kernels have done with what is there (stream_cuda_release). */
enum status stream_cuda_bring(struct stream_cuda *stream, int slot, void *to, const void *host, size_t bytes,
                              struct err *err);
/* Kernels queued from here on find it there. */
enum status stream_cuda_await(struct stream_cuda *stream, int slot, struct err *err);
/* Kernels queued up to here are the last to read it. */
enum status stream_cuda_release(struct stream_cuda *stream, int slot, struct err *err);
/* Until kernels have released it. */
enum status stream_cuda_released(struct stream_cuda *stream, int slot, struct err *err);
/* Until the host's side of the slot may be written again. */
enum status stream_cuda_brought(struct stream_cuda *stream, int slot, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
