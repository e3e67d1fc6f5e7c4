/* Runs the iterations of a refinement, in slices. */
#include "stages/refiner/refiner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/refiner/accuracy.h"
#include "stages/refiner/classes.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/doubts.h"
#include "stages/refiner/estep.h"
#include "stages/refiner/files/kept_state.h"
#include "stages/refiner/given_poses.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/mstep.h"
#include "stages/refiner/other_start.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/setup.h"
#include "stages/refiner/signal.h"
#include "stages/refiner/stack_headers.h"
#include "stages/refiner/told.h"
#include "stages/refiner/trace.h"

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
    TRY(keep_text(o->reference, &r->reference_path, err));
    TRY(keep_text(o->mask, &r->mask_path, err));
    FAIL_IF(o->reference == NULL && (o->poses != 0 || o->skip_align), err, STATUS_BAD_ARGUMENT,
            "the poses of a table are those of a map: set `reference` to it");
    r->reference_count = o->classes > 1 ? o->classes : 1;
    if (o->reference != NULL) TRY(classes_find_maps(r, err));
    TRY(symmetry_create(o->symmetry, &r->symmetry, err));
    r->at.seed_class = -1;
    r->side_count = r->reference_count > 1 ? 1 : 2;
    if (isnan(o->tau_fudge)) r->options.tau_fudge = classifies(r) ? 4 : 1;
    particle_set_init(&r->set, (unsigned)o->seed, (size_t)(host_memory(o) / 2), r->context.fallback_pixel_size);
    TRY(stack_headers_create(&r->set.headers, err));
    if (o->reference != NULL) grids_prefer_map(&r->set, r->map_paths[0]);
    r->set.ignore_optics = o->ignore_optics;
    r->set.keep_twins = o->twins != 0;
    r->set.twin_distance = TWIN_DISTANCE * o->diameter;
    r->set.poses_given = o->poses != 0 || o->skip_align;
    return keep_text(r->context.root, &r->set.root, err);
}

enum status refiner_create(const struct refiner_options *options, const struct refiner_context *context,
                           struct refiner **ret_refiner, struct err *err) {
    struct refiner *r = calloc(1, sizeof *r);
    FAIL_IF(r == NULL, err, STATUS_NO_MEMORY, "no memory for a refinement");
    r->options = *options;
    r->efficiency = NAN;
    r->context = *context;
    if (r->context.threads < 1) r->context.threads = 1;
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
    told_stop(r);
    setup_release(r);
    other_start_release(r);
    device_host_free(&r->context.device, &r->solvent);
    symmetry_destroy(&r->symmetry);
    particle_set_destroy(&r->set);
    image_check_destroy(&r->check);
    sampling_destroy(&r->sampling);
    fourier_pixels_destroy(&r->pixels);
    star_destroy(&r->kept_poses);
    for (int i = 0; r->map_paths != NULL && i < r->map_count; i++)
        free(r->map_paths[i]);
    batch_release(&r->batch);
    mem_free(&r->to_bring.indices);
    twins_release(&r->met);
    void *owned[] = {r->reference_path, r->mask_path, r->map_paths, r->trace, r->held};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(r);
    *refiner = NULL;
}

enum status refiner_read(const struct refiner *r, struct star_file **file, const char *path,
                         struct particle_set **ret_read, struct err *err) {
    return particle_set_read(&r->set, file, path, ret_read, err);
}

enum status refiner_read_changes(const struct refiner *r, struct star_file **file, const char *path,
                                 struct particle_set **ret_read, struct err *err) {
    return particle_set_read_changes(&r->set, file, path, ret_read, err);
}

/* Ends all that looks at the particles. Frees what was read if they cannot change now. */
static enum status begin_join(struct refiner *r, struct particle_set **read, struct err *err) {
    if (r->busy) {
        particle_set_free(read);
        FAIL(err, STATUS_BAD_STATE, "particles cannot join in the middle of an iteration");
    }
    loader_stop(r->loader);
    r->chosen = false;
    return STATUS_OK;
}

