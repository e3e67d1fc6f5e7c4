#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/ctf_fit/ctf_fit_private.h"

enum { BLOCK = 2048, MOST_STEPS = 250 };

/* Returns cos t, to 1e-6, without a branch. */
static inline float fast_cosine(float t) {
    float turns = t * 0.15915494f;
    turns -= rintf(turns);
    float x = 6.2831853f * (0.25f - fabsf(turns)); /* the sine of this, −π/2 to π/2 */
    float x2 = x * x;
    return x * (1 + x2 * (-0.16666667f + x2 * (8.3333333e-3f + x2 * (-1.9841270e-4f + x2 * 2.7557319e-6f))));
}

/* Adds Σ value · model, Σ model² and Σ value² of `count` pixels, where model is −weight · cos 2γ. */
MULTIVERSION static void compare(const struct ctf_pixels *p, size_t first, size_t count, float mean, float along,
                                 float across, float phase, double sums[3]) {
    const float *restrict slope = p->slope + first, *restrict cosine = p->cosine + first;
    const float *restrict sine = p->sine + first, *restrict offset = p->offset + first;
    const float *restrict value = p->value + first, *restrict weight = p->weight + first;
    float product = 0, model2 = 0, value2 = 0;
    for (size_t i = 0; i < count; i++) {
        float defocus = mean + along * cosine[i] + across * sine[i];
        float model = -weight[i] * fast_cosine(slope[i] * defocus + offset[i] + phase);
        product += value[i] * model;
        model2 += model * model;
        value2 += value[i] * value[i];
    }
    sums[0] += (double)product;
    sums[1] += (double)model2;
    sums[2] += (double)value2;
}

double ctf_score(const struct ctf_fit *fit, const struct ctf_point *point) {
    const struct ctf_pixels *p = &fit->pixels;
    double parts[CTF_PARTS][3] = {{0}}, sums[3] = {0};
    size_t each = (p->count + CTF_PARTS - 1) / CTF_PARTS;
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int part = 0; part < CTF_PARTS; part++) {
        size_t end = (size_t)(part + 1) * each < p->count ? (size_t)(part + 1) * each : p->count;
        for (size_t first = (size_t)part * each; first < end; first += BLOCK)
            compare(p, first, end - first < BLOCK ? end - first : BLOCK, (float)point->mean, (float)point->along,
                    (float)point->across, (float)(2 * point->phase * M_PI / 180), parts[part]);
    }
    for (int part = 0; part < CTF_PARTS; part++)
        for (int k = 0; k < 3; k++)
            sums[k] += parts[part][k];
    return sums[1] > 0 && sums[2] > 0 ? sums[0] / sqrt(sums[1] * sums[2]) : 0;
}

struct climb {
    const struct ctf_fit *fit;
    double astigmatism_max;
    struct ctf_point start;
};

static struct ctf_point point_at(const struct climb *c, const double x[CTF_SIMPLEX]) {
    return (struct ctf_point){c->start.mean + x[0], c->start.along + x[1], c->start.across + x[2],
                              c->start.phase + x[3]};
}

/* Returns the height to climb down from: the negative score, and a wall at the largest astigmatism. */
static double height(const struct climb *c, const double x[CTF_SIMPLEX]) {
    struct ctf_point point = point_at(c, x);
    double beyond = 2 * hypot(point.along, point.across) - c->astigmatism_max;
    return -ctf_score(c->fit, &point) + (beyond > 0 ? 1e-3 * beyond : 0);
}

/* Places result = from + factor · (to − from) and returns its height. */
static double move(const struct climb *c, int n, const double from[CTF_SIMPLEX], const double to[CTF_SIMPLEX],
                   double factor, double result[CTF_SIMPLEX]) {
    for (int k = 0; k < n; k++)
        result[k] = from[k] + factor * (to[k] - from[k]);
    return height(c, result);
}

/* The simplex of Nelder and Mead. */
void ctf_climb(const struct ctf_fit *fit, int n, double astigmatism_max, struct ctf_point *point) {
    static const double steps[CTF_SIMPLEX] = {60, 60, 60, 8};
    struct climb c = {.fit = fit, .astigmatism_max = astigmatism_max, .start = *point};
    double x[CTF_SIMPLEX + 1][CTF_SIMPLEX] = {{0}}, y[CTF_SIMPLEX + 1];
    for (int k = 0; k <= n; k++) {
        if (k > 0) x[k][k - 1] = steps[k - 1];
        y[k] = height(&c, x[k]);
    }
    for (int step = 0; step < MOST_STEPS; step++) {
        int low = 0, high = 0, next = 0; /* the best, the worst, and the second worst corner */
        for (int k = 1; k <= n; k++) {
            if (y[k] < y[low]) low = k;
            if (y[k] > y[high]) high = k;
        }
        for (int k = 0; k <= n; k++)
            if (k != high && (next == high || y[k] > y[next])) next = k;
        double spread = 0;
        for (int k = 0; k < n; k++)
            spread = fmax(spread, fabs(x[high][k] - x[low][k]) * (k == 3 ? 10 : 1));
        if (spread < 0.5) break;
        double centre[CTF_SIMPLEX] = {0}, trial[CTF_SIMPLEX] = {0}, further[CTF_SIMPLEX] = {0};
        for (int i = 0; i <= n; i++)
            for (int k = 0; i != high && k < n; k++)
                centre[k] += x[i][k] / n;
        double *chosen = trial, reflected = move(&c, n, centre, x[high], -1, trial), value = reflected;
        if (reflected < y[low]) {
            double expanded = move(&c, n, centre, x[high], -2, further);
            if (expanded < reflected) {
                chosen = further;
                value = expanded;
            }
        } else if (reflected >= y[next]) {
            value = move(&c, n, centre, reflected < y[high] ? trial : x[high], 0.5, further);
            chosen = value < fmin(reflected, y[high]) ? further : NULL;
        }
        if (chosen != NULL) {
            memcpy(x[high], chosen, sizeof x[high]);
            y[high] = value;
            continue;
        }
        for (int i = 0; i <= n; i++) /* shrinks towards the best corner */
            if (i != low) y[i] = move(&c, n, x[low], x[i], 0.5, x[i]);
    }
    int low = 0;
    for (int k = 1; k <= n; k++)
        if (y[k] < y[low]) low = k;
    *point = point_at(&c, x[low]);
}
