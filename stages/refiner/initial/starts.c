#include "stages/refiner/initial/starts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/prepare/mask.h"
#include "kernels/prepare/prepare.h"
#include "stages/refiner/initial/lane.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Poses of a particle that are compared closely, in each class, and particles of a first map. */
enum { SIGNIFICANT = 80, RANDOM_PARTICLES = 500 };

/* Part by which priors follow the shares of an iteration, and the least share that counts, times the number of
 * classes. */
static const double BALANCED = 0.7, LEAST_SHARE = 0.05;

static const double BEST_POSE = 1e-6; /* of the probability: less than the best pose has */

static const double FIRST_OFFSET = 10; /* Å: of shifts, before anything is known of them */

struct start {
    int half;
    float *map;                /* [classes][box³] */
    struct accumulator **sums; /* [classes]: of all iterations; earlier ones fade */
    double *shares;            /* [classes] */
    double *priors;            /* [classes]: logarithms, by which classes are balanced */
    double sigma_offset;       /* px */
    double perturbation;
    int iterations, cursor;
    double pmax;
};

struct starts {
    struct starts_options options;
    const struct initial_images *images;
    struct fourier_pixels pixels;
    int count, classes, shells, lane_count;
    double mask_radius; /* px */
    double mask_share;  /* of the noise of an image: inside the mask */
    double offset;      /* px: of shifts, in all judgements, so that they compare; what the first start has found */
    struct start *starts;
    struct lane *lanes;
    float *noise; /* [shells]: of whole images */
};

/* Returns the next of a sequence of numbers that look like chance (splitmix64). */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state) {
    return (double)(draw(state) >> 11) * 0x1p-53;
}

/* Images are compared up to two thirds of Nyquist's frequency. */
static int last_shell(int box) {
    return box / 3;
}

double starts_finest(const struct initial_images *images) {
    return images->box * images->pixel_size / last_shell(images->box);
}

size_t starts_bytes(const struct initial_images *images) {
    return accumulator_bytes(3, 2 * last_shell(images->box));
}

static size_t voxels(const struct starts *s) {
    return (size_t)s->images->box * (size_t)s->images->box * (size_t)s->images->box;
}

static float *map_of(const struct starts *s, const struct start *start, int class) {
    return start->map + (size_t) class * voxels(s);
}

static const float *image_of(const struct starts *s, int member) {
    const size_t pixels = (size_t)s->images->box * (size_t)s->images->box;
    return s->images->values + (size_t)s->images->members[member] * pixels;
}

/* Estimates the noise as the power of the images less that of their average, per shell. Signal that images do not have
 * in common counts as noise. */
static enum status find_noise(struct starts *s, struct err *err) {
    const int box = s->images->box;
    const size_t pixels = (size_t)box * (size_t)box;
    const struct prepare_options options = {.scale = 1, .mask_radius = s->mask_radius};
    _cleanup_(mem_free) float *average = NULL;
    _cleanup_(mem_free) float *outside = NULL;
    _cleanup_(mem_free) double *sum = NULL;
    _cleanup_(mem_free) float *power = NULL;
    struct prepare *prepare = NULL;
    TRY(mem_new(pixels, sizeof *average, "the average particle", &average, err));
    TRY(mem_new(pixels, sizeof *outside, "a mask", &outside, err));
    TRY(mem_new((size_t)s->shells, sizeof *sum, "a spectrum", &sum, err));
    TRY(mem_new((size_t)s->shells, sizeof *power, "a spectrum", &power, err));
    TRY(prepare_create(box, &prepare, err));
    for (int i = 0; i < s->images->count; i++) {
        const float *image = image_of(s, i);
        prepare_image(prepare, image, &options, NULL, NULL, NULL, power);
        for (int k = 0; k < s->shells; k++)
            sum[k] += power[k] / (double)s->images->count;
        for (size_t j = 0; j < pixels; j++)
            average[j] += image[j] / (float)s->images->count;
    }
    prepare_image(prepare, average, &options, NULL, NULL, NULL, power);
    prepare_destroy(&prepare);
    prepare_mask_outside(box, s->mask_radius, outside);
    double most = 0;
    for (size_t j = 0; j < pixels; j++)
        s->mask_share += (1 - (double)outside[j]) * (1 - (double)outside[j]) / (double)pixels;
    for (int k = 0; k < s->shells; k++) {
        s->noise[k] = (float)(fmax(sum[k] - (double)power[k], 0) / s->mask_share);
        most = fmax(most, (double)s->noise[k]);
    }
    FAIL_IF(!(most > 0), err, STATUS_BAD_FORMAT, "the particles have no noise: all %d images are the same, or empty",
            s->images->count);
    for (int k = 0; k < s->shells; k++)
        s->noise[k] = fmaxf(s->noise[k], (float)(0.03 * most));
    return STATUS_OK;
}

