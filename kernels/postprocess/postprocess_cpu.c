#include "kernels/postprocess/postprocess.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fsc/coverage.h"
#include "kernels/fsc/fsc.h"

/* Shells next to the randomised ones that keep the masked value, because the soft mask smears the border. */
enum { SMEARED_SHELLS = 2 };
static const double FSC_LIMIT = 0.143, LEAST_WEIGHTED_FSC = 1e-4;

struct work {
    int box;
    size_t voxels, floats;
    struct fft_plan *forward, *inverse;
    float *real, *a, *b; /* one map, and the transforms of two */
    double *sums;        /* [box][box/2 + 1]: of amplitudes, by plane and shell */
    double *counts;      /* [box/2 + 1]: coefficients of a shell */
};

static void work_destroy(struct work *w) {
    fft_destroy(&w->forward);
    fft_destroy(&w->inverse);
    mem_free(&w->real);
    mem_free(&w->a);
    mem_free(&w->b);
    mem_free(&w->sums);
    mem_free(&w->counts);
}

static inline int frequency(int index, int box) {
    return index <= box / 2 ? index : index - box;
}

/* Counts are whole numbers: their sum is the same in any order. */
static void count_shells(struct work *w) {
    double *counts = w->counts;
#pragma omp parallel for schedule(static) reduction(+ : counts[:w->box / 2 + 1])
    for (int z = 0; z < w->box; z++)
        for (int y = 0; y < w->box; y++)
            for (int x = 0; x <= w->box / 2; x++) {
                const int ky = frequency(y, w->box), kz = frequency(z, w->box);
                const int shell = (int)(sqrt(x * x + ky * ky + kz * kz) + 0.5);
                if (shell <= w->box / 2) counts[shell] += 1;
            }
}

static enum status work_create(int box, struct work *w, struct err *err) {
    *w = (struct work){.box = box, .voxels = (size_t)box * (size_t)box * (size_t)box};
    struct fft_options options = {
        .rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    TRY(fft_create(&options, &w->forward, err));
    options.direction = FFT_INVERSE;
    TRY(fft_create(&options, &w->inverse, err));
    w->floats = fft_complex_floats(w->forward);
    /* Written before they are read: the threads that write them share the cost of fresh pages. */
    TRY(mem_new_unset(w->voxels, sizeof *w->real, "map", &w->real, err));
    TRY(mem_new_unset(w->floats, sizeof *w->a, "map transform", &w->a, err));
    TRY(mem_new_unset(w->floats, sizeof *w->b, "map transform", &w->b, err));
    TRY(mem_new((size_t)box * ((size_t)box / 2 + 1), sizeof *w->sums, "sums of shells", &w->sums, err));
    TRY(mem_new((size_t)box / 2 + 1, sizeof *w->counts, "shells", &w->counts, err));
    count_shells(w);
    return STATUS_OK;
}

/* Transforms a map times a mask (NULL: none), with norm 1/box³. */
static void transform(struct work *w, const float *map, const float *mask, float *spectrum) {
    float scale = 1 / (float)w->voxels;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        w->real[i] = scale * (mask == NULL ? map[i] : map[i] * mask[i]);
    fft_run(w->forward, w->real, spectrum);
}

/* Returns a phase between 0 and 2π that depends only on seed and place. */
static float random_phase(uint64_t seed, uint64_t place) {
    uint64_t h = (seed + 1) * 0x9E3779B97F4A7C15u + place * 0xD1342543DE82EF95u;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
    return (float)((double)(h >> 11) * (2 * M_PI / 9007199254740992.0));
}

/* Draws new phases from shell `first` outwards. On the planes that hold both points of a conjugate pair, the one with
 * the smaller index draws and the other follows. A point that is its own conjugate keeps its value. */
static void randomise_phases(const struct work *w, float *spectrum, int first, uint64_t seed) {
    int box = w->box, columns = box / 2 + 1;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < columns; x++) {
                int kz = frequency(z, box), ky = frequency(y, box);
                if (x * x + ky * ky + kz * kz < first * first) continue;
                uint64_t place = ((uint64_t)z * (uint64_t)box + (uint64_t)y) * (uint64_t)columns + (uint64_t)x;
                float *value = spectrum + 2 * place, sign = 1;
                if (x == 0 || 2 * x == box) {
                    uint64_t mz = (uint64_t)((box - z) % box), my = (uint64_t)((box - y) % box);
                    uint64_t mate = (mz * (uint64_t)box + my) * (uint64_t)columns + (uint64_t)x;
                    if (mate == place) continue;
                    sign = mate < place ? -1 : 1;
                    place = mate < place ? mate : place;
                }
                float amplitude = hypotf(value[0], value[1]), phase = random_phase(seed, place);
                value[0] = amplitude * cosf(phase);
                value[1] = sign * amplitude * sinf(phase);
            }
}