enum status refiner_change(struct refiner *r, struct particle_set **read, const char **ret_misfit, struct err *err) {
    TRY(begin_join(r, read, err));
    TRY(particle_set_change(&r->set, read, ret_misfit, err));
    return twins_settle(&r->set, err);
}

enum status refiner_join(struct refiner *r, struct particle_set **read, bool replace, size_t *ret_new,
                         struct err *err) {
    TRY(begin_join(r, read, err));
    TRY(particle_set_join(&r->set, read, replace, ret_new, err));
    return replace ? twins_settle(&r->set, err) : STATUS_OK;
}

enum status refiner_merge(struct refiner *r, struct star_file **file, const char *path, bool replace, size_t *ret_new,
                          struct err *err) {
    struct particle_set *read = NULL;
    TRY(refiner_read(r, file, path, &read, err));
    return refiner_join(r, &read, replace, ret_new, err);
}

enum status refiner_try(const struct refiner *r, struct star_file **file, const char *path, struct err *err) {
    return particle_set_try(&r->set, file, path, err);
}

struct refiner_grid refiner_grid(const struct refiner *r) {
    return (struct refiner_grid){.box = r->set.box, .pixel_size = r->set.pixel_size};
}

enum status refiner_set_threads(struct refiner *r, int threads, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "the number of threads cannot change in the middle of an iteration");
    int had = r->context.threads;
    if (threads < 1 || threads == had) return STATUS_OK;
    r->context.threads = threads;
    enum status status = r->box > 0 ? setup_alignment(r, err) : STATUS_OK;
    if (status != STATUS_OK) r->context.threads = had; /* the next call makes it again */
    return status;
}

