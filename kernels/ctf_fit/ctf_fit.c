#include "kernels/ctf_fit/ctf_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/ctf_fit/ctf_fit_private.h"

/* Neighbouring pixels of a Hann-windowed spectrum share noise: so many pixels count as one. */
static const double PIXELS_SHARED = 2.25;
/* The best of all fits to pure noise reaches about 4.5 deviations. */
static const double LEAST_SIGNIFICANCE = 5.5;
/* Side of a tile, Å. */
static const double TILE = 1000;

int ctf_fit_box(int nx, int ny, double pixel_size) {
    int most = nx < ny ? nx : ny;
    int box = fft_good_size((int)fmin(fmax(TILE / pixel_size, 256), 2048));
    return box <= most ? box : most / 2 * 2;
}

void ctf_fit_destroy(struct ctf_fit **fit) {
    if (fit == NULL || *fit == NULL) return;
    struct ctf_fit *f = *fit;
    float *arrays[] = {f->flat,
                       f->average,
                       f->rings,
                       f->table,
                       f->norm,
                       f->trial,
                       f->scratch,
                       f->pixels.radius,
                       f->pixels.slope,
                       f->pixels.cosine,
                       f->pixels.sine,
                       f->pixels.offset,
                       f->pixels.value,
                       f->pixels.weight,
                       f->profile.fit,
                       f->profile.spectrum,
                       f->profile.background,
                       f->profile.agreement};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(f->columns);
    free(f->sums);
    mem_free(fit);
}

static enum status make_pixels(struct ctf_pixels *p, size_t capacity, struct err *err) {
    float **arrays[] = {&p->radius, &p->slope, &p->cosine, &p->sine, &p->offset, &p->value, &p->weight};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        TRY(mem_new(capacity, sizeof(float), "pixels of the CTF fit", arrays[i], err));
    p->capacity = capacity;
    return STATUS_OK;
}

static enum status make_buffers(struct ctf_fit *f, struct err *err) {
    size_t box = (size_t)f->box, plane = box * (box / 2 + 1);
    float **profiles[] = {&f->profile.fit, &f->profile.spectrum, &f->profile.background, &f->profile.agreement};
    TRY(mem_new(plane, sizeof(float), "a flat spectrum", &f->flat, err));
    TRY(mem_new(plane, sizeof(float), "a flat spectrum", &f->average, err));
    TRY(mem_new(CTF_PARTS * 2 * box, sizeof(double), "sums of a spectrum", &f->columns, err));
    TRY(mem_new(2 * CTF_SECTORS * box, sizeof(float), "rings of a spectrum", &f->rings, err));
    TRY(mem_new(CTF_PARTS * 2 * box, sizeof(float), "rings of a spectrum", &f->scratch, err));
    TRY(mem_new(CTF_PARTS * 3 * box, sizeof(double), "rings of a spectrum", &f->sums, err));
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        TRY(mem_new(box, sizeof(float), "the profile of a spectrum", profiles[i], err));
    return make_pixels(&f->pixels, plane, err);
}

enum status ctf_fit_create(int box, int threads, struct ctf_fit **ret_fit, struct err *err) {
    FAIL_IF(box < 64 || box % 2 != 0 || box > 8192, err, STATUS_BAD_ARGUMENT,
            "a CTF cannot be fitted to a spectrum of %d px: an even side of 64 to 8192 is expected", box);
    _cleanup_(ctf_fit_destroy) struct ctf_fit *f = calloc(1, sizeof *f);
    FAIL_IF(f == NULL, err, STATUS_NO_MEMORY, "no memory for a CTF fit");
    f->box = box;
    f->threads = threads > 0 ? threads : 1;
    TRY(make_buffers(f, err));
    *ret_fit = f;
    f = NULL;
    return STATUS_OK;
}

const struct ctf_fit_profile *ctf_fit_profile(const struct ctf_fit *fit) {
    return &fit->profile;
}

const float *ctf_fit_spectrum(const struct ctf_fit *fit) {
    return fit->flat;
}

static enum status check(const struct ctf_fit_options *o, struct err *err) {
    FAIL_IF(
        !(o->pixel_size > 0) || !(o->voltage > 0) || !(o->low > o->high) || !(o->high > 0), err, STATUS_BAD_ARGUMENT,
        "a CTF cannot be fitted from %g to %g Å at %g Å/px and %g kV: resolutions from coarse to fine, and positive "
        "values, are expected",
        o->low, o->high, o->pixel_size, o->voltage);
    FAIL_IF(!(o->defocus_max > o->defocus_min) || !(o->defocus_min > 0) || o->defocus_max > 2e5, err,
            STATUS_BAD_ARGUMENT, "defocus from %g to %g Å: 0 to 200000 Å, the least first, is expected", o->defocus_min,
            o->defocus_max);
    return STATUS_OK;
}

