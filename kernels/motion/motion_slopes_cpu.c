/* Slopes and curvatures of the correlation of each spectrum with the sum of the others, and the power by rings. */
#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/motion/motion_align_cpu_private.h"

enum { CURVATURE = 3 };

size_t motion_cpu_partial_count(const struct motion_align_plan *plan) {
    size_t slopes = 2 * (size_t)plan->task.frames + CURVATURE, rings = 3 * MOTION_RINGS;
    return (size_t)plan->window_y * (slopes > rings ? slopes : rings);
}

/* Fills ret[2] with Σ (tr·Ri − ti·Rr) and the same with the factors of x; w: Ri, Rr, x Ri, x Rr under the weight. */
MULTIVERSION static void two_products(const float *restrict t, const float *restrict w, size_t pad, float ret[2]) {
    float a[MOTION_LANES] = {0}, b[MOTION_LANES] = {0};
    for (size_t x = 0; x < pad; x += MOTION_LANES)
        for (size_t l = 0; l < MOTION_LANES; l++) {
            a[l] += t[x + l] * w[x + l] - t[pad + x + l] * w[pad + x + l];
            b[l] += t[x + l] * w[2 * pad + x + l] - t[pad + x + l] * w[3 * pad + x + l];
        }
    ret[0] = ret[1] = 0;
    for (size_t l = 0; l < MOTION_LANES; l++) {
        ret[0] += a[l];
        ret[1] += b[l];
    }
}

/* Fills the weighted sums of a row, and returns in bend the row's Σ w (|R|² − Σ|t|²) times 1, x, x². */
static void weigh_row(const struct motion_spectra *s, int member, int row, const float *weight, const float *sum,
                      float *w, double bend[CURVATURE]) {
    const int *ring = s->ring + (size_t)row * s->pad;
    const float *power = s->power + ((size_t)member * (size_t)s->side_y + (size_t)row) * s->pad;
    memset(w, 0, 4 * s->pad * sizeof *w);
    bend[0] = bend[1] = bend[2] = 0;
    for (size_t x = 0; x < s->half && ring[x] < MOTION_RINGS; x++) {
        float value = x == 0 ? 0.5F * weight[ring[x]] : weight[ring[x]], k = (float)(2 * M_PI * s->frequency_x[x]);
        float re = sum[x], im = sum[s->pad + x];
        w[x] = value * im;
        w[s->pad + x] = value * re;
        w[2 * s->pad + x] = k * w[x];
        w[3 * s->pad + x] = k * w[s->pad + x];
        double part = (double)(value * (re * re + im * im - power[x]));
        bend[0] += part;
        bend[1] += part * (double)k;
        bend[2] += part * (double)(k * k);
    }
}

/* Adds a row's part to slope[count][2] and curvature[3]. */
static void add_row(const struct motion_align_cpu *align, const struct motion_spectra *s, int member, int row,
                    const float *weight, double *slope, double *curvature) {
    float *t = motion_cpu_worker(align)->row, *sum = t + (size_t)s->count * 2 * s->pad, *w = sum + 2 * s->pad;
    double bend[CURVATURE], k = 2 * M_PI * s->frequency_y[row];
    motion_spectra_row(s, member, row, t, sum);
    weigh_row(s, member, row, weight, sum, w, bend);
    for (int j = 0; j < s->count; j++) {
        float products[2];
        two_products(t + (size_t)j * 2 * s->pad, w, s->pad, products);
        slope[2 * j] -= (double)products[1];
        slope[2 * j + 1] -= k * (double)products[0];
    }
    curvature[0] += bend[2] / s->count;
    curvature[1] += k * bend[1] / s->count;
    curvature[2] += k * k * bend[0] / s->count;
}

static void whole_slopes(struct motion_align_cpu *align, const float *weight, double *slope, double *curvature) {
    const struct motion_spectra *s = &align->whole;
    size_t count = 2 * (size_t)s->count, stride = count + CURVATURE;
    memset(align->partial, 0, (size_t)s->side_y * stride * sizeof *align->partial);
#pragma omp parallel for schedule(static) num_threads(align->plan.task.threads)
    for (int row = 0; row < s->side_y; row++) {
        double *partial = align->partial + (size_t)row * stride;
        add_row(align, s, 0, row, weight, partial, partial + count);
    }
    memset(slope, 0, count * sizeof *slope);
    memset(curvature, 0, CURVATURE * sizeof *curvature);
    for (size_t row = 0; row < (size_t)s->side_y; row++) {
        for (size_t i = 0; i < count; i++)
            slope[i] += align->partial[row * stride + i];
        for (size_t i = 0; i < CURVATURE; i++)
            curvature[i] += align->partial[row * stride + count + i];
    }
}

enum status motion_cpu_slopes(void *state, enum motion_set set, const float *x, const float *y, const float *weight,
                              double *slope, double *curvature, struct err *err) {
    (void)err;
    struct motion_align_cpu *align = state;
    if (set == MOTION_WHOLE) {
        motion_spectra_shift(&align->whole, 0, x, y);
        whole_slopes(align, weight, slope, curvature);
        return STATUS_OK;
    }
    const struct motion_spectra *s = &align->patches;
#pragma omp parallel for schedule(dynamic) num_threads(align->plan.task.threads)
    for (int p = 0; p < s->members; p++) {
        size_t first = (size_t)p * (size_t)s->count;
        motion_spectra_shift(s, p, x + first, y + first);
        memset(slope + 2 * first, 0, 2 * (size_t)s->count * sizeof *slope);
        memset(curvature + CURVATURE * p, 0, CURVATURE * sizeof *curvature);
        for (int row = 0; row < s->side_y; row++)
            add_row(align, s, p, row, weight, slope + 2 * first, curvature + CURVATURE * p);
    }
    return STATUS_OK;
}

enum status motion_cpu_powers(void *state, const float *x, const float *y, double *shared, double *total, double *count,
                              struct err *err) {
    (void)err;
    struct motion_align_cpu *align = state;
    const struct motion_spectra *s = &align->whole;
    enum { STRIDE = 3 * MOTION_RINGS };
    motion_spectra_shift(s, 0, x, y);
    memset(align->partial, 0, (size_t)s->side_y * STRIDE * sizeof *align->partial);
#pragma omp parallel for schedule(static) num_threads(align->plan.task.threads)
    for (int row = 0; row < s->side_y; row++) {
        float *t = motion_cpu_worker(align)->row, *sum = t + (size_t)s->count * 2 * s->pad;
        double *partial = align->partial + (size_t)row * STRIDE;
        motion_spectra_row(s, 0, row, t, sum);
        for (size_t i = 1; i < s->half; i++) {
            int ring = s->ring[(size_t)row * s->pad + i];
            if (ring >= MOTION_RINGS) break;
            double power = (double)s->power[(size_t)row * s->pad + i];
            double re = (double)sum[i], im = (double)sum[s->pad + i];
            partial[ring] += re * re + im * im - power;
            partial[MOTION_RINGS + ring] += power;
            partial[2 * MOTION_RINGS + ring] += 1;
        }
    }
    for (int row = 0; row < s->side_y; row++)
        for (int i = 0; i < MOTION_RINGS; i++) {
            shared[i] += align->partial[(size_t)row * STRIDE + (size_t)i];
            total[i] += align->partial[(size_t)row * STRIDE + MOTION_RINGS + (size_t)i];
            count[i] += align->partial[(size_t)row * STRIDE + 2 * MOTION_RINGS + (size_t)i];
        }
    return STATUS_OK;
}
