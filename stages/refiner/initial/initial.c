#include "stages/refiner/initial/initial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/contest.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"

/* Particles that are looked at; iterations of a start, and the particles of each. */
enum { PARTICLES_MOST = 4096, EXPLORED = 30, EXPLORED_PARTICLES = 150, SETTLED = 12, SETTLED_PARTICLES = 300 };
/* Starts on the CPU and on a device. Those of a point group with so many operators cost less, and with more of them fewer
 * become the right map. */
enum { STARTS_FEW = 4, STARTS_SYMMETRIC = 12, SYMMETRIC = 4, HIGH = 12 };
enum { DEVICE_FEW = 12, DEVICE_SYMMETRIC = 24, DEVICE_HIGH = 48 };
enum { FIRST_ATTEMPT = 1000 };
enum { FIRST_OF_GROUP = 300, DIAMETER_LEAST = 16, SIDES = 2, FINE_ORDER = 2 };
static const double SURE = 3;      /* standard errors */
static const double LEAST = 0.143; /* FSC of such maps in each shell */
static const double AGREED = 0.7;  /* mean FSC of two maps that are the same */
static const double WANTED = 1.3;  /* times the finest detail that is compared */
static const double ALIKE = 0.7;   /* correlation of two starts that are the same map */
static const double FINER = 0.7;   /* times the finest detail: of a contest */

/* The step of an attempt that comes next. */
enum phase { GATHER, EXPLORE, RANK, MATCH, SETTLE, DECIDE, PAIR, CONTEST, COMPLETE };

struct initial {
    struct refiner *refiner;
    int threads;
    struct initial_images images;
    struct starts *starts;
    struct map_aligner *aligner;
    enum phase phase;
    int start, iteration, done, steps;
    int first;                              /* the start with most gain */
    int settlers[SIDES + 1], settler_count; /* starts that go on: of A, of B, and a different map */
    int partner;             /* the same map as the different one, of its other half; −1: there is none */
    struct contest *contest; /* of the best maps and the different one */
    double coarse, fine;     /* Å: limits of the first and of the last iteration */
    size_t voxels;
    float *turned, *other; /* box³: scratch */
    float *fsc;
    double *gains[INITIAL_STARTS_MOST];    /* [held out]: of each start, over its opposite (judge) */
    double *evidence[INITIAL_STARTS_MOST]; /* [held out]: of each start, over an empty image */
    double *scratch;                       /* [held out] */
    struct initial_decision decision;
};

const char *initial_test_name(enum initial_test test) {
    static const char *const names[] = {"", "particles", "agreement", "likelihood", "rivals"};
    return names[test];
}

bool initial_is_due(size_t particles, size_t tried, int operators) {
    size_t first = FIRST_ATTEMPT / (size_t)(operators > 0 ? operators : 1);
    if (first < FIRST_OF_GROUP) first = FIRST_OF_GROUP;
    return tried == 0 ? particles >= first : particles >= 2 * tried;
}

size_t initial_present(const struct refiner *r) {
    return r->set.present;
}

static double clamp(double value, double least, double most) {
    return fmin(fmax(value, least), most);
}

static int held_out(const struct initial *a) {
    return a->images.begin[INITIAL_PARTS] - a->images.begin[INITIAL_HELD_OUT];
}

static int count_starts(const struct refiner *r) {
    const bool symmetric = r->symmetry.count >= SYMMETRIC;
    if (r->context.device.kind == DEVICE_CPU) return symmetric ? STARTS_SYMMETRIC : STARTS_FEW;
    if (r->symmetry.count >= HIGH) return DEVICE_HIGH;
    return symmetric ? DEVICE_SYMMETRIC : DEVICE_FEW;
}

