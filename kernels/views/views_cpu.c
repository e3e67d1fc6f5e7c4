#include "kernels/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/projector/projector.h"
#include "kernels/sampling/sampling.h"

enum { HEALPIX_ORDER = 1 };

/* The data of one call. */
struct projection {
    struct sampling sampling;
    struct fourier_pixels pixels;
    struct projector *projector;
    struct fft_plan *inverse;
    float *slice, *half, *image;
    double mean; /* of a projection */
};

static void destroy(struct projection *p) {
    sampling_destroy(&p->sampling);
    fourier_pixels_destroy(&p->pixels);
    projector_destroy(&p->projector);
    fft_destroy(&p->inverse);
    free(p->slice);
    free(p->half);
    free(p->image);
}

static enum status create(struct projection *p, const float *map, int n, const struct symmetry *symmetry, int threads,
                          struct err *err) {
    struct fft_options options = {.rank = 2, .shape = {n, n}, .direction = FFT_INVERSE};
    /* No shifts. The highest frequency is left out: it is its own conjugate. */
    TRY(sampling_create(HEALPIX_ORDER, symmetry, 0, 1, &p->sampling, err));
    TRY(fourier_pixels_create(n, n - 2, &p->pixels, err));
    TRY(fft_create(&options, &p->inverse, err));
    TRY(mem_new(2 * (size_t)p->pixels.count, sizeof *p->slice, "projection", &p->slice, err));
    TRY(mem_new((size_t)n * ((size_t)n + 2), sizeof *p->half, "projection", &p->half, err));
    TRY(mem_new((size_t)n * (size_t)n, sizeof *p->image, "projection", &p->image, err));
    TRY(projector_create(3, n, threads, &p->projector, err));
    TRY(projector_set_map(p->projector, map, n - 2, err));
    for (size_t i = 0; i < (size_t)n * (size_t)n * (size_t)n; i++)
        p->mean += map[i];
    p->mean /= (double)n * n;
    return STATUS_OK;
}

/* Computes the projection along direction d, in p->image. */
static void project(struct projection *p, int d, int n) {
    double matrix[9];
    float rotation[9];
    sampling_matrix(&p->sampling, d * p->sampling.psi_count, matrix);
    size_t stride = 2 * ((size_t)n / 2 + 1);
    for (int i = 0; i < 9; i++)
        rotation[i] = (float)matrix[i];
    projector_slices(p->projector, &p->pixels, p->pixels.count, 1, rotation, 1, p->slice);
    memset(p->half, 0, (size_t)n * stride * sizeof *p->half);
    p->half[0] = (float)p->mean;
    for (int i = 0; i < p->pixels.count; i++) {
        int kx = p->pixels.kx[i], ky = p->pixels.ky[i];
        /* Moves the phase origin from the centre to the first pixel. */
        float sign = (kx + ky) % 2 ? -1.0f : 1.0f, re = sign * p->slice[2 * i], im = sign * p->slice[2 * i + 1];
        float *value = p->half + (size_t)((ky + n) % n) * stride + 2 * (size_t)kx;
        value[0] = re;
        value[1] = im;
        if (kx > 0) continue;
        value = p->half + (size_t)((n - ky) % n) * stride;
        value[0] = re;
        value[1] = -im;
    }
    fft_run(p->inverse, p->half, p->image);
}

enum status views_project(const float *map, int n, const char *name, int threads, float **ret_views, int *ret_count,
                          struct err *err) {
    struct projection p = {0};
    struct symmetry symmetry = {0};
    float *views = NULL;
    size_t pixels = (size_t)n * (size_t)n;
    TRY(symmetry_create(name, &symmetry, err));
    enum status status = create(&p, map, n, &symmetry, threads, err);
    int count = p.sampling.direction_count;
    if (status == STATUS_OK) status = mem_new_unset((size_t)count * pixels, sizeof *views, "views", &views, err);
    for (int d = 0; status == STATUS_OK && d < count; d++) {
        project(&p, d, n);
        memcpy(views + (size_t)d * pixels, p.image, pixels * sizeof *views);
    }
    destroy(&p);
    symmetry_destroy(&symmetry);
    TRY(status);
    *ret_views = views;
    *ret_count = count;
    return STATUS_OK;
}
