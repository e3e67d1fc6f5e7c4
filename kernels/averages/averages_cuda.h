/* Class averages on a CUDA device (kernels/averages/averages.h): running sums of all classes lie one after the other,
 * [class][half][ny][nx][4], and so do their references, [class][ny][nx][2]. Pointers are the device's; work is queued
 * on `stream` (a cudaStream_t) and not waited for. Results repeat bit for bit.
 *
 * Double and single precision as in kernels/reconstruct/reconstruct_cuda.h. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_CUDA_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_CUDA_H

#include "kernels/averages/averages.h"
#include "kernels/projector/projector_cuda.h"
#include "kernels/reconstruct/reconstruct_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AVERAGES_CUDA_AT_ONCE = 64 };

/* Plans and tables, of the current device: kept from iteration to iteration. */
struct averages_cuda;
enum status averages_cuda_create(const struct averages_options *options, struct averages_cuda **ret_averages,
                                 struct err *err);
void averages_cuda_destroy(struct averages_cuda **averages);
/* Classes that are made at once: AVERAGES_CUDA_AT_ONCE, or fewer of large boxes. */
int averages_cuda_at_once(const struct averages_options *options);
size_t averages_cuda_scratch(const struct averages_cuda *averages);

/* sums[count][2][..] times factor. */
enum status averages_cuda_scale(const struct averages_options *options, double *sums, int count, double factor,
                                void *stream, struct err *err);
enum status averages_cuda_split(const struct averages_options *options, double *sums, int from, int to, void *stream,
                                struct err *err);

/* The slots of a call: which class each is, or −1, and what it is made with and into, slot after slot. */
struct average_slots {
    const int *classes;                        /* [at once] */
    float *map;                                /* [at once][box²] */
    float *tau2;                               /* [at once][box/2 + 1]: in and out */
    float *data_vs_prior, *completeness, *fsc; /* [at once][box/2 + 1] */
};
/* Averages of the slots' classes from sums; their references. */
enum status averages_cuda_make(struct averages_cuda *averages, const double *sums, const struct average_slots *slots,
                               void *scratch, float *references, void *stream, struct err *err);
/* References of the slots' maps, which are masked. */
enum status averages_cuda_set(struct averages_cuda *averages, const struct average_slots *slots, void *scratch,
                              float *references, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
