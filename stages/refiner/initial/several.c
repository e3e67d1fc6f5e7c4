#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/memory.h"
#include "stages/refiner/initial/several_private.h"
#include "stages/refiner/refiner_private.h"

/* Iterations, and the particles of each: for each class. */
enum { EXPLORED = 30, EXPLORED_PARTICLES = 100, SETTLED = 12, SETTLED_PARTICLES = 250, FINE_ORDER = 2, CPU_STARTS = 6 };

static const double BALANCED = 0.8; /* part of the exploration in which classes take the same shares */

int several_count_starts(const struct refiner *r, int classes, size_t bytes) {
    const int count = r->context.device.kind == DEVICE_CPU ? CPU_STARTS : initial_count_starts(r);
    return initial_limit_starts(r, count, SEVERAL_SIDES, bytes * (size_t)classes);
}

static enum status open_family(const struct several *s, struct family *f, struct err *err) {
    for (int k = 0; k < s->classes; k++)
        TRY(mem_new((size_t)s->held + 1, sizeof *f->evidence[k], "likelihoods", &f->evidence[k], err));
    return mem_new((size_t)s->held + 1, sizeof *f->together, "likelihoods", &f->together, err);
}

static enum status open(struct several *s, struct err *err) {
    const struct several_options *o = &s->options;
    const size_t held = (size_t)s->held + 1;
    const struct likeness_options alike = {.box = o->images->box,
                                           .pixel_size = o->images->pixel_size,
                                           .diameter = o->starts.diameter,
                                           .wanted = o->wanted,
                                           .symmetry = o->starts.symmetry,
                                           .threads = o->starts.threads};
    TRY(mem_new(held, sizeof *s->opposite, "likelihoods", &s->opposite, err));
    TRY(mem_new(held, sizeof *s->one, "likelihoods", &s->one, err));
    TRY(mem_new(held, sizeof *s->scratch, "likelihoods", &s->scratch, err));
    TRY(mem_new(s->voxels, sizeof *s->map, "a map", &s->map, err));
    TRY(mem_new((size_t)s->classes * s->voxels, sizeof *s->maps, "maps", &s->maps, err));
    for (int i = 0; i < o->start_count; i++)
        TRY(open_family(s, &s->families[i], err));
    TRY(likeness_create(&alike, &s->likeness, err));
    return starts_create(o->images, &o->starts, o->start_count, &s->starts, err);
}

enum status several_create(const struct several_options *options, struct several **ret_several, struct err *err) {
    const struct initial_images *images = options->images;
    struct several *s = calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for the first maps of classes");
    s->options = *options;
    s->classes = options->starts.classes;
    s->held = images->begin[INITIAL_HELD_OUT + 1] - images->begin[INITIAL_HELD_OUT];
    s->voxels = (size_t)images->box * (size_t)images->box * (size_t)images->box;
    s->decision.classes = s->classes;
    s->decision.starts = options->start_count;
    s->partner = -1;
    s->decision.rival = s->decision.alike = NAN;
    for (int half = 0; half < SEVERAL_SIDES; half++)
        s->decision.gains[half] = s->decision.deviations[half] = NAN;
    enum status status = open(s, err);
    if (status != STATUS_OK)
        several_destroy(&s);
    else
        *ret_several = s;
    return status;
}

void several_destroy(struct several **several) {
    struct several *s = *several;
    if (s == NULL) return;
    starts_destroy(&s->starts);
    likeness_destroy(&s->likeness);
    for (int i = 0; i < INITIAL_STARTS_MOST; i++) {
        for (int k = 0; k < SEVERAL_MOST; k++)
            mem_free(&s->families[i].evidence[k]);
        mem_free(&s->families[i].together);
    }
    mem_free(&s->opposite);
    mem_free(&s->one);
    mem_free(&s->scratch);
    mem_free(&s->map);
    mem_free(&s->maps);
    free(s);
    *several = NULL;
}

int several_steps(int starts, int classes) {
    const int parts =
        starts * (EXPLORED + SETTLED + 2) + SEVERAL_SIDES * (classes + 1) + (SEVERAL_SIDES + 2) * classes * classes;
    return parts * several_step(classes);
}

