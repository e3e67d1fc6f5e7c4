/* The rules and numbers are those of RELION's auto-refine, with four exceptions. A stray shell beyond a dip of the
 * SSNR counts as resolution only where three shells in a row hold signal: with high symmetry the few independent
 * voxels of a shell stray often. The first grid is never the last. And a grid whose step is not seen is. Of many
 * particles, iterations compare a part, until maps of the last grid grow no better; one iteration with all follows. Of a
 * classification the last two fifths compare all. */
#include "stages/refiner/schedule.h"

#include <math.h>

#include "kernels/alignment/alignment.h"
#include "kernels/sampling/sampling.h"

enum { INCREMENT = 10, SHARP_SAMPLES = 100 };
static const double SHARP = 0.3;

static double extent(const struct schedule_options *o) {
    return o->box * o->pixel_size;
}

static int first_shell(const struct schedule_options *o) {
    int shell = (int)lround(extent(o) / o->initial_lowpass);
    return shell < LEAST_SHELL ? LEAST_SHELL : shell;
}

int schedule_first_size(const struct schedule_options *o) {
    int size = 2 * (first_shell(o) + INCREMENT);
    return size < o->box ? size : o->box;
}

void schedule_start(struct schedule *s) {
    const struct schedule_options o = s->options;
    *s = (struct schedule){
        .options = o,
        .order = o.healpix_order,
        .offset_range = o.offset_range,
        .offset_step = 2 * o.offset_step,
        .increment = INCREMENT,
        .smallest_angle = 1e9,
        .smallest_offset = 1e9,
        .accuracy_angle = 999,
        .accuracy_offset = 999,
        .max_order = -1,
        .resolution_shell = first_shell(&o),
        .oversampled = o.classifies,
    };
    s->best_resolution = s->resolution_shell / extent(&o);
    schedule_sizes(s);
}

void schedule_resume(struct schedule *s, const struct schedule *from) {
    schedule_start(s);
    s->iteration = from->iteration;
    s->order = from->order;
    s->offset_range = from->offset_range;
    s->offset_step = from->offset_step;
    s->increment = from->increment;
    s->large_increment = from->large_increment;
    s->since_resolution = from->since_resolution;
    s->since_changes = from->since_changes;
    s->resolution_shell = from->resolution_shell;
    s->perturbation = from->perturbation;
    s->best_resolution = from->best_resolution;
    s->smallest_angle = from->smallest_angle;
    s->smallest_offset = from->smallest_offset;
    s->average_pmax = from->average_pmax;
    s->best_pmax = from->best_pmax;
    s->sharp = from->sharp;
    s->whole = from->whole;
    s->turns = from->turns;
    s->whole_iterations = from->whole_iterations;
    s->whole_particles = from->whole_particles;
}

void schedule_sizes(struct schedule *s) {
    int box = s->options.box, increment = s->large_increment ? (int)lround(0.25 * box / 2) : s->increment;
    s->telling_size = 2 * (s->resolution_shell + increment);
    /* Poses that are kept need no comparison: how far the maps of the halves agree is found at once. */
    if (s->telling_size > box || (s->kept && !s->options.classifies)) s->telling_size = box;
    s->current_size = s->final ? box : s->telling_size;
}

double schedule_fine_step(const struct schedule *s) {
    return s->oversampled ? 0.5 : 1;
}

int schedule_shell(const struct schedule_options *o, double resolution) {
    int shell = (int)lround(extent(o) / resolution);
    return shell < 1 ? 1 : shell;
}

/* Returns whether the halves agree by themselves far enough for all shells to become one band: half as far again as
 * they share, and at least three shells further. Halves of noise exceed an FSC of 0.143 by chance: one shell beyond
 * in one run of about ten, three in a row in no run. A bound twice as far out kept a signal that ends in between in
 * two bands for good; so did a bound that was rounded up. */
static bool agree_far(const struct schedule_options *o, double shared, double resolution) {
    static const double FAR = 1.5;
    enum { LEAST = 3 };
    if (!(resolution > 0)) return false;
    double reached = round(extent(o) / resolution);
    return reached >= FAR * extent(o) / shared && reached >= schedule_shell(o, shared) + LEAST;
}

int schedule_shared_shell(const struct schedule_options *o, double resolution) {
    double shared = fmin(o->join_resolution, o->initial_lowpass);
    int last = schedule_shell(o, shared);
    /* Without a shell beyond there is nothing to keep apart. */
    return o->classifies || agree_far(o, shared, resolution) || last + 1 >= o->box / 2 ? 0 : last;
}

