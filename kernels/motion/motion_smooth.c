/* Shifts of frames, as they follow from all of them: a smooth path, jitter from frame to frame, and errors of a known
 * size.
 *
 * Path: its second differences are random, of variance q i^-p at frame i, so that it may be quick at first. Jitter and
 * errors are random too, of variance τ² and r. q, p and τ² are those under which the measured shifts are most likely
 * (both axes together), found on a grid. Returned are the expected path and jitter: shifts that jump stay as they are,
 * those that lie on a smooth path lose their errors. */
#include <math.h>
#include <string.h>

#include "kernels/motion/motion_align_private.h"

enum { FRAMES_MIN = 8, FALLS = 4, SPREADS = 13, JITTERS = 6, ROWS = 5 };

struct path {
    int n;
    double q, variance;              /* variance: of jitter and errors */
    double *diagonal, *next, *after; /* [n] the factor L D Lᵀ of A = 1/variance + Σ d dᵀ/q */
    double *spread;                  /* [n] i^-p */
    double *s;                       /* [n] the expected path */
};

size_t motion_smooth_scratch(int frames) {
    return (size_t)ROWS * (size_t)frames;
}

static void set_fall(struct path *path, double fall) {
    for (int i = 1; i < path->n; i++)
        path->spread[i] = pow(i, -fall);
}

static double variance_at(const struct path *path, int i) {
    return path->q * path->spread[i];
}

/* Fills and factors A, which has two bands beside its diagonal. Returns log |A| + Σ log q + n log variance. */
static double factor(struct path *path) {
    int n = path->n;
    double sum = n * log(path->variance), *a = path->diagonal, *b = path->next, *c = path->after;
    for (int i = 0; i < n; i++) {
        a[i] = 1 / path->variance;
        b[i] = c[i] = 0;
    }
    for (int i = 1; i + 1 < n; i++) {
        double q = variance_at(path, i);
        a[i - 1] += 1 / q;
        a[i] += 4 / q;
        a[i + 1] += 1 / q;
        b[i - 1] -= 2 / q;
        b[i] -= 2 / q;
        c[i - 1] += 1 / q;
        sum += log(q);
    }
    for (int i = 0; i < n; i++) {
        double next = b[i] / a[i], after = c[i] / a[i];
        if (i + 1 < n) a[i + 1] -= next * b[i];
        if (i + 1 < n) b[i + 1] -= next * c[i];
        if (i + 2 < n) a[i + 2] -= after * c[i];
        b[i] = next;
        c[i] = after;
        sum += log(a[i]);
    }
    return sum;
}

/* Solves A s = y / variance. */
static void solve(struct path *path, const float *y) {
    int n = path->n;
    double *s = path->s;
    for (int i = 0; i < n; i++) {
        s[i] = (double)y[i] / path->variance;
        if (i > 0) s[i] -= path->next[i - 1] * s[i - 1];
        if (i > 1) s[i] -= path->after[i - 2] * s[i - 2];
    }
    for (int i = n - 1; i >= 0; i--) {
        s[i] /= path->diagonal[i];
        if (i + 1 < n) s[i] -= path->next[i] * s[i + 1];
        if (i + 2 < n) s[i] -= path->after[i] * s[i + 2];
    }
}

/* Returns −2 log of the likelihood of one axis, without constants; log_sum is factor's. */
static double surprise(struct path *path, const float *y, double log_sum) {
    solve(path, y);
    double sum = log_sum;
    for (int i = 0; i < path->n; i++)
        sum += pow((double)y[i] - path->s[i], 2) / path->variance;
    for (int i = 1; i + 1 < path->n; i++)
        sum += pow(path->s[i - 1] - 2 * path->s[i] + path->s[i + 1], 2) / variance_at(path, i);
    return sum;
}

static void replace(struct path *path, double jitter, float *y) {
    solve(path, y);
    for (int i = 0; i < path->n; i++)
        y[i] = (float)(path->s[i] + jitter / path->variance * ((double)y[i] - path->s[i]));
}

void motion_smooth(float *x, float *y, int frames, double error, double *scratch) {
    if (frames < FRAMES_MIN || !(error > 0)) return;
    size_t n = (size_t)frames;
    struct path path = {.n = frames,
                        .diagonal = scratch,
                        .next = scratch + n,
                        .after = scratch + 2 * n,
                        .s = scratch + 3 * n,
                        .spread = scratch + 4 * n};
    double least = INFINITY, best_q = 0, best_fall = 0, best_jitter = 0;
    for (int f = 0; f < FALLS; f++) {
        set_fall(&path, f);
        for (int k = 0; k < SPREADS; k++)
            for (int t = 0; t < JITTERS; t++) {
                double jitter = t == 0 ? 0 : error * ldexp(1, 2 * t - 5);
                path.q = error * ldexp(1, 2 * k - 14);
                path.variance = error + jitter;
                double log_sum = factor(&path), found = surprise(&path, x, log_sum) + surprise(&path, y, log_sum);
                if (!(found < least)) continue;
                least = found;
                best_q = path.q;
                best_fall = f;
                best_jitter = jitter;
            }
    }
    if (!(least < INFINITY)) return;
    set_fall(&path, best_fall);
    path.q = best_q;
    path.variance = error + best_jitter;
    factor(&path);
    replace(&path, best_jitter, x);
    replace(&path, best_jitter, y);
}
