/* The refinement as a whole: what an iteration is made of, in slices. */
#include "stages/refiner/refiner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/restored.h"

double refiner_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void refiner_spent(struct refiner *r, enum refiner_step step) {
    double now = refiner_now();
    r->steps[step] += now - r->step_began;
    r->step_began = now;
}

const char *refiner_step_name(enum refiner_step step) {
    static const char *const NAMES[REFINER_STEPS] = {"start",  "noise",   "scale",     "plan", "references",
                                                     "images", "compare", "particles", "sums", "accuracy",
                                                     "maps",   "fsc",     "mask"};
    return NAMES[step];
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
    TRY(classes_find_maps(r, err));
    TRY(symmetry_create(o->symmetry, &r->symmetry, err));
    r->seed_class = -1;
    r->half_count = r->reference_count > 1 ? 1 : 2;
    if (isnan(o->tau_fudge)) r->options.tau_fudge = classifies(r) ? 4 : 1;
    particle_set_init(&r->set, o->seed, (size_t)(host_memory(o) / 2), o->fallback_pixel_size);
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

void refiner_destroy(struct refiner **refiner) {
    struct refiner *r = *refiner;
    if (r == NULL) return;
    setup_release(r);
    device_host_free(&r->options.device, &r->solvent);
    symmetry_destroy(&r->symmetry);
    particle_set_destroy(&r->set);
    sampling_destroy(&r->sampling);
    fourier_pixels_destroy(&r->pixels);
    star_destroy(&r->restored);
    for (int i = 0; r->map_paths != NULL && i < r->map_count; i++)
        free(r->map_paths[i]);
    void *owned[] = {r->reference_path, r->mask_path, r->map_paths,  r->batch,      r->results,      r->changes,
                     r->powers,         r->weights,   r->log_shares, r->projectors, r->accumulators, r->trace};
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
    loader_stop(r->loader);
    r->chosen = false;
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
    if (grid->box != 0) TRY(particle_join_box(&joined.box, grid->box, path, err));
    if (grid->pixel_size != 0) TRY(particle_join_pixel_size(&joined.pixel_size, grid->pixel_size, path, err));
    *common = joined;
    return STATUS_OK;
}

enum status refiner_set_threads(struct refiner *r, int threads, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "the number of threads cannot change in the middle of an iteration");
    int had = r->options.threads;
    if (threads < 1 || threads == had) return STATUS_OK;
    r->options.threads = threads;
    enum status status = r->box > 0 ? setup_alignment(r, err) : STATUS_OK;
    if (status != STATUS_OK) r->options.threads = had; /* asked again, it is made again */
    return status;
}

size_t refiner_particles(const struct refiner *r) {
    return r->set.present;
}