size_t refiner_particles(const struct refiner *r) {
    return particle_set_counted(&r->set);
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

static int side_of(const struct refiner *r, const struct particle *p) {
    return classifies(r) ? 0 : p->half;
}

/* Puts the members of a part first, and counts them. */
static void take_part(struct side *side, struct schedule_part part) {
    const size_t count = (size_t)side->all_count;
    if (count < 2 * part.of) part = (struct schedule_part){.of = 1}; /* a half that is much smaller than the other */
    size_t first = count * part.index / part.of, end = count * (part.index + 1) / part.of;
    for (size_t i = 0; i < count; i++)
        side->members[i] = side->all[(first + i) % count];
    side->member_count = (int)(end - first);
}

/* Numbers the chunks of a side's particles by the first bits of their keys, so that a particle that joins moves no
 * other one. If there are now more chunks, most images are not where they will be compared. */
static void number_chunks(struct refiner *r, struct side *side, const struct member_key *keys, size_t count) {
    enum { CHUNK = 1024, BITS_MOST = 30 };
    int bits = 0;
    while (bits < BITS_MOST && count >> bits > CHUNK)
        bits++;
    for (size_t i = 0; i < count; i++)
        r->set.particles[keys[i].index].chunk = bits > 0 ? (int)(keys[i].key >> (64 - bits)) : 0;
    if (bits != side->chunk_bits && alignment_workers(r->alignment) > 1) {
        loader_stop(r->loader);
        alignment_forget_images(r->alignment);
    }
    side->chunk_bits = bits;
}

/* Lists the particles of each side, in an order that depends on their names alone and not on how they arrived, so that
 * the first ones are a random choice. */
static enum status sort_members(struct refiner *r, struct err *err) {
    _cleanup_(mem_free) struct member_key *keys = NULL;
    TRY(mem_new(r->set.present, sizeof *keys, "particles", &keys, err));
    for (int i = 0; i < r->side_count; i++) {
        struct side *side = &r->sides[i];
        size_t count = 0;
        for (size_t k = 0; k < r->set.count; k++)
            if (particle_counts(&r->set.particles[k]) && side_of(r, &r->set.particles[k]) == i)
                keys[count++] =
                    (struct member_key){particle_hash(r->set.particles[k].name, (unsigned)r->options.seed), (int)k};
        qsort(keys, count, sizeof *keys, by_key);
        mem_free(&side->all);
        mem_free(&side->members);
        TRY(mem_new(count, sizeof *side->all, "particles", &side->all, err));
        TRY(mem_new(count, sizeof *side->members, "particles", &side->members, err));
        for (size_t k = 0; k < count; k++)
            side->all[k] = keys[k].index;
        side->all_count = (int)count;
        number_chunks(r, side, keys, count);
    }
    return STATUS_OK;
}

/* Chooses the members of each side: those of a part, and at most so many of them. */
static enum status choose_members(struct refiner *r, size_t most, struct schedule_part part, struct err *err) {
    bool same = r->chosen_most == most && r->chosen_part.index == part.index && r->chosen_part.of == part.of;
    if (r->chosen && same) return STATUS_OK;
    if (!r->chosen) TRY(sort_members(r, err));
    r->chosen = false;
    r->chosen_most = most;
    r->chosen_part = part;
    if (most == 0) most = 2 * r->set.present;
    most /= (size_t)r->side_count;
    int least = r->reference_count > 2 ? r->reference_count : 2;
    for (int side = 0; side < r->side_count; side++) {
        take_part(&r->sides[side], part);
        if ((size_t)r->sides[side].member_count > most) r->sides[side].member_count = (int)most;
        FAIL_IF(r->sides[side].member_count < least && classifies(r), err, STATUS_BAD_STATE,
                "%zu particles are too few for %d classes: give more, or ask for fewer classes", r->set.present,
                r->reference_count);
        FAIL_IF(r->sides[side].member_count < least, err, STATUS_BAD_STATE,
                "half %d has %d of the %zu particles, at least %d are needed: give more, or remove the column "
                "rlnRandomSubset where that puts all into the other half",
                side + 1, r->sides[side].all_count, r->set.present, least);
    }
    r->chosen = true;
    return STATUS_OK;
}

static bool must_be_read(const struct refiner *r, size_t index) {
    const struct particle *p = &r->set.particles[index];
    return p->image == NULL && !alignment_keeps_image(r->alignment, (int)index + 1, p->chunk);
}

/* Counts the images that must be read: on a device those of the iteration's particles; on the CPU, where sums depend on
 * batches, those of all that count. */
static void count_unread(struct refiner *r) {
    const bool on_device = alignment_workspace(r->alignment) != NULL;
    r->unread = 0;
    for (int h = 0; h < r->side_count && on_device; h++)
        for (int i = 0; i < r->sides[h].member_count; i++)
            r->unread += must_be_read(r, (size_t)r->sides[h].members[i]);
    for (size_t i = 0; i < r->set.count && !on_device; i++)
        r->unread += particle_counts(&r->set.particles[i]) && must_be_read(r, i);
    size_t image = (size_t)r->set.box * (size_t)r->set.box * sizeof(float);
    r->rereads = r->set.cached_bytes + r->unread * image > r->set.cache_limit;
}

static enum status first_iteration(struct refiner *r, struct err *err) {
    TRY(setup_noise(r, err));
    timing_spent(&r->timing, REFINER_NOISE);
    TRY(setup_reference(r, err));
    for (int side = 0; side < r->side_count; side++)
        r->sides[side].sigma_offset = fmax(r->sides[side].sigma_offset, given_poses_deviation(&r->set));
    schedule_start(&r->schedule);
    TRY(estep_open(r, err));
    TRY(setup_scale(r, err));
    timing_spent(&r->timing, REFINER_SCALE);
    return STATUS_OK;
}

static bool all_aligned(const struct refiner *r) {
    for (size_t i = 0; i < r->set.count; i++)
        if (particle_counts(&r->set.particles[i]) && !r->set.particles[i].aligned && !r->set.particles[i].given)
            return false;
    return true;
}

/* Makes what an iteration needs once its grid is known. */
static enum status open_iteration(struct refiner *r, struct err *err) {
    struct schedule *s = &r->schedule;
    unsigned seed = (unsigned)r->options.seed + (unsigned)s->iteration;
    double uniform = (double)(particle_hash("perturbation", seed) >> 11) * 0x1p-53;
    s->perturbation = sampling_next_perturbation(s->perturbation, uniform);
    TRY(estep_open(r, err));
    TRY(estep_place(r, err));
    return s->iteration == 1 && r->map_count < r->reference_count ? classes_seed(r, err) : STATUS_OK;
}

/* Gives the iteration up. It begins anew under the same number, since the first iteration seeds classes. */
static void give_up(struct refiner *r) {
    r->schedule.iteration--;
    r->busy = false;
    loader_stop(r->loader);
}

/* Takes the memory for the particles that are present, and finds which of them count. */
static enum status allocate(struct refiner *r, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "an iteration is running already");
    FAIL_IF(r->set.present == 0, err, STATUS_BAD_STATE, "there are no particles to refine");
    if (r->box == 0) TRY(setup_allocate(r, err));
    /* An attempt at a first map takes the memory of the alignment. */
    return r->alignment == NULL ? setup_alignment(r, err) : STATUS_OK;
}

