/* Ops table of solvent.h. For the files of this folder only. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_PRIVATE_H
#define ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_PRIVATE_H

#include "kernels/postprocess/solvent.h"

struct solvent_work {
    enum status (*find)(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                        double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err);
    enum status (*flatten)(struct workspace *workspace, const struct solvent_sphere *sphere, const float *mask_or_null,
                           double shared, float *map, struct err *err);
};
/* Built with CUDA only. */
extern const struct solvent_work solvent_cuda_work;

#endif
