#include "stages/refiner/initial/initial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/contest.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/initial/likeness.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"

/* Particles that are looked at; iterations of a start, and the particles of each. */
enum { PARTICLES_MOST = 4096, EXPLORED = 30, EXPLORED_PARTICLES = 150, SETTLED = 12, SETTLED_PARTICLES = 300 };
enum { STARTS_LEAST = 4, SYMMETRIC = 4, SIDES = 2, FINE_ORDER = 2 };
static const double SURE = 3;     /* standard errors */
static const double WANTED = 1.3; /* times the finest detail that is compared */
static const double ALIKE = 0.7;  /* correlation of two starts that are the same map */
static const double FINER = 0.7;  /* times the finest detail: of a contest */

/* The step of an attempt that comes next. */
enum phase { GATHER, EXPLORE, RANK, MATCH, SETTLE, DECIDE, PAIR, CONTEST, SEVERAL, COMPLETE };

struct initial {
    struct refiner *refiner;
    int threads, classes; /* classes: maps that are looked for after the one; 1: none are */
    struct initial_images images;
    struct starts *starts;
    struct likeness *likeness;
    enum phase phase;
    int start, iteration, done, steps;
    double shown;                           /* progress so far, 0 to 1: another round makes more steps */
    int rounds, round, most;                /* rounds so far; starts of a round; in all rounds, at most */
    int first;                              /* the start with most gain */
    int settlers[SIDES + 1], settler_count; /* starts that go on: of A, of B, and a different map */
    int going[SIDES + 1], going_count;      /* settlers that have settled in fewer rounds than have begun */
    int settled[INITIAL_STARTS_MOST];       /* rounds in which a start has settled */
    int partner;             /* the same map as the different one, of its other half; −1: there is none */
    struct contest *contest; /* of the best maps and the different one */
    struct several *several; /* the maps of classes; NULL: none are made */
    double coarse, fine;     /* Å: limits of the first and of the last iteration */
    size_t voxels;
    float *other;                          /* box³: scratch */
    double *gains[INITIAL_STARTS_MOST];    /* [held out]: of each start, over its opposite (judge) */
    double *evidence[INITIAL_STARTS_MOST]; /* [held out]: of each start, over an empty image */
    double *scratch;                       /* [held out] */
    struct initial_decision decision;
};

static double clamp(double value, double least, double most) {
    return fmin(fmax(value, least), most);
}

static int held_out(const struct initial *a) {
    return a->images.begin[INITIAL_PARTS] - a->images.begin[INITIAL_HELD_OUT];
}

enum status initial_create(struct refiner *r, int threads, struct initial **ret_initial, struct err *err) {
    const double diameter = r->options.diameter;
    struct initial *a = calloc(1, sizeof *a);
    FAIL_IF(a == NULL, err, STATUS_NO_MEMORY, "no memory for a first map");
    a->refiner = r;
    a->threads = threads;
    a->classes = r->reference_path == NULL && r->options.classes <= SEVERAL_MOST ? r->options.classes : 1;
    a->partner = -1;
    a->coarse = clamp(diameter / 6, 15, 35);
    a->fine = initial_finest(diameter);
    struct initial_decision *d = &a->decision;
    d->present = initial_present(r);
    d->diameter = diameter;
    d->start_count = initial_count_starts(r);
    a->most = initial_most_starts(r);
    d->wanted = clamp(diameter / 9, 12, 22);
    d->lowpass = fmin(r->options.initial_lowpass, clamp(diameter / 5, 20, 40));
    d->rival = d->contest = d->contest_limit = d->contest_diameter = NAN;
    d->agreement = d->mean = d->least = d->gains[0] = d->gains[1] = d->gain_deviations[0] = d->gain_deviations[1] = NAN;
    a->steps = 1 + d->start_count * (EXPLORED + 2) + (SIDES + 1) * SETTLED + 1;
    if (a->classes > 1) a->steps += several_steps(several_count_starts(r, a->classes, 0), a->classes);
    *ret_initial = a;
    return STATUS_OK;
}