static enum status open_starts(struct starts *s, struct err *err) {
    TRY(mem_new((size_t)s->count, sizeof *s->starts, "starts", &s->starts, err));
    for (int i = 0; i < s->count; i++) {
        struct start *start = &s->starts[i];
        start->half = i % 2 == 0 ? INITIAL_HALF_A : INITIAL_HALF_B;
        TRY(mem_new((size_t)s->classes * voxels(s), sizeof *start->map, "maps", &start->map, err));
        TRY(mem_new((size_t)s->classes, sizeof *start->shares, "classes", &start->shares, err));
        TRY(mem_new((size_t)s->classes, sizeof *start->priors, "classes", &start->priors, err));
        TRY(mem_new((size_t)s->classes, sizeof(struct accumulator *), "sums", &start->sums, err));
        for (int k = 0; k < s->classes; k++)
            TRY(accumulator_create(3, s->images->box, s->pixels.size, &start->sums[k], err));
    }
    return STATUS_OK;
}

/* A device that has no room for all lanes takes those that it has room for. */
static enum status open_lanes(struct starts *s, struct err *err) {
    const struct starts_options *o = &s->options;
    double memory;
    int wanted;
    TRY(lane_plan(o, s->count, &wanted, &memory, err));
    TRY(mem_new((size_t)wanted, sizeof *s->lanes, "starts", &s->lanes, err));
    struct alignment_options options = {.threads = wanted > 1 ? 1 : o->threads,
                                        .memory = memory,
                                        .box = s->images->box,
                                        .pixel_size = s->images->pixel_size,
                                        .mask_radius = s->mask_radius,
                                        .max_significant = SIGNIFICANT * s->classes};
    for (int i = 0; i < wanted; i++) {
        struct err own = {0};
        options.device = lane_device(o, i);
        struct lane *lane = &s->lanes[s->lane_count];
        enum status status = lane_open(s->images, &s->pixels, &options, o, lane, &own);
        if (status != STATUS_OK) lane_close(lane);
        if (status == STATUS_NO_MEMORY && s->lane_count > 0) continue;
        if (status != STATUS_OK) {
            if (err != NULL) *err = own;
            return status;
        }
        s->lane_count++;
    }
    return STATUS_OK;
}

static enum status open(struct starts *s, struct err *err) {
    const struct initial_images *images = s->images;
    s->shells = images->box / 2 + 1;
    s->mask_radius = fmin(s->options.diameter / (2 * images->pixel_size), images->box / 2 - PREPARE_MASK_EDGE);
    TRY(fourier_pixels_create(images->box, 2 * last_shell(images->box), &s->pixels, err));
    TRY(mem_new((size_t)s->shells, sizeof *s->noise, "a spectrum", &s->noise, err));
    TRY(open_starts(s, err));
    TRY(open_lanes(s, err));
    return find_noise(s, err);
}

enum status starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                          struct starts **ret_starts, struct err *err) {
    struct starts *s = calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for the starts of a map");
    s->images = images;
    s->options = *options;
    s->count = count;
    s->classes = options->classes > 1 ? options->classes : 1;
    enum status status = open(s, err);
    if (status != STATUS_OK)
        starts_destroy(&s);
    else
        *ret_starts = s;
    return status;
}

