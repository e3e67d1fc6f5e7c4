/* Defines the ops table of fsc_maps and fsc_independent for the files of this folder. */
#ifndef ICESTREAM_KERNELS_FSC_FSC_PRIVATE_H
#define ICESTREAM_KERNELS_FSC_FSC_PRIVATE_H

#include "kernels/fsc/fsc.h"

struct fsc_work {
    enum status (*maps)(struct workspace *workspace_or_null, int box, const float *a, const float *b, float *ret_fsc,
                        struct err *err);
    /* Computes the transform of a − b, [box][box][box/2 + 1] complex; may leave frequencies beyond `last` as they are. */
    enum status (*difference)(struct workspace *workspace_or_null, int box, const float *a, const float *b, int last,
                              float *ret_spectrum, struct err *err);
};
/* Returns NULL for a workspace when the program was built without CUDA. */
const struct fsc_work *fsc_work_on(const struct workspace *workspace_or_null);
/* The member of fsc_cpu_work. */
enum status fsc_cpu_difference(struct workspace *workspace_or_null, int box, const float *a, const float *b, int last,
                               float *ret_spectrum, struct err *err);
extern const struct fsc_work fsc_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct fsc_work fsc_cuda_work;

#endif