void initial_destroy(struct initial **initial) {
    struct initial *a = *initial;
    if (a == NULL) return;
    contest_destroy(&a->contest);
    starts_destroy(&a->starts);
    several_destroy(&a->several);
    initial_images_destroy(&a->images);
    likeness_destroy(&a->likeness);
    for (int i = 0; i < INITIAL_STARTS_MOST; i++) {
        mem_free(&a->gains[i]);
        mem_free(&a->evidence[i]);
    }
    mem_free(&a->other);
    mem_free(&a->scratch);
    free(a);
    *initial = NULL;
}

static enum status open(struct initial *a, struct err *err) {
    struct refiner *r = a->refiner;
    const size_t box = (size_t)a->images.box, held = (size_t)held_out(a) + 1;
    struct starts_options options;
    initial_starts_options(r, a->threads, &options);
    const struct likeness_options alike = {.box = a->images.box,
                                           .pixel_size = a->images.pixel_size,
                                           .diameter = r->options.diameter,
                                           .wanted = a->decision.wanted,
                                           .symmetry = &r->symmetry,
                                           .threads = a->threads};
    a->voxels = box * box * box;
    TRY(mem_new(a->voxels, sizeof *a->other, "a map", &a->other, err));
    TRY(mem_new(held, sizeof *a->scratch, "likelihoods", &a->scratch, err));
    for (int i = 0; i < a->most; i++) {
        TRY(mem_new(held, sizeof *a->gains[i], "likelihoods", &a->gains[i], err));
        TRY(mem_new(held, sizeof *a->evidence[i], "likelihoods", &a->evidence[i], err));
    }
    TRY(likeness_create(&alike, &a->likeness, err));
    /* The starts work in its memory, which nothing else uses before there is a reference. */
    if (r->reference_path == NULL) alignment_destroy(&r->alignment);
    return starts_create(&a->images, &options, a->most, &a->starts, err);
}

static void refuse(struct initial *a, enum initial_test test) {
    if (a->decision.failed == INITIAL_ACCEPTED) a->decision.failed = test;
}

static enum status gather(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    TRY(initial_images_gather(a->refiner, PARTICLES_MOST, a->fine, &a->images, err));
    d->particles = (size_t)a->images.count;
    d->box = a->images.box;
    d->pixel_size = a->images.pixel_size;
    const double finest = starts_finest(&a->images);
    a->fine = fmax(a->fine, finest);
    a->coarse = fmax(a->coarse, a->fine);
    d->wanted = fmax(d->wanted, WANTED * finest);
    for (int part = 0; part < INITIAL_PARTS; part++)
        d->parts[part] = a->images.begin[part + 1] - a->images.begin[part];
    if (initial_is_too_little(d)) {
        d->failed = INITIAL_FEW;
        d->start_count = 0;
        a->phase = COMPLETE;
        return STATUS_OK;
    }
    a->most = initial_limit_starts(a->refiner, a->most, STARTS_LEAST, starts_bytes(&a->images));
    if (d->start_count > a->most) d->start_count = a->most;
    a->round = d->start_count;
    a->rounds = 1;
    TRY(open(a, err));
    a->phase = EXPLORE;
    return STATUS_OK;
}

/* Returns an iteration of the exploration, which goes from `coarse` to `fine`. */
static struct starts_step explore_step(const struct initial *a) {
    const double x = (double)a->iteration / (EXPLORED - 1), limit = 1 / ((1 - x) / a->coarse + x / a->fine);
    return (struct starts_step){.particles = EXPLORED_PARTICLES,
                                .order = limit > a->refiner->options.diameter / 8 ? 1 : FINE_ORDER,
                                .limit = limit,
                                .gain = 0.5,
                                .fudge = 1 + 3 * x};
}

