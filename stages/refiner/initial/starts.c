#include "stages/refiner/initial/starts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/alignment.h"
#include "kernels/fsc/fsc.h"
#include "kernels/prepare/mask.h"
#include "kernels/prepare/prepare.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"

/* Poses of a particle that are compared closely, and particles of a first map. */
enum { SIGNIFICANT = 80, RANDOM_PARTICLES = 500 };

static const double FIRST_OFFSET = 10; /* Å: of shifts, before anything is known of them */

struct start {
    int half;
    float *map;                          /* box³ */
    struct accumulator *sums, *new_sums; /* of all iterations; of the last one */
    double sigma_offset;                 /* px */
    double perturbation;
    int iterations, cursor;
    double pmax;
};

struct starts {
    struct starts_options options;
    const struct initial_images *images;
    struct alignment *alignment;
    struct fourier_pixels pixels;
    struct projector *projector;
    struct sampling grids[STARTS_ORDERS]; /* by order, from 1 on */
    int count, shells;
    double mask_radius; /* px */
    double mask_share;  /* of the noise of an image: inside the mask */
    struct start *starts;
    float *noise; /* [shells]: of whole images */
    float *tau2;  /* [shells] */
    int room;
    struct alignment_particle *particles; /* [room] */
    struct alignment_result *results;     /* [room] */
    float *powers;                        /* [room][shells] */
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

static size_t voxels(const struct starts *s) {
    return (size_t)s->images->box * (size_t)s->images->box * (size_t)s->images->box;
}

static const float *image_of(const struct starts *s, int member) {
    const size_t pixels = (size_t)s->images->box * (size_t)s->images->box;
    return s->images->values + (size_t)s->images->members[member] * pixels;
}

/* Estimates the noise as the power of the images less that of their average, per shell. Signal that images do not have in
 * common counts as noise. */
static enum status find_noise(struct starts *s, struct err *err) {
    const int box = s->images->box;
    const size_t pixels = (size_t)box * (size_t)box;
    const struct prepare_options options = {.scale = 1, .mask_radius = s->mask_radius};
    _cleanup_(mem_free) float *average = NULL;
    _cleanup_(mem_free) float *outside = NULL;
    _cleanup_(mem_free) double *sum = NULL;
    struct prepare *prepare = NULL;
    TRY(mem_new(pixels, sizeof *average, "the average particle", &average, err));
    TRY(mem_new(pixels, sizeof *outside, "a mask", &outside, err));
    TRY(mem_new((size_t)s->shells, sizeof *sum, "a spectrum", &sum, err));
    TRY(prepare_create(box, &prepare, err));
    for (int i = 0; i < s->images->count; i++) {
        const float *image = image_of(s, i);
        prepare_image(prepare, image, &options, NULL, NULL, NULL, s->tau2);
        for (int k = 0; k < s->shells; k++)
            sum[k] += s->tau2[k] / (double)s->images->count;
        for (size_t j = 0; j < pixels; j++)
            average[j] += image[j] / (float)s->images->count;
    }
    prepare_image(prepare, average, &options, NULL, NULL, NULL, s->tau2);
    prepare_destroy(&prepare);
    prepare_mask_outside(box, s->mask_radius, outside);
    double most = 0;
    for (size_t j = 0; j < pixels; j++)
        s->mask_share += (1 - (double)outside[j]) * (1 - (double)outside[j]) / (double)pixels;
    for (int k = 0; k < s->shells; k++) {
        s->noise[k] = (float)(fmax(sum[k] - (double)s->tau2[k], 0) / s->mask_share);
        most = fmax(most, (double)s->noise[k]);
    }
    FAIL_IF(!(most > 0), err, STATUS_BAD_FORMAT, "the particles have no noise: all %d images are the same, or empty",
            s->images->count);
    for (int k = 0; k < s->shells; k++)
        s->noise[k] = fmaxf(s->noise[k], (float)(0.03 * most));
    return STATUS_OK;
}

static enum status open_grids(struct starts *s, struct err *err) {
    for (int i = 0; i < STARTS_ORDERS; i++)
        TRY(sampling_create(i + 1, s->options.symmetry, 0.1 * s->options.diameter / s->images->pixel_size, 2,
                            &s->grids[i], err));
    return STATUS_OK;
}

static enum status open_starts(struct starts *s, struct err *err) {
    TRY(mem_new((size_t)s->count, sizeof *s->starts, "starts", &s->starts, err));
    for (int i = 0; i < s->count; i++) {
        struct start *start = &s->starts[i];
        start->half = i % 2 == 0 ? INITIAL_HALF_A : INITIAL_HALF_B;
        TRY(mem_new(voxels(s), sizeof *start->map, "a map", &start->map, err));
        TRY(accumulator_create(3, s->images->box, s->pixels.size, &start->sums, err));
        TRY(accumulator_create(3, s->images->box, s->pixels.size, &start->new_sums, err));
    }
    return STATUS_OK;
}

static enum status open(struct starts *s, struct err *err) {
    const struct initial_images *images = s->images;
    s->shells = images->box / 2 + 1;
    s->mask_radius = fmin(s->options.diameter / (2 * images->pixel_size), images->box / 2 - PREPARE_MASK_EDGE);
    const struct alignment_options options = {.device = s->options.device,
                                              .threads = s->options.threads,
                                              .memory = s->options.memory * 0x1p30,
                                              .box = images->box,
                                              .pixel_size = images->pixel_size,
                                              .mask_radius = s->mask_radius,
                                              .max_significant = SIGNIFICANT};
    TRY(alignment_create(&options, &s->alignment, err));
    TRY(fourier_pixels_create(images->box, 2 * last_shell(images->box), &s->pixels, err));
    TRY(projector_create(3, images->box, s->options.threads, &s->projector, err));
    TRY(mem_new((size_t)s->shells, sizeof *s->noise, "a spectrum", &s->noise, err));
    TRY(mem_new((size_t)s->shells, sizeof *s->tau2, "a spectrum", &s->tau2, err));
    TRY(open_grids(s, err));
    TRY(open_starts(s, err));
    return find_noise(s, err);
}

enum status starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                          struct starts **ret_starts, struct err *err) {
    struct starts *s = calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for the starts of a map");
    s->images = images;
    s->options = *options;
    s->count = count;
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
        mem_free(&s->starts[i].map);
        accumulator_destroy(&s->starts[i].sums);
        accumulator_destroy(&s->starts[i].new_sums);
    }
    for (int i = 0; i < STARTS_ORDERS; i++)
        sampling_destroy(&s->grids[i]);
    alignment_destroy(&s->alignment);
    projector_destroy(&s->projector);
    fourier_pixels_destroy(&s->pixels);
    void *owned[] = {s->starts, s->noise, s->tau2, s->particles, s->results, s->powers};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(s);
    *starts = NULL;
}