enum status refiner_look(struct refiner *r, struct err *err) {
    TRY(allocate(r, err));
    TRY(setup_optics(r, err));
    if (!r->set.settled) r->chosen = false;
    TRY(twins_settle(&r->set, err));
    TRY(choose_members(r, 0, (struct schedule_part){.of = 1}, err));
    return doubts_judge_images(r, err);
}

enum status refiner_give_reference(struct refiner *r, const char *path, double lowpass, struct err *err) {
    FAIL_IF(r->reference_path != NULL || r->busy, err, STATUS_BAD_STATE, "there is a reference already");
    TRY(keep_text(path, &r->reference_path, err));
    r->options.initial_lowpass = lowpass;
    /* The next iteration takes memory and chooses particles anew. */
    if (r->box > 0) setup_release(r);
    r->chosen = false;
    const enum status status = classes_find_maps(r, err);
    if (status != STATUS_OK) refiner_forget_reference(r);
    return status;
}

int refiner_operators(const struct refiner *r) {
    return r->symmetry.count;
}

enum status refiner_begin(struct refiner *r, const struct refiner_iteration *iteration, struct err *err) {
    FAIL_IF(r->reference_path == NULL, err, STATUS_BAD_STATE, "there is no reference yet");
    timing_begin(&r->timing);
    TRY(allocate(r, err));
    timing_spent(&r->timing, REFINER_START);
    TRY(trace_begin(r, err));
    TRY(setup_optics(r, err));
    if (r->kept_poses != NULL) kept_state_poses(r->kept_poses, &r->set, r->reference_count);
    star_destroy(&r->kept_poses);
    refiner_invert(r);
    if (!r->set.settled) r->chosen = false;
    TRY(twins_settle(&r->set, err));
    struct schedule_plan plan = {
        .max_order = iteration->max_order, .final = iteration->final, .aligned = all_aligned(r)};
    plan.part = schedule_part(&r->schedule, &plan, r->set.present);
    TRY(choose_members(r, iteration->most, plan.part, err));
    TRY(doubts_judge_images(r, err)); /* may make the alignment anew */
    TRY(alignment_device_seconds(r->alignment, &r->timing.device_before, err));
    count_unread(r);
    if (!r->started) TRY(first_iteration(r, err));
    r->started = true;
    TRY(signal_test(r, err));
    TRY(twins_begin(&r->met, (size_t)r->sides[0].member_count + (size_t)r->sides[1].member_count, err));
    r->running = *iteration;
    r->crossed = false;
    schedule_begin(&r->schedule, &plan);
    enum status status = open_iteration(r, err);
    if (status != STATUS_OK) {
        give_up(r);
        return status;
    }
    r->sides[0].met_twins = r->sides[1].met_twins = 0;
    r->at.side = r->at.cursor = 0;
    r->at.side_begun = false;
    r->busy = true;
    r->difference = (struct difference){0};
    timing_spent(&r->timing, REFINER_PLAN);
    return STATUS_OK;
}

