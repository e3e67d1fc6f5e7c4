#include "kernels/sampling/sampling.h"

#include <chealpix.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const double DEGREES = M_PI / 180;

double sampling_angle_step(int order) {
    return 360.0 / (6 * (1 << order));
}

static int count_psis(double angle_step) {
    return (int)ceil(360 / angle_step - 1e-9);
}

double sampling_whole_sphere(int order) {
    return 12 * exp2(2 * order) * count_psis(sampling_angle_step(order));
}

/* Computes the matrix of a NEST pixel's centre at psi 0. */
static void pixel_matrix(int order, long pixel, double ret_matrix[9]) {
    double tilt, rot;
    pix2ang_nest(1L << order, pixel, &tilt, &rot);
    euler_to_matrix(rot / DEGREES, tilt / DEGREES, 0, ret_matrix);
}

static void multiply(const double a[9], const double b[9], double out[9]) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            out[3 * r + c] = a[3 * r] * b[c] + a[3 * r + 1] * b[3 + c] + a[3 * r + 2] * b[6 + c];
}

/* Turns a matrix in its image plane by psi °. */
static void turn(const double a[9], double psi, double out[9]) {
    double c = cos(psi * DEGREES), s = sin(psi * DEGREES);
    for (int i = 0; i < 3; i++) {
        double x = a[i], y = a[3 + i];
        out[i] = c * x + s * y;
        out[3 + i] = c * y - s * x;
        out[6 + i] = a[6 + i];
    }
}

/* Computes the unperturbed frames once: angles take most of the time to make a grid, and every iteration perturbs the
 * grid anew. */
static enum status make_bases(struct sampling *s, struct err *err) {
    enum { CHILDREN_TO_ORDER = 6 }; /* the children's frames take 14 MB */
    const long count = s->direction_count;
    TRY(mem_new_unset((size_t)count, sizeof *s->bases, "directions", &s->bases, err));
    if (s->order <= CHILDREN_TO_ORDER)
        TRY(mem_new_unset((size_t)count * 4, sizeof *s->child_bases, "directions", &s->child_bases, err));
#pragma omp parallel for schedule(static)
    for (long i = 0; i < count; i++) {
        pixel_matrix(s->order, s->pixels[i], s->bases[i]);
        for (int child = 0; child < 4 && s->child_bases != NULL; child++)
            pixel_matrix(s->order + 1, 4 * s->pixels[i] + child, s->child_bases[4 * i + child]);
    }
    return STATUS_OK;
}

static enum status make_directions(struct sampling *s, const struct symmetry *symmetry, struct err *err) {
    long all = 12L << (2 * s->order);
    TRY(mem_new((size_t)all, sizeof *s->pixels, "directions", &s->pixels, err));
    for (long pixel = 0; pixel < all; pixel++) {
        double m[9];
        if (symmetry != NULL) pixel_matrix(s->order, pixel, m);
        if (symmetry == NULL || symmetry_in_unit(symmetry, m + 6)) s->pixels[s->direction_count++] = pixel;
    }
    FAIL_IF((double)s->direction_count * s->psi_count > INT_MAX, err, STATUS_UNSUPPORTED,
            "a grid of HEALPix order %d has %.3g orientations, more than can be numbered: take a smaller order",
            s->order, (double)s->direction_count * s->psi_count);
    TRY(make_bases(s, err));
    return mem_new((size_t)s->direction_count, sizeof *s->frames, "directions", &s->frames, err);
}

static enum status make_shifts(struct sampling *s, struct err *err) {
    int reach = (int)floor(s->offset_range / s->offset_step + 1e-6);
    double limit = s->offset_range * s->offset_range + 0.001;
    size_t most = (size_t)(2 * reach + 1) * (size_t)(2 * reach + 1);
    TRY(mem_new(most, sizeof *s->shifts, "shifts", &s->shifts, err));
    for (int i = -reach; i <= reach; i++)
        for (int j = -reach; j <= reach; j++) {
            double x = i * s->offset_step, y = j * s->offset_step;
            if (x * x + y * y >= limit) continue;
            s->shifts[s->shift_count][0] = x;
            s->shifts[s->shift_count++][1] = y;
        }
    return STATUS_OK;
}

static enum status check_shifts(double range, double step, struct err *err) {
    FAIL_IF(
        !(step > 0) || !(range >= 0) || range / step > 200, err, STATUS_BAD_ARGUMENT,
        "shifts up to %g in steps of %g cannot be searched: the step must be positive and at least 1/200 of the range",
        range, step);
    return STATUS_OK;
}

