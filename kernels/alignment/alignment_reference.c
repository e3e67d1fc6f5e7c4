#include "kernels/alignment/alignment_reference.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/alignment_private.h"
#include "kernels/prepare/prepare.h"

static const double FRACTION = 0.999;

/* A pose of the coarse or of the fine grid. On the fine grid, rotation and child tell which child of the coarse
 * pose. */
struct pose {
    int reference, orientation, shift, rotation, child;
    unsigned left_out; /* bits of the rotations that lie beyond the range of a local search */
    double log_prior;
    double value; /* ½ Σ (|c P − X|² − |X|²)/σ² − log prior, then the weight */
};

struct comparison {
    const struct alignment_iteration *iteration;
    const struct alignment_particle *particle;
    struct alignment_result *result;
    int n, shells;
    float *masked, *unmasked, *slice, *shifted, *data, *weights; /* [n], or [n][2] if complex */
    float *ctf;
    /* 1/σ²; sums by shell; number of half-plane pixels of each shell */
    double *inverse_noise, *residual, *shell_pixels;
    struct pose *poses, *kept;
    size_t pose_count, kept_count;
    double margin;
};

static enum status allocate(struct comparison *c, struct err *err) {
    size_t n = (size_t)c->n, shells = (size_t)c->shells;
    float **complex_values[] = {&c->masked, &c->unmasked, &c->slice, &c->shifted, &c->data};
    for (size_t i = 0; i < sizeof complex_values / sizeof *complex_values; i++)
        TRY(mem_new(2 * n, sizeof(float), "Fourier pixels", complex_values[i], err));
    TRY(mem_new(n, sizeof(float), "Fourier pixels", &c->ctf, err));
    TRY(mem_new(n, sizeof(float), "Fourier pixels", &c->weights, err));
    TRY(mem_new(n, sizeof(double), "Fourier pixels", &c->inverse_noise, err));
    TRY(mem_new(shells, sizeof(double), "shells", &c->residual, err));
    return mem_new(shells, sizeof(double), "shells", &c->shell_pixels, err);
}

