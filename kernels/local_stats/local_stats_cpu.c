#include "kernels/local_stats/local_stats.h"

#include <math.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/window.h"

struct local_stats {
    int work;
    float *mask;    /* conj FT of B over its count, work half plane, complex */
    float *product; /* scratch, complex */
    struct fft_plan *inverse;
};

int circle_count(int box, double radius) {
    int count = 0;
    for (int j = -box / 2; j < box / 2; j++)
        for (int i = -box / 2; i < box / 2; i++)
            count += i * i + j * j < radius * radius;
    return count;
}

/* FT of the background mask at full size, cut to the work size. */
static enum status make_mask(struct local_stats *stats, int size, int box, double radius, int threads,
                             struct err *err) {
    int count = box * box - circle_count(box, radius);
    FAIL_IF(count < box, err, STATUS_BAD_ARGUMENT,
            "a particle of radius %.0f px leaves no background in a box of %d px: choose a smaller diameter, or "
            "templates with a wider border",
            radius, box);
    struct fft_plan *forward = NULL;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *half = NULL;
    TRY(mem_new((size_t)size * size, sizeof *real, "background mask", &real, err));
    TRY(mem_new((size_t)size * (size + 2), sizeof *half, "background mask", &half, err));
    for (int j = -box / 2; j < box / 2; j++)
        for (int i = -box / 2; i < box / 2; i++)
            if (i * i + j * j >= radius * radius) real[(size_t)((j + size) % size) * size + (i + size) % size] = 1;
    struct fft_options options = {.rank = 2, .shape = {size, size}, .direction = FFT_FORWARD, .threads = threads};
    TRY(fft_create(&options, &forward, err));
    fft_run(forward, real, half);
    fft_destroy(&forward);
    fourier_window_crop(half, size, stats->work, 1.0f / (float)count, stats->mask);
    return STATUS_OK;
}

static enum status build(struct local_stats *stats, int size, int work, int box, double radius, int threads,
                         struct err *err) {
    FAIL_IF(box > size || work > size || size % 2 || work % 2 || box % 2, err, STATUS_BAD_ARGUMENT,
            "a box of %d px does not fit a micrograph of %d px (work size %d px)", box, size, work);
    stats->work = work;
    size_t floats = (size_t)work * (work + 2);
    TRY(mem_new(floats, sizeof(float), "background mask", &stats->mask, err));
    TRY(mem_new(floats, sizeof(float), "local statistics", &stats->product, err));
    struct fft_options options = {.rank = 2, .shape = {work, work}, .direction = FFT_INVERSE, .threads = threads};
    TRY(fft_create(&options, &stats->inverse, err));
    return make_mask(stats, size, box, radius, threads, err);
}

enum status local_stats_create(int size, int work, int box, double radius, int threads, struct local_stats **ret_stats,
                               struct err *err) {
    struct local_stats *stats = NULL;
    TRY(mem_new(1, sizeof *stats, "local statistics", &stats, err));
    enum status status = build(stats, size, work, box, radius, threads, err);
    if (status != STATUS_OK) {
        local_stats_destroy(&stats);
        return status;
    }
    *ret_stats = stats;
    return STATUS_OK;
}

void local_stats_destroy(struct local_stats **stats) {
    if (!*stats) return;
    fft_destroy(&(*stats)->inverse);
    free((*stats)->mask);
    free((*stats)->product);
    mem_free(stats);
}

/* out = in · conj(mask) */
MULTIVERSION static void multiply(const float *in, const float *mask, size_t count, float *out) {
    for (size_t i = 0; i < count; i++) {
        float ar = in[2 * i], ai = in[2 * i + 1], br = mask[2 * i], bi = mask[2 * i + 1];
        out[2 * i] = ar * br + ai * bi;
        out[2 * i + 1] = ai * br - ar * bi;
    }
}

MULTIVERSION static void deviation(const float *mu, size_t count, float *sigma) {
    for (size_t i = 0; i < count; i++) {
        float variance = sigma[i] - mu[i] * mu[i];
        sigma[i] = variance > 1e-10f ? sqrtf(variance) : 1;
    }
}

void local_stats_mean(struct local_stats *stats, const float *image, float *mu) {
    multiply(image, stats->mask, (size_t)stats->work * (stats->work / 2 + 1), stats->product);
    fft_run(stats->inverse, stats->product, mu);
}

void local_stats_run(struct local_stats *stats, const float *image, const float *square, float *mu, float *sigma) {
    size_t count = (size_t)stats->work * (stats->work / 2 + 1);
    local_stats_mean(stats, image, mu);
    multiply(square, stats->mask, count, stats->product);
    fft_run(stats->inverse, stats->product, sigma);
    deviation(mu, (size_t)stats->work * stats->work, sigma);
}