struct refiner_doubts refiner_doubts(const struct refiner *r) {
    struct refiner_doubts doubts = {0};
    for (size_t i = 0; i < r->set.count; i++) {
        const struct particle *p = &r->set.particles[i];
        doubts.spoiled += p->source >= 0 && p->spoiled;
        doubts.without_ctf += p->source >= 0 && !p->has_ctf;
    }
    return doubts;
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

static int half_of(const struct refiner *r, const struct particle *p) {
    return classifies(r) ? 0 : p->half;
}

/* Members of each half, in an order that depends on their names alone and not on how they arrived: the first of them
 * are a random choice. */
static enum status choose_members(struct refiner *r, size_t most, struct err *err) {
    _cleanup_(mem_free) struct member_key *keys = NULL;
    if (r->chosen && r->chosen_most == most) return STATUS_OK;
    r->chosen = false;
    r->chosen_most = most;
    TRY(mem_new(r->set.present, sizeof *keys, "particles", &keys, err));
    if (most == 0) most = 2 * r->set.present;
    most /= (size_t)r->half_count;
    int least = r->reference_count > 2 ? r->reference_count : 2;
    for (int h = 0; h < r->half_count; h++) {
        size_t count = 0;
        for (size_t i = 0; i < r->set.count; i++)
            if (r->set.particles[i].source >= 0 && half_of(r, &r->set.particles[i]) == h)
                keys[count++] = (struct member_key){particle_hash(r->set.particles[i].name, r->options.seed), (int)i};
        qsort(keys, count, sizeof *keys, by_key);
        free(r->half[h].members);
        r->half[h].members = NULL;
        TRY(mem_new(count, sizeof(int), "particles", &r->half[h].members, err));
        for (size_t i = 0; i < count; i++)
            r->half[h].members[i] = keys[i].index;
        r->half[h].member_count = (int)(count < most ? count : most);
        FAIL_IF(r->half[h].member_count < least && classifies(r), err, STATUS_BAD_STATE,
                "%zu particles are too few for %d classes: give more, or ask for fewer classes", r->set.present,
                r->reference_count);
        FAIL_IF(r->half[h].member_count < least, err, STATUS_BAD_STATE,
                "half %d has %zu of the %zu particles, at least %d are needed: give more, or remove the column "
                "rlnRandomSubset where that puts all into the other half",
                h + 1, count, r->set.present, least);
    }
    r->chosen = true;
    return STATUS_OK;
}

/* An image that is not like the others at all, as of a broken detector, would drown them: by a sample of each half. */
static enum status judge_images(struct refiner *r, struct err *err) {
    enum { SAMPLE = 512 };
    _cleanup_(mem_free) int *indices = NULL;
    int count = 0;
    if (r->set.strongest > 0) return STATUS_OK;
    TRY(mem_new(2 * SAMPLE, sizeof *indices, "particles", &indices, err));
    for (int h = 0; h < r->half_count; h++)
        for (int i = 0; i < r->half[h].member_count && i < SAMPLE; i++)
            indices[count++] = r->half[h].members[i];
    return loader_judge(r->loader, indices, count, err);
}

static enum status first_iteration(struct refiner *r, struct err *err) {
    TRY(setup_noise(r, err));
    refiner_spent(r, REFINER_NOISE);
    TRY(setup_reference(r, err));
    schedule_start(r);
    TRY(estep_open(r, err));
    TRY(setup_scale(r, err));
    refiner_spent(r, REFINER_SCALE);
    return STATUS_OK;
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
    if (classifies(r)) return true;
    bool early = iteration->max_order >= 0 || r->schedule.iteration < FIRST_ITERATIONS;
    return iteration->final || !early || r->schedule.average_pmax >= BROAD;
}

/* What it begins with, once its order is known. */
static enum status open_iteration(struct refiner *r, struct err *err) {
    struct schedule *s = &r->schedule;
    double uniform = (double)(particle_hash("perturbation", r->options.seed + (unsigned)s->iteration) >> 11) * 0x1p-53;
    s->perturbation = sampling_next_perturbation(s->perturbation, uniform);
    schedule_sizes(r);
    TRY(estep_open(r, err));
    TRY(estep_place(r, err));
    return s->iteration == 1 && r->map_count < r->reference_count ? classes_seed(r, err) : STATUS_OK;
}

/* What has begun and cannot go on is begun anew, under the same number: the first iteration seeds classes. */
static void give_up(struct refiner *r) {
    r->schedule.iteration--;
    r->busy = false;
    loader_stop(r->loader);
}

enum status refiner_begin(struct refiner *r, const struct refiner_iteration *iteration, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "an iteration is running already");
    FAIL_IF(r->set.present == 0, err, STATUS_BAD_STATE, "there are no particles to refine");
    struct schedule *s = &r->schedule;
    r->began = r->step_began = refiner_now();
    r->between = r->ended > 0 ? r->began - r->ended : 0;
    memset(r->steps, 0, sizeof r->steps);
    if (r->box == 0) TRY(setup_allocate(r, err));
    refiner_spent(r, REFINER_START);
    TRY(trace_begin(r, err));
    TRY(setup_optics(r, err));
    if (r->restored != NULL) restored_poses(r->restored, &r->set, r->reference_count);
    star_destroy(&r->restored);
    TRY(alignment_device_seconds(r->alignment, &r->device_before, err));
    TRY(choose_members(r, iteration->most, err));
    r->all_read = r->set.present * (size_t)r->box * (size_t)r->box * sizeof(float) <= r->set.cached_bytes;
    TRY(judge_images(r, err));
    r->oversampled = wants_children(r, iteration);
    if (!r->started) TRY(first_iteration(r, err));
    r->started = true;
    s->max_order = iteration->max_order;
    if (s->max_order >= 0 && s->order > s->max_order) s->order = s->max_order;
    bool aligned = all_aligned(r);
    if (s->order >= r->options.local_order && !aligned)
        s->order = r->options.local_order - 1 > r->options.healpix_order ? r->options.local_order - 1
                                                                         : r->options.healpix_order;
    s->sharp = aligned && s->sharp;
    r->local = aligned && s->order >= (s->sharp ? r->options.local_order - 1 : r->options.local_order) &&
               s->order > r->options.healpix_order;
    s->final = iteration->final;
    s->iteration++;
    enum status status = open_iteration(r, err);
    if (status != STATUS_OK) {
        give_up(r);
        return status;
    }
    r->current_half = r->cursor = 0;
    r->half_begun = false;
    r->busy = true;
    refiner_spent(r, REFINER_PLAN);
    return STATUS_OK;
}

