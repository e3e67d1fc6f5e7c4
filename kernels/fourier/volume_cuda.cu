#include "kernels/fourier/volume_cuda.h"

#include <stdlib.h>

#include "kernels/fourier/cufft.cuh"

struct volume_cuda {
    int box;
    cufftHandle forward, inverse; /* 0: no plan */
    size_t work;
};

namespace {

enum status make_plan(int n, cufftType type, cufftHandle *ret_plan, size_t *work, struct err *err) {
    size_t needed = 0;
    CUFFT_TRY(cufftCreate(ret_plan), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetAutoAllocation(*ret_plan, 0), err, "making a Fourier plan");
    CUFFT_TRY(cufftMakePlan3d(*ret_plan, n, n, n, type, &needed), err, "making a Fourier plan");
    if (needed > *work) *work = needed;
    return STATUS_OK;
}

enum status prepare(cufftHandle plan, void *scratch, void *stream, struct err *err) {
    CUFFT_TRY(cufftSetStream(plan, (cudaStream_t)stream), err, "choosing a stream");
    CUFFT_TRY(cufftSetWorkArea(plan, scratch), err, "giving memory to a Fourier plan");
    return STATUS_OK;
}

} // namespace

extern "C" enum status volume_cuda_create(int box, struct volume_cuda **ret_volume, struct err *err) {
    FAIL_IF(box < 4 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "a map of %d px cannot be transformed: the box must be even and between 4 and 2048 px", box);
    struct volume_cuda *v = (struct volume_cuda *)calloc(1, sizeof *v);
    FAIL_IF(v == NULL, err, STATUS_NO_MEMORY, "no memory for the transform of maps");
    v->box = box;
    enum status status = make_plan(box, CUFFT_R2C, &v->forward, &v->work, err);
    if (status == STATUS_OK) status = make_plan(box, CUFFT_C2R, &v->inverse, &v->work, err);
    if (status != STATUS_OK) {
        volume_cuda_destroy(&v);
        return status;
    }
    *ret_volume = v;
    return STATUS_OK;
}

extern "C" void volume_cuda_destroy(struct volume_cuda **volume) {
    struct volume_cuda *v = *volume;
    if (v == NULL) return;
    if (v->forward) (void)cufftDestroy(v->forward);
    if (v->inverse) (void)cufftDestroy(v->inverse);
    free(v);
    *volume = NULL;
}

extern "C" int volume_cuda_box(const struct volume_cuda *v) {
    return v->box;
}

/* A plan that needs no work area still needs a pointer of its own. */
extern "C" size_t volume_cuda_scratch(const struct volume_cuda *v) {
    return v->work + 1;
}

extern "C" size_t volume_cuda_bytes(int box) {
    return (size_t)box * (size_t)box * (size_t)(box / 2 + 1) * sizeof(float2);
}

extern "C" enum status volume_cuda_forward(const struct volume_cuda *v, void *scratch, const float *map,
                                           float *spectrum, void *stream, struct err *err) {
    TRY(prepare(v->forward, scratch, stream, err));
    CUFFT_TRY(cufftExecR2C(v->forward, (cufftReal *)map, (cufftComplex *)spectrum), err, "transforming a map");
    return STATUS_OK;
}

extern "C" enum status volume_cuda_inverse(const struct volume_cuda *v, void *scratch, float *spectrum, float *map,
                                           void *stream, struct err *err) {
    TRY(prepare(v->inverse, scratch, stream, err));
    CUFFT_TRY(cufftExecC2R(v->inverse, (cufftComplex *)spectrum, (cufftReal *)map), err, "transforming a map back");
    return STATUS_OK;
}