int schedule_signal_shell(const float *ssnr, int last) {
    int first = 1, far;
    while (first <= last && ssnr[first] >= 1)
        first++;
    first--;
    for (far = last; far > first + 3; far--)
        if (ssnr[far] > 1 && ssnr[far - 1] > 1 && ssnr[far - 2] > 1) break;
    return far > first + 3 ? far : first;
}

/* Returns the order of the first grid. Around poses that are given its step is within their range. */
static int first_order(const struct schedule_options *o) {
    int order = o->healpix_order;
    while (o->poses_given && order < SAMPLING_MAX_ORDER - 1 && sampling_angle_step(order) > o->local_range &&
           alignment_can_number(sampling_whole_sphere(order + 1), o->references))
        order++;
    return order;
}

/* The first grid around given poses covers their range. Finer grids search near what the one before has found. */
double schedule_near_sigma(const struct schedule *s) {
    const struct schedule_options *o = &s->options;
    double step = sampling_angle_step(s->order), range = o->local_range / 3;
    if (!o->poses_given) return step;
    return s->order > first_order(o) ? fmin(range, step) : range;
}

/* While the map shows next to nothing of a pose, thousands of grid samples fit a particle alike, and their children
 * too. Comparing the children would take most of the time of the first iterations. If the data are so poor that a
 * grid stays coarse, its children must be compared in the end all the same. */
static bool wants_children(const struct schedule *s, const struct schedule_plan *plan) {
    static const double BROAD = 0.05;
    enum { FIRST_ITERATIONS = 3 };
    bool early = (plan->max_order >= 0 || s->iteration < FIRST_ITERATIONS) && !s->options.poses_given;
    return s->options.classifies || plan->final || !early || s->average_pmax >= BROAD;
}

bool schedule_local_next(const struct schedule *s) {
    int local_order = s->options.local_order - (s->sharp ? 1 : 0);
    return s->options.poses_given || (s->order > s->options.healpix_order && s->order >= local_order);
}

/* Returns whether a classification has compared parts often enough. Its last iterations compare all: they are so many
 * that maps which parts have left settle, and each particle is put into the class that it fits best in the end. */
static bool classes_want_all(const struct schedule *s) {
    static const double IN_PARTS = 0.6; /* of the iterations */
    return s->whole_iterations >= (int)(IN_PARTS * s->options.iterations);
}

/* Returns whether all particles must be compared: some have no pose yet; the poses are those of a table, which
 * converge at once; data still arrive, and refiner_iteration.most bounds an iteration; or a part was enough before.
 * Classes are compared over the whole grid, and need no poses. */
static bool wants_all(const struct schedule *s, const struct schedule_plan *plan) {
    const struct schedule_options *o = &s->options;
    if (plan->final || plan->max_order >= 0 || o->poses_given || o->keep_poses || o->part_particles == 0) return true;
    return o->classifies ? classes_want_all(s) : s->whole || !plan->aligned;
}

/* Returns the fewest particles of a part: as many for each class of many as for each of a few. */
static size_t part_least(const struct schedule_options *o) {
    enum { CLASSES = 6 };
    size_t least = (size_t)o->part_particles;
    return o->references > CLASSES ? least * (size_t)o->references / CLASSES : least;
}

struct schedule_part schedule_part(const struct schedule *s, const struct schedule_plan *plan, size_t present) {
    /* A particle is compared again before its pose is too old for a local search. */
    static const size_t MOST = 4;
    size_t of = wants_all(s, plan) ? 1 : present / part_least(&s->options);
    of = of < 1 ? 1 : of > MOST ? MOST : of;
    return (struct schedule_part){.index = (size_t)s->iteration % of, .of = of};
}

void schedule_begin(struct schedule *s, const struct schedule_plan *plan) {
    int before_local = s->options.local_order - 1, first = first_order(&s->options);
    s->kept = s->options.keep_poses || (s->options.maps_of_poses && s->iteration == 0);
    s->oversampled = wants_children(s, plan) && !s->kept;
    s->max_order = plan->max_order >= 0 && s->options.poses_given && plan->max_order < first ? first : plan->max_order;
    if (s->options.poses_given && s->order < first) s->order = first;
    if (s->max_order >= 0 && s->order > s->max_order) s->order = s->max_order;
    /* Particles without a pose must be searched for everywhere: the grid is the finest of those. */
    if (!plan->aligned && s->order >= s->options.local_order) s->order = before_local > first ? before_local : first;
    s->sharp = s->sharp && plan->aligned;
    /* New particles have to find their poses first; then parts take turns again. */
    s->whole = s->whole && plan->aligned;
    s->local = plan->aligned && schedule_local_next(s);
    s->final = plan->final;
    s->part = plan->part;
    s->iteration++;
    schedule_sizes(s);
}

