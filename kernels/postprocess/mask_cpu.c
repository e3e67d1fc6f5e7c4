/* A soft mask about the density of a map. */
#include <math.h>
#include <stdlib.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/postprocess/postprocess.h"

enum { EXTEND = 3, EDGE = 6, BINS = 1024 };
static const double LOWPASS = 15; /* Å */

/* The low-pass of this field: a raised cosine over the two shells about the limit. */
static enum status lowpass(int box, double pixel_size, const float *map, float *ret_map, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    const struct fft_options forward = {.rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD};
    struct fft_options inverse = forward;
    inverse.direction = FFT_INVERSE;
    struct fft_plan *to = NULL, *back = NULL;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *spectrum = NULL;
    enum status status = fft_create(&forward, &to, err);
    if (status == STATUS_OK)
        status = fft_create(&inverse, &back, err);
    if (status == STATUS_OK)
        status = mem_new(voxels, sizeof *real, "map", &real, err);
    if (status == STATUS_OK)
        status = mem_new(fft_complex_floats(to), sizeof *spectrum, "map transform", &spectrum, err);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < voxels; i++)
            real[i] = map[i];
        fft_run(to, real, spectrum);
        double limit = round(box * pixel_size / LOWPASS);
        float *value = spectrum;
        for (int z = 0; z < box; z++)
            for (int y = 0; y < box; y++)
                for (int kx = 0; kx <= box / 2; kx++, value += 2) {
                    int kz = z <= box / 2 ? z : z - box, ky = y <= box / 2 ? y : y - box;
                    double over = sqrt(kx * kx + ky * ky + kz * kz) - (limit - 1);
                    double keep = over <= 0 ? 1 : over >= 2 ? 0 : 0.5 + 0.5 * cos(M_PI * over / 2);
                    value[0] *= (float)(keep / (double)voxels);
                    value[1] *= (float)(keep / (double)voxels);
                }
        fft_run(back, spectrum, real);
        for (size_t i = 0; i < voxels; i++)
            ret_map[i] = real[i];
    }
    fft_destroy(&to);
    fft_destroy(&back);
    return status;
}

static int in_sphere(int box, size_t i) {
    int c = box / 2, n = box;
    int x = (int)(i % (size_t)n) - c, y = (int)(i / (size_t)n % (size_t)n) - c, z = (int)(i / (size_t)n / (size_t)n) - c;
    return x * x + y * y + z * z < c * c;
}

/* Otsu's threshold separates density from solvent at the density's half height or so; half-way from the solvent's mean
 * to it keeps the weaker parts, unless that falls into the solvent's own fluctuation. */
static float threshold(int box, const float *map) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    float least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < voxels; i++)
        if (in_sphere(box, i)) {
            least = fminf(least, map[i]);
            most = fmaxf(most, map[i]);
        }
    if (!(most > least))
        return INFINITY;
    double count[BINS] = {0}, n = 0, sum = 0, step = ((double)most - (double)least) / BINS;
    for (size_t i = 0; i < voxels; i++)
        if (in_sphere(box, i)) {
            int bin = (int)(((double)map[i] - (double)least) / step);
            count[bin < BINS ? bin : BINS - 1] += 1;
        }
    for (int b = 0; b < BINS; b++)
        n += count[b], sum += count[b] * b;
    double below = 0, below_sum = 0, below_square = 0, best = -1, cut = 0, mean = 0, deviation = 0;
    for (int b = 0; b < BINS - 1; b++) {
        below += count[b], below_sum += count[b] * b, below_square += count[b] * b * b;
        if (below == 0 || below == n)
            continue;
        double m0 = below_sum / below, m1 = (sum - below_sum) / (n - below);
        double between = below * (n - below) * (m1 - m0) * (m1 - m0);
        if (between > best) {
            best = between, cut = b + 1, mean = m0;
            deviation = sqrt(fmax(0, below_square / below - m0 * m0));
        }
    }
    double level = fmax(mean + 0.5 + 0.5 * (cut - mean - 0.5), fmin(mean + 0.5 + 2 * deviation, cut));
    return (float)((double)least + step * level);
}

/* One axis of a squared distance transform, capped: value[i] = min over j of old[j] + (i − j)². */
static void nearest_along(float *line, size_t stride, int box, int reach, float *scratch) {
    for (int i = 0; i < box; i++)
        scratch[i] = line[(size_t)i * stride];
    for (int i = 0; i < box; i++) {
        int first = i - reach > 0 ? i - reach : 0, last = i + reach < box - 1 ? i + reach : box - 1;
        float least = scratch[i];
        for (int j = first; j <= last; j++)
            least = fminf(least, scratch[j] + (float)((i - j) * (i - j)));
        line[(size_t)i * stride] = least;
    }
}

/* map: 0 inside, huge outside → squared distance to the nearest inside voxel where that is within reach. */
static void distances(int box, int reach, float *map, float *scratch) {
    size_t n = (size_t)box;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            nearest_along(map + (a * n + b) * n, 1, box, reach, scratch);
        }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            nearest_along(map + a * n * n + b, n, box, reach, scratch);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            nearest_along(map + a * n + b, n * n, box, reach, scratch);
}

enum status postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    _cleanup_(mem_free) float *mask = NULL;
    _cleanup_(mem_free) float *scratch = NULL;
    TRY(mem_new(voxels, sizeof *mask, "mask", &mask, err));
    TRY(mem_new((size_t)box, sizeof *scratch, "mask", &scratch, err));
    TRY(lowpass(box, pixel_size, map, mask, err));
    const float far = 1e9f, level = threshold(box, mask);
    for (size_t i = 0; i < voxels; i++)
        mask[i] = mask[i] >= level && in_sphere(box, i) ? 0 : far;
    distances(box, EXTEND, mask, scratch);
    for (size_t i = 0; i < voxels; i++)
        mask[i] = mask[i] < EXTEND * EXTEND ? 0 : far;
    distances(box, EDGE, mask, scratch);
    for (size_t i = 0; i < voxels; i++) {
        float r = sqrtf(mask[i]);
        ret_mask[i] = r >= EDGE ? 0 : 0.5f + 0.5f * cosf((float)M_PI * r / EDGE);
    }
    return STATUS_OK;
}
