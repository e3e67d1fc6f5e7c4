/* One weighted least-squares step of the polynomial model, from the slopes and curvatures of all patches.
 *
 * Minimises Σ (δ − H⁻¹ g)ᵀ H (δ − H⁻¹ g) over patches and groups, with δ the change of the model there: the normal
 * equations need H and g only, so that a patch without curvature needs no exception. A patch tells nothing of where its
 * sum lies: the mean of δ over its groups is free, and taken out of the polynomial's terms. With shifts of frames among
 * the unknowns, these are eliminated first: each meets only the coefficients. Coefficients are held back by as much as
 * makes the measured steps most likely, so that weak patches don't bend the polynomial. */
#include <math.h>
#include <string.h>

#include "kernels/motion/motion_align_private.h"

enum { K = 2 * MOTION_COEFFICIENTS };
static const double SPREAD_MAX = 100; /* px: the largest deviation of a coefficient, at the last frame, that is tried */
static const double PINNED = 1e12;    /* px⁻²: holds a coefficient at 0 */

/* Returns the order in space of the term of a coefficient: 0 for 1; 1 for x, y; 2 for x², y², xy. */
static int order_of(int coefficient) {
    int term = coefficient % MOTION_COEFFICIENTS / 3;
    return term == 0 ? 0 : term == 1 || term == 3 ? 1 : 2;
}

size_t motion_fit_scratch(const struct motion_align_plan *plan) {
    return 2 * (size_t)K * K + K + (size_t)plan->groups * (2 * K + 2);
}

void motion_fit_centre(const struct motion_align_plan *plan, int patch, double *ret_x, double *ret_y) {
    int px = patch % plan->patches_x, py = patch / plan->patches_x;
    int start_x = motion_align_patch_start(plan->window_x, plan->patches_x, plan->patch_x, px);
    int start_y = motion_align_patch_start(plan->window_y, plan->patches_y, plan->patch_y, py);
    *ret_x = (plan->first_x + (start_x + 0.5 * plan->patch_x) * plan->pitch_x) / plan->task.nx - 0.5;
    *ret_y = (plan->first_y + (start_y + 0.5 * plan->patch_y) * plan->pitch_y) / plan->task.ny - 0.5;
}

/* Factors A [K][K], symmetric and positive definite, in place. Returns log |A|. */
static double factor(double *a) {
    double sum_of_logs = 0;
    for (int i = 0; i < K; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = a[i * K + j];
            for (int k = 0; k < j; k++)
                sum -= a[i * K + k] * a[j * K + k];
            a[i * K + j] = i == j ? sqrt(sum > 1e-300 ? sum : 1e-300) : sum / a[j * K + j];
        }
        sum_of_logs += 2 * log(a[i * K + i]);
    }
    return sum_of_logs;
}

/* Solves A c = b in place with the factor. Returns bᵀ c. */
static double solve(const double *a, double *b) {
    double product = 0;
    for (int i = 0; i < K; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= a[i * K + k] * b[k];
        b[i] /= a[i * K + i];
        product += b[i] * b[i];
    }
    for (int i = K - 1; i >= 0; i--) {
        for (int k = i + 1; k < K; k++)
            b[i] -= a[k * K + i] * b[k];
        b[i] /= a[i * K + i];
    }
    return product;
}

/* The coefficients are random, of a variance of their own for each order in space. Solves for their most likely values
 * under the variances under which the measured steps are most likely. a and b stay; trial: [K][K]; c: [K]. */
static void solve_likely(const double *a, const double *b, bool frames_too, double *trial, double *c) {
    enum { SPREADS = 7 };
    double best = -INFINITY, found[K];
    for (int first = 0; first < SPREADS; first++)
        for (int second = 0; second < SPREADS; second++) {
            double evidence = 0;
            memcpy(trial, a, (size_t)K * K * sizeof *trial);
            memcpy(found, b, sizeof found);
            for (int i = 0; i < K; i++) {
                int order = order_of(i);
                double deviation =
                    order == 0 ? SPREAD_MAX : SPREAD_MAX * pow(3, 1 - SPREADS + (order == 1 ? first : second));
                double precision = order == 0 && frames_too ? PINNED : 1 / (deviation * deviation);
                trial[i * K + i] += precision;
                evidence += log(precision);
            }
            evidence -= factor(trial);
            evidence += solve(trial, found);
            if (!(evidence > best)) continue;
            best = evidence;
            memcpy(c, found, sizeof found);
        }
}

