#include "stages/tilt-reconstructor/resample.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/multiversion.h"

/* Weights of Catmull-Rom interpolation at fraction f between the second and the third of four pixels. */
static inline void cubic(float f, float w[4]) {
    w[0] = f * (-0.5f + f * (1 - 0.5f * f));
    w[1] = 1 + f * f * (-2.5f + 1.5f * f);
    w[2] = f * (0.5f + f * (2 - 1.5f * f));
    w[3] = f * f * (-0.5f + 0.5f * f);
}

struct resampling {
    const struct image *in;
    double b11, b12, b21, b22, cx, cy; /* in = B (out) + c, both counted from index 0 */
    float fill;
    int nx, ny;
};

static inline int clamp(int i, int n) {
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Resamples columns from..to, near the rim of the image or outside it. */
static void resample_rim(const struct resampling *r, int y, int from, int to, float *out) {
    int w = r->in->nx, h = r->in->ny;
    for (int x = from; x < to; x++) {
        double u = r->b11 * x + r->b12 * y + r->cx, v = r->b21 * x + r->b22 * y + r->cy;
        out[x] = r->fill;
        if (!(u >= -0.5 && v >= -0.5 && u <= w - 0.5 && v <= h - 0.5)) continue;
        int i = (int)floor(u), j = (int)floor(v);
        float wx[4], wy[4], sum = 0;
        cubic((float)(u - i), wx);
        cubic((float)(v - j), wy);
        for (int b = 0; b < 4; b++) {
            const float *row = r->in->data + (size_t)clamp(j + b - 1, h) * (size_t)w;
            float line = 0;
            for (int a = 0; a < 4; a++)
                line += wx[a] * row[clamp(i + a - 1, w)];
            sum += wy[b] * line;
        }
        out[x] = sum;
    }
}

enum { BLOCK = 64 };

/* Computes, for columns from..from + count, the place of the first of 16 pixels and the weights. Inside the image (int)
 * is floor. */
MULTIVERSION static void weigh(const struct resampling *r, int y, int from, int count, int *restrict first,
                               float *restrict wx, float *restrict wy) {
    const double b11 = r->b11, b21 = r->b21, cu = r->b12 * y + r->cx, cv = r->b22 * y + r->cy;
    const int w = r->in->nx;
    for (int k = 0; k < count; k++) {
        double u = b11 * (from + k) + cu, v = b21 * (from + k) + cv;
        int i = (int)u, j = (int)v;
        first[k] = (j - 1) * w + i - 1;
        cubic((float)(u - i), wx + 4 * k);
        cubic((float)(v - j), wy + 4 * k);
    }
}

typedef float quad __attribute__((vector_size(16)));

static inline quad load(const float *at) {
    quad value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Sums 16 weighted pixels for each column. Four pixels of a row are one vector: this costs less than gathering pixels
 * from many places. */
MULTIVERSION static void sum_up(const float *restrict data, size_t w, int count, const int *restrict first,
                                const float *restrict wx, const float *restrict wy, float *restrict out) {
    for (int k = 0; k < count; k++) {
        const float *at = data + first[k], *weight = wy + 4 * k;
        quad line = weight[0] * load(at) + weight[1] * load(at + w) + weight[2] * load(at + 2 * w) +
                    weight[3] * load(at + 3 * w);
        line *= load(wx + 4 * k);
        out[k] = (line[0] + line[2]) + (line[1] + line[3]);
    }
}

/* Resamples columns from..to, whose 16 pixels all lie in the image. */
static void resample_inside(const struct resampling *r, int y, int from, int to, float *out) {
    int first[BLOCK];
    float wx[4 * BLOCK], wy[4 * BLOCK];
    for (int x = from; x < to; x += BLOCK) {
        int count = to - x < BLOCK ? to - x : BLOCK;
        weigh(r, y, x, count, first, wx, wy);
        sum_up(r->in->data, (size_t)r->in->nx, count, first, wx, wy, out + x);
    }
}

/* Shrinks from..to to the x for which 1 <= slope x + offset < n - 2, by a margin that rounding does not reach. */
static void keep_inside(double slope, double offset, int n, int *from, int *to) {
    const double margin = 1e-3;
    double least = 1 + margin - offset, most = n - 2 - margin - offset, low, high;
    if (fabs(slope) < 1e-12) {
        if (least > 0 || most < 0) *to = *from;
        return;
    }
    low = slope > 0 ? least / slope : most / slope;
    high = slope > 0 ? most / slope : least / slope;
    if (low > *from) *from = (int)fmin(ceil(low), *to);
    if (high < *to - 1) *to = (int)fmax(floor(high) + 1, *from);
}

static void resample_row(const struct resampling *r, int y, float *out) {
    int from = 0, to = r->nx;
    keep_inside(r->b11, r->b12 * y + r->cx, r->in->nx, &from, &to);
    keep_inside(r->b21, r->b22 * y + r->cy, r->in->ny, &from, &to);
    /* resample_inside counts pixels in int. */
    if ((size_t)r->in->nx * (size_t)r->in->ny > INT_MAX) to = from;
    resample_rim(r, y, 0, from, out);
    resample_inside(r, y, from, to, out);
    resample_rim(r, y, to, r->nx, out);
}

MULTIVERSION double resample_mean(const float *values, size_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

void resample_image(const struct image *in, double centre_x, double centre_y, const struct tilt_transform *t, int nx,
                    int ny, float *out, int threads) {
    double det = t->a11 * t->a22 - t->a12 * t->a21;
    struct resampling r = {in, t->a22 / det, -t->a12 / det, -t->a21 / det, t->a11 / det, 0, 0, 0, nx, ny};
    double ox = 0.5 * (nx - 1) + t->dx, oy = 0.5 * (ny - 1) + t->dy;
    r.cx = centre_x - r.b11 * ox - r.b12 * oy;
    r.cy = centre_y - r.b21 * ox - r.b22 * oy;
    r.fill = (float)resample_mean(in->data, (size_t)in->nx * (size_t)in->ny);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int y = 0; y < ny; y++)
        resample_row(&r, y, out + (size_t)y * (size_t)nx);
}
