/* Defines the ops table of fsc_maps for the files of this folder. */
#ifndef ICESTREAM_KERNELS_FSC_FSC_PRIVATE_H
#define ICESTREAM_KERNELS_FSC_FSC_PRIVATE_H

#include "kernels/fsc/fsc.h"

struct fsc_work {
    enum status (*maps)(struct workspace *workspace_or_null, int box, const float *a, const float *b, float *ret_fsc,
                        struct err *err);
};
extern const struct fsc_work fsc_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct fsc_work fsc_cuda_work;

#endif
