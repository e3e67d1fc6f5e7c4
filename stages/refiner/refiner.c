/* The refinement as a whole: what an iteration is made of, in slices. */
#include "stages/refiner/refiner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory.h"
#include "stages/refiner/restored.h"

enum status grown_reserve(struct grown *buffer, size_t count, const char *what, struct err *err) {
    if (count <= buffer->capacity) return STATUS_OK;
    mem_free(&buffer->data);
    buffer->capacity = 0;
    TRY(mem_new(count, sizeof *buffer->data, what, &buffer->data, err));
    buffer->capacity = count;
    return STATUS_OK;
}

enum status int_list_reserve(struct int_list *list, int capacity, struct err *err) {
    if (capacity <= list->capacity) return STATUS_OK;
    int larger = capacity + capacity / 4;
    mem_free(&list->data);
    list->count = list->capacity = 0;
    TRY(mem_new((size_t)larger, sizeof *list->data, "a list of poses", &list->data, err));
    list->capacity = larger;
    return STATUS_OK;
}

double refiner_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum status keep_text(const char *text, char **ret_copy, struct err *err) {
    if (text == NULL) return STATUS_OK;
    *ret_copy = strdup(text);
    FAIL_IF(*ret_copy == NULL, err, STATUS_NO_MEMORY, "no memory for a path");
    return STATUS_OK;
}

static enum status initialise(struct refiner *r, struct err *err) {
    const struct refiner_options *o = &r->options;
    FAIL_IF(!(o->diameter > 0) || !(o->initial_lowpass > 0), err, STATUS_BAD_ARGUMENT,
            "diameter (%g Å) and initial_lowpass (%g Å) must be positive", o->diameter, o->initial_lowpass);
    FAIL_IF(o->reference == NULL, err, STATUS_BAD_ARGUMENT, "a refinement needs a reference map: set `reference`");
    TRY(keep_text(o->reference, &r->reference_path, err));
    TRY(keep_text(o->mask, &r->mask_path, err));
    TRY(symmetry_create(o->symmetry, &r->symmetry, err));
    particle_set_init(&r->set, o->seed, (size_t)(o->memory / 2), o->fallback_pixel_size);
    return keep_text(o->root, &r->set.root, err);
}

enum status refiner_create(const struct refiner_options *options, struct refiner **ret_refiner, struct err *err) {
    struct refiner *r = calloc(1, sizeof *r);
    FAIL_IF(r == NULL, err, STATUS_NO_MEMORY, "no memory for a refinement");
    r->options = *options;
    if (r->options.threads < 1) r->options.threads = 1;
    enum status status = initialise(r, err);
    if (status != STATUS_OK) {
        refiner_destroy(&r);
        return status;
    }
    *ret_refiner = r;
    return STATUS_OK;
}