/* Takes over the filled, unperturbed grid, or destroys it after an error. */
static enum status finish(struct sampling *s, enum status status, struct sampling *ret_sampling, struct err *err) {
    if (status == STATUS_OK) status = make_shifts(s, err);
    if (status != STATUS_OK) {
        sampling_destroy(s);
        return status;
    }
    sampling_perturb(s, 0);
    *ret_sampling = *s;
    return STATUS_OK;
}

enum status sampling_create(int order, const struct symmetry *symmetry, double offset_range, double offset_step,
                            struct sampling *ret_sampling, struct err *err) {
    FAIL_IF(order < 0 || order > SAMPLING_MAX_ORDER, err, STATUS_BAD_ARGUMENT,
            "a HEALPix order of %d cannot be used: it must be 0 to %d", order, SAMPLING_MAX_ORDER);
    TRY(check_shifts(offset_range, offset_step, err));
    struct sampling s = {.dimensions = 3,
                         .order = order,
                         .angle_step = sampling_angle_step(order),
                         .offset_range = offset_range,
                         .offset_step = offset_step};
    s.psi_count = count_psis(s.angle_step);
    s.psi_step = 360.0 / s.psi_count;
    return finish(&s, make_directions(&s, symmetry, err), ret_sampling, err);
}

enum status sampling_create_plane(double psi_step, double offset_range, double offset_step,
                                  struct sampling *ret_sampling, struct err *err) {
    FAIL_IF(!(psi_step > 0) || psi_step > 360, err, STATUS_BAD_ARGUMENT,
            "in-plane angles in steps of %g° cannot be searched: the step must be positive and at most 360°", psi_step);
    TRY(check_shifts(offset_range, offset_step, err));
    struct sampling s = {
        .dimensions = 2, .direction_count = 1, .offset_range = offset_range, .offset_step = offset_step};
    s.psi_count = (int)ceil(360 / psi_step - 1e-6);
    s.psi_step = s.angle_step = 360.0 / s.psi_count;
    return finish(&s, mem_new(1, sizeof *s.frames, "directions", &s.frames, err), ret_sampling, err);
}

enum status sampling_create_list(const double (*poses)[9], int count, struct sampling *ret_sampling, struct err *err) {
    FAIL_IF(count < 1, err, STATUS_BAD_ARGUMENT, "a list of %d poses cannot be compared: it must hold at least one",
            count);
    struct sampling s = {
        .dimensions = 3, .direction_count = count, .psi_count = 1, .shift_count = 1, .psi_step = 360, .offset_step = 1};
    enum status status = mem_new_unset((size_t)count, sizeof *s.frames, "poses", &s.frames, err);
    if (status == STATUS_OK) status = mem_new(1, sizeof *s.shifts, "shifts", &s.shifts, err);
    if (status != STATUS_OK) {
        sampling_destroy(&s);
        return status;
    }
    memcpy(s.frames, poses, (size_t)count * sizeof *s.frames);
    *ret_sampling = s;
    return STATUS_OK;
}

void sampling_destroy(struct sampling *s) {
    if (s == NULL) return;
    mem_free(&s->pixels);
    mem_free(&s->frames);
    mem_free(&s->bases);
    mem_free(&s->child_bases);
    mem_free(&s->shifts);
    *s = (struct sampling){0};
}

double sampling_next_perturbation(double d, double uniform) {
    d += 0.25 + 0.25 * uniform;
    return d >= 0.5 ? d - 1 : d;
}

void sampling_perturb(struct sampling *s, double d) {
    double e = d * s->angle_step;
    s->perturbation = d;
    if (s->dimensions == 2) {
        euler_to_matrix(0, 0, e, s->tilted);
        memcpy(s->frames[0], s->tilted, sizeof s->tilted);
        return;
    }
    euler_to_matrix(e, e, e, s->tilted);
    for (int i = 0; i < s->direction_count; i++)
        multiply(s->bases[i], s->tilted, s->frames[i]);
}

void sampling_matrix(const struct sampling *s, int orientation, double ret_matrix[9]) {
    turn(s->frames[orientation / s->psi_count], orientation % s->psi_count * s->psi_step, ret_matrix);
}

void sampling_child_frame(const struct sampling *s, int direction, int child, double ret_frame[9]) {
    double m[9];
    if (s->dimensions == 2) {
        memcpy(ret_frame, s->frames[0], sizeof s->frames[0]);
        return;
    }
    if (s->child_bases != NULL) {
        multiply(s->child_bases[4 * (size_t)direction + (size_t)child], s->tilted, ret_frame);
        return;
    }
    pixel_matrix(s->order + 1, 4 * s->pixels[direction] + child, m);
    multiply(m, s->tilted, ret_frame);
}