static void release(struct comparison *c) {
    void *owned[] = {c->masked,  c->unmasked,      c->slice,    c->shifted,      c->data,  c->ctf,
                     c->weights, c->inverse_noise, c->residual, c->shell_pixels, c->poses, c->kept};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static enum status prepare(struct comparison *c, const struct alignment_options *o, struct err *err) {
    const struct alignment_particle *p = c->particle;
    const struct fourier_pixels *pixels = c->iteration->pixels;
    struct prepare *prepare = NULL;
    struct fourier_pixels all = {0};
    TRY(prepare_create(o->box, &prepare, err));
    const struct prepare_options options = {.shift_x = p->shift[0],
                                            .shift_y = p->shift[1],
                                            .scale = p->scale,
                                            .mask_radius = o->mask_radius,
                                            .shared_shell = c->iteration->shared_shell};
    prepare_image(prepare, p->image, &options, pixels, c->masked, c->unmasked, c->result->power);
    prepare_destroy(&prepare);
    TRY(fourier_pixels_create(o->box, o->box, &all, err));
    for (int s = 1; s < c->shells; s++)
        c->shell_pixels[s] = all.shell_begin[s + 1] - all.shell_begin[s];
    fourier_pixels_destroy(&all);
    for (int i = 0; i < c->n; i++) {
        c->ctf[i] = 1;
        c->inverse_noise[i] =
            1 / (double)c->iteration->sigma2[(size_t)p->optics * (size_t)c->shells + (size_t)pixels->shell[i]];
    }
    if (p->ctf != NULL) ctf_at(p->ctf, o->box, o->pixel_size, c->n, pixels->kx, pixels->ky, c->ctf);
    return STATUS_OK;
}

/* Computes the shift of a pose, relative to the particle's own. */
static void shift_of(const struct comparison *c, const struct pose *pose, double ret_shift[2]) {
    if (pose->child >= 0)
        sampling_child_shift(c->iteration->sampling, pose->shift, pose->child, ret_shift);
    else
        sampling_shift(c->iteration->sampling, pose->shift, ret_shift);
    for (int i = 0; i < 2 && c->iteration->given_poses; i++)
        ret_shift[i] += c->particle->rest[i];
}

static void matrix_of(const struct comparison *c, const struct pose *pose, double ret_matrix[9]) {
    if (pose->rotation >= 0)
        sampling_child_matrix(c->iteration->sampling, pose->orientation, pose->rotation, ret_matrix);
    else
        sampling_matrix(c->iteration->sampling, pose->orientation, ret_matrix);
}

static void slice_at(const struct comparison *c, const struct pose *pose, int n, float *out) {
    double m[9];
    float matrix[9];
    matrix_of(c, pose, m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    projector_slices(c->iteration->references[pose->reference], c->iteration->pixels, n, 1, matrix, 1, out);
}

/* Returns ½ Σ (|c P − X|² − |X|²)/σ² over the first n pixels; X is shifted already. */
static double difference(const struct comparison *c, const float *slice, const float *image, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double x = image[2 * i], y = image[2 * i + 1], ctf = c->ctf[i];
        double re = ctf * slice[2 * i] - x, im = ctf * slice[2 * i + 1] - y;
        sum += 0.5 * (re * re + im * im - x * x - y * y) * c->inverse_noise[i];
    }
    return sum;
}

/* Returns whether two poses share a slice; such poses are consecutive. */
static bool same_slice(const struct pose *a, const struct pose *b) {
    return a->reference == b->reference && a->orientation == b->orientation && a->rotation == b->rotation;
}

static void compare_poses(const struct comparison *c, int n) {
    for (size_t i = 0; i < c->pose_count; i++) {
        struct pose *pose = &c->poses[i];
        double shift[2];
        if (i == 0 || !same_slice(pose, pose - 1)) slice_at(c, pose, n, c->slice);
        shift_of(c, pose, shift);
        fourier_pixels_shift(c->iteration->pixels, n, c->masked, shift[0], shift[1], c->shifted);
        pose->value = difference(c, c->slice, c->shifted, n) - pose->log_prior;
    }
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Turns values into weights, the largest 1. Keeps those that hold a fraction of their sum, but at most `most`.
 * ret_significant: their number without that limit. */
static enum status keep_poses(struct comparison *c, double fraction, size_t most, double *ret_least, double *ret_sum,
                              size_t *ret_significant, struct err *err) {
    _cleanup_(mem_free) double *sorted = NULL;
    double least = INFINITY, sum = 0;
    TRY(mem_new(c->pose_count, sizeof *sorted, "weights", &sorted, err));
    for (size_t i = 0; i < c->pose_count; i++)
        least = fmin(least, c->poses[i].value);
    for (size_t i = 0; i < c->pose_count; i++)
        sum += sorted[i] = c->poses[i].value = exp(least - c->poses[i].value);
    qsort(sorted, c->pose_count, sizeof *sorted, descending);
    size_t last = 0;
    double above = sorted[0];
    while (last + 1 < c->pose_count && above <= fraction * sum)
        above += sorted[++last];
    double threshold = sorted[last];
    if (last + 1 < c->pose_count) c->margin = fmin(c->margin, 1 - sorted[last + 1] / threshold);
    /* The margin measures how close the sum came to crossing one weight earlier or later. */
    double crossed = above - fraction * sum;
    c->margin = fmin(c->margin, fmin(crossed, threshold - crossed) / ((1 - fraction) * sum));
    *ret_significant = last + 1;
    if (last >= most) {
        threshold = sorted[most - 1];
        c->margin = fmin(c->margin, 1 - sorted[most] / threshold);
    }
    mem_free(&c->kept);
    TRY(mem_new(c->pose_count, sizeof *c->kept, "poses", &c->kept, err));
    c->kept_count = 0;
    for (size_t i = 0; i < c->pose_count; i++)
        if (c->poses[i].value >= threshold) c->kept[c->kept_count++] = c->poses[i];
    *ret_least = least;
    *ret_sum = sum;
    return STATUS_OK;
}

/* Lists every orientation, or those near the particle's pose, in every reference and at every shift. */
static enum status list_coarse(struct comparison *c, double sigma_offset, struct err *err) {
    const struct alignment_iteration *it = c->iteration;
    const struct sampling *s = it->sampling;
    struct sampling_subset near = {0};
    if (it->local) TRY(alignment_near(it, c->particle, &near, err));
    int orientations = it->local ? near.count : sampling_orientation_count(s);
    size_t most = (size_t)it->reference_count * (size_t)orientations * (size_t)s->shift_count;
    enum status status = mem_new(most, sizeof *c->poses, "poses", &c->poses, err);
    for (int k = 0; status == STATUS_OK && k < it->reference_count; k++)
        for (int o = 0; o < orientations; o++)
            for (int t = 0; t < s->shift_count; t++) {
                struct pose pose = {.reference = k, .orientation = it->local ? near.orientations[o] : o, .shift = t};
                double shift[2];
                pose.rotation = pose.child = -1;
                sampling_shift(s, t, shift);
                double x = c->particle->shift[0] + shift[0], y = c->particle->shift[1] + shift[1];
                pose.log_prior = -(x * x + y * y) / (2 * sigma_offset * sigma_offset);
                if (it->local) pose.log_prior += near.log_priors[o], pose.left_out = near.left_out[o];
                if (it->reference_log_prior != NULL) pose.log_prior += it->reference_log_prior[k];
                c->poses[c->pose_count++] = pose;
            }
    sampling_subset_destroy(&near);
    return status;
}

/* Lists the children of the kept poses, or these poses themselves, with the priors of their parents. */
static enum status list_fine(struct comparison *c, struct err *err) {
    bool children = c->iteration->oversampled;
    int rotations = children ? sampling_rotations(c->iteration->sampling) : 1, shifts = children ? SAMPLING_SHIFTS : 1;
    mem_free(&c->poses);
    TRY(mem_new(c->kept_count * (size_t)(rotations * shifts), sizeof *c->poses, "poses", &c->poses, err));
    c->pose_count = 0;
    for (size_t begin = 0, end; begin < c->kept_count; begin = end) {
        for (end = begin; end < c->kept_count && same_slice(&c->kept[begin], &c->kept[end]);)
            end++;
        for (int rotation = 0; rotation < rotations; rotation++)
            for (size_t i = begin; i < end && !(children && c->kept[begin].left_out >> rotation & 1); i++)
                for (int shift = 0; shift < shifts; shift++) {
                    struct pose *pose = &c->poses[c->pose_count++];
                    *pose = c->kept[i];
                    if (children) pose->rotation = rotation, pose->child = shift;
                }
    }
    return STATUS_OK;
}

/* Adds the residuals of one pose with its weight, and its part of the slice for back-projection. */
static void add_pose(struct comparison *c, const struct pose *pose, double weight) {
    const struct fourier_pixels *pixels = c->iteration->pixels;
    double shift[2];
    shift_of(c, pose, shift);
    fourier_pixels_shift(pixels, c->n, c->masked, shift[0], shift[1], c->shifted);
    for (int i = 0; i < c->n; i++) {
        double re = (double)c->ctf[i] * c->slice[2 * i] - c->shifted[2 * i];
        double im = (double)c->ctf[i] * c->slice[2 * i + 1] - c->shifted[2 * i + 1];
        c->residual[pixels->shell[i]] += weight * (re * re + im * im);
    }
    fourier_pixels_shift(pixels, c->n, c->unmasked, shift[0], shift[1], c->shifted);
    for (int i = 0; i < c->n; i++) {
        double factor = weight * c->ctf[i] * c->inverse_noise[i];
        for (int j = 0; j < 2; j++)
            c->data[2 * i + j] += (float)(factor * c->result->reliability * c->shifted[2 * i + j]);
        c->weights[i] += (float)(factor * c->ctf[i]);
    }
    double x = c->particle->shift[0] + shift[0], y = c->particle->shift[1] + shift[1];
    c->result->offset2 += weight * (x * x + y * y);
    c->result->weight_sum += weight;
    if (c->result->reference_weights != NULL) c->result->reference_weights[pose->reference] += (float)weight;
}

/* Adds all kept poses to the sums and, if requested, their slices to the accumulators. */
static enum status add_kept(struct comparison *c, double sum, bool project, struct err *err) {
    size_t n = (size_t)c->n;
    c->result->offset2 = c->result->weight_sum = 0;
    memset(c->residual, 0, (size_t)c->shells * sizeof *c->residual);
    for (int k = 0; c->result->reference_weights != NULL && k < c->iteration->reference_count; k++)
        c->result->reference_weights[k] = 0;
    for (size_t begin = 0, end; begin < c->kept_count; begin = end) {
        double m[9];
        float matrix[9];
        slice_at(c, &c->kept[begin], c->n, c->slice);
        memset(c->data, 0, 2 * n * sizeof *c->data);
        memset(c->weights, 0, n * sizeof *c->weights);
        for (end = begin; end < c->kept_count && same_slice(&c->kept[begin], &c->kept[end]); end++)
            add_pose(c, &c->kept[end], c->kept[end].value / sum);
        matrix_of(c, &c->kept[begin], m);
        for (int i = 0; i < 9; i++)
            matrix[i] = (float)m[i];
        if (!project) continue;
        TRY(accumulator_add(c->iteration->sums[c->kept[begin].reference], c->iteration->pixels, c->n, 1, matrix,
                            c->data, c->weights, 1, err));
    }
    return STATUS_OK;
}

/* Finds the most probable pose and its residual. */
static void take_best(struct comparison *c, double sum, enum alignment_norm reliability) {
    struct alignment_result *result = c->result;
    const struct pose *best = c->kept;
    double shift[2], known = 0, all = 0;
    for (size_t i = 1; i < c->kept_count; i++)
        if (c->kept[i].value > best->value) best = &c->kept[i];
    for (size_t i = 0; i < c->kept_count; i++)
        if (&c->kept[i] != best) c->margin = fmin(c->margin, 1 - c->kept[i].value);
    shift_of(c, best, shift);
    matrix_of(c, best, result->pose);
    result->shift[0] = c->particle->shift[0] + shift[0];
    result->shift[1] = c->particle->shift[1] + shift[1];
    result->reference = best->reference;
    result->pmax = best->value / sum;
    result->reliability = 1;
    result->residual = -1;
    if (reliability == ALIGNMENT_NORM_NONE) return;
    slice_at(c, best, c->n, c->slice);
    fourier_pixels_shift(c->iteration->pixels, c->n, c->masked, shift[0], shift[1], c->shifted);
    for (int i = 0; i < c->n; i++) {
        double re = (double)c->ctf[i] * c->slice[2 * i] - c->shifted[2 * i];
        double im = (double)c->ctf[i] * c->slice[2 * i + 1] - c->shifted[2 * i + 1];
        all += re * re + im * im;
        if (c->iteration->pixels->shell[i] <= c->particle->known_shell) known += re * re + im * im;
    }
    result->reliability = alignment_reliability(reliability, c->particle->residual, sqrt(known));
    result->residual = sqrt(all);
}

/* Returns −log σ² and |X|² summed over all pixels: the part that all poses share. */
static double likelihood_constant(const struct comparison *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) {
        double x = c->masked[2 * i], y = c->masked[2 * i + 1];
        sum += 0.5 * (x * x + y * y) * c->inverse_noise[i];
    }
    for (int s = 1; s <= c->iteration->pixels->size / 2; s++)
        sum += c->shell_pixels[s] *
               log(2 * M_PI * c->iteration->sigma2[(size_t)c->particle->optics * (size_t)c->shells + (size_t)s]);
    return sum;
}

static enum status compare(struct comparison *c, const struct alignment_options *o, struct err *err) {
    struct alignment_result *result = c->result;
    double least, sum;
    size_t significant, contribute;
    TRY(allocate(c, err));
    TRY(prepare(c, o, err));
    TRY(list_coarse(c, c->iteration->sigma_offset, err));
    if (c->iteration->screen_pixels > 0) {
        compare_poses(c, c->iteration->screen_pixels);
        TRY(keep_poses(c, FRACTION, most_screened_samples(o, c->iteration), &least, &sum, &significant, err));
        c->pose_count = c->kept_count;
        memcpy(c->poses, c->kept, c->kept_count * sizeof *c->poses);
    }
    compare_poses(c, c->iteration->coarse_pixels);
    TRY(keep_poses(c, FRACTION, most_coarse_samples(o, c->iteration), &least, &sum, &significant, err));
    result->significant = (int)significant;
    TRY(list_fine(c, err));
    compare_poses(c, c->n);
    TRY(keep_poses(c, summed_share(c->iteration), SIZE_MAX, &least, &sum, &contribute, err));
    const struct alignment_particle *p = c->particle;
    result->evidence = result->log_likelihood = log(sum) - least;
    result->nothing = 0;
    if (c->iteration->doubtful) {
        /* Nothing counts as one more pose, whose slice is 0. */
        sum += exp(least + p->nothing);
        result->log_likelihood = log(sum) - least;
        result->nothing = exp(least + p->nothing) / sum;
    }
    result->log_likelihood -= likelihood_constant(c);
    take_best(c, sum, o->reliability);
    TRY(add_kept(c, sum, false, err));
    result->norm_sum = 0;
    for (int s = 1; s < c->shells; s++) {
        double mean = (1 - result->nothing) * c->residual[s] / result->weight_sum / (2 * c->shell_pixels[s]);
        if (s <= c->iteration->pixels->size / 2)
            result->power[s] = (float)(mean + result->nothing * (double)result->power[s]);
        result->norm_sum += result->power[s] * 2 * c->shell_pixels[s];
    }
    result->left_out =
        c->iteration->doubtful && !(result->norm_sum >= p->norm_least && result->norm_sum <= p->norm_most);
    if (result->left_out) c->kept_count = 0, result->reliability = 0;
    return add_kept(c, sum, true, err);
}

enum status alignment_reference(const struct alignment_options *options, const struct alignment_iteration *iteration,
                                const struct alignment_particle *particle, struct alignment_result *result,
                                double *ret_margin, struct err *err) {
    struct comparison c = {.iteration = iteration,
                           .particle = particle,
                           .result = result,
                           .n = iteration->pixels->count,
                           .shells = options->box / 2 + 1,
                           .margin = 1};
    enum status status = compare(&c, options, err);
    release(&c);
    *ret_margin = c.margin;
    return status;
}