/* Explores with as many starts at once as are done side by side. */
static enum status explore(struct initial *a, struct err *err) {
    const struct starts_step step = explore_step(a);
    const int left = a->decision.start_count - a->start, most = starts_at_once(a->starts);
    const int count = left < most ? left : most;
    int which[INITIAL_STARTS_MOST];
    for (int i = 0; i < count; i++)
        which[i] = a->start + i;
    if (a->iteration == 0) TRY(starts_random(a->starts, which, count, err));
    TRY(starts_iterate(a->starts, which, count, &step, err));
    a->done += count - 1;
    if (++a->iteration < EXPLORED) return STATUS_OK;
    a->iteration = 0;
    a->start += count;
    if (a->start < a->decision.start_count) return STATUS_OK;
    a->start = a->decision.start_count - a->round;
    a->phase = RANK;
    return STATUS_OK;
}

static void mean_of(const double *values, int count, double *ret_mean, double *ret_deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    const double mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    *ret_mean = mean;
    *ret_deviation = sqrt(squares / fmax(count - 1, 1) / count);
}

/* Returns the order of the grid for maps that are settled. On one that is coarse for their detail a good map loses more
 * than a smooth wrong one. */
static int last_order(const struct initial *a) {
    return a->refiner->symmetry.count >= SYMMETRIC ? STARTS_ORDERS : FINE_ORDER;
}

/* Finds how probable each held-out particle is with the map of a start, and how much more so than with the opposite of
 * the map, which has the same rotational average and the negative of the rest: noise has no reason to prefer either. */
static enum status judge(struct initial *a, int start, int order, struct err *err) {
    const float *map = starts_state(a->starts, start).map;
    memcpy(a->other, map, a->voxels * sizeof *map);
    TRY(map_align_without_radial(a->images.box, a->other, err));
    for (size_t i = 0; i < a->voxels; i++)
        a->other[i] = map[i] - 2 * a->other[i];
    const struct starts_judgement maps[] = {{map, INITIAL_HELD_OUT, a->evidence[start]},
                                            {a->other, INITIAL_HELD_OUT, a->scratch}};
    TRY(starts_judge(a->starts, maps, 2, order, a->fine, err));
    for (int i = 0; i < held_out(a); i++)
        a->gains[start][i] = a->evidence[start][i] - a->scratch[i];
    return STATUS_OK;
}

static enum status rank(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    struct initial_start *start = &d->starts[a->start];
    const struct starts_state state = starts_state(a->starts, a->start);
    TRY(judge(a, a->start, FINE_ORDER, err));
    mean_of(a->gains[a->start], held_out(a), &start->gain, &start->deviation);
    start->half = state.half;
    start->pmax = state.pmax;
    if (d->starts[a->start].gain > d->starts[a->first].gain) a->first = a->start;
    if (++a->start < d->start_count) return STATUS_OK;
    a->start = 0;
    a->phase = MATCH;
    return STATUS_OK;
}

/* Returns the start with most gain: of a half (−1: of both), and of those that are the same map as the first, or that
 * are not. −1: there is none. */
static int best_start(const struct initial_decision *d, int half, bool alike) {
    int best = -1;
    for (int i = 0; i < d->start_count; i++)
        if ((half < 0 || d->starts[i].half == half) && d->starts[i].alike == alike &&
            (best < 0 || d->starts[i].gain > d->starts[best].gain))
            best = i;
    return best;
}

/* Chooses who goes on: the best of each half that are the same map, if both halves have it, and the best other map. */
static void choose_settlers(struct initial *a) {
    struct initial_decision *d = &a->decision;
    for (int half = 0; half < SIDES; half++) {
        d->best[half] = best_start(d, half, true);
        if (d->best[half] < 0) d->best[half] = best_start(d, half, false);
        a->settlers[half] = d->best[half];
    }
    const int rival = best_start(d, -1, false);
    a->settlers[SIDES] = rival;
    a->settler_count = rival < 0 || rival == d->best[0] || rival == d->best[1] ? SIDES : SIDES + 1;
}

