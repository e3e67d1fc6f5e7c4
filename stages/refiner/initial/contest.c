#include "stages/refiner/initial/contest.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "stages/refiner/resample.h"

static const double HELD = 0.99; /* share of a map's density inside the sphere of the contest */
/* Iterations of a map, and the particles of each. */
enum { ITERATIONS = 10, ITERATION_PARTICLES = 300, MAPS = CONTEST_FAMILIES * CONTEST_HALVES };

struct contest {
    struct contest_options options;
    struct initial_images images;
    struct starts *starts; /* family · 2 + half: even ones improve with half A */
    bool has[MAPS];
    int map, iteration;
    double *evidence[MAPS]; /* [held out] */
    double *preference;     /* [held out]: for the first family */
    struct contest_result result;
};

static int held_out(const struct contest *c) {
    return c->images.begin[INITIAL_PARTS] - c->images.begin[INITIAL_HELD_OUT];
}

/* Returns the diameter of the sphere that holds nearly all density of a map, Å: that of shells denser than the solvent. */
static double extent_of(const struct contest_options *o, const float *map, double *shells) {
    const int n = o->box, half = n / 2;
    double all = 0, sum = 0;
    for (int i = 0; i < half; i++)
        shells[i] = 0;
    for (int z = -half; z < n - half; z++)
        for (int y = -half; y < n - half; y++)
            for (int x = -half; x < n - half; x++, map++) {
                const int shell = (int)sqrt((double)(x * x + y * y + z * z));
                if (shell < half) shells[shell] += (double)*map;
            }
    for (int i = 0; i < half; i++)
        all += fmax(shells[i], 0);
    for (int i = 0; i < half; i++) {
        const double here = fmax(shells[i], 0);
        if (here > 0 && sum + here >= HELD * all) return 2 * o->pixel_size * (i + (HELD * all - sum) / here);
        sum += here;
    }
    return n * o->pixel_size;
}

/* Finds the sphere of the contest: as wide as the maps of the first family, and no wider than before. */
static enum status find_diameter(struct contest *c, const float *const maps[CONTEST_HALVES], struct err *err) {
    _cleanup_(mem_free) double *shells = NULL;
    double widest = 0;
    TRY(mem_new((size_t)c->options.box, sizeof *shells, "a profile", &shells, err));
    for (int half = 0; half < CONTEST_HALVES; half++)
        if (maps[half] != NULL) widest = fmax(widest, extent_of(&c->options, maps[half], shells));
    c->result.diameter = fmin(widest, c->options.starts->diameter);
    return STATUS_OK;
}

/* Gives the maps to the starts. Projections sum voxels: smaller ones hold less. */
static enum status give(struct contest *c, const float *const maps[CONTEST_FAMILIES][CONTEST_HALVES], struct err *err) {
    const struct initial_images *images = &c->images;
    const size_t box = (size_t)images->box;
    const float scale = (float)(images->pixel_size / c->options.pixel_size);
    _cleanup_(mem_free) float *map = NULL;
    TRY(mem_new(box * box * box, sizeof *map, "a map", &map, err));
    for (int i = 0; i < MAPS; i++) {
        const float *given = maps[i / CONTEST_HALVES][i % CONTEST_HALVES];
        c->has[i] = given != NULL;
        if (!c->has[i]) continue;
        TRY(resample_map(given, c->options.box, c->options.pixel_size, images->box, images->pixel_size, map, err));
        for (size_t j = 0; j < box * box * box; j++)
            map[j] *= scale;
        TRY(starts_give(c->starts, i, map, err));
    }
    return STATUS_OK;
}

