/* Defines the ops table of solvent.h for the files of this folder. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_PRIVATE_H
#define ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_PRIVATE_H

#include "kernels/postprocess/solvent.h"

struct solvent_work {
    enum status (*find)(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                        double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err);
    enum status (*flatten)(struct workspace *workspace, const struct solvent_sphere *sphere, const float *mask_or_null,
                           double shared, float *map, struct err *err);
    enum status (*part)(struct workspace *workspace, int box, int shell, const float *map, float *ret_low,
                        float *ret_high, struct err *err);
    enum status (*join)(struct workspace *workspace, int box, int low, int reached, const float *inner, float *map,
                        struct err *err);
};
/* Defined only in builds with CUDA. */
extern const struct solvent_work solvent_cuda_work;

#endif
