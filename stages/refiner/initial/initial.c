#include "stages/refiner/initial/initial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"

/* Particles that are looked at; iterations of a start, and the particles of each. */
enum { PARTICLES_MOST = 4096, EXPLORED = 30, EXPLORED_PARTICLES = 150, SETTLED = 12, SETTLED_PARTICLES = 300 };
/* Starts; of a point group with so many operators more, which cost less. */
enum { STARTS_FEW = 4, STARTS_SYMMETRIC = 12, SYMMETRIC = 4, FIRST_ATTEMPT = 1000 };
enum { FIRST_OF_GROUP = 300, EDGE = 5, SIDES = 2 };
static const double SURE = 3;     /* standard errors */
static const double AGREED = 0.7; /* mean FSC of two maps that are the same */
static const double WANTED = 1.3; /* times the finest detail that is compared */
static const double RIVAL = 2;    /* times as coarse: a start that agrees up to there is no rival */

/* What comes next. */
enum phase { GATHER, EXPLORE, RANK, SETTLE, RIVALS, DECIDE, COMPLETE };

struct initial {
    struct refiner *refiner;
    int threads;
    struct initial_images images;
    struct starts *starts;
    struct map_aligner *aligner;
    enum phase phase;
    int start, iteration, done, steps;
    double coarse, fine; /* Å: limits of the first and of the last iteration */
    size_t voxels;
    float *maps[2];        /* of the best of A and of B, at the end */
    float *turned, *other; /* box³: scratch */
    float *fsc;
    double *gains[INITIAL_STARTS_MOST]; /* [held out]: of each start, over its opposite (judge) */
    double *scratch;                    /* [held out] */
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
    a->coarse = clamp(diameter / 6, 15, 35);
    a->fine = clamp(diameter / 12, 9, 15);
    struct initial_decision *d = &a->decision;
    d->present = refiner_particles(r);
    d->start_count = r->symmetry.count >= SYMMETRIC ? STARTS_SYMMETRIC : STARTS_FEW;
    d->wanted = clamp(diameter / 9, 12, 22);
    d->lowpass = fmin(r->options.initial_lowpass, clamp(diameter / 5, 20, 40));
    d->rival = NAN;
    d->agreement = d->finest = 999;
    a->steps = 1 + d->start_count * (EXPLORED + 2) + SIDES * SETTLED + 1;
    *ret_initial = a;
    return STATUS_OK;
}

void initial_destroy(struct initial **initial) {
    struct initial *a = *initial;
    if (a == NULL) return;
    starts_destroy(&a->starts);
    initial_images_destroy(&a->images);
    map_align_destroy(&a->aligner);
    for (int i = 0; i < INITIAL_STARTS_MOST; i++)
        mem_free(&a->gains[i]);
    void *owned[] = {a->maps[0], a->maps[1], a->turned, a->other, a->fsc, a->scratch};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(a);
    *initial = NULL;
}

static enum status open(struct initial *a, struct err *err) {
    struct refiner *r = a->refiner;
    const size_t box = (size_t)a->images.box, held = (size_t)held_out(a) + 1;
    const struct starts_options options = {.device = {.kind = DEVICE_CPU},
                                           .threads = a->threads,
                                           .memory = 4,
                                           .diameter = r->options.diameter,
                                           .symmetry = &r->symmetry,
                                           .seed = r->options.seed};
    const struct map_align_options align = {
        .box = a->images.box,
        .pixel_size = a->images.pixel_size,
        .diameter = fmin(r->options.diameter, ((double)a->images.box - 2 * EDGE) * a->images.pixel_size),
        .coarsest = r->options.diameter / 2,
        .finest = a->decision.wanted,
        .hands = true,
        .symmetry = &r->symmetry,
        .threads = a->threads};
    a->voxels = box * box * box;
    for (int half = 0; half < SIDES; half++)
        TRY(mem_new(a->voxels, sizeof *a->maps[half], "a map", &a->maps[half], err));
    TRY(mem_new(a->voxels, sizeof *a->turned, "a map", &a->turned, err));
    TRY(mem_new(a->voxels, sizeof *a->other, "a map", &a->other, err));
    TRY(mem_new(box / 2 + 1, sizeof *a->fsc, "a curve", &a->fsc, err));
    TRY(mem_new(held, sizeof *a->scratch, "likelihoods", &a->scratch, err));
    for (int i = 0; i < a->decision.start_count; i++)
        TRY(mem_new(held, sizeof *a->gains[i], "likelihoods", &a->gains[i], err));
    TRY(map_align_create(&align, &a->aligner, err));
    return starts_create(&a->images, &options, a->decision.start_count, &a->starts, err);
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
    const int least = INITIAL_LEAST / 5;
    if (a->images.count < INITIAL_LEAST || d->parts[INITIAL_HALF_A] < least || d->parts[INITIAL_HALF_B] < least ||
        d->parts[INITIAL_HELD_OUT] < least / 2) {
        refuse(a, INITIAL_FEW);
        snprintf(d->text, sizeof d->text, "%zu particles are too few: at least %d, of several micrographs, are needed",
                 d->particles, INITIAL_LEAST);
        a->phase = COMPLETE;
        return STATUS_OK;
    }
    a->phase = EXPLORE;
    return open(a, err);
}