/* Chooses the starts that go on now: a start that is chosen late goes on as long as those before it. */
static void choose_going(struct initial *a) {
    a->start = a->going_count = 0;
    for (int i = 0; i < a->settler_count; i++)
        if (a->settled[a->settlers[i]] < a->rounds) a->going[a->going_count++] = a->settlers[i];
    a->phase = a->going_count > 0 ? SETTLE : DECIDE;
}

/* Finds the correlation of a start with another one, turned onto it, without their rotational averages. */
static enum status correlate(struct initial *a, int fixed, int start, double *ret_likeness, struct err *err) {
    struct likeness_found found;
    TRY(likeness_find(a->likeness, starts_state(a->starts, fixed).map, starts_state(a->starts, start).map, &found,
                      err));
    *ret_likeness = found.correlation;
    return STATUS_OK;
}

static enum status find_likeness(struct initial *a, int fixed, int start, struct err *err) {
    struct initial_start *s = &a->decision.starts[start];
    TRY(correlate(a, fixed, start, &s->likeness, err));
    s->alike = s->likeness >= ALIKE;
    return STATUS_OK;
}

/* Finds whether a start is the same map as the one with most gain. */
static enum status match(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    d->starts[a->first].likeness = 1;
    d->starts[a->first].alike = true;
    if (a->start != a->first) TRY(find_likeness(a, a->first, a->start, err));
    if (++a->start < d->start_count) return STATUS_OK;
    choose_settlers(a);
    choose_going(a);
    return STATUS_OK;
}

/* The chosen starts go on with many more of their particles, and are judged again. */
static enum status settle(struct initial *a, struct err *err) {
    const struct starts_step step = {
        .particles = SETTLED_PARTICLES, .order = FINE_ORDER, .limit = a->fine, .gain = 0.4, .fudge = 4};
    const int left = a->going_count - a->start, most = starts_at_once(a->starts), count = left < most ? left : most;
    TRY(starts_iterate(a->starts, a->going + a->start, count, &step, err));
    a->done += count - 1;
    if (++a->iteration < SETTLED) return STATUS_OK;
    a->iteration = 0;
    for (int i = a->start; i < a->start + count; i++) {
        TRY(judge(a, a->going[i], last_order(a), err));
        a->settled[a->going[i]]++;
    }
    a->start += count;
    if (a->start == a->going_count) choose_going(a);
    return STATUS_OK;
}

/* Finds by how many standard errors the rival is worse than the best map of its half, unless it has become the same
 * map. */
static enum status compare_rival(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    const int rival = a->settlers[SIDES];
    double mean, deviation;
    if (a->settler_count == SIDES) return STATUS_OK;
    const int best = d->best[d->starts[rival].half];
    TRY(find_likeness(a, best, rival, err));
    if (d->starts[rival].alike) return STATUS_OK;
    for (int i = 0; i < held_out(a); i++)
        a->scratch[i] = a->evidence[best][i] - a->evidence[rival][i];
    mean_of(a->scratch, held_out(a), &mean, &deviation);
    d->rival = deviation > 0 ? mean / deviation : 0;
    return STATUS_OK;
}

/* Tests the best maps of both halves: agreement and likelihood. */
static enum status judge_best(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    const float *first = starts_state(a->starts, d->best[0]).map, *second = starts_state(a->starts, d->best[1]).map;
    struct likeness_found found;
    TRY(likeness_find(a->likeness, first, second, &found, err));
    d->mean = found.mean;
    d->least = found.least;
    d->agreement = found.agreement;
    if (!initial_is_same(d->mean, d->least)) refuse(a, INITIAL_AGREEMENT);
    for (int half = 0; half < SIDES; half++) {
        mean_of(a->gains[d->best[half]], held_out(a), &d->gains[half], &d->gain_deviations[half]);
        if (!(d->gains[half] > SURE * d->gain_deviations[half])) refuse(a, INITIAL_LIKELIHOOD);
    }
    return STATUS_OK;
}