static enum status reserve(struct starts *s, int count, struct err *err) {
    if (count <= s->room) return STATUS_OK;
    s->room = 0;
    mem_free(&s->particles);
    mem_free(&s->results);
    mem_free(&s->powers);
    TRY(mem_new((size_t)count, sizeof *s->particles, "particles", &s->particles, err));
    TRY(mem_new((size_t)count, sizeof *s->results, "particles", &s->results, err));
    TRY(mem_new((size_t)count * (size_t)s->shells, sizeof *s->powers, "spectra", &s->powers, err));
    s->room = count;
    return STATUS_OK;
}

/* Prepares the comparison of one image, by its place in members. */
static void take(struct starts *s, int member, int place) {
    const int index = s->images->members[member];
    s->particles[place] =
        (struct alignment_particle){.image = image_of(s, member),
                                    .ctf = s->images->with_ctf[index] ? &s->images->ctfs[index] : NULL,
                                    .scale = 1,
                                    .residual = -1,
                                    .number = index + 1};
    s->results[place].power = s->powers + (size_t)place * (size_t)s->shells;
}

/* Compares members at[count] with the map that the projector has. What is found lies in the results. */
static enum status compare(struct starts *s, const struct alignment_iteration *iteration, const int *at, int count,
                           struct err *err) {
    TRY(alignment_begin(s->alignment, iteration, err));
    TRY(reserve(s, count, err));
    for (int i = 0; i < count; i++) {
        take(s, at[i], i);
        s->particles[i].orientation = i;
    }
    const int most = alignment_batch(s->alignment);
    for (int first = 0, part; first < count; first += part) {
        part = count - first < most ? count - first : most;
        TRY(alignment_add(s->alignment, s->particles + first, part, s->results + first, err));
    }
    return alignment_finish(s->alignment, err);
}