static void destroy_half(struct half *h) {
    projector_destroy(&h->projector);
    accumulator_destroy(&h->accumulator);
    void *owned[] = {
        h->map,     h->unfiltered, h->sigma2,       h->tau2, h->ssnr, h->completeness, h->sigma2_reconstruction,
        h->members, h->sigma2_sum, h->optics_weight};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static void destroy_thread(struct thread_space *t) {
    prepare_destroy(&t->prepare);
    expectation_destroy(&t->expectation);
    void *owned[] = {t->pose_slice.data, t->pose_shift.data, t->pose_values, t->local_slices, t->sum,
                     t->cross,           t->power,           t->shifted};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

void thread_space_destroy(struct thread_space *spaces, int count) {
    for (int i = 0; spaces != NULL && i < count; i++)
        destroy_thread(&spaces[i]);
}

static void destroy_batch(struct batch_particle *b) {
    sampling_subset_destroy(&b->near);
    free(b->significant.data);
    free(b->orientations.data);
    free(b->contributions);
    free(b->shift_slot);
}

void refiner_destroy(struct refiner **refiner) {
    struct refiner *r = *refiner;
    if (r == NULL) return;
    for (int h = 0; h < 2; h++)
        destroy_half(&r->half[h]);
    thread_space_destroy(r->threads, r->options.threads);
    for (int i = 0; i < BATCH_PARTICLES; i++)
        destroy_batch(&r->batch[i]);
    expectation_destroy(&r->expectation);
    symmetry_destroy(&r->symmetry);
    particle_set_destroy(&r->set);
    sampling_destroy(&r->sampling);
    fourier_pixels_destroy(&r->pixels);
    star_destroy(&r->restored);
    void *owned[] = {r->reference_path,   r->mask_path,          r->mask,
                     r->solvent,          r->combined,           r->fsc,
                     r->fsc_joined,       r->shell_pixels,       r->coarse_shift,
                     r->fine_shift,       r->coarse_slices.data, r->images.data,
                     r->spectra.data,     r->coarse.data,        r->priors.data,
                     r->fine_slices.data, r->shifted.data,       r->scatter.data,
                     r->slots.data,       r->fine_slots.data,    r->threads};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(r);
    *refiner = NULL;
}

enum status refiner_merge(struct refiner *r, struct star_file **file, const char *path, bool replace, size_t *ret_new,
                          struct err *err) {
    if (r->busy) {
        star_destroy(file);
        FAIL(err, STATUS_BAD_STATE, "particles cannot join in the middle of an iteration");
    }
    return particle_set_merge(&r->set, file, path, replace, ret_new, err);
}

enum status refiner_try(const struct refiner *r, struct star_file **file, const char *path,
                        struct refiner_grid *ret_grid, struct err *err) {
    return particle_set_try(&r->set, file, path, &ret_grid->box, &ret_grid->pixel_size, err);
}

struct refiner_grid refiner_grid(const struct refiner *r) {
    return (struct refiner_grid){.box = r->set.box, .pixel_size = r->set.pixel_size};
}

enum status refiner_join(struct refiner_grid *common, const struct refiner_grid *grid, const char *path,
                         struct err *err) {
    struct refiner_grid joined = *common;
    if (grid->box != 0) TRY(particle_same_box(&joined.box, grid->box, path, err));
    if (grid->pixel_size != 0) TRY(particle_same_pixel_size(&joined.pixel_size, grid->pixel_size, path, err));
    *common = joined;
    return STATUS_OK;
}

enum status refiner_set_threads(struct refiner *r, int threads, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "the number of threads cannot change in the middle of an iteration");
    if (threads < 1 || threads == r->options.threads) return STATUS_OK;
    if (r->box > 0) return setup_threads(r, threads, err);
    r->options.threads = threads;
    return STATUS_OK;
}

size_t refiner_particles(const struct refiner *r) {
    return r->set.present;
}

bool refiner_busy(const struct refiner *r) {
    return r->busy;
}

const char *refiner_remark(const struct refiner *r) {
    return r->remark;
}

struct member_key {
    uint64_t key;
    int index;
};

static int by_key(const void *a, const void *b) {
    const struct member_key *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->index > y->index) - (x->index < y->index);
}

/* Members of each half, in an order that depends on their names alone and not on how they arrived: the first of them
 * are a random choice. */
static enum status choose_members(struct refiner *r, size_t most, struct err *err) {
    _cleanup_(mem_free) struct member_key *keys = NULL;
    TRY(mem_new(r->set.present, sizeof *keys, "particles", &keys, err));
    if (most == 0) most = 2 * r->set.present;
    for (int h = 0; h < 2; h++) {
        size_t count = 0;
        for (size_t i = 0; i < r->set.count; i++)
            if (r->set.particles[i].source >= 0 && r->set.particles[i].half == h)
                keys[count++] = (struct member_key){particle_hash(r->set.particles[i].name, r->options.seed), (int)i};
        qsort(keys, count, sizeof *keys, by_key);
        free(r->half[h].members);
        r->half[h].members = NULL;
        TRY(mem_new(count, sizeof(int), "particles", &r->half[h].members, err));
        for (size_t i = 0; i < count; i++)
            r->half[h].members[i] = keys[i].index;
        r->half[h].member_count = (int)(count < most / 2 ? count : most / 2);
    }
    FAIL_IF(r->half[0].member_count < 2 || r->half[1].member_count < 2, err, STATUS_BAD_STATE,
            "%zu particles are too few for two halves", r->set.present);
    return STATUS_OK;
}

/* A step of the grid rotates the rim of the particle by so much: finer detail tells no two grid points apart. */
static int coarse_size(const struct refiner *r) {
    double rotated = M_PI * fmin(r->options.diameter, r->box * r->pixel_size) * r->sampling.angle_step / 360;
    int size = 2 * (int)ceil(r->pixel_size * r->box * 1.2 / rotated);
    return size < r->schedule.telling_size ? size : r->schedule.telling_size;
}

static int clamp_batch(double particles) {
    return particles < 2 ? 2 : particles > BATCH_PARTICLES ? BATCH_PARTICLES : (int)particles;
}

