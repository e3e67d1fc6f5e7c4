#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/memory.h"
#include "stages/refiner/initial/several_private.h"
#include "stages/refiner/refiner_private.h"

/* Iterations, and the particles of each: for each class. */
enum { EXPLORED = 30, EXPLORED_PARTICLES = 100, SETTLED = 12, SETTLED_PARTICLES = 250, FINE_ORDER = 2, CPU_MOST = 4 };

static const double BALANCED = 0.8; /* part of the exploration in which classes take the same shares */

int several_count_starts(const struct refiner *r, int classes, size_t bytes) {
    int count = initial_count_starts(r);
    if (r->context.device.kind == DEVICE_CPU && count > CPU_MOST) count = CPU_MOST;
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
    s->partner = s->rival = -1;
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
        starts * (EXPLORED + classes) + SEVERAL_SIDES * (SETTLED + 2 * classes + 1) + 3 * classes * classes;
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

/* Explores with as many starts at once as are done side by side. */
static enum status explore(struct several *s, struct err *err) {
    const struct starts_step step = explore_step(s);
    const int left = s->options.start_count - s->start, most = starts_at_once(s->starts);
    const int count = left < most ? left : most;
    int which[INITIAL_STARTS_MOST];
    for (int i = 0; i < count; i++)
        which[i] = s->start + i;
    if (s->iteration == 0) TRY(starts_random(s->starts, which, count, err));
    TRY(starts_iterate(s->starts, which, count, &step, err));
    if (++s->iteration < EXPLORED) return STATUS_OK;
    s->iteration = 0;
    s->start += count;
    if (s->start < s->options.start_count) return STATUS_OK;
    s->start = 0;
    s->phase = RANK;
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

static enum status rank(struct several *s, struct err *err) {
    s->families[s->start].half = starts_state(s->starts, s->start).half;
    TRY(several_judge(s, s->start, FINE_ORDER, err));
    if (++s->start < s->options.start_count) return STATUS_OK;
    s->first = best_start(s, -1);
    s->families[s->first].compared = s->families[s->first].same = true;
    s->other = best_start(s, -1);
    s->start = 0;
    s->phase = MATCH;
    if (!several_has_empty(s, s->first)) return STATUS_OK;
    several_refuse(s, SEVERAL_EMPTY);
    s->phase = COMPLETE;
    return STATUS_OK;
}

/* Returns the next family to be compared with the best one: until the other half has a partner for it, and all that
 * explain the held-out particles as well. −1: there is none. */
static int next_family(struct several *s) {
    const struct family *first = &s->families[s->first];
    for (int i; (i = best_start(s, -1)) >= 0;) {
        double mean, deviation;
        several_mean_of(first->together, s->families[i].together, s->held, &mean, &deviation);
        if (mean < SEVERAL_SURE * deviation || (s->partner < 0 && s->families[i].half != first->half)) return i;
        s->families[i].compared = true;
    }
    return -1;
}

static enum status match(struct several *s, struct err *err) {
    const int half = s->families[s->first].half;
    bool last;
    TRY(several_compare_pair(s, &last, err));
    if (!last) return STATUS_OK;
    if (s->rival < 0 && !s->families[s->other].same) s->rival = s->other;
    if (s->partner < 0 && s->families[s->other].same && s->families[s->other].half != half) s->partner = s->other;
    s->other = next_family(s);
    if (s->other >= 0) return STATUS_OK;
    for (int i = 0; i < s->options.start_count; i++)
        s->families[i].compared = false;
    s->decision.best[half] = s->first;
    s->decision.best[1 - half] = s->partner >= 0 ? s->partner : best_start(s, 1 - half);
    if (s->rival == s->decision.best[1 - half]) s->rival = -1; /* halves do not agree */
    s->phase = SETTLE;
    return STATUS_OK;
}

/* The best of both halves, and the rival, go on with many more of their particles. */
static enum status settle(struct several *s, struct err *err) {
    const struct starts_step step = {.particles = SETTLED_PARTICLES * s->classes,
                                     .order = FINE_ORDER,
                                     .limit = s->options.fine,
                                     .gain = 0.4,
                                     .fudge = 4};
    const int which[] = {s->decision.best[0], s->decision.best[1], s->rival};
    TRY(starts_iterate(s->starts, which, s->rival < 0 ? SEVERAL_SIDES : SEVERAL_SIDES + 1, &step, err));
    if (++s->iteration == SETTLED) s->phase = JUDGE;
    return STATUS_OK;
}

enum status several_work(struct several *s, bool *ret_complete, struct err *err) {
    typedef enum status work(struct several *, struct err *);
    static work *const phases[] = {
        explore,     rank, match, settle, several_judge_half, several_agree, several_tell_apart, several_face_rival,
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
