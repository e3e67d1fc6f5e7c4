/* How far to look and how finely: size of the comparison, step of the grid, and when to stop. The rules and numbers of
 * RELION's auto-refine, but: a stray shell beyond a dip counts as resolution only where three in a row hold signal
 * (with high symmetry the few independent voxels of a shell stray often); and the first grid is never the last. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/refiner_private.h"

/* The step of the fine pass over the accuracy of angles. */
static const double FINE_ENOUGH = 0.75;
enum { INCREMENT = 10 };

static int first_shell(const struct refiner *r) {
    int shell = (int)lround(r->box * r->pixel_size / r->options.initial_lowpass);
    return shell < LEAST_SHELL ? LEAST_SHELL : shell;
}

int schedule_first_size(const struct refiner *r) {
    int size = 2 * (first_shell(r) + INCREMENT);
    return size < r->box ? size : r->box;
}

void schedule_start(struct refiner *r) {
    struct schedule *s = &r->schedule;
    *s = (struct schedule){
        .order = r->options.healpix_order,
        .offset_range = r->options.offset_range,
        .offset_step = 2 * r->options.offset_step,
        .increment = INCREMENT,
        .smallest_angle = 1e9,
        .smallest_offset = 1e9,
        .accuracy_angle = 999,
        .accuracy_offset = 999,
        .perturbation = 0,
    };
    s->resolution_shell = first_shell(r);
    s->best_resolution = s->resolution_shell / (r->box * r->pixel_size);
    schedule_sizes(r);
}

void schedule_sizes(struct refiner *r) {
    struct schedule *s = &r->schedule;
    int increment = s->large_increment ? (int)lround(0.25 * r->box / 2) : s->increment;
    s->telling_size = 2 * (s->resolution_shell + increment);
    if (s->telling_size > r->box) s->telling_size = r->box;
    s->current_size = s->final ? r->box : s->telling_size;
}

int schedule_resolution_shell(const struct refiner *r, const struct reference *c) {
    int last = r->schedule.current_size / 2, first = 1, far;
    while (first <= last && c->ssnr[first] >= 1)
        first++;
    first--;
    for (far = last; far > first + 3; far--)
        if (c->ssnr[far] > 1 && c->ssnr[far - 1] > 1 && c->ssnr[far - 2] > 1) break;
    return far > first + 3 ? far : first;
}

static void update_resolution(struct refiner *r) {
    struct schedule *s = &r->schedule;
    int below_half = 1, below_limit = 1, last = s->current_size / 2;
    while (below_half < last && r->fsc_joined[below_half] >= 0.5f)
        below_half++;
    while (below_limit < last && r->fsc_joined[below_limit] >= 0.143f)
        below_limit++;
    if (below_limit - below_half + 5 > s->increment) s->increment = below_limit - below_half + 5;
    if (s->average_pmax > 0.1 && r->fsc_joined[last - 1] > 0.2f) s->large_increment = true;
    int shell = schedule_resolution_shell(r, r->half[0].references);
    int other = schedule_resolution_shell(r, r->half[1].references);
    shell = shell > other ? shell : other;
    s->resolution_shell = shell > LEAST_SHELL ? shell : LEAST_SHELL;
    double now = s->resolution_shell / (r->box * r->pixel_size);
    s->since_resolution = now <= s->best_resolution + 1e-4 ? s->since_resolution + 1 : 0;
    s->best_resolution = fmax(now, s->best_resolution);
}

static void update_changes(struct refiner *r) {
    struct schedule *s = &r->schedule;
    int changed = r->half[0].changed + r->half[1].changed;
    if (changed == 0) return;
    double angle = (r->half[0].angle_change + r->half[1].angle_change) / changed;
    double offset = sqrt((r->half[0].offset_change + r->half[1].offset_change) / (2 * changed));
    double angle_step = fine_angle_step(r), offset_step = fine_offset_step(r);
    bool angles_settled = angle < 0.40 * angle_step || 1.03 * angle >= s->smallest_angle;
    bool offsets_settled = offset < 0.40 * offset_step || 1.03 * offset >= s->smallest_offset;
    /* Poses that still grow more certain are not settled, however little they move. */
    bool sharper = s->average_pmax > 1.05 * s->best_pmax;
    s->best_pmax = fmax(s->best_pmax, s->average_pmax);
    s->since_changes = angles_settled && offsets_settled && !sharper ? s->since_changes + 1 : 0;
    s->smallest_angle = fmin(angle, s->smallest_angle);
    s->smallest_offset = fmin(offset, s->smallest_offset);
}

/* One order finer, and shifts as the accuracy asks. */
static void refine_sampling(struct refiner *r) {
    struct schedule *s = &r->schedule;
    double step = 2 * fmin(1.5, 0.75 * s->accuracy_offset);
    double range = fmin(1.3 * s->offset_range, 5 * s->smallest_offset);
    step = fmin(step, s->offset_step);
    range = fmax(range, 1.5 * step);
    if (range > 4 * step) range /= 2;
    if (range > 4 * step) step = range / 4;
    s->offset_step = fmin(step, s->offset_step);
    s->offset_range = range;
    s->order++;
    s->since_resolution = s->since_changes = 0;
    s->smallest_angle = s->smallest_offset = 1e9;
    s->best_pmax = 0;
}

/* Whether a finer grid would be wasted on what orientations are known to. Of the first grid that is never believed: the
 * accuracy is that of a map whose poses lie on this very grid, so that a poor map of a coarse grid seems to deserve no
 * better. */
static bool is_fine(const struct refiner *r) {
    const struct schedule *s = &r->schedule;
    /* Searches near the last poses are of the whole sphere. */
    if (s->order >= SAMPLING_MAX_ORDER - 1 ||
        !alignment_can_number(sampling_whole_sphere(s->order + 1), r->reference_count))
        return true;
    return s->order > r->options.healpix_order && sampling_angle_step(s->order) / 2 < FINE_ENOUGH * s->accuracy_angle;
}

void schedule_after(struct refiner *r) {
    struct schedule *s = &r->schedule;
    double count = r->half[0].member_count + r->half[1].member_count;
    s->average_pmax = (r->half[0].pmax_sum + r->half[1].pmax_sum) / count;
    s->accuracy_angle = fmin(r->half[0].accuracy_angle, r->half[1].accuracy_angle);
    s->accuracy_offset = fmin(r->half[0].accuracy_offset, r->half[1].accuracy_offset);
    if (s->final) {
        s->converged = true;
        return;
    }
    update_resolution(r);
    update_changes(r);
    s->stalled = false;
    if (s->since_resolution < 1 || s->since_changes < 1) return;
    bool fine = is_fine(r);
    if (s->max_order >= 0 && s->order >= s->max_order)
        s->stalled = true;
    else if (!r->oversampled) /* half the step is still to come at this order */
        s->since_resolution = s->since_changes = 0;
    else if (fine)
        s->converged = true;
    else
        refine_sampling(r);
}