static void count_resolution(struct schedule *s, int shell) {
    s->resolution_shell = shell > LEAST_SHELL ? shell : LEAST_SHELL;
    double now = s->resolution_shell / extent(&s->options);
    s->gain = now / s->best_resolution - 1;
    s->turns++;
    s->since_resolution = now <= s->best_resolution + 1e-4 ? s->since_resolution + 1 : 0;
    s->best_resolution = fmax(now, s->best_resolution);
}

/* Sets how far beyond its resolution a map is compared, from how slowly the FSC falls. */
static void update_increment(struct schedule *s, const float *fsc) {
    int below_half = 1, below_limit = 1, last = s->current_size / 2;
    while (below_half < last && fsc[below_half] >= 0.5f)
        below_half++;
    while (below_limit < last && fsc[below_limit] >= 0.143f)
        below_limit++;
    if (below_limit - below_half + 5 > s->increment) s->increment = below_limit - below_half + 5;
    if (s->average_pmax > 0.1 && fsc[last - 1] > 0.2f) s->large_increment = true;
}

static void update_changes(struct schedule *s, const struct findings *f) {
    static const double BROAD = 0.1; /* Pmax */
    if (f->moved == 0) return;
    double angle_step = sampling_angle_step(s->order) * schedule_fine_step(s);
    double offset_step = s->offset_step * schedule_fine_step(s);
    bool angles_settled = f->angle_change < 0.40 * angle_step || 1.03 * f->angle_change >= s->smallest_angle;
    bool offsets_settled = f->offset_change < 0.40 * offset_step || 1.03 * f->offset_change >= s->smallest_offset;
    /* Poses that still grow more certain are not settled, however little they move. Where many poses fit alike, they grow
     * so for many iterations, as the map does; with a part of the particles this is not waited for. */
    bool waits = s->part.of <= 1 || s->average_pmax >= BROAD;
    bool sharper = waits && s->average_pmax > 1.05 * s->best_pmax;
    s->best_pmax = fmax(s->best_pmax, s->average_pmax);
    s->since_changes = angles_settled && offsets_settled && !sharper ? s->since_changes + 1 : 0;
    s->smallest_angle = fmin(f->angle_change, s->smallest_angle);
    s->smallest_offset = fmin(f->offset_change, s->smallest_offset);
}

static void begin_grid(struct schedule *s) {
    s->since_resolution = s->since_changes = s->turns = 0;
    s->smallest_angle = s->smallest_offset = 1e9;
    s->best_pmax = 0;
}

/* Takes a grid of the next order, with shifts as fine as their accuracy deserves. */
static void refine_sampling(struct schedule *s) {
    double step = 2 * fmin(1.5, 0.75 * s->accuracy_offset);
    double range = fmin(1.3 * s->offset_range, 5 * s->smallest_offset);
    step = fmin(step, s->offset_step);
    range = fmax(range, 1.5 * step);
    if (range > 4 * step) range /= 2;
    if (range > 4 * step) step = range / 4;
    s->offset_step = fmin(step, s->offset_step);
    s->offset_range = range;
    s->order++;
    begin_grid(s);
}

/* Returns whether a finer grid would only divide the probability of a particle among more poses: many poses fit it alike,
 * and half a step of the fine pass moves the particle's rim by less than what the map resolves. */
static bool only_divides(const struct schedule *s) {
    static const double BROAD = 0.05, UNSEEN = 0.2; /* Pmax; of the resolution */
    double moved = s->options.diameter / 2 * sampling_angle_step(s->order) / 4 * M_PI / 180;
    return s->average_pmax < BROAD && moved < UNSEEN * extent(&s->options) / s->resolution_shell;
}

/* Returns whether a finer grid would be finer than orientations are known, or than can be numbered. The accuracy is
 * never believed with the first grid: it is estimated from a map whose poses lie on this very grid, so that a poor
 * map of a coarse grid seems to deserve no better. */
static bool is_fine(const struct schedule *s) {
    static const double FINE_ENOUGH = 0.75; /* step of the fine pass over the accuracy of angles */
    /* Local searches too number their samples over the whole sphere. */
    if (s->order >= SAMPLING_MAX_ORDER - 1 ||
        !alignment_can_number(sampling_whole_sphere(s->order + 1), s->options.references))
        return true;
    if (s->order <= first_order(&s->options)) return false;
    return only_divides(s) || sampling_angle_step(s->order) / 2 < FINE_ENOUGH * s->accuracy_angle;
}

