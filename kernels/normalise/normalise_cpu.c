#include "kernels/normalise/normalise.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/multiversion.h"

/* splitmix64 (Steele et al. 2014): any counter gives an independent value, so rows can be filled in any order. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* N(0,1) by Box and Muller from two halves of one 64-bit value. */
static float noise(uint64_t seed, uint64_t index) {
    uint64_t bits = mix(seed ^ mix(index));
    float u = ((float)(bits >> 40) + 0.5f) * 0x1p-24f;
    float v = (float)((bits & 0xffffff) + 1) * 0x1p-24f;
    return sqrtf(-2 * logf(u)) * cosf((float)(2 * M_PI) * v);
}

/* Sums the pixels that differ from `centre` by `reach` at most. */
MULTIVERSION static void row_sums(const float *row, int n, double origin, float centre, float reach, double *sum,
                                  double *squares, int *count) {
    double s = 0, q = 0;
    int used = 0;
#pragma omp simd reduction(+ : s, q, used)
    for (int x = 0; x < n; x++) {
        /* NaN and infinity fail the comparison. */
        int good = fabsf(row[x] - centre) <= reach;
        double d = good ? row[x] - origin : 0;
        s += d;
        q += d * d;
        used += good;
    }
    *sum += s;
    *squares += q;
    *count += used;
}

MULTIVERSION static void row_scale(const float *row, int n, float mean, float factor, float clip, float *out) {
    for (int x = 0; x < n; x++) {
        float z = (row[x] - mean) * factor;
        out[x] = fabsf(z) <= clip ? z : 0;
    }
}

struct moments {
    double mean, deviation, count; /* deviation 0: constant */
};

/* Rows are summed in bands, and the bands in order, so that the result does not depend on how many threads there
 * are. */
enum { BANDS = 64 };

static struct moments measure(const float *in, int nx, int ny, float centre, float reach, int threads) {
    double origin = normalise_origin(in, (size_t)nx * (size_t)ny), sum = 0, squares = 0, count = 0;
    struct {
        double sum, squares, count;
    } bands[BANDS];
    (void)threads; /* unused where there is no OpenMP */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int band = 0; band < BANDS; band++) {
        double s = 0, q = 0, n = 0;
        for (int y = (int)((long)ny * band / BANDS); y < (int)((long)ny * (band + 1) / BANDS); y++) {
            int used = 0;
            row_sums(in + (size_t)y * nx, nx, origin, centre, reach, &s, &q, &used);
            n += used;
        }
        bands[band].sum = s;
        bands[band].squares = q;
        bands[band].count = n;
    }
    for (int band = 0; band < BANDS; band++) {
        sum += bands[band].sum;
        squares += bands[band].squares;
        count += bands[band].count;
    }
    double mean = count > 0 ? sum / count : 0;
    double variance = count > 0 ? squares / count - mean * mean : 0;
    mean += origin;
    /* A constant image leaves rounding errors of this size, relative to its own values. */
    double least = 1e-14 * mean * mean;
    return (struct moments){mean, variance > least && isfinite(variance) ? sqrt(variance) : 0, count};
}

float normalise_micrograph(const float *in, int nx, int ny, double clip, int size, uint64_t seed, int threads,
                           float *out) {
    struct moments m = measure(in, nx, ny, 0, 3e38f, threads);
    for (int pass = 1; pass < NORMALISE_PASSES && m.deviation > 0; pass++) {
        struct moments again = measure(in, nx, ny, (float)m.mean, (float)(clip * m.deviation), threads);
        bool same = again.count == m.count;
        m = again;
        if (same) break;
    }
    double mean = m.mean;
    float factor = m.deviation > 0 ? (float)(1 / m.deviation) : 0;

    int x0 = normalise_offset(size, nx), y0 = normalise_offset(size, ny);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int y = 0; y < size; y++) {
        float *row = out + (size_t)y * size;
        bool inside = y >= y0 && y < y0 + ny;
        for (int x = 0; x < (inside ? x0 : size); x++)
            row[x] = noise(seed, (uint64_t)y * size + x);
        if (!inside) continue;
        row_scale(in + (size_t)(y - y0) * nx, nx, (float)mean, factor, (float)clip, row + x0);
        for (int x = x0 + nx; x < size; x++)
            row[x] = noise(seed, (uint64_t)y * size + x);
    }
    return factor > 0 ? 1 / factor : 0;
}
