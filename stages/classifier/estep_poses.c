#include <float.h>
#include <math.h>
#include <string.h>

#include "estep_private.h"

/* Weights below e^-20 of the largest cannot reach the 0.1 % that is left out, however many there are. */
static const float NEGLIGIBLE = -20;

static void offset_priors(const struct estep *e, const struct estep_particle *p, double sigma, float *out) {
    double largest = -DBL_MAX, sum = 0;
    double log_prior[256];
    for (int t = 0; t < e->n_shifts; t++) {
        double x = p->old_x + e->shifts[t][0], y = p->old_y + e->shifts[t][1];
        log_prior[t] = -(x * x + y * y) / (2 * sigma * sigma);
        if (log_prior[t] > largest) largest = log_prior[t];
    }
    for (int t = 0; t < e->n_shifts; t++)
        sum += exp(log_prior[t] - largest);
    for (int t = 0; t < e->n_shifts; t++)
        out[t] = (float)(log_prior[t] - largest - log(sum));
}

/* Coarse weights relative to the largest; how many make up the wanted part of the sum, but no more than there is room
 * for: then a smaller part is asked for. */
static size_t significant_threshold(const struct estep *e, const float *diff2, const float *log_offset, float *weights,
                                    float *ret_threshold) {
    size_t rows = (size_t)e->class_count * (size_t)e->n_psi, n = (size_t)e->n_shifts, total = rows * n;
    float largest = -FLT_MAX;
    for (size_t r = 0; r < rows; r++) {
        float log_class = e->log_class[r / (size_t)e->n_psi];
        for (size_t t = 0; t < n; t++) {
            float value = log_class + log_offset[t] - diff2[r * n + t];
            weights[r * n + t] = value;
            if (value > largest) largest = value;
        }
    }
    for (size_t i = 0; i < total; i++) {
        float value = weights[i] - largest;
        weights[i] = value < NEGLIGIBLE ? 0 : expf(value);
    }
    static const double parts[] = {1, 0.99, 0.97, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1};
    size_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        expectation_top_sum(weights, total, e->options.adaptive_fraction * parts[i], ret_threshold, &count);
        if (count <= MAX_SIGNIFICANT) break;
    }
    return count;
}

static int list_children(const struct estep *e, struct estep_worker *w, struct estep_particle *p, float threshold) {
    size_t n = (size_t)e->n_shifts, total = (size_t)e->class_count * (size_t)e->n_psi * n;
    int poses = 0, parents = 0;
    for (size_t i = 0; i < total && parents < MAX_SIGNIFICANT; i++) {
        if (w->weights[i] < threshold || w->weights[i] <= 0) continue;
        parents++;
        int row = (int)(i / n), t = (int)(i % n);
        for (int child = 0; child < CHILDREN; child++, poses++) {
            int psi = 2 * (row % e->n_psi) + child / 4, class_index = row / e->n_psi;
            w->slice[poses] = class_index * 2 * e->n_psi + psi;
            w->shift[poses] = 4 * t + child % 4;
            p->poses[poses] = (struct estep_pose){.class_index = class_index, .psi = psi, .shift = w->shift[poses]};
        }
    }
    return poses;
}

/* Keeps the poses that make up the wanted part; weights become posteriors (less what the empty class takes). */
static double normalise_poses(const struct estep *e, struct estep_worker *w, struct estep_particle *p, int poses,
                              const float *log_offset, double *ret_evidence) {
    double largest = -DBL_MAX, sum = 0;
    double grid = log(2.0 * e->n_psi * 4);
    for (int i = 0; i < poses; i++) {
        const struct estep_pose *pose = &p->poses[i];
        w->log_weights[i] = (double)e->log_class[pose->class_index] + log_offset[pose->shift / 4] - grid - w->diff2[i];
        if (w->log_weights[i] > largest) largest = w->log_weights[i];
    }
    for (int i = 0; i < poses; i++) {
        w->diff2[i] = (float)exp(w->log_weights[i] - largest);
        sum += w->diff2[i];
    }
    double log_sum = largest + log(sum);
    *ret_evidence = log_sum;
    double empty = e->with_empty ? 1 / (1 + exp(fmin(log_sum - e->log_empty, 700))) : 0;
    p->empty = (float)empty;
    float threshold;
    size_t kept;
    expectation_top_sum(w->diff2, (size_t)poses, e->options.adaptive_fraction, &threshold, &kept);
    p->pose_count = 0;
    for (int i = 0; i < poses; i++)
        if (w->diff2[i] >= threshold && w->diff2[i] > 0) {
            struct estep_pose pose = p->poses[i];
            pose.weight = (float)(w->diff2[i] / sum * (1 - empty));
            p->poses[p->pose_count++] = pose;
        }
    return log_sum > e->log_empty || !e->with_empty ? log_sum : e->log_empty;
}