/* Puts together what the E-steps of all sides and the M-step have found. */
static struct findings find(const struct refiner *r) {
    const struct side *a = &r->sides[0], *b = &r->sides[1];
    const double count = a->member_count + b->member_count;
    const int moved = a->changed + b->changed;
    struct findings f = {.particles = a->member_count + b->member_count,
                         .present = particle_set_counted(&r->set),
                         .fsc = classifies(r) ? NULL : r->fsc_joined,
                         .average_pmax = (a->pmax_sum + b->pmax_sum) / count,
                         .significant = (a->significant_sum + b->significant_sum) / count,
                         .accuracy_angle = fmin(a->accuracy_angle, b->accuracy_angle),
                         .accuracy_offset = fmin(a->accuracy_offset, b->accuracy_offset),
                         .moved = moved};
    if (moved > 0) {
        f.angle_change = (a->angle_change + b->angle_change) / moved;
        f.offset_change = sqrt((a->offset_change + b->offset_change) / (2 * moved));
    }
    for (int side = 0; side < r->side_count; side++)
        for (int k = 0; k < r->reference_count; k++) {
            int shell = schedule_signal_shell(r->sides[side].references[k].ssnr, r->schedule.current_size / 2);
            if (shell > f.signal_shell) f.signal_shell = shell;
        }
    return f;
}

static enum status device_time(struct refiner *r, struct err *err) {
    double now;
    TRY(alignment_device_seconds(r->alignment, &now, err));
    r->timing.device = now - r->timing.device_before;
    return STATUS_OK;
}

static enum status end_iteration(struct refiner *r, struct err *err) {
    /* No more projections are needed: sums that come from the host take the room of the references. */
    if (r->placement.sums_on_host) workspace_reset(r->placement.workspace);
    const int shared = r->shared_shell;
    if (!classifies(r)) TRY(told_begin(r, err));
    TRY(classifies(r) ? classes_mstep(r, err) : mstep(r, err));
    const struct findings findings = find(r);
    schedule_after(&r->schedule, &findings);
    if (classifies(r))
        r->told = r->resolution = r->box * r->pixel_size / r->schedule.resolution_shell;
    else
        TRY(told_find(r, shared, err));
    timing_spent(&r->timing, REFINER_FSC);
    TRY(device_time(r, err));
    trace_end(r);
    timing_end(&r->timing);
    for (int side = 0; side < r->side_count; side++)
        for (int i = 0; i < r->sides[side].member_count; i++)
            r->set.particles[r->sides[side].members[i]].mapped = true;
    r->busy = false;
    return STATUS_OK;
}

/* The second half loses the twins of the first. If these are many, or if an image has changed its half, the iteration
 * begins anew with the twins that are known now (twins.h). */
static bool must_begin_anew(const struct refiner *r) {
    const struct side *second = &r->sides[1];
    return r->crossed || second->met_twins > (second->met_twins + second->member_count) / 10;
}

static enum status compare_some(struct refiner *r, struct err *err) {
    struct position *at = &r->at;
    struct side *side = &r->sides[at->side];
    int count;
    if (!at->side_begun) TRY(estep_begin(r, side, err));
    if (!at->side_begun && at->side == 0) TRY(estep_list_images(r, err));
    at->side_begun = true;
    if (estep_images_left(r)) {
        TRY(estep_bring(r, err));
        if (!estep_images_left(r)) count_unread(r);
        return STATUS_OK;
    }
    TRY(estep_batch(r, side, at->cursor, &count, err));
    at->cursor += count;
    if (at->cursor < side->member_count) return STATUS_OK;
    TRY(alignment_finish(r->alignment, err));
    timing_spent(&r->timing, REFINER_SUMS);
    if (at->side == 1 && must_begin_anew(r)) {
        const struct refiner_iteration again = r->running;
        give_up(r);
        return refiner_begin(r, &again, err);
    }
    TRY(classifies(r) ? accuracy_of_classes(r, side, err) : accuracy_of_half(r, side, err));
    timing_spent(&r->timing, REFINER_ACCURACY);
    at->side++;
    at->cursor = 0;
    at->side_begun = false;
    return STATUS_OK;
}