void starts_destroy(struct starts **starts) {
    struct starts *s = *starts;
    if (s == NULL) return;
    for (int i = 0; s->starts != NULL && i < s->count; i++) {
        struct start *start = &s->starts[i];
        for (int k = 0; start->sums != NULL && k < s->classes; k++)
            accumulator_destroy(&start->sums[k]);
        mem_free(&start->sums);
        mem_free(&start->map);
        mem_free(&start->shares);
        mem_free(&start->priors);
    }
    for (int i = 0; i < s->lane_count; i++)
        lane_close(&s->lanes[i]);
    fourier_pixels_destroy(&s->pixels);
    mem_free(&s->starts);
    mem_free(&s->lanes);
    mem_free(&s->noise);
    free(s);
    *starts = NULL;
}

/* Chooses particles of a half for an iteration: the next ones. All starts of the half go through them in one order,
 * each from a place of its own. */
static enum status choose(const struct starts *s, const struct start *start, int cursor, int wanted, int **ret_at,
                          int *ret_count, struct err *err) {
    const int first = s->images->begin[start->half], all = s->images->begin[start->half + 1] - first;
    const int count = wanted < all ? wanted : all;
    TRY(mem_new((size_t)count + 1, sizeof **ret_at, "particles", ret_at, err));
    for (int i = 0; i < count; i++)
        (*ret_at)[i] = first + (cursor + i) % all;
    *ret_count = count;
    return STATUS_OK;
}

/* Returns how many pixels tell the points of a coarse grid apart: a step moves the rim of the particle by `rotated` Å,
 * and finer detail does not help. */
static int coarse_pixels(const struct starts *s, const struct sampling *grid, int size) {
    const double extent = s->images->box * s->images->pixel_size;
    const double rotated = M_PI * s->options.diameter * grid->angle_step / 360;
    const int coarse = 2 * (int)ceil(1.2 * extent / rotated);
    return fourier_pixels_within(&s->pixels, coarse < size ? coarse : size);
}

static void random_pose(uint64_t *chance, double ret_pose[9]) {
    const double rot = 360 * uniform(chance), tilt = acos(2 * uniform(chance) - 1) * 180 / M_PI;
    euler_to_matrix(rot, tilt, 360 * uniform(chance), ret_pose);
}

/* Forgets what particles have given to the maps of a start. */
static enum status clear_sums(const struct starts *s, struct start *start, struct err *err) {
    start->iterations = 0;
    for (int k = 0; k < s->classes; k++) {
        start->shares[k] = 1.0 / s->classes;
        start->priors[k] = 0;
        TRY(accumulator_clear(start->sums[k], s->pixels.size, err));
    }
    return STATUS_OK;
}

/* Makes the maps of a start from its sums. The factor of the prior is RELION's, for sums weighed by the noise of masked
 * images. */
static enum status make_maps(struct starts *s, struct lane *lane, struct start *start, double fudge, struct err *err) {
    for (int k = 0; k < s->classes; k++) {
        float *map = map_of(s, start, k);
        TRY(lane_make_map(lane, start->sums[k], lane->tau2 + (size_t)k * (size_t)s->shells, fudge / s->mask_share, map,
                          err));
        mask_sphere(3, s->images->box, map, s->mask_radius, PREPARE_MASK_EDGE, 0);
    }
    return STATUS_OK;
}

static struct alignment_iteration iteration_of(const struct starts *s, double sigma_offset) {
    return (struct alignment_iteration){.pixels = &s->pixels,
                                        .coarse_pixels = s->pixels.count,
                                        .sigma_offset = sigma_offset,
                                        .sigma2 = s->noise,
                                        .optics_count = 1};
}

/* A job of a lane, one of several that are alike. */
typedef enum status lane_job(struct starts *s, struct lane *lane, const void *context, int index, struct err *err);

/* Does jobs 0 .. count − 1, as many at once as there are lanes. What a job does must not depend on its lane. */
static enum status do_jobs(struct starts *s, lane_job *job, const void *context, int count, struct err *err) {
    const int threads = count < s->lane_count ? count : s->lane_count;
    enum status first = STATUS_OK;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1)
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        enum status status = job(s, &s->lanes[threads > 1 ? omp_get_thread_num() : 0], context, i, &own);
        if (status == STATUS_OK) continue;