/* Returns an iteration of the exploration, which goes from `coarse` to `fine`. */
static struct starts_step explore_step(const struct several *s) {
    const struct several_options *o = &s->options;
    const double x = (double)s->iteration / (EXPLORED - 1), limit = 1 / ((1 - x) / o->coarse + x / o->fine);
    return (struct starts_step){.particles = EXPLORED_PARTICLES * s->classes,
                                .order = limit > o->starts.diameter / 8 ? 1 : FINE_ORDER,
                                .limit = limit,
                                .gain = 0.5,
                                .fudge = 1 + 3 * x,
                                .balance = x < BALANCED};
}

/* Returns how many starts are worked on side by side, from s->start on: ret_which[]. */
static int choose_starts(const struct several *s, int *ret_which) {
    const int left = s->options.start_count - s->start, most = starts_at_once(s->starts);
    const int count = left < most ? left : most;
    for (int i = 0; i < count; i++)
        ret_which[i] = s->start + i;
    return count;
}

/* Ends an iteration of so many starts. After the last one of all starts comes another phase. */
static void end_iteration(struct several *s, int count, int iterations, enum phase next) {
    if (++s->iteration < iterations) return;
    s->iteration = 0;
    s->start += count;
    if (s->start < s->options.start_count) return;
    s->start = 0;
    s->phase = next;
}

static enum status explore(struct several *s, struct err *err) {
    const struct starts_step step = explore_step(s);
    int which[INITIAL_STARTS_MOST];
    const int count = choose_starts(s, which);
    if (s->iteration == 0) TRY(starts_random(s->starts, which, count, err));
    TRY(starts_iterate(s->starts, which, count, &step, err));
    end_iteration(s, count, EXPLORED, RANK);
    return STATUS_OK;
}

/* All starts go on with many more of their particles: some find the last of their maps only now, and one that was
 * worse may explain the particles better in the end. */
static enum status settle(struct several *s, struct err *err) {
    const struct starts_step step = {.particles = SETTLED_PARTICLES * s->classes,
                                     .order = FINE_ORDER,
                                     .limit = s->options.fine,
                                     .gain = 0.4,
                                     .fudge = 4};
    int which[INITIAL_STARTS_MOST];
    const int count = choose_starts(s, which);
    TRY(starts_iterate(s->starts, which, count, &step, err));
    end_iteration(s, count, SETTLED, RANK_SETTLED);
    return STATUS_OK;
}

/* Returns the start with most evidence of those that were not compared, of a half (−1: of both); −1: there is none. */
static int best_start(const struct several *s, int half) {
    int best = -1;
    for (int i = 0; i < s->options.start_count; i++)
        if ((half < 0 || s->families[i].half == half) && !s->families[i].compared &&
            (best < 0 || s->families[i].mean > s->families[best].mean))
            best = i;
    return best;
}

/* Judges a start on a grid. Returns whether it was the last one. */
static enum status judge_next(struct several *s, int order, bool *ret_last, struct err *err) {
    s->families[s->start].half = starts_state(s->starts, s->start).half;
    TRY(several_judge(s, s->start, order, err));
    *ret_last = ++s->start == s->options.start_count;
    if (*ret_last) s->start = 0;
    return STATUS_OK;
}

/* Ends all where the best of both halves have lost particles of a class: fewer maps explain them. */
static enum status rank(struct several *s, struct err *err) {
    bool last;
    TRY(judge_next(s, FINE_ORDER, &last, err));
    if (!last) return STATUS_OK;
    s->phase = SETTLE;
    for (int half = 0; half < SEVERAL_SIDES; half++)
        if (!several_has_empty(s, best_start(s, half))) return STATUS_OK;
    several_refuse(s, SEVERAL_EMPTY);
    s->phase = COMPLETE;
    return STATUS_OK;
}