/* Grids, pixel lists and the size of a batch. */
enum status estep_open(struct refiner *r, struct err *err) {
    struct schedule *s = &r->schedule;
    sampling_destroy(&r->sampling);
    fourier_pixels_destroy(&r->pixels);
    TRY(sampling_create(s->order, r->local ? NULL : &r->symmetry, s->offset_range, s->offset_step, &r->sampling, err));
    sampling_perturb(&r->sampling, s->perturbation);
    TRY(fourier_pixels_create(r->box, s->current_size, &r->pixels, err));
    r->coarse_pixels = fourier_pixels_within(&r->pixels, coarse_size(r));
    int shifts = r->sampling.shift_count;
    r->rotations = r->oversampled ? SAMPLING_ROTATIONS : 1;
    r->translations = r->oversampled ? SAMPLING_SHIFTS : 1;
    r->fine_shifts = shifts * r->translations;
    mem_free(&r->coarse_shift);
    mem_free(&r->fine_shift);
    TRY(mem_new((size_t)shifts, sizeof *r->coarse_shift, "shifts", &r->coarse_shift, err));
    TRY(mem_new((size_t)r->fine_shifts, sizeof *r->fine_shift, "shifts", &r->fine_shift, err));
    for (int t = 0; t < r->fine_shifts; t++) {
        int coarse = t / r->translations;
        sampling_shift(&r->sampling, coarse, r->coarse_shift[coarse]);
        if (r->oversampled)
            sampling_child_shift(&r->sampling, coarse, t % r->translations, r->fine_shift[t]);
        else
            memcpy(r->fine_shift[t], r->coarse_shift[coarse], sizeof r->fine_shift[t]);
    }
    for (int i = 0; i < BATCH_PARTICLES; i++) {
        mem_free(&r->batch[i].shift_slot);
        TRY(mem_new((size_t)r->fine_shifts, sizeof *r->batch[i].shift_slot, "shifts", &r->batch[i].shift_slot, err));
    }
    double orientations = sampling_orientation_count(&r->sampling), quarter = r->options.memory / 4 / sizeof(float);
    /* Images, spectra and shifted images of a particle. */
    double floats = (double)r->box * r->box + (6.0 + 2.0 * r->fine_shifts) * r->pixels.count;
    r->batch_size = clamp_batch(quarter / floats);
    if (r->local) return STATUS_OK;
    while (r->coarse_pixels > 100 && orientations * 2 * r->coarse_pixels > quarter)
        r->coarse_pixels -= r->coarse_pixels / 16;
    /* At most about 1e11 operations in one go: a second or two. */
    double most = fmin(quarter / (orientations * shifts), 1e11 / (orientations * shifts * 4 * r->coarse_pixels));
    r->batch_size = clamp_batch(fmin(most, r->batch_size));
    return STATUS_OK;
}

static enum status first_iteration(struct refiner *r, struct err *err) {
    TRY(setup_noise(r, err));
    TRY(setup_reference(r, err));
    schedule_start(r);
    TRY(estep_open(r, err));
    return setup_scale(r, err);
}

/* Particles without a pose cannot be searched near it. */
static bool all_aligned(const struct refiner *r) {
    for (size_t i = 0; i < r->set.count; i++)
        if (r->set.particles[i].source >= 0 && !r->set.particles[i].aligned) return false;
    return true;
}

/* One order earlier than asked for, the whole grid has only to say again what the last one left no doubt about: half of
 * the probability in one pose, and a handful of others worth a look. It would be most of the time of a refinement. */
static bool poses_are_sharp(const struct refiner *r) {
    const struct refiner_state state = refiner_state(r);
    return state.average_pmax >= 0.5 && state.significant > 0 && state.significant <= 10;
}

/* While the map says next to nothing of a pose, thousands of samples of the grid fit a particle alike, and their
 * children as well: comparing those would be most of the time of the first iterations. A grid that stays as coarse as
 * that because the data are poor must still be refined in the end. */
static bool wants_children(const struct refiner *r, const struct refiner_iteration *iteration) {
    static const double BROAD = 0.05;
    enum { FIRST_ITERATIONS = 3 };
    bool early = iteration->max_order >= 0 || r->schedule.iteration < FIRST_ITERATIONS;
    return iteration->final || !early || r->schedule.average_pmax >= BROAD;
}