/* Adds the part of one patch and group: terms are the derivatives of an axis' shift by its coefficients. */
static void add(double *a, double *b, double *border, const double *terms, const double *h, const double *g) {
    const double matrix[2][2] = {{h[0], h[1]}, {h[1], h[2]}};
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < MOTION_COEFFICIENTS; i++) {
            int row = axis * MOTION_COEFFICIENTS + i;
            b[row] += terms[i] * g[axis];
            border[row] += matrix[0][axis] * terms[i];
            border[K + row] += matrix[1][axis] * terms[i];
            for (int other = 0; other <= axis; other++)
                for (int j = 0; j < MOTION_COEFFICIENTS; j++)
                    a[row * K + other * MOTION_COEFFICIENTS + j] += matrix[axis][other] * terms[i] * terms[j];
        }
}

/* Applies the inverse of the frames' own block d to a pair. */
static void divide(const double *d, double u, double v, double *ret_u, double *ret_v) {
    double determinant = d[0] * d[2] - d[1] * d[1];
    *ret_u = (d[2] * u - d[1] * v) / determinant;
    *ret_v = (d[0] * v - d[1] * u) / determinant;
}

/* Takes the unknown of a frame out of the equations of the coefficients. */
static void eliminate(double *a, double *b, const double *border, const double *right, const double *d) {
    double u, v;
    divide(d, right[0], right[1], &u, &v);
    for (int row = 0; row < K; row++) {
        double left[2];
        b[row] -= border[row] * u + border[K + row] * v;
        divide(d, border[row], border[K + row], &left[0], &left[1]);
        for (int j = 0; j <= row; j++)
            a[row * K + j] -= left[0] * border[j] + left[1] * border[K + j];
    }
}

/* Returns the middle of a group, in frames. */
static double middle(const struct motion_align_plan *plan, int group) {
    return motion_group_middle(plan->task.frames, plan->groups, group);
}

void motion_fit_step(const struct motion_fit *fit, double *scratch, double coefficients[2][MOTION_COEFFICIENTS],
                     double *frame_x, double *frame_y) {
    const struct motion_align_plan *plan = fit->plan;
    int patches = plan->patches_x * plan->patches_y, groups = plan->groups;
    double *a = scratch, *b = a + K * K, *border = b + K, *right = border + (size_t)groups * 2 * K;
    double *trial = right + (size_t)groups * 2, c[K], before[K];
    double d[3] = {1e-9, 0, 1e-9}, scale = 1.0 / plan->task.frames; /* z runs to 1, for the sake of the condition */
    double mean[3] = {0};
    memset(scratch, 0, motion_fit_scratch(plan) * sizeof *scratch);
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < 3; i++)
            mean[i] += pow(middle(plan, g) * scale, 1 + i) / groups;
    for (int p = 0; p < patches; p++) {
        double x, y, space[MOTION_SURFACE];
        motion_fit_centre(plan, p, &x, &y);
        motion_surface_terms(x, y, space);
        for (int i = 0; i < 3; i++)
            d[i] += fit->curvature[3 * p + i];
        for (int g = 0; g < groups; g++) {
            double z = middle(plan, g) * scale, terms[MOTION_COEFFICIENTS];
            for (int i = 0; i < MOTION_COEFFICIENTS; i++)
                terms[i] = space[i / 3] * (pow(z, 1 + i % 3) - mean[i % 3]);
            const double *slope = fit->slope + 2 * ((size_t)p * (size_t)groups + (size_t)g);
            add(a, b, border + (size_t)g * 2 * K, terms, fit->curvature + 3 * p, slope);
            right[2 * g] += slope[0];
            right[2 * g + 1] += slope[1];
        }
    }
    for (int g = 0; fit->frames_too && g < groups; g++)
        eliminate(a, b, border + (size_t)g * 2 * K, right + 2 * g, d);
    for (int i = 0; i < K; i++) { /* from steps to values */
        for (int j = 0; j < i; j++)
            a[j * K + i] = a[i * K + j];
        c[i] = coefficients[i / MOTION_COEFFICIENTS][i % MOTION_COEFFICIENTS] / pow(scale, 1 + i % 3);
    }
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++)
            b[i] += a[i * K + j] * c[j];
    memcpy(before, c, sizeof c);
    solve_likely(a, b, fit->frames_too, trial, c);
    for (int g = 0; fit->frames_too && g < groups; g++) {
        double u = right[2 * g], v = right[2 * g + 1];
        for (int i = 0; i < K; i++) {
            u -= border[(size_t)g * 2 * K + (size_t)i] * (c[i] - before[i]);
            v -= border[(size_t)g * 2 * K + K + (size_t)i] * (c[i] - before[i]);
        }
        divide(d, u, v, &u, &v);
        frame_x[g] += u;
        frame_y[g] += v;
    }
    for (int i = 0; i < K; i++)
        coefficients[i / MOTION_COEFFICIENTS][i % MOTION_COEFFICIENTS] = c[i] * pow(scale, 1 + i % 3);
}