enum status initial_create(struct refiner *r, int threads, struct initial **ret_initial, struct err *err) {
    const double diameter = r->options.diameter;
    struct initial *a = calloc(1, sizeof *a);
    FAIL_IF(a == NULL, err, STATUS_NO_MEMORY, "no memory for a first map");
    a->refiner = r;
    a->threads = threads;
    a->partner = -1;
    a->coarse = clamp(diameter / 6, 15, 35);
    a->fine = initial_finest(diameter);
    struct initial_decision *d = &a->decision;
    d->present = initial_present(r);
    d->diameter = diameter;
    d->start_count = count_starts(r);
    d->wanted = clamp(diameter / 9, 12, 22);
    d->lowpass = fmin(r->options.initial_lowpass, clamp(diameter / 5, 20, 40));
    d->rival = d->contest = d->contest_limit = d->contest_diameter = NAN;
    d->agreement = d->mean = d->least = d->gains[0] = d->gains[1] = d->gain_deviations[0] = d->gain_deviations[1] = NAN;
    a->steps = 1 + d->start_count * (EXPLORED + 2) + (SIDES + 1) * SETTLED + 1;
    *ret_initial = a;
    return STATUS_OK;
}

void initial_destroy(struct initial **initial) {
    struct initial *a = *initial;
    if (a == NULL) return;
    contest_destroy(&a->contest);
    starts_destroy(&a->starts);
    initial_images_destroy(&a->images);
    map_align_destroy(&a->aligner);
    for (int i = 0; i < INITIAL_STARTS_MOST; i++) {
        mem_free(&a->gains[i]);
        mem_free(&a->evidence[i]);
    }
    void *owned[] = {a->turned, a->other, a->fsc, a->scratch};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(a);
    *initial = NULL;
}

void initial_starts_options(const struct refiner *r, int threads, struct starts_options *ret_options) {
    const bool device = r->context.device.kind != DEVICE_CPU;
    const double share = r->reference_path == NULL ? 0.5 : 0.0625;
    const double memory = device ? share * compare_memory(&r->options) : host_memory(&r->options);
    *ret_options = (struct starts_options){.device = r->context.device,
                                           .threads = threads,
                                           .memory = memory / 0x1p30,
                                           .diameter = r->options.diameter,
                                           .symmetry = &r->symmetry,
                                           .seed = r->options.seed};
}

static enum status open(struct initial *a, struct err *err) {
    struct refiner *r = a->refiner;
    const size_t box = (size_t)a->images.box, held = (size_t)held_out(a) + 1;
    struct starts_options options;
    initial_starts_options(r, a->threads, &options);
    const struct map_align_options align = {
        .box = a->images.box,
        .pixel_size = a->images.pixel_size,
        .diameter = fmin(r->options.diameter, ((double)a->images.box - 2 * MASK_EDGE) * a->images.pixel_size),
        .coarsest = r->options.diameter / 2,
        .finest = a->decision.wanted,
        .hands = true,
        .symmetry = &r->symmetry,
        .threads = a->threads};
    a->voxels = box * box * box;
    TRY(mem_new(a->voxels, sizeof *a->turned, "a map", &a->turned, err));
    TRY(mem_new(a->voxels, sizeof *a->other, "a map", &a->other, err));
    TRY(mem_new(box / 2 + 1, sizeof *a->fsc, "a curve", &a->fsc, err));
    TRY(mem_new(held, sizeof *a->scratch, "likelihoods", &a->scratch, err));
    for (int i = 0; i < a->decision.start_count; i++) {
        TRY(mem_new(held, sizeof *a->gains[i], "likelihoods", &a->gains[i], err));
        TRY(mem_new(held, sizeof *a->evidence[i], "likelihoods", &a->evidence[i], err));
    }
    TRY(map_align_create(&align, &a->aligner, err));
    /* The starts work in its memory, which nothing else uses before there is a reference. */
    if (r->reference_path == NULL) alignment_destroy(&r->alignment);
    return starts_create(&a->images, &options, a->decision.start_count, &a->starts, err);
}

static void refuse(struct initial *a, enum initial_test test) {
    if (a->decision.failed == INITIAL_ACCEPTED) a->decision.failed = test;
}