#pragma omp critical(icestream_starts)
        if (first == STATUS_OK) {
            first = status;
            if (err != NULL) *err = own;
        }
    }
    return first;
}

/* Compares particles with an empty map, each in a pose by chance alone: their sums are a class of the start. */
static enum status random_class(struct starts *s, struct lane *lane, struct start *start, int class, uint64_t *chance,
                                struct err *err) {
    struct sampling list = {0};
    _cleanup_(mem_free) int *at = NULL;
    _cleanup_(mem_free) double(*poses)[9] = NULL;
    int count;
    TRY(choose(s, start, start->cursor + class * RANDOM_PARTICLES, RANDOM_PARTICLES, &at, &count, err));
    TRY(mem_new((size_t)count, sizeof *poses, "poses", &poses, err));
    for (int i = 0; i < count; i++)
        random_pose(chance, poses[i]);
    memset(map_of(s, start, class), 0, voxels(s) * sizeof *start->map);
    TRY(lane_set_maps(lane, map_of(s, start, class), 1, s->pixels.size, err));
    TRY(sampling_create_list((const double(*)[9])poses, count, &list, err));
    struct alignment_iteration iteration = iteration_of(s, start->sigma_offset);
    iteration.sampling = &list;
    iteration.local = iteration.given_poses = true;
    enum status status = lane_compare(lane, &iteration, at, count, err);
    sampling_destroy(&list);
    TRY(status);
    return accumulator_merge(start->sums[class], lane->sums[0], err);
}

static enum status random_maps(struct starts *s, struct lane *lane, const void *context, int job, struct err *err) {
    const int index = ((const int *)context)[job];
    struct start *start = &s->starts[index];
    uint64_t chance = (uint64_t)s->options.seed * 0x2545f4914f6cdd1du + (uint64_t)index;
    draw(&chance);
    start->sigma_offset = FIRST_OFFSET / s->images->pixel_size;
    start->perturbation = uniform(&chance) - 0.5;
    start->cursor = (int)(1e6 * uniform(&chance));
    TRY(clear_sums(s, start, err));
    for (int k = 0; k < s->classes; k++)
        TRY(random_class(s, lane, start, k, &chance, err));
    for (int k = 0; k < s->classes * s->shells; k++)
        lane->tau2[k] = 0.1f * s->noise[k % s->shells];
    return make_maps(s, lane, start, 1, err);
}

enum status starts_random(struct starts *s, const int *which, int count, struct err *err) {
    return do_jobs(s, random_maps, which, count, err);
}

/* Averages what the particles of an iteration have found. gain: its share beside earlier ones. */
static void average_results(const struct starts *s, struct start *start, const struct alignment_result *results,
                            int count, double gain) {
    double offset2 = 0, weight = 0;
    start->pmax = 0;
    for (int i = 0; i < count; i++) {
        offset2 += results[i].offset2;
        weight += results[i].weight_sum;
        start->pmax += results[i].pmax / count;
    }
    if (weight > 0) start->sigma_offset = 0.7 * start->sigma_offset + 0.3 * fmax(sqrt(offset2 / (2 * weight)), 1);
    for (int k = 0; k < s->classes && s->classes > 1 && weight > 0; k++) {
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += (double)results[i].reference_weights[k];
        start->shares[k] += gain * (sum / weight - start->shares[k]);
        start->priors[k] -= BALANCED * log(fmax(sum / weight * s->classes, LEAST_SHARE));
    }
}

enum status starts_give(struct starts *s, int index, const float *maps, struct err *err) {
    struct start *start = &s->starts[index];
    memcpy(start->map, maps, (size_t)s->classes * voxels(s) * sizeof *maps);
    start->sigma_offset = FIRST_OFFSET / s->images->pixel_size;
    start->cursor = 0;
    return clear_sums(s, start, err);
}

/* Returns the Fourier size (px) for detail down to a limit. */
static int size_for(const struct starts *s, double limit) {
    const int size = 2 * (int)ceil(s->images->box * s->images->pixel_size / limit);
    return size < s->pixels.size ? size : s->pixels.size;
}

