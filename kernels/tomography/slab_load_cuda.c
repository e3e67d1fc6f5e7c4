/* Loads images and mask to the devices. */
#include <math.h>

#include "common/device_cuda.h"
#include "kernels/tomography/slab_cuda.h"

/* Copies a tilt's rows in the host's order into memory that is not in use yet, and transposes them from there. */
static enum status load_tilt(struct tomography_slab *s, int tilt, const float *projections, struct err *err) {
    const struct tomography_setup *setup = s->setup;
    size_t nx = (size_t)setup->nx, rows = (size_t)s->rows, line = nx * (size_t)s->pitch;
    size_t origin = ((size_t)tilt * (size_t)setup->ny + (size_t)s->first) * nx;
    bool wbp = setup->options.method == TOMOGRAPHY_WBP;
    float *raw = s->projections + (wbp ? 0 : (size_t)tilt * line), *turned = wbp ? s->q0 : s->projections;
    struct tomography_origin at = {origin, 0};
    if (!wbp) raw = s->q0 + (size_t)tilt * rows * nx;
    CUDA_TRY(cudaMemcpyAsync(raw, projections + origin, rows * nx * sizeof(float), cudaMemcpyHostToDevice, s->inside),
             err, "sending projections");
    if (!wbp)
        return tomography_cuda_turn(raw, 1, s->rows, setup->nx, setup->nx, s->pitch, &at, turned + (size_t)tilt * line,
                                    s->place->bad, s->inside, err);
    TRY(tomography_cuda_turn(raw, 1, s->rows, setup->nx, setup->nx, s->pitch, &at, turned + (size_t)tilt * line,
                             s->place->bad, s->inside, err));
    TRY(tomography_filter_run(s->filter, raw, setup->nx, s->place->factors, (float)setup->shares[tilt], s->q1,
                              s->inside, err));
    return tomography_cuda_turn(s->q1, 1, s->rows, setup->nx, 2 * (setup->padded / 2 + 1), s->pitch, &at,
                                turned + (size_t)tilt * line, NULL, s->inside, err);
}

static enum status load_mask(struct tomography_slab *s, struct err *err) {
    const struct tomography_setup *setup = s->setup;
    size_t nx = (size_t)setup->nx, rows = (size_t)s->rows;
    unsigned char *raw = (unsigned char *)s->q0;
    for (int z = 0; z < setup->nz; z++) {
        CUDA_TRY(cudaMemcpyAsync(raw, setup->options.mask + ((size_t)z * (size_t)setup->ny + (size_t)s->first) * nx,
                                 rows * nx, cudaMemcpyHostToDevice, s->inside),
                 err, "sending a mask");
        TRY(tomography_cuda_turn_mask(raw, 1, s->rows, setup->nx, s->pitch, s->mask + (size_t)z * nx * (size_t)s->pitch,
                                      s->inside, err));
    }
    return STATUS_OK;
}

static enum status load(struct tomography_slab *s, const float *projections, struct err *err) {
    const struct tomography_setup *setup = s->setup;
    size_t voxels = (size_t)setup->nz * (size_t)setup->nx;
    CUDA_TRY(cudaSetDevice(s->place->device.index), err, "choosing a device");
    CUDA_TRY(cudaMemsetAsync(s->volume, 0, voxels * (size_t)s->pitch * sizeof(float), s->inside), err,
             "clearing the volume");
    for (int t = 0; t < setup->tilts; t++)
        TRY(load_tilt(s, t, projections, err));
    if (s->mask) TRY(load_mask(s, err));
    return STATUS_OK;
}

static enum status check(struct tomography_slab *s, const float *projections, struct err *err) {
    const struct tomography_setup *setup = s->setup;
    unsigned long long bad = 0, nx = (unsigned long long)setup->nx, ny = (unsigned long long)setup->ny;
    CUDA_TRY(cudaSetDevice(s->place->device.index), err, "choosing a device");
    CUDA_TRY(cudaMemcpyAsync(&bad, s->place->bad, sizeof bad, cudaMemcpyDeviceToHost, s->inside), err,
             "fetching a flag");
    CUDA_TRY(cudaStreamSynchronize(s->inside), err, "sending projections");
    if (bad == ~0ull) return STATUS_OK;
    FAIL(err, STATUS_BAD_ARGUMENT,
         "pixel (column %llu, row %llu) of tilt %llu (%g°) is %g, no finite number: mend the stack, or leave "
         "the tilt out",
         bad % nx + 1, bad / nx % ny + 1, bad / nx / ny + 1, setup->options.geometry.angles[bad / nx / ny],
         (double)projections[bad]);
}

/* Slabs of a device share its flag. */
static enum status clear_flag(struct tomography_slab *s, struct err *err) {
    CUDA_TRY(cudaSetDevice(s->place->device.index), err, "choosing a device");
    CUDA_TRY(cudaMemsetAsync(s->place->bad, 0xff, sizeof *s->place->bad, s->inside), err, "clearing a flag");
    CUDA_TRY(cudaStreamSynchronize(s->inside), err, "clearing a flag");
    return STATUS_OK;
}

enum status tomography_slabs_load(struct tomography_slabs *all, const float *projections, struct err *err) {
    for (int i = 0; i < all->count; i++)
        TRY(clear_flag(&all->slabs[i], err));
    for (int i = 0; i < all->count; i++)
        if (all->slabs[i].rows > 0) TRY(load(&all->slabs[i], projections, err));
    for (int i = 0; i < all->count; i++)
        if (all->slabs[i].rows > 0) TRY(check(&all->slabs[i], projections, err));
    return STATUS_OK;
}