/* Computes the FSC of the masked maps after randomising their phases. */
static enum status randomised_fsc(struct work *w, const struct postprocess_options *o, const float *half1,
                                  const float *half2, const float *mask, int first, float *ret_fsc, struct err *err) {
    const float *halves[2] = {half1, half2};
    float *spectra[2] = {w->a, w->b};
    for (int h = 0; h < 2; h++) {
        transform(w, halves[h], NULL, spectra[h]);
        randomise_phases(w, spectra[h], first, 2 * (uint64_t)o->seed + (uint64_t)h);
        fft_run(w->inverse, spectra[h], w->real);
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < w->voxels; i++)
            w->real[i] *= mask[i];
        fft_run(w->forward, w->real, spectra[h]);
    }
    return fsc_spectra(w->box, w->a, w->b, ret_fsc, err);
}

static enum status check_mask(const float *mask, size_t voxels, struct err *err) {
    for (size_t i = 0; i < voxels; i++)
        FAIL_IF(!(mask[i] >= -1e-6f && mask[i] <= 1 + 1e-6f), err, STATUS_BAD_ARGUMENT,
                "the mask holds %g, but a mask lies between 0 (solvent) and 1 (density)", (double)mask[i]);
    return STATUS_OK;
}

static enum status choose_mask(const struct work *w, const struct postprocess_options *o, const float *half1,
                               const float *half2, struct postprocess_result *r, struct err *err) {
    r->mask_fraction = 1;
    if (o->mask == NULL && !o->automatic_mask) return STATUS_OK;
    TRY(mem_new_unset(w->voxels, sizeof *r->mask, "mask", &r->mask, err));
    if (o->mask != NULL) {
        TRY(check_mask(o->mask, w->voxels, err));
        memcpy(r->mask, o->mask, w->voxels * sizeof *r->mask);
    } else {
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < w->voxels; i++)
            w->real[i] = 0.5f * (half1[i] + half2[i]);
        TRY(postprocess_shape_mask(w->box, o->pixel_size, o->shape != NULL ? o->shape : &postprocess_usual_mask,
                                   w->real, r->mask, err));
    }
    size_t inside = 0;
#pragma omp parallel for schedule(static) reduction(+ : inside)
    for (size_t i = 0; i < w->voxels; i++)
        inside += r->mask[i] > 0.5f;
    FAIL_IF(inside == 0 && o->mask == NULL && o->shape != NULL && !isnan(o->shape->threshold), err, STATUS_BAD_ARGUMENT,
            "the mask is empty: at 15 Å the mean of the half maps reaches the threshold of %g nowhere; lower it",
            o->shape->threshold);
    FAIL_IF(inside == 0, err, STATUS_BAD_ARGUMENT, "the mask is empty: %s",
            o->mask != NULL ? "give one that holds the density" : "the maps hold nothing above their solvent");
    r->mask_fraction = (double)inside / (double)w->voxels;
    return STATUS_OK;
}

/* Returns the first shell below the threshold, or box/2 + 1. */
static int first_below(const float *fsc, int box, double limit) {
    int shell = 1;
    while (shell <= box / 2 && (double)fsc[shell] >= limit)
        shell++;
    return shell;
}