/* Says in the decision's text why nothing can be made of the images, if that is so. */
static bool is_too_little(struct initial *a) {
    struct initial_decision *d = &a->decision;
    const int least = INITIAL_LEAST / 5;
    const double diameter = a->refiner->options.diameter / d->pixel_size;
    if (a->images.count < INITIAL_LEAST)
        snprintf(d->text, sizeof d->text, "%d particles are too few: at least %d are needed", a->images.count,
                 INITIAL_LEAST);
    else if (d->parts[INITIAL_HALF_A] < least || d->parts[INITIAL_HALF_B] < least ||
             d->parts[INITIAL_HELD_OUT] < least / 2)
        snprintf(
            d->text, sizeof d->text,
            "%d particles come from too few micrographs to be divided into three parts: more micrographs are needed",
            a->images.count);
    else if (diameter < DIAMETER_LEAST)
        snprintf(d->text, sizeof d->text,
                 "the diameter is %.1f px of %.2f Å, at least %d px are needed: extract with smaller pixels", diameter,
                 d->pixel_size, DIAMETER_LEAST);
    return *d->text != 0;
}

/* The sums of starts stay in host memory: they take at most half of it. */
static void limit_starts(struct initial *a) {
    struct initial_decision *d = &a->decision;
    const double each = (double)starts_bytes(&a->images), most = host_memory(&a->refiner->options) / 2;
    while (d->start_count > STARTS_FEW && d->start_count * each > most)
        d->start_count -= SIDES;
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
    if (is_too_little(a)) {
        d->failed = INITIAL_FEW;
        d->start_count = 0;
        a->phase = COMPLETE;
        return STATUS_OK;
    }
    limit_starts(a);
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
    a->start = 0;
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

/* Finds how probable each held-out particle is with the map of a start, and how much more so than with the opposite of the
 * map, which has the same rotational average and the negative of the rest: noise has no reason to prefer either. */
static enum status judge(struct initial *a, int start, int order, struct err *err) {
    const float *map = starts_state(a->starts, start).map;
    memcpy(a->turned, map, a->voxels * sizeof *map);
    TRY(map_align_without_radial(a->images.box, a->turned, err));
    for (size_t i = 0; i < a->voxels; i++)
        a->turned[i] = map[i] - 2 * a->turned[i];
    const struct starts_judgement maps[] = {{map, INITIAL_HELD_OUT, a->evidence[start]},
                                            {a->turned, INITIAL_HELD_OUT, a->scratch}};
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

int initial_first_shell(int operators) {
    static const double VALUES = 4;
    return (int)ceil(sqrt(VALUES * operators / (2 * M_PI)));
}

void initial_summarise(const struct initial_decision *d, int operators, const float *fsc, double *ret_mean,
                       double *ret_least) {
    const double extent = d->box * d->pixel_size;
    const int first = (int)ceil(extent / d->diameter), last = (int)(extent / d->wanted);
    const int telling = initial_first_shell(operators);
    *ret_mean = 0;
    *ret_least = 1;
    for (int shell = first; shell <= last; shell++) {
        *ret_mean += (double)fsc[shell] / (last - first + 1);
        if (shell >= telling) *ret_least = fmin(*ret_least, (double)fsc[shell]);
    }
}

/* Brings `moved` onto `fixed`, and correlates their non-spherical parts: a->fsc. */
static enum status agree(struct initial *a, const float *fixed, const float *moved, struct err *err) {
    const int box = a->images.box;
    const double radius = fmin(a->refiner->options.diameter / 2 / a->images.pixel_size, box / 2 - MASK_EDGE);
    struct map_alignment found;
    TRY(map_align_find(a->aligner, fixed, moved, &found, err));
    TRY(map_align_apply(a->aligner, &found, moved, a->turned, err));
    memcpy(a->other, fixed, a->voxels * sizeof *fixed);
    mask_sphere(3, box, a->turned, radius, MASK_EDGE, 0);
    mask_sphere(3, box, a->other, radius, MASK_EDGE, 0);
    TRY(map_align_without_radial(box, a->turned, err));
    TRY(map_align_without_radial(box, a->other, err));
    return fsc_maps(NULL, box, a->other, a->turned, a->fsc, err);
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

/* Finds the correlation of a start with another one, turned onto it, without their rotational averages. */
static enum status correlate(struct initial *a, int fixed, int start, double *ret_likeness, struct err *err) {
    double products = 0, squares[2] = {0};
    TRY(agree(a, starts_state(a->starts, fixed).map, starts_state(a->starts, start).map, err));
    for (size_t i = 0; i < a->voxels; i++) {
        products += (double)a->turned[i] * (double)a->other[i];
        squares[0] += (double)a->turned[i] * (double)a->turned[i];
        squares[1] += (double)a->other[i] * (double)a->other[i];
    }
    *ret_likeness = squares[0] > 0 && squares[1] > 0 ? products / sqrt(squares[0] * squares[1]) : 0;
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
    a->start = 0;
    choose_settlers(a);
    a->phase = SETTLE;
    return STATUS_OK;
}

/* The chosen starts go on with many more of their particles, and are judged again. */
static enum status settle(struct initial *a, struct err *err) {
    const struct starts_step step = {
        .particles = SETTLED_PARTICLES, .order = FINE_ORDER, .limit = a->fine, .gain = 0.4, .fudge = 4};
    const int left = a->settler_count - a->start, most = starts_at_once(a->starts), count = left < most ? left : most;
    TRY(starts_iterate(a->starts, a->settlers + a->start, count, &step, err));
    a->done += count - 1;
    if (++a->iteration < SETTLED) return STATUS_OK;
    a->iteration = 0;
    for (int i = a->start; i < a->start + count; i++)
        TRY(judge(a, a->settlers[i], last_order(a), err));
    a->start += count;
    if (a->start == a->settler_count) a->phase = DECIDE;
    return STATUS_OK;
}

/* Finds by how many standard errors the rival is worse than the best map of its half, unless it has become the same map. */
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
    TRY(agree(a, first, second, err));
    initial_summarise(d, a->refiner->symmetry.count, a->fsc, &d->mean, &d->least);
    d->agreement = fsc_resolution(a->fsc, a->images.box, a->images.pixel_size, 0.5);
    if (!(d->mean >= AGREED && d->least >= LEAST)) refuse(a, INITIAL_AGREEMENT);
    for (int half = 0; half < SIDES; half++) {
        mean_of(a->gains[d->best[half]], held_out(a), &d->gains[half], &d->gain_deviations[half]);
        if (!(d->gains[half] > SURE * d->gain_deviations[half])) refuse(a, INITIAL_LIKELIHOOD);
    }
    return STATUS_OK;
}

static void conclude(struct initial *a) {
    initial_describe(&a->decision, AGREED, LEAST, SURE);
    a->phase = COMPLETE;
}

static enum status decide(struct initial *a, struct err *err) {
    TRY(judge_best(a, err));
    TRY(compare_rival(a, err));
    a->start = 0;
    if (a->decision.failed == INITIAL_ACCEPTED && a->decision.rival < SURE)
        a->phase = PAIR;
    else
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

enum status initial_work(struct initial *a, bool *ret_complete, struct err *err) {
    typedef enum status work(struct initial *, struct err *);
    static work *const phases[] = {gather, explore, rank, match, settle, decide, pair, contest};
    const double before = clock_monotonic();
    if (a->phase != COMPLETE) TRY(phases[a->phase](a, err));
    a->done++;
    a->decision.seconds += clock_monotonic() - before;
    *ret_complete = a->phase == COMPLETE;
    return STATUS_OK;
}

double initial_progress(const struct initial *a) {
    return a->done < a->steps ? (double)a->done / a->steps : 1;
}

const struct initial_decision *initial_decision(const struct initial *a) {
    return &a->decision;
}

const float *initial_map(const struct initial *a) {
    const struct initial_decision *d = &a->decision;
    return starts_state(a->starts, d->best[d->gains[1] > d->gains[0] ? 1 : 0]).map;
}

enum status initial_evidence(struct initial *a, const float *map, enum initial_part part, double *ret_evidence,
                             struct err *err) {
    const struct starts_judgement judgement = {map, part, ret_evidence};
    return starts_judge(a->starts, &judgement, 1, STARTS_ORDERS, a->fine, err);
}

double initial_finest(double diameter) {
    return clamp(diameter / 12, 9, 15);
}

bool initial_is_same(double mean, double least) {
    return mean >= AGREED && least >= LEAST;
}

const struct refiner *initial_refiner(const struct initial *a) {
    return a->refiner;
}
