/* Puts a map on another grid: Fourier cropping or padding to the pixel size, then cutting or padding to the box. */
#include "stages/refiner/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/optics.h"
#include "common/memory.h"

/* Returns the mean over the six faces, which stands for what lies outside the map. */
static float outside_mean(const float *map, int n) {
    double sum = 0;
    size_t count = 0;
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++)
                if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) {
                    sum += map[((size_t)z * (size_t)n + (size_t)y) * (size_t)n + (size_t)x];
                    count++;
                }
    return (float)(sum / (double)count);
}

/* Cuts or pads a map; the centre n/2 stays the centre. */
static void change_box(const float *in, int n, float fill, int m, float *out) {
    int offset = n / 2 - m / 2;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < m; z++)
        for (int y = 0; y < m; y++)
            for (int x = 0; x < m; x++) {
                int iz = z + offset, iy = y + offset, ix = x + offset;
                bool in_map = iz >= 0 && iy >= 0 && ix >= 0 && iz < n && iy < n && ix < n;
                out[((size_t)z * (size_t)m + (size_t)y) * (size_t)m + (size_t)x] =
                    in_map ? in[((size_t)iz * (size_t)n + (size_t)iy) * (size_t)n + (size_t)ix] : fill;
            }
}

static enum status transform(enum fft_direction direction, int n, float *in, float *out, struct err *err) {
    struct fft_plan *plan = NULL;
    const struct fft_options options = {
        .rank = 3, .shape = {n, n, n}, .direction = direction, .threads = FFT_ALL_THREADS};
    TRY(fft_create(&options, &plan, err));
    fft_run(plan, in, out);
    fft_destroy(&plan);
    return STATUS_OK;
}

static size_t half_index(int n, int z, int y, int x) {
    return (((size_t)(z < 0 ? z + n : z) * (size_t)n + (size_t)(y < 0 ? y + n : y)) * (size_t)(n / 2 + 1) + (size_t)x) *
           2;
}

/* Resamples n³ → m³ over the same extent; n and m are even. */
static enum status fourier_resample(float *in, int n, int m, float *out, struct err *err) {
    size_t n_half = (size_t)n * (size_t)n * (size_t)(n / 2 + 1), m_half = (size_t)m * (size_t)m * (size_t)(m / 2 + 1);
    _cleanup_(mem_free) float *a = NULL;
    _cleanup_(mem_free) float *b = NULL;
    TRY(mem_new(n_half, 2 * sizeof *a, "the reference's transform", &a, err));
    TRY(mem_new(m_half, 2 * sizeof *b, "the reference's transform", &b, err));
    TRY(transform(FFT_FORWARD, n, in, a, err));
    int reach = (n < m ? n : m) / 2 - 1;
    float scale = 1 / ((float)n * (float)n * (float)n);
#pragma omp parallel for schedule(static)
    for (int z = -reach; z <= reach; z++)
        for (int y = -reach; y <= reach; y++)
            for (int x = 0; x <= reach; x++)
                for (size_t c = 0; c < 2; c++)
                    b[half_index(m, z, y, x) + c] = scale * a[half_index(n, z, y, x) + c];
    return transform(FFT_INVERSE, m, b, out, err);
}

/* Finds even sizes n' ≥ n and m whose extents agree best: n'·from = m·to. */
static void matching_sizes(int n, double from, double to, int *ret_n, int *ret_m) {
    double best = 1e9;
    for (int candidate = n + n % 2; candidate <= n + 64; candidate += 2) {
        int m = 2 * (int)lround(candidate * from / to / 2);
        double error = fabs(m * to / (candidate * from) - 1);
        if (m >= 4 && error < best - 1e-6) best = error, *ret_n = candidate, *ret_m = m;
    }
}

enum status resample_map(const float *map, int from_box, double from_pixel, int box, double pixel_size, float *out,
                         struct err *err) {
    float outside = outside_mean(map, from_box);
    int n = from_box, m = from_box;
    bool same = optics_same_pixel_size(from_pixel, pixel_size);
    if (!same) matching_sizes(from_box, from_pixel, pixel_size, &n, &m);
    _cleanup_(mem_free) float *padded = NULL;
    _cleanup_(mem_free) float *scaled = NULL;
    TRY(mem_new((size_t)n * (size_t)n * (size_t)n, sizeof *padded, "the reference", &padded, err));
    change_box(map, from_box, outside, n, padded);
    if (!same) {
        TRY(mem_new((size_t)m * (size_t)m * (size_t)m, sizeof *scaled, "the reference", &scaled, err));
        TRY(fourier_resample(padded, n, m, scaled, err));
    }
    change_box(same ? padded : scaled, m, outside, box, out);
    return STATUS_OK;
}

enum status lowpass_map(float *map, int box, double shell, double edge, struct err *err) {
    size_t half = (size_t)box * (size_t)box * (size_t)(box / 2 + 1);
    _cleanup_(mem_free) float *spectrum = NULL;
    TRY(mem_new_unset(half, 2 * sizeof *spectrum, "the reference's transform", &spectrum, err));
    TRY(transform(FFT_FORWARD, box, map, spectrum, err));
    float scale = 1 / ((float)box * (float)box * (float)box);
#pragma omp parallel for schedule(static)
    for (int z = -box / 2 + 1; z <= box / 2; z++)
        for (int y = -box / 2 + 1; y <= box / 2; y++)
            for (int x = 0; x <= box / 2; x++) {
                double r = sqrt((double)z * z + (double)y * y + (double)x * x), w = 0;
                if (r < shell - edge)
                    w = 1;
                else if (r < shell)
                    w = 0.5 - 0.5 * cos(M_PI * (shell - r) / edge);
                for (size_t c = 0; c < 2; c++)
                    spectrum[half_index(box, z, y, x) + c] *= scale * (float)w;
            }
    return transform(FFT_INVERSE, box, spectrum, map, err);
}

enum status part_map(const float *map, int box, int shell, float *ret_low, float *ret_high, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        ret_high[i] = ret_low[i] = map[i];
    TRY(lowpass_map(ret_low, box, shell + 0.5, 0, err));
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        ret_high[i] -= ret_low[i];
    return STATUS_OK;
}

void copy_map(const float *from, size_t voxels, float *to) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        to[i] = from[i];
}