/* The class with the largest sum, and its likeliest pose; -1 for the empty class. */
static int choose(const struct estep *e, struct estep_particle *p) {
    double best_weight = e->with_empty ? p->empty : -1;
    int best_class = -1;
    p->best = -1;
    for (int i = 0; i < p->pose_count;) {
        int k = p->poses[i].class_index; /* poses of a class stand together */
        double sum = 0;
        for (; i < p->pose_count && p->poses[i].class_index == k; i++)
            sum += p->poses[i].weight;
        if (sum > best_weight) {
            best_weight = sum;
            best_class = k;
        }
    }
    float largest = -1;
    for (int i = 0; i < p->pose_count; i++)
        if ((best_class < 0 || p->poses[i].class_index == best_class) && p->poses[i].weight > largest) {
            largest = p->poses[i].weight;
            p->best = i;
        }
    return best_class;
}

/* Residual spectrum of the likeliest pose, or of nothing for the empty class. */
static void residual(struct estep *e, struct estep_worker *w, struct estep_particle *p, bool empty) {
    const float *x = p->masked, *slice = NULL;
    if (!empty && p->best >= 0) {
        const struct estep_pose *pose = &p->poses[p->best];
        slice = e->fine_slices +
                ((size_t)pose->class_index * 2 * (size_t)e->n_psi + (size_t)pose->psi) * 2 * (size_t)e->count;
        fourier_pixels_shift(&e->pixels, e->count, p->masked, e->fine_shifts[pose->shift][0],
                             e->fine_shifts[pose->shift][1], w->shifted);
        x = w->shifted;
    }
    int half = e->box / 2;
    p->squares = 0;
    for (int s = 0; s <= half; s++) {
        double sum = 0;
        if (2 * s <= e->size && s > 0)
            for (int i = e->pixels.shell_begin[s]; i < e->pixels.shell_begin[s + 1]; i++) {
                float re = x[2 * i], im = x[2 * i + 1];
                if (slice != NULL) re -= p->ctf[i] * slice[2 * i], im -= p->ctf[i] * slice[2 * i + 1];
                sum += (double)re * re + (double)im * im;
            }
        else if (s > 0)
            sum = 2.0 * p->power[s] * e->shell_count[s];
        p->residual[s] = sum;
        p->squares += sum;
    }
}

enum status estep_posterior(struct estep *e, struct estep_worker *w, struct estep_particle *p,
                            const float *coarse_diff2, double sigma_offset, struct dataset_particle *out,
                            struct err *err) {
    float log_offset[256], threshold;
    offset_priors(e, p, sigma_offset, log_offset);
    size_t significant = significant_threshold(e, coarse_diff2, log_offset, w->weights, &threshold);
    int poses = list_children(e, w, p, threshold);
    struct expectation_particle view = {.image = p->masked, .ctf = p->ctf, .weight = p->inverse_noise};
    TRY(expectation_fine(w->fine, e->count, e->fine_slices, &view, (const double(*)[2])e->fine_shifts, 4 * e->n_shifts,
                         w->slice, w->shift, poses, w->diff2, err));
    double evidence, log_sum = normalise_poses(e, w, p, poses, log_offset, &evidence);
    int class_index = choose(e, p);
    residual(e, w, p, class_index < 0);
    double constant = 0;
    for (int i = 0; i < e->count; i++) {
        double re = p->masked[2 * i], im = p->masked[2 * i + 1];
        constant += 0.5 * p->inverse_noise[i] * (re * re + im * im) - log(p->inverse_noise[i] / (2 * M_PI));
    }
    out->class_index = class_index < 0 ? e->class_count : class_index;
    out->evidence = (float)evidence;
    out->log_likelihood = (float)(log_sum - constant);
    out->significant = (int)significant;
    out->probability = class_index < 0 ? p->empty : 0;
    if (p->best >= 0) {
        const struct estep_pose *pose = &p->poses[p->best];
        double psi = e->psi_offset + e->psi_step * (pose->psi / 2 + (pose->psi % 2 == 0 ? -0.25 : 0.25));
        out->psi = (float)(psi - 360 * floor((psi + 180) / 360));
        out->x = (float)(p->old_x + e->fine_shifts[pose->shift][0]);
        out->y = (float)(p->old_y + e->fine_shifts[pose->shift][1]);
        if (class_index >= 0) out->probability = pose->weight;
    }
    p->offset2 = (double)out->x * out->x + (double)out->y * out->y;
    out->visits++;
    return STATUS_OK;
}
