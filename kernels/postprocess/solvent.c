/* Chooses the device that masks maps. Only CUDA devices do; the CPU uses other functions (see solvent.h). */
#include "kernels/postprocess/solvent_private.h"

/* Returns NULL when the program was built without CUDA. */
static const struct solvent_work *work_on_device(void) {
#ifdef ICESTREAM_HAVE_CUDA
    return &solvent_cuda_work;
#else
    return NULL;
#endif
}

enum status solvent_find_on(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                            double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err) {
    const struct solvent_work *work = work_on_device();
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can make masks");
    return work->find(workspace, sphere, pixel_size, shell, map, ret_mask, ret_inside, err);
}

enum status solvent_flatten_on(struct workspace *workspace, const struct solvent_sphere *sphere,
                               const float *mask_or_null, double shared, float *map, struct err *err) {
    const struct solvent_work *work = work_on_device();
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can mask maps");
    return work->flatten(workspace, sphere, mask_or_null, shared, map, err);
}

enum status solvent_part_on(struct workspace *workspace, int box, int shell, const float *map, float *ret_low,
                            float *ret_high, struct err *err) {
    const struct solvent_work *work = work_on_device();
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can part maps");
    return work->part(workspace, box, shell, map, ret_low, ret_high, err);
}

enum status solvent_join_on(struct workspace *workspace, int box, int low, int reached, const float *inner, float *map,
                            struct err *err) {
    const struct solvent_work *work = work_on_device();
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can part maps");
    return work->join(workspace, box, low, reached, inner, map, err);
}