/* The maps of classes are looked for whether one map was found or not: a mixture may have none. */
static void conclude(struct initial *a) {
    initial_describe(&a->decision, SURE);
    a->phase = a->classes > 1 ? SEVERAL : COMPLETE;
}

/* Begins another round: there are more starts, if there may be, and those that are chosen go on further. Returns whether
 * there is another one. */
static bool begin_round(struct initial *a) {
    struct initial_decision *d = &a->decision;
    if (a->rounds == INITIAL_ROUNDS) return false;
    a->rounds++;
    if (a->round > a->most - d->start_count) a->round = a->most - d->start_count;
    a->steps += a->round * (EXPLORED + 1) + d->start_count + a->rounds * (SIDES + 1) * SETTLED + 1;
    if (a->round == 0) {
        choose_going(a);
        return true;
    }
    a->start = d->start_count;
    d->start_count += a->round;
    a->phase = EXPLORE;
    return true;
}

static enum status decide(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    d->failed = INITIAL_ACCEPTED;
    d->rival = NAN;
    TRY(judge_best(a, err));
    TRY(compare_rival(a, err));
    a->start = 0;
    if (d->failed == INITIAL_ACCEPTED && d->rival < SURE)
        a->phase = PAIR;
    else if (d->failed == INITIAL_ACCEPTED || !begin_round(a))
        conclude(a);
    return STATUS_OK;
}

static enum status begin_contest(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    struct starts_options starts;
    initial_starts_options(a->refiner, a->threads, &starts);
    const struct contest_options options = {.refiner = a->refiner,
                                            .starts = &starts,
                                            .most = PARTICLES_MOST,
                                            .finest = FINER * a->fine,
                                            .order = last_order(a),
                                            .box = a->images.box,
                                            .pixel_size = a->images.pixel_size};
    const float *maps[CONTEST_FAMILIES][CONTEST_HALVES] = {0};
    const int rivals[2] = {a->settlers[SIDES], a->partner};
    for (int i = 0; i < 2; i++) {
        maps[0][i] = starts_state(a->starts, d->best[i]).map;
        if (rivals[i] >= 0) maps[1][d->starts[rivals[i]].half] = starts_state(a->starts, rivals[i]).map;
    }
    /* Particles may have joined or left since the attempt gathered its images. */
    TRY(refiner_look(a->refiner, err));
    TRY(contest_create(&options, (const float *const(*)[CONTEST_HALVES])maps, &a->contest, err));
    a->steps += d->start_count + contest_steps(a->contest);
    a->phase = CONTEST;
    return STATUS_OK;
}

/* Looks for the rival's map among the starts of the other half: takes the one with most gain. */
static enum status pair(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    const int rival = a->settlers[SIDES];
    const struct initial_start *s = &d->starts[a->start];
    double likeness = 0;
    if (s->half != d->starts[rival].half && !s->alike) TRY(correlate(a, rival, a->start, &likeness, err));
    if (likeness >= ALIKE && (a->partner < 0 || s->gain > d->starts[a->partner].gain)) a->partner = a->start;
    return ++a->start < d->start_count ? STATUS_OK : begin_contest(a, err);
}

/* The maps that won take the place of those that began, and are tested again. */
static enum status take_winners(struct initial *a, int family, struct err *err) {
    struct initial_decision *d = &a->decision;
    for (int half = 0; half < SIDES; half++) {
        const int rival = a->settlers[SIDES];
        if (family > 0) d->best[half] = d->starts[rival].half == half ? rival : a->partner;
        TRY(contest_map(a->contest, family, half, a->other, err));
        TRY(starts_give(a->starts, d->best[half], a->other, err));
        TRY(judge(a, d->best[half], last_order(a), err));
    }
    return judge_best(a, err);
}