static enum status open(struct contest *c, const float *const maps[CONTEST_FAMILIES][CONTEST_HALVES], struct err *err) {
    const struct contest_options *options = &c->options;
    TRY(initial_images_gather(options->refiner, options->most, options->finest, &c->images, err));
    const size_t held = (size_t)held_out(c) + 1;
    c->result.limit = fmax(options->finest, starts_finest(&c->images));
    TRY(find_diameter(c, maps[0], err));
    struct starts_options starts = *options->starts;
    starts.diameter = c->result.diameter;
    TRY(starts_create(&c->images, &starts, MAPS, &c->starts, err));
    for (int i = 0; i < MAPS; i++)
        TRY(mem_new(held, sizeof *c->evidence[i], "likelihoods", &c->evidence[i], err));
    TRY(mem_new(held, sizeof *c->preference, "likelihoods", &c->preference, err));
    return give(c, maps, err);
}

enum status contest_create(const struct contest_options *options,
                           const float *const maps[CONTEST_FAMILIES][CONTEST_HALVES], struct contest **ret_contest,
                           struct err *err) {
    struct contest *c = calloc(1, sizeof *c);
    FAIL_IF(c == NULL, err, STATUS_NO_MEMORY, "no memory for a contest of maps");
    c->options = *options;
    enum status status = open(c, maps, err);
    if (status != STATUS_OK)
        contest_destroy(&c);
    else
        *ret_contest = c;
    return status;
}

void contest_destroy(struct contest **contest) {
    struct contest *c = *contest;
    if (c == NULL) return;
    starts_destroy(&c->starts);
    initial_images_destroy(&c->images);
    for (int i = 0; i < MAPS; i++)
        mem_free(&c->evidence[i]);
    mem_free(&c->preference);
    free(c);
    *contest = NULL;
}

int contest_steps(const struct contest *c) {
    int maps = 0;
    for (int i = 0; i < MAPS; i++)
        maps += c->has[i];
    return maps * ITERATIONS;
}

/* Compares the families on each held-out particle, by the halves that have both, and then on all. */
static void decide(struct contest *c) {
    const int count = held_out(c);
    double mean = 0, squares = 0;
    for (int half = 0; half < CONTEST_HALVES; half++) {
        if (!c->has[half] || !c->has[CONTEST_HALVES + half]) continue;
        for (int i = 0; i < count; i++)
            c->preference[i] += c->evidence[half][i] - c->evidence[CONTEST_HALVES + half][i];
    }
    for (int i = 0; i < count; i++)
        mean += c->preference[i] / count;
    for (int i = 0; i < count; i++)
        squares += (c->preference[i] - mean) * (c->preference[i] - mean);
    const double deviation = sqrt(squares / fmax(count - 1, 1) / count);
    c->result.verdict = deviation > 0 ? mean / deviation : 0;
}

enum status contest_work(struct contest *c, bool *ret_complete, struct err *err) {
    const struct starts_step step = {
        .particles = ITERATION_PARTICLES, .order = 2, .limit = c->result.limit, .gain = 0.4, .fudge = 4};
    *ret_complete = false;
    while (c->map < MAPS && !c->has[c->map])
        c->map++;
    TRY(starts_iterate(c->starts, &c->map, 1, &step, err));
    if (++c->iteration < ITERATIONS) return STATUS_OK;
    c->iteration = 0;
    const struct starts_judgement judgement = {starts_state(c->starts, c->map).map, INITIAL_HELD_OUT,
                                               c->evidence[c->map]};
    TRY(starts_judge(c->starts, &judgement, 1, c->options.order, c->result.limit, err));
    do
        c->map++;
    while (c->map < MAPS && !c->has[c->map]);
    *ret_complete = c->map == MAPS;
    if (*ret_complete) decide(c);
    return STATUS_OK;
}

struct contest_result contest_result(const struct contest *c) {
    return c->result;
}

enum status contest_map(const struct contest *c, int family, int half, float *ret_map, struct err *err) {
    const struct contest_options *o = &c->options;
    const size_t box = (size_t)o->box;
    const float scale = (float)(o->pixel_size / c->images.pixel_size);
    TRY(resample_map(starts_state(c->starts, family * CONTEST_HALVES + half).map, c->images.box, c->images.pixel_size,
                     o->box, o->pixel_size, ret_map, err));
    for (size_t i = 0; i < box * box * box; i++)
        ret_map[i] *= scale;
    return STATUS_OK;
}
