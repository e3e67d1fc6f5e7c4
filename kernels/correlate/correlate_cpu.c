#include "kernels/correlate/correlate.h"

#include <math.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"

/* Each thread takes a run of consecutive rotations and keeps its own best. */
struct worker {
    float *scratch, *product, *map, *best;
    uint16_t *rotation;
};

struct correlate {
    int work, threads;
    struct fft_plan *inverse;
    struct worker *workers;
};

static enum status build(struct correlate *c, struct err *err) {
    size_t pixels = (size_t)c->work * c->work, floats = (size_t)c->work * (c->work + 2);
    struct fft_options options = {.rank = 2, .shape = {c->work, c->work}, .direction = FFT_INVERSE};
    TRY(fft_create(&options, &c->inverse, err));
    TRY(mem_new((size_t)c->threads, sizeof *c->workers, "correlation", &c->workers, err));
    for (int t = 0; t < c->threads; t++) {
        struct worker *w = &c->workers[t];
        TRY(mem_new(floats, sizeof(float), "correlation", &w->scratch, err));
        TRY(mem_new(floats, sizeof(float), "correlation", &w->product, err));
        TRY(mem_new(pixels, sizeof(float), "correlation", &w->map, err));
        TRY(mem_new(pixels, sizeof(float), "correlation", &w->best, err));
        TRY(mem_new(pixels, sizeof(uint16_t), "correlation", &w->rotation, err));
    }
    return STATUS_OK;
}

enum status correlate_create(int work, int threads, struct correlate **ret_correlate, struct err *err) {
    struct correlate *c = NULL;
    TRY(mem_new(1, sizeof *c, "correlation", &c, err));
    c->work = work;
    c->threads = threads > 0 ? threads : 1;
    enum status status = build(c, err);
    if (status != STATUS_OK) {
        correlate_destroy(&c);
        return status;
    }
    *ret_correlate = c;
    return STATUS_OK;
}

void correlate_destroy(struct correlate **correlate) {
    struct correlate *c = *correlate;
    if (!c) return;
    for (int t = 0; c->workers && t < c->threads; t++) {
        free(c->workers[t].scratch);
        free(c->workers[t].product);
        free(c->workers[t].map);
        free(c->workers[t].best);
        free(c->workers[t].rotation);
    }
    free(c->workers);
    fft_destroy(&c->inverse);
    mem_free(correlate);
}

/* Computes out = image · conj(f); if f stands for its conjugate (sign −1), image · f. */
MULTIVERSION static void multiply(const float *image, const float *f, size_t count, float sign, float *out) {
    for (size_t i = 0; i < count; i++) {
        float ar = image[2 * i], ai = image[2 * i + 1], br = f[2 * i], bi = sign * f[2 * i + 1];
        out[2 * i] = ar * br + ai * bi;
        out[2 * i + 1] = ai * br - ar * bi;
    }
}

MULTIVERSION static void keep_best(const float *map, size_t count, uint16_t index, float *best, uint16_t *rotation) {
    for (size_t i = 0; i < count; i++) {
        int better = map[i] > best[i];
        best[i] = better ? map[i] : best[i];
        rotation[i] = better ? index : rotation[i];
    }
}

MULTIVERSION static void join_best(const float *other, const uint16_t *other_rotation, size_t count, float *best,
                                   uint16_t *rotation) {
    for (size_t i = 0; i < count; i++) {
        int better = other[i] > best[i];
        best[i] = better ? other[i] : best[i];
        rotation[i] = better ? other_rotation[i] : rotation[i];
    }
}

static void run_worker(const struct correlate *c, const struct worker *w, const struct template_spectra *spectra,
                       int template, int begin, int end, const float *image) {
    size_t pixels = (size_t)c->work * c->work, half = (size_t)c->work * (c->work / 2 + 1);
    for (int r = begin; r < end; r++) {
        bool conjugate = false;
        const float *f = template_spectra_get(spectra, template, r, w->scratch, &conjugate);
        multiply(image, f, half, conjugate ? -1.0f : 1.0f, w->product);
        if (r == begin) {
            fft_run(c->inverse, w->product, w->best);
            for (size_t i = 0; i < pixels; i++)
                w->rotation[i] = (uint16_t)r;
            continue;
        }
        fft_run(c->inverse, w->product, w->map);
        keep_best(w->map, pixels, (uint16_t)r, w->best, w->rotation);
    }
}

void correlate_best(struct correlate *c, const struct template_spectra *spectra, int template, int rotations,
                    const float *image, float *best, uint16_t *rotation) {
    size_t pixels = (size_t)c->work * c->work;
    int parts = rotations < c->threads ? rotations : c->threads;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int t = 0; t < parts; t++)
        run_worker(c, &c->workers[t], spectra, template, t * rotations / parts, (t + 1) * rotations / parts, image);
    for (size_t i = 0; i < pixels; i++) {
        best[i] = c->workers[0].best[i];
        rotation[i] = c->workers[0].rotation[i];
    }
    for (int t = 1; t < parts; t++)
        join_best(c->workers[t].best, c->workers[t].rotation, pixels, best, rotation);
}

MULTIVERSION static void scores_of(float mean, float factor, const float *best, const float *mu, const float *sigma,
                                   size_t count, float *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = factor * (best[i] - mu[i] * mean) / sigma[i];
}

MULTIVERSION static void scores_of_white(float mean, float factor, const float *best, const float *mu, size_t count,
                                         float *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = factor * (best[i] - mu[i] * mean);
}

void merit_scores(const struct merit_terms *terms, const float *best, const float *mu, const float *sigma, size_t count,
                  float *scores) {
    double factor = terms->power > 1e-30 ? 1 / sqrt(terms->power) : 0;
    if (sigma == NULL)
        scores_of_white((float)terms->mean, (float)factor, best, mu, count, scores);
    else
        scores_of((float)terms->mean, (float)factor, best, mu, sigma, count, scores);
}

/* Exponents stay finite: a template on a wrong grey scale must not make infinities. */
static const double EXPONENT_MOST = 60;

double merit_from_score(const struct merit_terms *terms, double scale, double score) {
    double half = scale * scale * terms->power / 2, expected = expm1(fmin(half, EXPONENT_MOST));
    if (!(expected > 1e-30)) return 0;
    return expm1(fmin(scale * sqrt(terms->power) * score - half, EXPONENT_MOST)) / expected;
}

double merit_to_score(const struct merit_terms *terms, double scale, double merit) {
    double half = scale * scale * terms->power / 2, root = scale * sqrt(terms->power);
    double ratio = merit * expm1(fmin(half, EXPONENT_MOST));
    return root > 0 && ratio > -1 ? (log1p(ratio) + half) / root : -INFINITY;
}