/* Weights each pixel by how much the rings stand out at its radius, so that a faint outer ring adds no noise. */
static void weigh_pixels(struct ctf_fit *f, const struct ctf_fit_profile *p, const struct ctf_fit_options *o) {
    double per_pixel = 1 / (f->box * o->pixel_size) / p->step;
    for (size_t i = 0; i < f->pixels.count; i++) {
        int bin = (int)((double)f->pixels.radius[i] * per_pixel);
        float agreement = bin < p->count ? p->agreement[bin] : 0;
        f->pixels.weight[i] = agreement > 0.05f ? agreement : 0.05f;
    }
}

/* Returns by how much the power from 0.25 to 0.28 1/Å, where water ice has its rings, exceeds that beside it;
 * NaN where the pixels are too large to show it. */
static double ice_of(const struct ctf_fit *f, const float *power, double pixel_size) {
    static const double bands[3][2] = {{0.22, 0.24}, {0.25, 0.28}, {0.29, 0.31}};
    int columns = f->box / 2 + 1;
    double step = 1 / (f->box * pixel_size), sum[3] = {0}, count[3] = {0};
    if (0.5 / pixel_size < bands[2][1]) return NAN;
    for (int row = 0; row < f->box; row++) {
        int ky = row <= f->box / 2 ? row : row - f->box;
        for (int kx = 1; kx < columns; kx++) {
            double u = sqrt((double)kx * kx + (double)ky * ky) * step;
            for (int b = 0; b < 3; b++)
                if (u >= bands[b][0] && u < bands[b][1]) {
                    sum[b] += (double)power[(size_t)row * (size_t)columns + (size_t)kx];
                    count[b]++;
                }
        }
    }
    double beside = (sum[0] / count[0] + sum[2] / count[2]) / 2;
    return beside > 0 ? sum[1] / count[1] / beside - 1 : 0;
}

static void finish(struct ctf_fit *f, const float *power, const struct ctf_fit_options *o,
                   const struct ctf_point *point, struct ctf_fit_result *ret_result) {
    double half = hypot(point->along, point->across);
    for (size_t i = 0; i < f->pixels.count; i++)
        f->pixels.weight[i] = 1;
    double score = ctf_score(f, point), phase = fmod(point->phase, 180);
    double significance = score * sqrt((double)f->pixels.count / PIXELS_SHARED);
    double resolution = ctf_make_profile(f, power, o, point);
    *ret_result = (struct ctf_fit_result){
        .defocus_u = point->mean + half,
        .defocus_v = point->mean - half,
        .angle = half > 0 ? atan2(point->across, point->along) * 90 / M_PI : 0,
        .phase_shift = phase < 0 ? phase + 180 : phase,
        .score = score,
        .significance = significance,
        .resolution = significance > LEAST_SIGNIFICANCE ? resolution : 0,
        .ice = ice_of(f, power, o->pixel_size),
    };
}

/* Lists the pixels between two resolutions, at most up to Nyquist. */
static enum status list(struct ctf_fit *f, const struct ctf_fit_options *o, struct err *err) {
    double side = f->box * o->pixel_size;
    return ctf_list_pixels(f, o, side / o->low, fmin(side / o->high, f->box / 2.0 - 1), err);
}

enum status ctf_fit_run(struct ctf_fit *f, const float *power, const struct ctf_fit_options *o,
                        struct ctf_fit_result *ret_result, struct err *err) {
    TRY(check(o, err));
    double side = f->box * o->pixel_size, low = side / o->low, high = fmin(side / o->high, f->box / 2.0 - 1);
    struct ctf_point point = {0};
    int freedom = o->find_phase ? 4 : 3;
    ctf_flatten(f, power, low);
    TRY(list(f, o, err));
    TRY(ctf_search(f, o, low, high, &point, err));
    ctf_climb(f, freedom, o->astigmatism_max, &point);
    ctf_make_profile(f, power, o, &point);
    weigh_pixels(f, &f->profile, o);
    ctf_climb(f, freedom, o->astigmatism_max, &point);
    finish(f, power, o, &point, ret_result);
    return STATUS_OK;
}
