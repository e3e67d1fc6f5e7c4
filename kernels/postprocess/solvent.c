#include "kernels/postprocess/solvent.h"

#ifndef ICESTREAM_HAVE_CUDA
enum status solvent_find_on(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                            double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err) {
    (void)workspace, (void)sphere, (void)pixel_size, (void)shell, (void)map, (void)ret_mask, (void)ret_inside;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU makes masks");
}

enum status solvent_flatten_on(struct workspace *workspace, const struct solvent_sphere *sphere,
                               const float *mask_or_null, double shared, float *map, struct err *err) {
    (void)workspace, (void)sphere, (void)mask_or_null, (void)shared, (void)map;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU masks maps");
}
#endif