/* Chooses particles of a half for an iteration: the next ones. All starts of the half go through them in one order, each
 * from a place of its own. */
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

/* Returns how many pixels tell the points of a coarse grid apart: a step moves the rim of the particle by `rotated` Å, and
 * finer detail does not help. */
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

/* Makes the map of a start from its sums. */
static enum status make_map(struct starts *s, struct start *start, double fudge, struct err *err) {
    struct accumulator *sums = start->new_sums; /* free to be changed: the next iteration clears it */
    TRY(accumulator_clear(sums, s->pixels.size, err));
    TRY(accumulator_merge(sums, start->sums, err));
    TRY(accumulator_finish(sums, s->options.symmetry, s->options.threads, err));
    /* The factor is RELION's, for sums weighed by the noise of masked images. */
    const struct reconstruct_options options = {
        .tau2 = s->tau2, .tau_fudge = fudge / s->mask_share, .minres_shell = 0, .threads = s->options.threads};
    TRY(reconstruct_map(sums, &options, start->map, NULL, NULL, err));
    mask_sphere(3, s->images->box, start->map, s->mask_radius, PREPARE_MASK_EDGE, 0);
    return STATUS_OK;
}

static struct alignment_iteration iteration_of(const struct starts *s, const struct start *start, int count) {
    return (struct alignment_iteration){.pixels = &s->pixels,
                                        .coarse_pixels = s->pixels.count,
                                        .particle_count = count,
                                        .reference_count = 1,
                                        .sigma_offset = start->sigma_offset,
                                        .sigma2 = s->noise,
                                        .optics_count = 1};
}

enum status starts_random(struct starts *s, int index, struct err *err) {
    struct start *start = &s->starts[index];
    uint64_t chance = (uint64_t)s->options.seed * 0x2545f4914f6cdd1du + (uint64_t)index;
    struct sampling list = {0};
    _cleanup_(mem_free) int *at = NULL;
    _cleanup_(mem_free) double(*poses)[9] = NULL;
    int count;
    draw(&chance);
    start->iterations = 0;
    start->sigma_offset = FIRST_OFFSET / s->images->pixel_size;
    start->perturbation = uniform(&chance) - 0.5;
    start->cursor = (int)(1e6 * uniform(&chance));
    TRY(choose(s, start, start->cursor, RANDOM_PARTICLES, &at, &count, err));
    TRY(mem_new((size_t)count, sizeof *poses, "poses", &poses, err));
    for (int i = 0; i < count; i++)
        random_pose(&chance, poses[i]);
    memset(start->map, 0, voxels(s) * sizeof *start->map);
    TRY(projector_set_map(s->projector, start->map, s->pixels.size, err));
    TRY(accumulator_clear(start->sums, s->pixels.size, err));
    TRY(sampling_create_list((const double(*)[9])poses, count, &list, err));
    struct alignment_iteration iteration = iteration_of(s, start, count);
    iteration.sampling = &list;
    iteration.local = iteration.given_poses = true;
    iteration.references = &s->projector;
    iteration.sums = &start->sums;
    enum status status = compare(s, &iteration, at, count, err);
    sampling_destroy(&list);
    TRY(status);
    for (int k = 0; k < s->shells; k++)
        s->tau2[k] = 0.1f * s->noise[k];
    return make_map(s, start, 1, err);
}