/* Nothing is told beyond: what a mask finds in noise there is what it carries from the shells that halves share. */
static void bound(const struct postprocess_options *o, struct postprocess_result *r) {
    for (int i = o->last_shell + 1; o->last_shell > 0 && i <= o->box / 2; i++)
        r->fsc[i] = 0;
}

static enum status correlate(struct work *w, const struct postprocess_options *o, const float *half1,
                             const float *half2, struct postprocess_result *r, struct err *err) {
    int box = o->box;
    size_t shells = (size_t)box / 2 + 1;
    transform(w, half1, NULL, w->a);
    transform(w, half2, NULL, w->b);
    TRY(fsc_spectra(box, w->a, w->b, r->fsc_unmasked, err));
    memcpy(r->fsc, r->fsc_unmasked, shells * sizeof *r->fsc);
    memcpy(r->fsc_masked, r->fsc_unmasked, shells * sizeof *r->fsc);
    r->unmasked_curve = true;
    if (r->mask == NULL) return STATUS_OK;
    transform(w, half1, r->mask, w->a);
    transform(w, half2, r->mask, w->b);
    TRY(fsc_spectra(box, w->a, w->b, r->fsc_masked, err));
    int first = first_below(r->fsc_unmasked, box, o->randomise_at_fsc);
    if (first > box / 2) return STATUS_OK;
    r->randomise_from = box * o->pixel_size / first;
    TRY(randomised_fsc(w, o, half1, half2, r->mask, first, r->fsc_randomised, err));
    for (int i = 0; i < (int)shells; i++) {
        float masked = r->fsc_masked[i], chance = r->fsc_randomised[i];
        r->fsc[i] = i < first + SMEARED_SHELLS || chance >= 1 ? masked : (masked - chance) / (1 - chance);
    }
    r->unmasked_curve = first_below(r->fsc_unmasked, box, FSC_LIMIT) > first_below(r->fsc, box, FSC_LIMIT);
    bound(o, r);
    postprocess_doubt_mask(o, r);
    r->unmasked_curve |= r->doubts != 0;
    if (r->unmasked_curve) memcpy(r->fsc, r->fsc_unmasked, shells * sizeof *r->fsc);
    return STATUS_OK;
}

/* A mask raises the FSC where the map holds a part of the signal alone: the rest is lacking all the same. Where that
 * makes the unmasked maps coarser than their FSC is, the masked ones are told no finer. */
static enum status resolve(const struct postprocess_options *o, struct postprocess_result *r, struct err *err) {
    _cleanup_(mem_free) float *even = NULL;
    TRY(mem_new((size_t)o->box / 2 + 1, sizeof *even, "a curve", &even, err));
    r->resolution = fsc_resolution(r->fsc, o->box, o->pixel_size, FSC_LIMIT);
    if (r->doubts == 0) r->claimed = r->resolution;
    if (o->held == NULL) return STATUS_OK;
    for (int i = 0; i <= o->box / 2; i++)
        even[i] = (float)fsc_even((double)r->fsc_unmasked[i], o->held[i]);
    const double limit = FSC_LIMIT - 1e-6;
    int held = first_below(even, o->box, limit), all = first_below(r->fsc_unmasked, o->box, limit);
    double unmasked = fsc_resolution(even, o->box, o->pixel_size, limit);
    for (int i = 0; i <= o->box / 2; i++)
        even[i] = (float)fsc_even((double)r->fsc[i], o->held[i]);
    r->resolution = fsc_resolution(even, o->box, o->pixel_size, limit);
    if (held < all - 1) r->resolution = fmax(r->resolution, unmasked);
    return STATUS_OK;
}

/* Multiplies the coefficients of a plane by the factor of their shell (NULL: 1) and by exp(−B/4 s²), and adds their
 * amplitudes to the sums of the shells. */