enum status refiner_work(struct refiner *r, bool *ret_complete, struct err *err) {
    FAIL_IF(!r->busy, err, STATUS_BAD_STATE, "no iteration is running");
    *ret_complete = r->at.reading = false;
    timing_continue(&r->timing);
    bool compared = r->at.side == r->side_count;
    enum status status = compared ? end_iteration(r, err) : compare_some(r, err);
    if (status != STATUS_OK) told_stop(r); /* it looks at the poses */
    /* Images may be readable again later. After any other failure the sums may be incomplete. */
    if (status != STATUS_OK && !r->at.reading && r->busy) give_up(r);
    *ret_complete = status == STATUS_OK && compared;
    return status;
}

struct refiner_state refiner_state(const struct refiner *r) {
    const struct schedule *s = &r->schedule;
    const struct side *a = &r->sides[0], *b = &r->sides[1];
    double count = a->member_count + b->member_count;
    struct refiner_state state = {.iteration = s->iteration,
                                  .order = r->sampling.order,
                                  .current_size = r->pixels.size,
                                  .local = s->local,
                                  .kept = s->kept,
                                  .inverted = r->set.inverted,
                                  .converged = s->converged,
                                  .final = s->final,
                                  .particles = (size_t)count,
                                  .twins = r->set.left_out + r->set.repeated,
                                  .stalled = s->stalled,
                                  .resolution = r->told,
                                  .unresolved = told_why(r),
                                  .shared = fmin(r->options.join_resolution, r->options.initial_lowpass),
                                  .agreement = r->resolution,
                                  .starts_agree = r->other.shell > 0 ? r->box * r->pixel_size / r->other.shell : NAN,
                                  .starts_differ = other_start_differs(r),
                                  .starts_unknown = r->other.shell == OTHER_START_UNKNOWN,
                                  .views_doubt = r->views_doubt,
                                  .angle_step = r->sampling.angle_step * schedule_fine_step(s),
                                  .offset_step = r->sampling.offset_step * schedule_fine_step(s),
                                  .accuracy_angle = s->accuracy_angle,
                                  .accuracy_offset = s->accuracy_offset,
                                  .average_pmax = s->average_pmax,
                                  .views = {.efficiency = NAN, .tilt = NAN, .tilted_efficiency = NAN},
                                  .signal = r->signal.particles > 0 ? r->signal.deviations : NAN,
                                  .classes = classifies(r) ? r->reference_count : 1,
                                  .difference = r->difference.particles > 0 ? r->difference.deviations : NAN,
                                  .alike = r->difference.particles > 0 && r->difference.alike,
                                  .seconds = r->timing.seconds,
                                  .device_seconds = r->timing.device,
                                  .between = r->timing.between,
                                  .sums_on_host = r->placement.sums_on_host};
    memcpy(state.steps, r->timing.steps, sizeof state.steps);
    if (count > 0) {
        state.significant = (a->significant_sum + b->significant_sum) / count;
        state.reliability = (a->reliability_sum + b->reliability_sum) / count;
        state.class_changes = a->changed > 0 ? a->class_change / a->changed : 1;
    }
    return state;
}

struct refiner_class refiner_class(const struct refiner *r, int k) {
    const struct reference *c = &r->sides[0].references[k];
    return (struct refiner_class){.share = c->share, .resolution = c->resolution};
}

struct workspace *refiner_workspace(struct refiner *r) {
    struct workspace *workspace = r->alignment != NULL ? alignment_workspace(r->alignment) : NULL;
    if (r->busy || workspace == NULL) return NULL;
    workspace_reset(workspace);
    return workspace;
}

struct refiner_maps refiner_maps(const struct refiner *r) {
    return (struct refiner_maps){.box = r->box,
                                 .pixel_size = r->pixel_size,
                                 .half1 = r->sides[0].references->unfiltered,
                                 .half2 = r->sides[1].references->unfiltered,
                                 .mask = r->mask,
                                 .held = r->held,
                                 .last_shell =
                                     r->unresolved == REFINER_RESOLVED && r->agree_beyond && !other_start_differs(r)
                                         ? 0
                                         : (int)fmax(1, lround(r->box * r->pixel_size / r->told))};
}
