#include "kernels/log_filter/log_filter.h"

#include <math.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"

enum { DIAMETERS_MAX = 32 };

struct log_filter {
    int work, count;
    double iota[DIAMETERS_MAX]; /* Fourier px */
    int threads;
    float *product, *map;
    struct fft_plan *inverse;
};

static enum status build(struct log_filter *f, int size, const double *diameters, struct err *err) {
    FAIL_IF(f->count < 1 || f->count > DIAMETERS_MAX, err, STATUS_BAD_ARGUMENT, "%d diameters: from 1 to %d can be searched",
            f->count, DIAMETERS_MAX);
    for (int i = 0; i < f->count; i++) {
        FAIL_IF(!(diameters[i] > 0), err, STATUS_BAD_ARGUMENT, "a particle diameter of %g px", diameters[i]);
        f->iota[i] = 0.5 * size / diameters[i];
    }
    size_t floats = (size_t)f->work * (f->work + 2);
    TRY(mem_new(floats, sizeof(float), "LoG filter", &f->product, err));
    TRY(mem_new(floats, sizeof(float), "LoG filter", &f->map, err));
    struct fft_options options = {
        .rank = 2, .shape = {f->work, f->work}, .direction = FFT_INVERSE, .threads = f->threads};
    return fft_create(&options, &f->inverse, err);
}

enum status log_filter_create(int size, int work, const double *diameters, int count, int threads,
                              struct log_filter **ret_filter, struct err *err) {
    struct log_filter *f = NULL;
    TRY(mem_new(1, sizeof *f, "LoG filter", &f, err));
    f->work = work;
    f->count = count;
    f->threads = threads > 0 ? threads : 1;
    enum status status = build(f, size, diameters, err);
    if (status != STATUS_OK) {
        log_filter_destroy(&f);
        return status;
    }
    *ret_filter = f;
    return STATUS_OK;
}

void log_filter_destroy(struct log_filter **filter) {
    if (!*filter) return;
    fft_destroy(&(*filter)->inverse);
    free((*filter)->product);
    free((*filter)->map);
    mem_free(filter);
}

MULTIVERSION static void filter_row(const float *in, int count, float ky2, float inverse_iota2, float *out) {
    for (int kx = 0; kx < count; kx++) {
        float s = ((float)kx * (float)kx + ky2) * inverse_iota2;
        float h = s * expf(-0.5f * s);
        out[2 * kx] = in[2 * kx] * h;
        out[2 * kx + 1] = in[2 * kx + 1] * h;
    }
}

MULTIVERSION static void keep_best(const float *map, size_t count, uint16_t index, float *best, uint16_t *which) {
    for (size_t i = 0; i < count; i++) {
        int better = map[i] > best[i];
        best[i] = better ? map[i] : best[i];
        which[i] = better ? index : which[i];
    }
}

void log_filter_run(struct log_filter *f, const float *image, float *response, uint16_t *which) {
    size_t pixels = (size_t)f->work * f->work, stride = 2 * ((size_t)f->work / 2 + 1);
    for (int d = 0; d < f->count; d++) {
        float inverse_iota2 = (float)(1 / (f->iota[d] * f->iota[d]));
#pragma omp parallel for num_threads(f->threads) schedule(static)
        for (int row = 0; row < f->work; row++) {
            float ky = (float)(row <= f->work / 2 ? row : row - f->work);
            filter_row(image + row * stride, f->work / 2 + 1, ky * ky, inverse_iota2, f->product + row * stride);
        }
        fft_run(f->inverse, f->product, d == 0 ? response : f->map);
        if (d == 0)
            for (size_t i = 0; i < pixels; i++)
                which[i] = 0;
        else
            keep_best(f->map, pixels, (uint16_t)d, response, which);
    }
}