void sampling_child_matrix(const struct sampling *s, int orientation, int child, double ret_matrix[9]) {
    double frame[9];
    sampling_child_frame(s, orientation / s->psi_count, child / 2, frame);
    double psi = (orientation % s->psi_count + (child % 2 == 0 ? -0.25 : 0.25)) * s->psi_step;
    turn(frame, psi, ret_matrix);
}

void sampling_shift(const struct sampling *s, int shift, double ret_shift[2]) {
    for (int i = 0; i < 2; i++)
        ret_shift[i] = s->shifts[shift][i] + s->perturbation * s->offset_step;
}

void sampling_child_shift(const struct sampling *s, int shift, int child, double ret_shift[2]) {
    sampling_shift(s, shift, ret_shift);
    ret_shift[0] += (child / 2 == 0 ? -0.25 : 0.25) * s->offset_step;
    ret_shift[1] += (child % 2 == 0 ? -0.25 : 0.25) * s->offset_step;
}

static enum status subset_add(struct sampling_subset *subset, int orientation, double log_prior, unsigned left_out,
                              struct err *err) {
    if (subset->count == subset->capacity) {
        size_t capacity = subset->capacity > 0 ? 2 * (size_t)subset->capacity : 256;
        int *orientations = realloc(subset->orientations, capacity * sizeof *orientations);
        if (orientations != NULL) subset->orientations = orientations;
        float *log_priors = realloc(subset->log_priors, capacity * sizeof *log_priors);
        if (log_priors != NULL) subset->log_priors = log_priors;
        uint8_t *masks = realloc(subset->left_out, capacity * sizeof *masks);
        if (masks != NULL) subset->left_out = masks;
        FAIL_IF(orientations == NULL || log_priors == NULL || masks == NULL, err, STATUS_NO_MEMORY,
                "no memory for %zu orientations", capacity);
        subset->capacity = (int)capacity;
    }
    subset->orientations[subset->count] = orientation;
    subset->left_out[subset->count] = (uint8_t)left_out;
    subset->log_priors[subset->count++] = (float)log_prior;
    return STATUS_OK;
}

/* Returns the psi (°) at which a direction's frame, turned in its plane, comes nearest to the pose: the angle
 * that maximises the trace of the rotation between the two. */
static double best_psi(const double frame[9], const double pose[9]) {
    const double *x = frame, *y = frame + 3, *px = pose, *py = pose + 3;
    double xx = x[0] * px[0] + x[1] * px[1] + x[2] * px[2], yy = y[0] * py[0] + y[1] * py[1] + y[2] * py[2];
    double yx = y[0] * px[0] + y[1] * px[1] + y[2] * px[2], xy = x[0] * py[0] + x[1] * py[1] + x[2] * py[2];
    return atan2(yx - xy, xx + yy) / DEGREES;
}

/* A search for the orientations near a pose. Angles are in °. */
struct near {
    const struct sampling *s;
    const double *pose;
    double sigma, range; /* range 0: none */
    double cut;          /* how far directions and psis may be away */
    struct sampling_subset *subset;
    int nearest; /* direction, of those that were looked at, and the cosine of its distance */
    double best;
};

static double cosine_of_views(const double frame[9], const double pose[9]) {
    return frame[6] * pose[6] + frame[7] * pose[7] + frame[8] * pose[8];
}

/* The children of a direction: whether they lie within the range, and the psi at which each fits the pose best. */
struct children {
    bool within[SAMPLING_ROTATIONS / 2];
    double psi[SAMPLING_ROTATIONS / 2];
};

static void find_children(const struct near *n, int direction, struct children *ret) {
    for (int child = 0; child < sampling_direction_children(n->s); child++) {
        double frame[9];
        sampling_child_frame(n->s, direction, child, frame);
        ret->within[child] = acos(fmin(cosine_of_views(frame, n->pose), 1)) <= n->range * DEGREES;
        ret->psi[child] = best_psi(frame, n->pose);
    }
}

/* Returns the bits of the children of psi i that lie beyond the range. */
static unsigned beyond_range(const struct near *n, const struct children *children, int i) {
    unsigned bits = 0;
    for (int child = 0; child < sampling_rotations(n->s); child++) {
        double psi = (i + (child % 2 == 0 ? -0.25 : 0.25)) * n->s->psi_step - children->psi[child / 2];
        bool within = children->within[child / 2] && fabs(remainder(psi, 360)) <= n->range;
        bits |= (within ? 0u : 1u) << child;
    }
    return bits;
}

