/* Compares two host maps on a workspace's device. */
#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"
#include "kernels/fsc/fsc_cuda.h"
#include "kernels/fsc/fsc_private.h"

static enum status maps(struct workspace *w, int box, const float *a, const float *b, float *ret_fsc, struct err *err) {
    const size_t n = (size_t)box, bytes = n * n * n * sizeof(float), shells = n / 2 + 1;
    const float *const maps[2] = {a, b};
    float *map, *spectra[2], *fsc;
    void *scratch, *sums;
    struct volume_cuda *volume;
    TRY(workspace_cuda_volume(w, box, &volume, err));
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, bytes, 1, "a map", &map, err));
    TRY(arena_take(w->arena, volume_cuda_scratch(volume), 1, "the transform of a map", &scratch, err));
    for (int i = 0; i < 2; i++)
        TRY(arena_take(w->arena, volume_cuda_bytes(box), 1, "the transform of a map", &spectra[i], err));
    TRY(arena_take(w->arena, fsc_cuda_scratch(box), 1, "Fourier shell sums", &sums, err));
    TRY(arena_take(w->arena, shells, sizeof *fsc, "spectra", &fsc, err));
    for (int i = 0; i < 2; i++) {
        TRY(workspace_cuda_put(w, map, maps[i], bytes, err));
        TRY(volume_cuda_forward(volume, scratch, map, spectra[i], w->stream, err));
    }
    TRY(fsc_cuda_spectra(box, spectra[0], spectra[1], sums, fsc, w->stream, err));
    TRY(workspace_cuda_get(w, ret_fsc, fsc, shells * sizeof *fsc, err));
    return workspace_cuda_wait(w, err);
}

/* Fetches the planes and rows of a transform that hold frequencies up to `last`. */
static enum status fetch(struct workspace *w, int box, const float *spectrum, int last, float *ret_spectrum,
                         struct err *err) {
    const size_t row = 2 * ((size_t)box / 2 + 1), plane = (size_t)box * row, rows = (size_t)last + 1;
    for (int kz = -last; kz <= last; kz++) {
        const size_t first = (size_t)(kz < 0 ? kz + box : kz) * plane, behind = first + ((size_t)box - rows + 1) * row;
        TRY(workspace_cuda_get(w, ret_spectrum + first, spectrum + first, rows * row * sizeof *spectrum, err));
        TRY(workspace_cuda_get(w, ret_spectrum + behind, spectrum + behind, (rows - 1) * row * sizeof *spectrum, err));
    }
    return STATUS_OK;
}

static enum status difference(struct workspace *w, int box, const float *a, const float *b, int last,
                              float *ret_spectrum, struct err *err) {
    const size_t n = (size_t)box, bytes = n * n * n * sizeof(float);
    float *one, *other, *spectrum;
    void *scratch;
    struct volume_cuda *volume;
    TRY(workspace_cuda_volume(w, box, &volume, err));
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, bytes, 1, "a map", &one, err));
    TRY(arena_take(w->arena, bytes, 1, "a map", &other, err));
    TRY(arena_take(w->arena, volume_cuda_scratch(volume), 1, "the transform of a map", &scratch, err));
    TRY(arena_take(w->arena, volume_cuda_bytes(box), 1, "the transform of a map", &spectrum, err));
    TRY(workspace_cuda_put(w, one, a, bytes, err));
    TRY(workspace_cuda_put(w, other, b, bytes, err));
    TRY(fsc_cuda_subtract(box, one, other, w->stream, err));
    TRY(volume_cuda_forward(volume, scratch, one, spectrum, w->stream, err));
    TRY(fetch(w, box, spectrum, last, ret_spectrum, err));
    return workspace_cuda_wait(w, err);
}

const struct fsc_work fsc_cuda_work = {.maps = maps, .difference = difference};