enum status refiner_begin(struct refiner *r, const struct refiner_iteration *iteration, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "an iteration is running already");
    FAIL_IF(r->set.present == 0, err, STATUS_BAD_STATE, "there are no particles to refine");
    struct schedule *s = &r->schedule;
    r->began = refiner_now();
    if (r->box == 0) TRY(setup_allocate(r, err));
    TRY(setup_optics(r, err));
    if (r->restored != NULL) restored_poses(r->restored, &r->set);
    star_destroy(&r->restored);
    TRY(choose_members(r, iteration->most, err));
    r->oversampled = wants_children(r, iteration);
    if (!r->started) TRY(first_iteration(r, err));
    r->started = true;
    s->max_order = iteration->max_order;
    if (s->max_order >= 0 && s->order > s->max_order) s->order = s->max_order;
    bool aligned = all_aligned(r);
    if (s->order >= r->options.local_order && !aligned)
        s->order = r->options.local_order - 1 > r->options.healpix_order ? r->options.local_order - 1
                                                                         : r->options.healpix_order;
    /* Finer steps share the probability out among more poses: once sharp stays sharp. */
    r->sharp = aligned && (r->sharp || poses_are_sharp(r));
    r->local = aligned && s->order >= (r->sharp ? r->options.local_order - 1 : r->options.local_order) &&
               s->order > r->options.healpix_order;
    s->final = iteration->final;
    s->iteration++;
    double uniform = (double)(particle_hash("perturbation", r->options.seed + (unsigned)s->iteration) >> 11) * 0x1p-53;
    s->perturbation = sampling_next_perturbation(s->perturbation, uniform);
    schedule_sizes(r);
    TRY(estep_open(r, err));
    r->current_half = r->cursor = 0;
    r->busy = true;
    return STATUS_OK;
}

static enum status begin_half(struct refiner *r, struct half *h, struct err *err) {
    TRY(projector_set_map(h->projector, h->map, r->pixels.size, err));
    TRY(accumulator_clear(h->accumulator, r->pixels.size, err));
    memset(h->sigma2_sum, 0, (size_t)r->sigma2_optics * (size_t)r->shells * sizeof *h->sigma2_sum);
    memset(h->optics_weight, 0, (size_t)r->sigma2_optics * sizeof *h->optics_weight);
    h->norm_sum = h->offset2_sum = h->weight_sum = h->pmax_sum = h->likelihood_sum = h->significant_sum = 0;
    h->angle_change = h->offset_change = h->reliability_sum = 0;
    h->changed = 0;
    r->all_slices = false;
    return r->local ? STATUS_OK : estep_coarse_slices(r, h, err);
}

enum status refiner_work(struct refiner *r, bool *ret_complete, struct err *err) {
    FAIL_IF(!r->busy, err, STATUS_BAD_STATE, "no iteration is running");
    *ret_complete = false;
    if (r->current_half == 2) {
        TRY(schedule_accuracy(r, err));
        TRY(mstep(r, err));
        schedule_after(r);
        r->seconds = refiner_now() - r->began;
        r->busy = false;
        *ret_complete = true;
        return STATUS_OK;
    }
    struct half *h = &r->half[r->current_half];
    if (r->cursor == 0) TRY(begin_half(r, h, err));
    int count = h->member_count - r->cursor < r->batch_size ? h->member_count - r->cursor : r->batch_size;
    TRY(estep_load(r, h, r->cursor, count, err));
    TRY(estep_coarse(r, h, count, err));
    TRY(estep_fine(r, h, count, err));
    r->cursor += count;
    if (r->cursor >= h->member_count) {
        r->current_half++;
        r->cursor = 0;
    }
    return STATUS_OK;
}

struct refiner_state refiner_state(const struct refiner *r) {
    const struct schedule *s = &r->schedule;
    double count = r->half[0].member_count + r->half[1].member_count;
    struct refiner_state state = {.iteration = s->iteration,
                                  .order = r->sampling.order,
                                  .current_size = r->pixels.size,
                                  .local = r->local,
                                  .converged = s->converged,
                                  .final = s->final,
                                  .particles = (size_t)count,
                                  .idle_iterations = s->since_resolution,
                                  .stalled = s->stalled,
                                  .resolution = r->resolution,
                                  .angle_step = fine_angle_step(r),
                                  .offset_step = fine_offset_step(r),
                                  .accuracy_angle = s->accuracy_angle,
                                  .accuracy_offset = s->accuracy_offset,
                                  .average_pmax = s->average_pmax,
                                  .seconds = r->seconds};
    if (count > 0) {
        state.significant = (r->half[0].significant_sum + r->half[1].significant_sum) / count;
        state.reliability = (r->half[0].reliability_sum + r->half[1].reliability_sum) / count;
    }
    return state;
}

struct refiner_maps refiner_maps(const struct refiner *r) {
    return (struct refiner_maps){.box = r->box,
                                 .pixel_size = r->pixel_size,
                                 .half1 = r->half[0].unfiltered,
                                 .half2 = r->half[1].unfiltered,
                                 .mask = r->mask};
}