/* Adds the psis of one direction within the cut of the best psi. angle: of the direction. */
static enum status add_direction(struct near *n, int direction, double angle, struct err *err) {
    const struct sampling *s = n->s;
    const unsigned all = (1u << sampling_rotations(s)) - 1;
    double psi = best_psi(s->frames[direction], n->pose), sigma = n->sigma;
    int nearest = (int)lround(psi / s->psi_step), reach = (int)(n->cut / s->psi_step) + 1;
    struct children children = {{false}, {0}};
    if (n->range > 0) find_children(n, direction, &children);
    if (2 * reach + 1 > s->psi_count) reach = (s->psi_count - 1) / 2;
    for (int i = nearest - reach; i <= nearest + reach; i++) {
        double away = i * s->psi_step - psi;
        if (fabs(away) >= n->cut) continue;
        unsigned left_out = n->range > 0 ? beyond_range(n, &children, i) : 0;
        if (left_out == all) continue;
        int wrapped = (i % s->psi_count + s->psi_count) % s->psi_count;
        TRY(subset_add(n->subset, direction * s->psi_count + wrapped,
                       -0.5 * (angle * angle + away * away) / (sigma * sigma), left_out, err));
    }
    return STATUS_OK;
}

/* Adds the nearest psi of the nearest direction, with all its children. */
static enum status add_nearest(const struct near *n, struct err *err) {
    const struct sampling *s = n->s;
    int psi = (int)lround(best_psi(s->frames[n->nearest], n->pose) / s->psi_step);
    int wrapped = (psi % s->psi_count + s->psi_count) % s->psi_count;
    return subset_add(n->subset, n->nearest * s->psi_count + wrapped, 0, 0, err);
}

/* Adds directions `first` to `end` − 1 within the cut, and finds the nearest of them. */
static enum status add_near(struct near *n, int first, int end, struct err *err) {
    double limit = cos(fmin(n->cut, 180) * DEGREES);
    for (int d = first; d < end; d++) {
        double cosine = cosine_of_views(n->s->frames[d], n->pose);
        if (cosine > n->best) n->best = cosine, n->nearest = d;
        if (cosine > limit) TRY(add_direction(n, d, acos(fmin(cosine, 1)) / DEGREES, err));
    }
    return STATUS_OK;
}

/* Skips blocks of directions that are too far away. On the whole sphere, 64 consecutive directions form one pixel three
 * orders coarser. No two of them are farther apart than 2 / nside of that order (radians), so if one lies beyond that
 * distance plus the cut, the whole block does. */
static enum status add_near_blocks(struct near *n, struct err *err) {
    enum { BLOCK = 64, LEVELS = 3 };
    double far = n->cut * DEGREES + 2.0 / (1 << (n->s->order - LEVELS));
    double limit = far < M_PI ? cos(far) : -2;
    for (int d = 0; d < n->s->direction_count; d += BLOCK)
        if (cosine_of_views(n->s->frames[d], n->pose) >= limit) TRY(add_near(n, d, d + BLOCK, err));
    return STATUS_OK;
}

static enum status add_within(struct near *n, double cut, struct err *err) {
    const struct sampling *s = n->s;
    bool whole = s->dimensions == 3 && s->order >= 3 && s->direction_count == 12 << 2 * s->order;
    n->cut = cut;
    if (whole) TRY(add_near_blocks(n, err));
    return n->subset->count == 0 ? add_near(n, 0, s->direction_count, err) : STATUS_OK;
}

enum status sampling_near(const struct sampling *s, const double pose[9], double sigma, double range,
                          struct sampling_subset *subset, struct err *err) {
    struct near n = {.s = s, .pose = pose, .sigma = sigma, .range = range, .subset = subset, .best = -2};
    subset->count = 0;
    TRY(add_within(&n, range > 0 ? fmin(3 * sigma, range) : 3 * sigma, err));
    if (subset->count == 0 && range > 0) TRY(add_within(&n, range + s->angle_step, err));
    if (subset->count == 0) TRY(add_nearest(&n, err));
    double sum = 0, most = -INFINITY; /* all may be far away */
    for (int i = 0; i < subset->count; i++)
        most = fmax(most, (double)subset->log_priors[i]);
    for (int i = 0; i < subset->count; i++)
        sum += exp((double)subset->log_priors[i] - most);
    for (int i = 0; i < subset->count; i++)
        subset->log_priors[i] -= (float)(most + log(sum));
    return STATUS_OK;
}

enum status sampling_only(int orientation, struct sampling_subset *subset, struct err *err) {
    subset->count = 0;
    return subset_add(subset, orientation, 0, 0, err);
}

void sampling_subset_destroy(struct sampling_subset *subset) {
    free(subset->orientations);
    free(subset->log_priors);
    free(subset->left_out);
    *subset = (struct sampling_subset){0};
}