struct iterated {
    const int *which;
    const struct starts_step *step;
};

static enum status iterate(struct starts *s, struct lane *lane, const void *context, int job, struct err *err) {
    const struct iterated *all = context;
    const struct starts_step *step = all->step;
    const int index = all->which[job], size = size_for(s, step->limit);
    struct start *start = &s->starts[index];
    struct sampling *grid = &lane->grids[step->order - 1];
    int count;
    _cleanup_(mem_free) int *at = NULL;
    uint64_t chance = (uint64_t)s->options.seed + ((uint64_t)index << 32) + (uint64_t)start->iterations;
    start->perturbation = sampling_next_perturbation(start->perturbation, uniform(&chance));
    sampling_perturb(grid, start->perturbation);
    TRY(choose(s, start, start->cursor, step->particles, &at, &count, err));
    start->cursor += count;
    TRY(lane_set_maps(lane, start->map, s->classes, size, err));
    for (int k = 0; k < s->classes; k++) /* the prior: the power of the map that is compared */
        TRY(projector_power(lane->projectors[k], lane->tau2 + (size_t)k * (size_t)s->shells, err));
    struct alignment_iteration iteration = iteration_of(s, start->sigma_offset);
    iteration.sampling = grid;
    iteration.coarse_pixels = coarse_pixels(s, grid, size);
    iteration.oversampled = true;
    iteration.summed = 0.98;
    for (int k = 0; k < s->classes && step->balance; k++)
        lane->log_prior[k] = (float)start->priors[k];
    TRY(lane_compare(lane, &iteration, at, count, err));
    average_results(s, start, lane->results, count, step->gain);
    if (start == s->starts) s->offset = start->sigma_offset; /* no other job has this start */
    for (int k = 0; k < s->classes; k++) {
        TRY(accumulator_scale(start->sums[k], 1 - step->gain, err));
        TRY(accumulator_merge(start->sums[k], lane->sums[k], err));
    }
    start->iterations++;
    return make_maps(s, lane, start, step->fudge, err);
}

enum status starts_iterate(struct starts *s, const int *which, int count, const struct starts_step *step,
                           struct err *err) {
    const struct iterated all = {which, step};
    return do_jobs(s, iterate, &all, count, err);
}

struct judged {
    const struct starts_judgement *maps;
    int order;
    double limit, sigma_offset;
};

static enum status judge(struct starts *s, struct lane *lane, const void *context, int job, struct err *err) {
    const struct judged *all = context;
    const struct starts_judgement *given = &all->maps[job];
    const int first = s->images->begin[given->part], count = s->images->begin[given->part + 1] - first;
    const int size = size_for(s, all->limit);
    struct sampling *grid = &lane->grids[all->order - 1];
    _cleanup_(mem_free) int *at = NULL;
    TRY(mem_new((size_t)count + 1, sizeof *at, "particles", &at, err));
    for (int i = 0; i < count; i++)
        at[i] = first + i;
    sampling_perturb(grid, 0);
    TRY(lane_set_maps(lane, given->map, 1, size, err));
    struct alignment_iteration iteration = iteration_of(s, all->sigma_offset);
    iteration.sampling = grid;
    iteration.coarse_pixels = coarse_pixels(s, grid, size);
    iteration.oversampled = true;
    iteration.summed = BEST_POSE; /* nobody asks for the sums */
    TRY(lane_compare(lane, &iteration, at, count, err));
    for (int i = 0; i < count; i++)
        given->ret_gains[i] = lane->results[i].evidence;
    return STATUS_OK;
}

enum status starts_judge(struct starts *s, const struct starts_judgement *maps, int count, int order, double limit,
                         struct err *err) {
    const struct judged all = {maps, order, limit, fmax(s->offset, 1)};
    return do_jobs(s, judge, &all, count, err);
}

int starts_at_once(const struct starts *s) {
    return s->lane_count;
}

struct starts_state starts_state(const struct starts *s, int index) {
    const struct start *start = &s->starts[index];
    return (struct starts_state){.half = start->half, .map = start->map, .shares = start->shares, .pmax = start->pmax};
}
