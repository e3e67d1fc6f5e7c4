/* Class averages on a CUDA device (kernels/averages/averages.h). Running sums of all classes are contiguous,
 * [class][half][ny][nx][4], and so are their references, [class][ny][nx][2].
 *
 * Pointers are device pointers; work is queued on `stream` (a cudaStream_t), without waiting. Results repeat bit for
 * bit. Double and single precision as in kernels/reconstruct/reconstruct_cuda.h. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_CUDA_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_CUDA_H

#include "kernels/averages/averages.h"
#include "kernels/projector/projector_cuda.h"
#include "kernels/reconstruct/reconstruct_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AVERAGES_CUDA_AT_ONCE = 64 };

/* Plans and tables on the current device, kept from iteration to iteration. */
struct averages_cuda;
enum status averages_cuda_create(const struct averages_options *options, struct averages_cuda **ret_averages,
                                 struct err *err);
void averages_cuda_destroy(struct averages_cuda **averages);
/* Returns the number of classes made at once: AVERAGES_CUDA_AT_ONCE, or fewer if the box is large. */
int averages_cuda_at_once(const struct averages_options *options);
/* Returns the bytes of scratch of averages_cuda_make and averages_cuda_set. */
size_t averages_cuda_scratch(const struct averages_cuda *averages);

/* Multiplies sums[count][2][..] by factor. */
enum status averages_cuda_scale(const struct averages_options *options, double *sums, int count, double factor,
                                void *stream, struct err *err);
/* Splits class `from` into `from` and `to`, as averages_split. */
enum status averages_cuda_split(const struct averages_options *options, double *sums, int from, int to, void *stream,
                                struct err *err);

/* Slots of a call: the class of each slot, or −1, and its input and output, slot after slot. */
struct average_slots {
    const int *classes;                        /* [at once] */
    float *map;                                /* [at once][box²] */
    float *tau2;                               /* [at once][box/2 + 1]: in and out */
    float *data_vs_prior, *completeness, *fsc; /* [at once][box/2 + 1] */
};
/* Makes averages of the slots' classes from sums, and their references. */
enum status averages_cuda_make(struct averages_cuda *averages, const double *sums, const struct average_slots *slots,
                               void *scratch, float *references, void *stream, struct err *err);
/* Makes references from the slots' maps, which must be masked already. */
enum status averages_cuda_set(struct averages_cuda *averages, const struct average_slots *slots, void *scratch,
                              float *references, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