/* Returns whether parts have done on the last grid what they can: each has had its turn, and the map hardly gains. What
 * it still lacks are the other particles. */
static bool parts_are_done(const struct schedule *s) {
    static const double LITTLE = 0.05; /* of the resolution */
    return s->part.of > 1 && s->oversampled && (size_t)s->turns >= s->part.of && s->gain < LITTLE && is_fine(s);
}

/* Takes all particles from now on. */
static void take_all(struct schedule *s) {
    s->whole = true;
    begin_grid(s);
}

/* Maps of poses that are kept do not change any more: nothing but the final iteration is left. */
static void keep_grid(struct schedule *s) {
    s->stalled = false;
    s->converged = s->options.keep_poses;
}

/* Returns whether another iteration like this one is of no use: neither resolution nor poses change any more. After the
 * parts, one iteration with all is enough on each grid, since the final one follows, which compares all as well. */
static bool is_at_rest(const struct schedule *s) {
    bool after_parts = s->whole && s->max_order < 0;
    return after_parts || (s->since_resolution >= 1 && s->since_changes >= 1);
}

/* Takes a finer grid or all particles, or ends. */
static void next_grid(struct schedule *s) {
    s->stalled = false;
    if (parts_are_done(s)) {
        take_all(s);
        return;
    }
    if (!is_at_rest(s)) return;
    if (s->max_order >= 0 && s->order >= s->max_order)
        s->stalled = true;
    else if (!s->oversampled) /* half the step is still to come at this order */
        s->since_resolution = s->since_changes = 0;
    else if (is_fine(s))
        s->converged = s->part.of <= 1;
    else
        refine_sampling(s);
}

static void after_refinement(struct schedule *s, const struct findings *f) {
    s->accuracy_angle = f->accuracy_angle;
    s->accuracy_offset = f->accuracy_offset;
    if (s->final)
        s->converged = true;
    else {
        update_increment(s, f->fsc);
        count_resolution(s, f->signal_shell);
        if (s->kept) {
            keep_grid(s);
            return;
        }
        update_changes(s, f);
        next_grid(s);
    }
    /* A third of the probability in one pose, and few other samples that matter, which lie beside it: a search of the
     * whole grid, which takes most of the time of a refinement, would only find the same poses again. Finer grids
     * divide the probability among more poses: once sharp stays sharp. */
    s->sharp = s->sharp || (s->average_pmax >= SHARP && f->significant > 0 && f->significant <= SHARP_SAMPLES);
}

/* Counts iterations with all particles, or with parts of all; a particle that joins starts the count anew. */
static void after_classification(struct schedule *s, const struct findings *f) {
    bool counts = s->part.of > 1 || (size_t)f->particles == f->present;
    count_resolution(s, f->signal_shell);
    s->whole_iterations = !counts ? 0 : s->whole_particles == f->present ? s->whole_iterations + 1 : 1;
    s->whole_particles = counts ? f->present : 0;
    s->converged = s->part.of <= 1 && s->whole_iterations >= s->options.iterations;
}

void schedule_after(struct schedule *s, const struct findings *f) {
    s->average_pmax = f->average_pmax;
    if (s->options.classifies)
        after_classification(s, f);
    else
        after_refinement(s, f);
}

/* While particles keep coming, an iteration waits for a tenth more of them and leaves the cores to the stages before
 * this one. When the stream pauses, iterations go on until they gain nothing; then they wait for a quarter more. */
bool schedule_live_worth(const struct schedule_live *live, size_t particles, bool paused) {
    if (live->settled) return (double)particles >= 1.25 * (double)live->settled_particles;
    return paused || (double)particles >= 1.1 * (double)live->last_particles;
}

void schedule_live_after(struct schedule_live *live, size_t particles, size_t present, bool stalled, bool converged) {
    live->last_particles = live->settled_particles = particles;
    live->settled = (stalled || converged) && particles == present;
}

/* The first maps are made from a part of the particles: a low-resolution reference is soon improved upon. */
size_t schedule_live_most(int iteration) {
    enum { FIRST = 300, DOUBLINGS = 5 };
    return iteration < DOUBLINGS ? (size_t)FIRST << iteration : 0;
}

int schedule_live_max_order(int live_order, int first_order) {
    return live_order > first_order ? live_order : first_order;
}

enum schedule_step schedule_at_end(bool classifies, int done, int max_iterations, bool converged) {
    bool enough = done > 0 && (converged || (!classifies && done >= max_iterations));
    return !enough ? SCHEDULE_ITERATE : classifies ? SCHEDULE_DONE : SCHEDULE_FINAL;
}