/* Averages what the particles of an iteration have found. */
static void average_results(struct start *start, const struct alignment_result *results, int count) {
    double offset2 = 0, weight = 0;
    start->pmax = 0;
    for (int i = 0; i < count; i++) {
        offset2 += results[i].offset2;
        weight += results[i].weight_sum;
        start->pmax += results[i].pmax / count;
    }
    if (weight > 0) start->sigma_offset = 0.7 * start->sigma_offset + 0.3 * fmax(sqrt(offset2 / (2 * weight)), 1);
}

enum status starts_give(struct starts *s, int index, const float *map, struct err *err) {
    struct start *start = &s->starts[index];
    memcpy(start->map, map, voxels(s) * sizeof *map);
    start->sigma_offset = FIRST_OFFSET / s->images->pixel_size;
    start->iterations = start->cursor = 0;
    return accumulator_clear(start->sums, s->pixels.size, err);
}

enum status starts_iterate(struct starts *s, int index, const struct starts_step *step, struct err *err) {
    struct start *start = &s->starts[index];
    struct sampling *grid = &s->grids[step->order - 1];
    const double extent = s->images->box * s->images->pixel_size;
    int size = 2 * (int)ceil(extent / step->limit), count;
    _cleanup_(mem_free) int *at = NULL;
    uint64_t chance = (uint64_t)s->options.seed + ((uint64_t)index << 32) + (uint64_t)start->iterations;
    if (size > s->pixels.size) size = s->pixels.size;
    start->perturbation = sampling_next_perturbation(start->perturbation, uniform(&chance));
    sampling_perturb(grid, start->perturbation);
    TRY(choose(s, start, start->cursor, step->particles, &at, &count, err));
    start->cursor += count;
    TRY(projector_set_map(s->projector, start->map, size, err));
    TRY(projector_power(s->projector, s->tau2, err)); /* the prior: the power of the map that is compared */
    TRY(accumulator_clear(start->new_sums, s->pixels.size, err));
    struct alignment_iteration iteration = iteration_of(s, start, count);
    iteration.sampling = grid;
    iteration.coarse_pixels = coarse_pixels(s, grid, size);
    iteration.oversampled = true;
    iteration.summed = 0.98;
    iteration.references = &s->projector;
    iteration.sums = &start->new_sums;
    TRY(compare(s, &iteration, at, count, err));
    average_results(start, s->results, count);
    TRY(accumulator_scale(start->sums, 1 - step->gain, err));
    TRY(accumulator_merge(start->sums, start->new_sums, err));
    start->iterations++;
    return make_map(s, start, step->fudge, err);
}

enum status starts_judge(struct starts *s, const float *map, enum initial_part part, int order, double limit,
                         double *ret_gains, struct err *err) {
    const int first = s->images->begin[part], count = s->images->begin[part + 1] - first;
    const double extent = s->images->box * s->images->pixel_size;
    int size = 2 * (int)ceil(extent / limit);
    _cleanup_(mem_free) int *at = NULL;
    const struct start start = {.half = part, .sigma_offset = fmax(s->starts[0].sigma_offset, 1)};
    struct accumulator *sums = s->starts[0].new_sums;
    struct sampling *grid = &s->grids[order - 1];
    if (size > s->pixels.size) size = s->pixels.size;
    TRY(mem_new((size_t)count + 1, sizeof *at, "particles", &at, err));
    for (int i = 0; i < count; i++)
        at[i] = first + i;
    sampling_perturb(grid, 0);
    TRY(projector_set_map(s->projector, map, size, err));
    TRY(accumulator_clear(sums, s->pixels.size, err));
    struct alignment_iteration iteration = iteration_of(s, &start, count);
    iteration.sampling = grid;
    iteration.coarse_pixels = coarse_pixels(s, grid, size);
    iteration.oversampled = true;
    iteration.references = &s->projector;
    iteration.sums = &sums;
    TRY(compare(s, &iteration, at, count, err));
    for (int i = 0; i < count; i++)
        ret_gains[i] = s->results[i].evidence;
    return STATUS_OK;
}

struct starts_state starts_state(const struct starts *s, int index) {
    const struct start *start = &s->starts[index];
    return (struct starts_state){.half = start->half, .map = start->map, .pmax = start->pmax};
}