static enum status refine_mstep(struct refiner *r, struct err *err) {
    TRY(mstep(r, err));
    schedule_after(r);
    /* Finer steps share the probability out among more poses: once sharp stays sharp. */
    r->schedule.sharp = r->schedule.sharp || poses_are_sharp(r);
    return STATUS_OK;
}

static enum status device_time(struct refiner *r, struct err *err) {
    double now;
    TRY(alignment_device_seconds(r->alignment, &now, err));
    r->device_seconds = now - r->device_before;
    return STATUS_OK;
}

static enum status end_iteration(struct refiner *r, struct err *err) {
    /* References are done with: sums that come from the host need their room. */
    if (r->sums_on_host) workspace_reset(r->workspace);
    TRY(classifies(r) ? classes_mstep(r, err) : refine_mstep(r, err));
    TRY(device_time(r, err));
    trace_end(r);
    r->ended = refiner_now();
    r->seconds = r->ended - r->began;
    r->busy = false;
    return STATUS_OK;
}

static enum status compare_some(struct refiner *r, struct err *err) {
    struct half *h = &r->half[r->current_half];
    int count;
    if (!r->half_begun) TRY(estep_begin(r, h, err));
    r->half_begun = true;
    TRY(estep_batch(r, h, r->cursor, &count, err));
    r->cursor += count;
    if (r->cursor < h->member_count) return STATUS_OK;
    TRY(alignment_finish(r->alignment, err));
    refiner_spent(r, REFINER_SUMS);
    if (!classifies(r)) TRY(accuracy_of_half(r, h, err));
    refiner_spent(r, REFINER_ACCURACY);
    r->current_half++;
    r->cursor = 0;
    r->half_begun = false;
    return STATUS_OK;
}

enum status refiner_work(struct refiner *r, bool *ret_complete, struct err *err) {
    FAIL_IF(!r->busy, err, STATUS_BAD_STATE, "no iteration is running");
    *ret_complete = r->reading = false;
    r->step_began = refiner_now(); /* others may have worked since */
    bool compared = r->current_half == r->half_count;
    enum status status = compared ? end_iteration(r, err) : compare_some(r, err);
    /* Images may be there again later; sums that something else has interrupted hold one knows not what. */
    if (status != STATUS_OK && !r->reading) give_up(r);
    *ret_complete = status == STATUS_OK && compared;
    return status;
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
                                  .classes = classifies(r) ? r->reference_count : 1,
                                  .seconds = r->seconds,
                                  .device_seconds = r->device_seconds,
                                  .between = r->between,
                                  .sums_on_host = r->sums_on_host};
    memcpy(state.steps, r->steps, sizeof state.steps);
    if (count > 0) {
        state.significant = (r->half[0].significant_sum + r->half[1].significant_sum) / count;
        state.reliability = (r->half[0].reliability_sum + r->half[1].reliability_sum) / count;
        state.class_changes = r->half[0].changed > 0 ? r->half[0].class_change / r->half[0].changed : 1;
    }
    return state;
}

struct refiner_class refiner_class(const struct refiner *r, int k) {
    const struct reference *c = &r->half[0].references[k];
    return (struct refiner_class){.share = c->share, .resolution = c->resolution};
}

struct refiner_maps refiner_maps(const struct refiner *r) {
    return (struct refiner_maps){.box = r->box,
                                 .pixel_size = r->pixel_size,
                                 .half1 = r->half[0].references->unfiltered,
                                 .half2 = r->half[1].references->unfiltered,
                                 .mask = r->mask};
}