/* Takes the settled start that explains the held-out particles best, however good it was before. */
static enum status rank_settled(struct several *s, struct err *err) {
    bool last;
    TRY(judge_next(s, s->options.order, &last, err));
    if (!last) return STATUS_OK;
    s->first = best_start(s, -1);
    s->families[s->first].compared = s->families[s->first].same = true;
    s->other = best_start(s, -1);
    s->phase = MATCH;
    if (!several_has_empty(s, s->first)) return STATUS_OK;
    several_refuse(s, SEVERAL_EMPTY);
    s->phase = COMPLETE;
    return STATUS_OK;
}

/* Returns the start of a half that has the maps of the best family: that family, or its partner. −1: none is found
 * yet. */
static int standard_of(const struct several *s, int half) {
    return half == s->families[s->first].half ? s->first : s->partner;
}

/* Returns by how many standard errors a start is worse than the standard of its own half; −INFINITY: its half has none
 * yet. Halves may differ, whatever the maps. */
static double worse_by(const struct several *s, int start) {
    const int best = standard_of(s, s->families[start].half);
    double mean, deviation;
    if (best < 0) return -INFINITY;
    several_mean_of(s->families[best].together, s->families[start].together, s->held, &mean, &deviation);
    return deviation > 0 ? mean / deviation : 0;
}

/* Returns the next family to be compared with the best one: until the other half has a partner for it, and all that
 * explain the held-out particles as well. −1: there is none. */
static int next_family(struct several *s) {
    for (int i; (i = best_start(s, -1)) >= 0;) {
        if (worse_by(s, i) < SEVERAL_SURE) return i;
        s->families[i].compared = s->families[i].same = true; /* no rival, whatever its maps are */
    }
    return -1;
}

/* Finds the rival: of those with other maps, the one that is worse by least. */
static void find_rival(struct several *s) {
    struct several_decision *d = &s->decision;
    for (int i = 0; i < s->options.start_count; i++) {
        if (s->families[i].same || (s->partner < 0 && s->families[i].half != s->families[s->first].half)) continue;
        const double worse = worse_by(s, i);
        if (!(worse >= d->rival)) d->rival = worse;
    }
}

/* Takes the partner. Better ones of its half may be the same maps as the partner, if not as like the best family. */
static void take_partner(struct several *s, int partner) {
    s->partner = partner;
    for (int i = 0; i < s->options.start_count; i++)
        if (s->families[i].half == s->families[partner].half && !s->families[i].same) s->families[i].compared = false;
}

/* Compares the settled starts with the best one, and those of the other half with its partner. */
static enum status match(struct several *s, struct err *err) {
    struct several_decision *d = &s->decision;
    const int half = s->families[s->first].half, standard = standard_of(s, s->families[s->other].half);
    bool last;
    TRY(several_compare_pair(s, standard < 0 ? s->first : standard, &last, err));
    if (!last) return STATUS_OK;
    if (standard < 0 && s->families[s->other].same) take_partner(s, s->other);
    s->other = next_family(s);
    if (s->other >= 0) return STATUS_OK;
    find_rival(s);
    for (int i = 0; i < s->options.start_count; i++)
        s->families[i].compared = false;
    s->other = s->partner >= 0 ? s->partner : best_start(s, 1 - half); /* halves do not agree */
    d->best[half] = s->first;
    d->best[1 - half] = s->other;
    s->phase = JUDGE;
    return STATUS_OK;
}

enum status several_work(struct several *s, bool *ret_complete, struct err *err) {
    typedef enum status work(struct several *, struct err *);
    static work *const phases[] = {
        explore,     rank, settle, rank_settled, match, several_judge_half, several_agree, several_tell_apart,
        several_take};
    const double before = clock_monotonic();
    if (s->phase != COMPLETE) TRY(phases[s->phase](s, err));
    s->decision.seconds += clock_monotonic() - before;
    *ret_complete = s->phase == COMPLETE;
    if (*ret_complete) several_describe(s);
    return STATUS_OK;
}

const struct several_decision *several_decision(const struct several *s) {
    return &s->decision;
}

const float *several_map(const struct several *s, int class) {
    return s->maps + (size_t) class * s->voxels;
}