static void filter_plane(const struct work *w, int z, const float *factor, double decay, float *spectrum,
                         double *sums) {
    int box = w->box, columns = box / 2 + 1, kz = frequency(z, box);
    for (int y = 0; y < box; y++) {
        int ky = frequency(y, box);
        float *row = spectrum + 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
        for (int x = 0; x < columns; x++) {
            int k2 = x * x + ky * ky + kz * kz, shell = (int)(sqrt(k2) + 0.5);
            double scale = factor == NULL ? 1 : shell <= box / 2 ? (double)factor[shell] : 0;
            if (!isnan(decay)) scale *= 4 * k2 <= box * box ? exp(-decay * k2) : 0;
            row[2 * x] *= (float)scale;
            row[2 * x + 1] *= (float)scale;
            if (shell <= box / 2) sums[shell] += hypot((double)row[2 * x], (double)row[2 * x + 1]);
        }
    }
}

/* Filters a spectrum plane by plane. Nothing remains beyond the last shell, and nothing beyond Nyquist unless B is NaN (no
 * sharpening). ret_log: ln of the resulting mean amplitude per shell. Planes are added up in their order, so that the
 * result does not depend on the number of threads. */
static void filter(const struct work *w, const struct postprocess_options *o, const float *factor, double bfactor,
                   float *spectrum, float *ret_log) {
    const int box = w->box, shells = box / 2 + 1;
    const double unit = 1 / (box * o->pixel_size);
    memset(w->sums, 0, (size_t)box * (size_t)shells * sizeof *w->sums);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        filter_plane(w, z, factor, bfactor / 4 * unit * unit, spectrum, w->sums + (size_t)z * (size_t)shells);
    for (int s = 0; s < shells; s++) {
        double sum = 0;
        for (int z = 0; z < box; z++)
            sum += w->sums[(size_t)z * (size_t)shells + (size_t)s];
        ret_log[s] = sum > 0 ? (float)log(sum / w->counts[s]) : POSTPROCESS_NO_AMPLITUDE;
    }
}

/* Divides each coefficient by the MTF, between shells by a line. Nothing is known of it beyond Nyquist. */
static void undo_mtf(const struct work *w, const float *mtf, float *spectrum) {
    int box = w->box, columns = box / 2 + 1;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++) {
            int kz = frequency(z, box), ky = frequency(y, box);
            float *row = spectrum + 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
            for (int x = 0; x < columns; x++) {
                double k = sqrt(x * x + ky * ky + kz * kz);
                int shell = (int)k;
                if (2 * shell >= box) continue;
                double passed = (double)mtf[shell] + (k - shell) * ((double)mtf[shell + 1] - (double)mtf[shell]);
                row[2 * x] /= (float)passed;
                row[2 * x + 1] /= (float)passed;
            }
        }
}

/* Fits a line through the shells from bfactor_low to the resolution by least squares: slope in Å². Beyond it amplitudes
 * are those of noise, and a fit would be a draw of lots. */
static void fit_guinier(const struct postprocess_options *o, struct postprocess_result *r) {
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (int i = 1; i <= o->box / 2; i++) {
        double s = i / (o->box * o->pixel_size), x = s * s, y = (double)r->guinier_weighted[i];
        if (1 / s > o->bfactor_low || 1 / s < r->resolution * (1 - 1e-6)) continue;
        if (r->guinier_weighted[i] == POSTPROCESS_NO_AMPLITUDE) continue;
        n += 1, sx += x, sy += y;
        sxx += x * x, sxy += x * y, syy += y * y;
    }
    r->guinier_slope = r->guinier_intercept = r->guinier_correlation = NAN;
    double spread = n * sxx - sx * sx;
    if (n < 3 || spread <= 0) return;
    r->guinier_slope = (n * sxy - sx * sy) / spread;
    r->guinier_intercept = (sy - r->guinier_slope * sx) / n;
    double height = n * syy - sy * sy;
    r->guinier_correlation = height > 0 ? (n * sxy - sx * sy) * (n * sxy - sx * sy) / (spread * height) : 0;
}