static enum status contest(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    bool complete;
    TRY(contest_work(a->contest, &complete, err));
    if (!complete) return STATUS_OK;
    const struct contest_result result = contest_result(a->contest);
    d->contest = result.verdict;
    d->contest_limit = result.limit;
    d->contest_diameter = result.diameter;
    if (result.verdict >= SURE || (result.verdict <= -SURE && a->partner >= 0))
        TRY(take_winners(a, result.verdict > 0 ? 0 : 1, err));
    else
        refuse(a, INITIAL_RIVALS);
    contest_destroy(&a->contest);
    conclude(a);
    return STATUS_OK;
}

static enum status begin_several(struct initial *a, struct err *err) {
    const struct initial_decision *d = &a->decision;
    struct several_options options = {
        .images = &a->images, .order = last_order(a), .coarse = a->coarse, .fine = a->fine, .wanted = d->wanted};
    initial_starts_options(a->refiner, a->threads, &options.starts);
    options.starts.classes = a->classes;
    options.start_count = several_count_starts(a->refiner, a->classes, starts_bytes(&a->images));
    for (int half = 0; half < SIDES; half++)
        options.one[half] = starts_state(a->starts, d->best[half]).map;
    TRY(several_create(&options, &a->several, err));
    return STATUS_OK;
}

static enum status work_on_several(struct initial *a, bool *ret_complete, struct err *err) {
    *ret_complete = false;
    return a->several == NULL ? begin_several(a, err) : several_work(a->several, ret_complete, err);
}

static enum status make_several(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    bool complete;
    const enum status status = work_on_several(a, &complete, err);
    if (status == STATUS_NO_MEMORY) { /* the one map stands without them */
        several_destroy(&a->several);
        a->phase = COMPLETE;
        return STATUS_OK;
    }
    TRY(status);
    if (!complete) return STATUS_OK;
    a->phase = COMPLETE;
    const struct several_decision *found = several_decision(a->several);
    if (found->failed != SEVERAL_ACCEPTED || d->failed == INITIAL_ACCEPTED) return STATUS_OK;
    const char *failed = initial_test_name(d->failed);
    d->failed = INITIAL_ACCEPTED;
    d->of_class = true;
    snprintf(
        d->text, sizeof d->text,
        "all particles have no one map (%s), but classes have: this is the map of the largest one; the hand is not "
        "known",
        failed);
    d->mean = found->maps[0].mean;
    d->least = found->maps[0].least;
    d->agreement = found->maps[0].agreement;
    return STATUS_OK;
}

enum status initial_work(struct initial *a, bool *ret_complete, struct err *err) {
    typedef enum status work(struct initial *, struct err *);
    static work *const phases[] = {gather, explore, rank, match, settle, decide, pair, contest, make_several};
    const double before = clock_monotonic();
    if (a->phase != COMPLETE) TRY(phases[a->phase](a, err));
    a->done += a->several != NULL ? several_step(a->classes) : 1;
    a->decision.seconds += clock_monotonic() - before;
    a->shown = fmax(a->shown, fmin((double)a->done / a->steps, 1));
    *ret_complete = a->phase == COMPLETE;
    return STATUS_OK;
}

double initial_progress(const struct initial *a) {
    return a->shown;
}

const struct initial_decision *initial_decision(const struct initial *a) {
    return &a->decision;
}

const float *initial_map(const struct initial *a) {
    const struct initial_decision *d = &a->decision;
    if (d->of_class) return several_map(a->several, 0);
    return starts_state(a->starts, d->best[d->gains[1] > d->gains[0] ? 1 : 0]).map;
}

const struct several_decision *initial_classes(const struct initial *a) {
    return a->several != NULL ? several_decision(a->several) : NULL;
}

const float *initial_class_map(const struct initial *a, int class) {
    return several_map(a->several, class);
}

enum status initial_evidence(struct initial *a, const float *map, enum initial_part part, double *ret_evidence,
                             struct err *err) {
    const struct starts_judgement judgement = {map, part, ret_evidence};
    return starts_judge(a->starts, &judgement, 1, STARTS_ORDERS, a->fine, err);
}

const struct refiner *initial_refiner(const struct initial *a) {
    return a->refiner;
}