/* Returns an iteration of the exploration, which goes from `coarse` to `fine`. */
static struct starts_step explore_step(const struct initial *a) {
    const double x = (double)a->iteration / (EXPLORED - 1), limit = 1 / ((1 - x) / a->coarse + x / a->fine);
    return (struct starts_step){.particles = EXPLORED_PARTICLES,
                                .order = limit > a->refiner->options.diameter / 8 ? 1 : 2,
                                .limit = limit,
                                .gain = 0.5,
                                .noise = 1,
                                .fudge = 1 + 3 * x};
}

static enum status explore(struct initial *a, struct err *err) {
    const struct starts_step step = explore_step(a);
    if (a->iteration == 0) TRY(starts_random(a->starts, a->start, err));
    TRY(starts_iterate(a->starts, a->start, &step, err));
    if (++a->iteration < EXPLORED) return STATUS_OK;
    a->iteration = 0;
    if (++a->start < a->decision.start_count) return STATUS_OK;
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

/* Finds how much more probable each held-out particle is with a map than with its opposite, which has the same rotational
 * average and the negative of the rest: noise has no reason to prefer either. */
static enum status judge(struct initial *a, const float *map, double *ret_gains, struct err *err) {
    memcpy(a->turned, map, a->voxels * sizeof *map);
    TRY(map_align_without_radial(a->images.box, a->turned, err));
    for (size_t i = 0; i < a->voxels; i++)
        a->turned[i] = map[i] - 2 * a->turned[i];
    TRY(starts_judge(a->starts, map, INITIAL_HELD_OUT, 2, a->fine, ret_gains, err));
    TRY(starts_judge(a->starts, a->turned, INITIAL_HELD_OUT, 2, a->fine, a->scratch, err));
    for (int i = 0; i < held_out(a); i++)
        ret_gains[i] -= a->scratch[i];
    return STATUS_OK;
}

static enum status rank(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    struct initial_start *start = &d->starts[a->start];
    const struct starts_state state = starts_state(a->starts, a->start);
    TRY(judge(a, state.map, a->gains[a->start], err));
    mean_of(a->gains[a->start], held_out(a), &start->gain, &start->deviation);
    start->half = state.half;
    start->pmax = state.pmax;
    if (++a->start < d->start_count) return STATUS_OK;
    for (int half = 0; half < SIDES; half++) {
        d->best[half] = half;
        for (int i = half; i < d->start_count; i += SIDES)
            if (d->starts[i].gain > d->starts[d->best[half]].gain) d->best[half] = i;
    }
    a->start = 0;
    a->phase = SETTLE;
    return STATUS_OK;
}

/* The best start of each half goes on, with many more of its particles. */
static enum status settle(struct initial *a, struct err *err) {
    const int best = a->decision.best[a->start];
    const struct starts_step step = {
        .particles = SETTLED_PARTICLES, .order = 2, .limit = a->fine, .gain = 0.4, .noise = 1, .fudge = 4};
    /* Its map after the exploration is the one to compare with those of the others. */
    if (a->iteration == 0) memcpy(a->maps[a->start], starts_state(a->starts, best).map, a->voxels * sizeof *a->maps[0]);
    TRY(starts_iterate(a->starts, best, &step, err));
    if (++a->iteration < SETTLED) return STATUS_OK;
    a->iteration = 0;
    if (++a->start < SIDES) return STATUS_OK;
    a->start = 0;
    a->phase = RIVALS;
    return STATUS_OK;
}

/* Returns the mean of the last curve over shells up to `finest` Å. */
static double mean_agreement(const struct initial *a, double finest) {
    const double extent = a->images.box * a->images.pixel_size;
    const int first = (int)ceil(extent / a->refiner->options.diameter), last = (int)(extent / finest);
    double sum = 0;
    for (int shell = first; shell <= last; shell++)
        sum += a->fsc[shell] / (double)(last - first + 1);
    return last >= first ? sum : 0;
}

/* Brings `moved` onto `fixed`, and correlates their non-spherical parts: a->fsc. */
static enum status agree(struct initial *a, const float *fixed, const float *moved, struct err *err) {
    const int box = a->images.box;
    const double radius = fmin(a->refiner->options.diameter / 2 / a->images.pixel_size, box / 2 - EDGE);
    struct map_alignment found;
    TRY(map_align_find(a->aligner, fixed, moved, &found, err));
    TRY(map_align_apply(a->aligner, &found, moved, a->turned, err));
    memcpy(a->other, fixed, a->voxels * sizeof *fixed);
    mask_sphere(3, box, a->turned, radius, EDGE, 0);
    mask_sphere(3, box, a->other, radius, EDGE, 0);
    TRY(map_align_without_radial(box, a->turned, err));
    TRY(map_align_without_radial(box, a->other, err));
    return fsc_maps(NULL, box, a->other, a->turned, a->fsc, err);
}

static int better_half(const struct initial_decision *d) {
    return d->starts[d->best[1]].gain > d->starts[d->best[0]].gain ? 1 : 0;
}

/* Finds whether a start is the same map as the best, and if not, by how many standard errors it is worse. */
static enum status look_for_rivals(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    const int half = better_half(d), best = d->best[half], i = a->start;
    const float *own = i == d->best[1 - half] ? a->maps[1 - half] : starts_state(a->starts, i).map;
    double mean, deviation;
    if (i != best) TRY(agree(a, a->maps[half], own, err));
    /* A start that has not come as far is the same map if it agrees as far as it goes. */
    d->starts[i].alike = i == best || mean_agreement(a, RIVAL * d->wanted) >= AGREED;
    for (int j = 0; j < held_out(a); j++)
        a->scratch[j] = a->gains[best][j] - a->gains[i][j];
    mean_of(a->scratch, held_out(a), &mean, &deviation);
    const double worse = deviation > 0 ? mean / deviation : 0;
    if (!d->starts[i].alike && !(d->rival <= worse)) d->rival = worse;
    if (++a->start == d->start_count) a->phase = DECIDE;
    return STATUS_OK;
}

static void describe(struct initial_decision *d) {
    char *text = d->text;
    const size_t size = sizeof d->text;
    switch (d->failed) {
    case INITIAL_ACCEPTED:
        snprintf(text, size,
                 "maps of independent halves of %zu particles agree: mean FSC %.2f up to %.1f Å; the hand is not known",
                 d->particles, d->mean, d->wanted);
        break;
    case INITIAL_AGREEMENT:
        snprintf(
            text, size,
            "the best maps of independent halves of %zu particles do not agree: mean FSC %.2f up to %.1f Å (%.2f is "
            "wanted), below 0.143 at %.1f Å",
            d->particles, d->mean, d->wanted, AGREED, d->finest);
        break;
    case INITIAL_LIKELIHOOD:
        snprintf(text, size,
                 "particles that were held out fit the map no better than its opposite: %.2f ± %.2f and "
                 "%.2f ± %.2f",
                 d->gains[0], d->gain_deviations[0], d->gains[1], d->gain_deviations[1]);
        break;
    case INITIAL_RIVALS:
        snprintf(
            text, size,
            "two different maps explain the particles alike: the other one is worse by %.1f standard errors, %.0f are "
            "wanted",
            d->rival, SURE);
        break;
    case INITIAL_FEW:
        break; /* said already */
    }
}

static enum status decide(struct initial *a, struct err *err) {
    struct initial_decision *d = &a->decision;
    const float *first = starts_state(a->starts, d->best[0]).map, *second = starts_state(a->starts, d->best[1]).map;
    TRY(agree(a, first, second, err));
    d->mean = mean_agreement(a, d->wanted);
    d->agreement = fsc_resolution(a->fsc, a->images.box, a->images.pixel_size, 0.5);
    d->finest = fsc_resolution(a->fsc, a->images.box, a->images.pixel_size, 0.143);
    for (int half = 0; half < SIDES; half++) {
        double *gains = a->gains[d->best[half]];
        memcpy(a->maps[half], half == 0 ? first : second, a->voxels * sizeof *first);
        TRY(judge(a, a->maps[half], gains, err));
        mean_of(gains, held_out(a), &d->gains[half], &d->gain_deviations[half]);
        if (!(d->gains[half] > SURE * d->gain_deviations[half])) refuse(a, INITIAL_LIKELIHOOD);
    }
    if (!(d->mean >= AGREED && d->finest <= d->wanted)) {
        d->failed = INITIAL_AGREEMENT;
    } else if (d->rival < SURE) {
        refuse(a, INITIAL_RIVALS);
    }
    describe(d);
    a->phase = COMPLETE;
    return STATUS_OK;
}

enum status initial_work(struct initial *a, bool *ret_complete, struct err *err) {
    typedef enum status work(struct initial *, struct err *);
    static work *const phases[] = {gather, explore, rank, settle, look_for_rivals, decide};
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
    return a->maps[a->decision.gains[1] > a->decision.gains[0] ? 1 : 0];
}

const struct refiner *initial_refiner(const struct initial *a) {
    return a->refiner;
}