static enum status sharpen(struct work *w, const struct postprocess_options *o, const float *half1, const float *half2,
                           struct postprocess_result *r, struct err *err) {
    int box = o->box;
    _cleanup_(mem_free) float *weight = NULL;
    TRY(mem_new((size_t)box / 2 + 1, sizeof *weight, "FSC weights", &weight, err));
    int end = first_below(r->fsc, box, LEAST_WEIGHTED_FSC);
    for (int i = 0; i < end; i++) {
        float f = fmaxf(r->fsc[i], 0);
        weight[i] = sqrtf(2 * f / (1 + f));
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        w->real[i] = 0.5f * (half1[i] + half2[i]) / (float)w->voxels;
    fft_run(w->forward, w->real, w->a);
    filter(w, o, NULL, NAN, w->a, r->guinier_original);
    memcpy(r->guinier_mtf, r->guinier_original, ((size_t)box / 2 + 1) * sizeof *r->guinier_mtf);
    if (o->mtf != NULL) {
        undo_mtf(w, o->mtf, w->a);
        filter(w, o, NULL, NAN, w->a, r->guinier_mtf);
    }
    filter(w, o, weight, NAN, w->a, r->guinier_weighted);
    fit_guinier(o, r);
    r->bfactor = !isnan(o->adhoc_bfactor) ? o->adhoc_bfactor : isnan(r->guinier_slope) ? 0 : 4 * r->guinier_slope;
    filter(w, o, NULL, r->bfactor, w->a, r->guinier_sharpened);
    fft_run(w->inverse, w->a, w->real);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        r->map[i] = w->real[i];
    if (r->mask == NULL) return STATUS_OK;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        r->map_masked[i] = r->map[i] * r->mask[i];
    return STATUS_OK;
}

static enum status allocate(const struct work *w, struct postprocess_result *r, struct err *err) {
    float **curves[] = {
        &r->fsc,         &r->fsc_unmasked,     &r->fsc_masked,       &r->fsc_randomised, &r->guinier_original,
        &r->guinier_mtf, &r->guinier_weighted, &r->guinier_sharpened};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        TRY(mem_new((size_t)w->box / 2 + 1, sizeof **curves[i], "curve", curves[i], err));
    TRY(mem_new_unset(w->voxels, sizeof *r->map, "map", &r->map, err));
    if (r->mask != NULL) TRY(mem_new_unset(w->voxels, sizeof *r->map_masked, "map", &r->map_masked, err));
    return STATUS_OK;
}

enum status postprocess_run(const struct postprocess_options *o, const float *half1, const float *half2,
                            struct postprocess_result *ret_result, struct err *err) {
    FAIL_IF(o->box < 4 || o->box % 2 != 0 || o->box > POSTPROCESS_BOX_MOST, err, STATUS_BAD_ARGUMENT,
            "half maps of %d px cannot be post-processed: the box must be even and between 4 and %d px", o->box,
            (int)POSTPROCESS_BOX_MOST);
    FAIL_IF(!(o->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "post-processing needs a pixel size, not %g Å",
            o->pixel_size);
    for (int i = 0; o->mtf != NULL && i <= o->box / 2; i++)
        FAIL_IF(!(o->mtf[i] > 0), err, STATUS_BAD_ARGUMENT, "the MTF is %g at shell %d: values above 0 are expected",
                (double)o->mtf[i], i);
    struct postprocess_result r = {0};
    struct work w;
    enum status status = work_create(o->box, &w, err);
    if (status == STATUS_OK) status = choose_mask(&w, o, half1, half2, &r, err);
    if (status == STATUS_OK) status = allocate(&w, &r, err);
    if (status == STATUS_OK) status = correlate(&w, o, half1, half2, &r, err);
    if (status == STATUS_OK) {
        bound(o, &r);
        status = resolve(o, &r, err);
    }
    if (status == STATUS_OK) {
        status = sharpen(&w, o, half1, half2, &r, err);
    }
    work_destroy(&w);
    if (status != STATUS_OK)
        postprocess_result_destroy(&r);
    else
        *ret_result = r;
    return status;
}

void postprocess_result_destroy(struct postprocess_result *r) {
    if (r == NULL) return;
    float **owned[] = {&r->fsc,
                       &r->fsc_unmasked,
                       &r->fsc_masked,
                       &r->fsc_randomised,
                       &r->guinier_original,
                       &r->guinier_mtf,
                       &r->guinier_weighted,
                       &r->guinier_sharpened,
                       &r->map,
                       &r->map_masked,
                       &r->mask};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        mem_free(owned[i]);
}
