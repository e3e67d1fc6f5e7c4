/* Passes iteration and particles to kernels/alignment, a batch at a time, and takes the results over into the
 * particles and the sums of their side. */
#include "stages/refiner/estep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/refiner/bands.h"
#include "stages/refiner/classes_held.h"
#include "stages/refiner/given_poses.h"
#include "stages/refiner/grids.h"

/* An empty class keeps this share, so that particles can still be compared with it. */
static const double LEAST_SHARE = 1e-9;
/* Poses beyond this share of the probability are the least likely third or half of all, and hardly show in the map.
 * Classes keep them: what a class gets may be no more than that. */
static const double SUMMED = 0.98;
static const double LEAST_NORM = 1e-3;                                 /* over the mean norm of all particles */
enum { LEAST_BATCH = 16, FIRST_TO_BRING = 128, BATCH_TO_READ = 1024 }; /* of each device */

/* Returns how far the coarse pass of a grid with this step compares, px: a step moves the rim of the particle by
 * `rotated` Å, and finer detail does not help to tell two grid points apart. */
static int coarse_size(const struct refiner *r, double angle_step) {
    double rotated = M_PI * fmin(r->options.diameter, r->box * r->pixel_size) * angle_step / 360;
    int size = 2 * (int)ceil(r->pixel_size * r->box * 1.2 / rotated);
    return size < r->compared_size ? size : r->compared_size;
}

/* Returns how many pixels all poses of a fine grid are compared over before the best of them are compared over all
 * coarse pixels: as many as tell the points of the grid before apart. Most of its poses are out of the question by
 * then. */
static int screen_pixels(const struct refiner *r) {
    enum { WORTHWHILE = 2 }; /* times as many coarse pixels */
    const struct schedule *s = &r->schedule;
    if (s->local || s->order <= s->options.healpix_order) return 0;
    int pixels = fourier_pixels_within(&r->pixels, coarse_size(r, 2 * r->sampling.angle_step));
    return WORTHWHILE * pixels <= r->coarse_pixels ? pixels : 0;
}

double estep_least_noise(const struct refiner *r, const struct side *side, int shell) {
    double noise = INFINITY;
    for (int o = 0; o < r->sigma2_optics; o++)
        noise = fmin(noise, side->sigma2[(size_t)o * (size_t)r->shells + (size_t)shell] / r->mask_share);
    return noise;
}

/* Returns the variance of log-likelihoods that a shell of the reference gives to poses that are all wrong: Σ |P|²/σ²
 * over its pixels. A map filtered with the prior tau² has the power tau² · SSNR/(1 + SSNR), SSNR that of the masked map
 * in the denominator. */
static double shell_variance(const struct refiner *r, const struct side *side, int shell) {
    const struct reference *c = side->references;
    double masked = c->ssnr[shell] / r->map_share;
    double power = c->tau2[shell] * c->ssnr[shell] / (1 + masked);
    return (r->pixels.shell_begin[shell + 1] - r->pixels.shell_begin[shell]) * 2 * power /
           estep_least_noise(r, side, shell);
}

/* Returns how far to compare, px. Images are added to the sums a good way beyond the resolution, so that it can grow;
 * the map holds next to nothing there, and comparing it would take most of the time. The shells that are left out
 * change log-likelihoods by less than their rounding. */
static int compared_size(const struct refiner *r) {
    static const double ROUNDING = 0.01;
    const struct schedule *s = &r->schedule;
    int last = s->telling_size / 2;
    if (r->side_count != 2 || r->shared_shell > 0) return s->telling_size;
    for (int h = 0; h < r->side_count; h++)
        if (!(r->sides[h].references->ssnr[1] > 0)) return s->telling_size; /* no map of particles yet */
    for (double variances[2] = {0}; last > s->resolution_shell; last--) {
        for (int h = 0; h < 2; h++)
            variances[h] += shell_variance(r, &r->sides[h], last);
        if (fmax(variances[0], variances[1]) > ROUNDING * ROUNDING) break;
    }
    return 2 * last;
}

/* Makes the grid of the iteration; keeps the one of the iteration before if it is of the same kind. */
static enum status open_sampling(struct refiner *r, struct err *err) {
    const struct schedule *s = &r->schedule;
    struct sampling *had = &r->sampling;
    if (had->frames != NULL && had->order == s->order && had->offset_range == s->offset_range &&
        had->offset_step == s->offset_step && r->sampling_local == r->schedule.local)
        return STATUS_OK;
    sampling_destroy(had);
    r->sampling_local = r->schedule.local;
    return sampling_create(s->order, r->schedule.local ? NULL : &r->symmetry, s->offset_range, s->offset_step, had,
                           err);
}

enum status estep_open(struct refiner *r, struct err *err) {
    struct schedule *s = &r->schedule;
    TRY(open_sampling(r, err));
    sampling_perturb(&r->sampling, s->perturbation);
    if (r->pixels.size != s->current_size || r->pixels.box != r->box) {
        fourier_pixels_destroy(&r->pixels);
        TRY(fourier_pixels_create(r->box, s->current_size, &r->pixels, err));
    }
    r->compared_size = compared_size(r);
    int coarse = s->kept ? r->compared_size : coarse_size(r, r->sampling.angle_step);
    r->coarse_pixels = fourier_pixels_within(&r->pixels, coarse);
    r->screen_pixels = screen_pixels(r);
    return s->kept ? given_poses_list(&r->set, &r->batch.given, err) : STATUS_OK;
}

static void clear_sums(const struct refiner *r, struct side *side) {
    memset(side->sigma2_sum, 0, (size_t)r->sigma2_optics * (size_t)r->shells * sizeof *side->sigma2_sum);
    memset(side->optics_weight, 0, (size_t)r->sigma2_optics * sizeof *side->optics_weight);
    side->norm_sum = side->offset2_sum = side->weight_sum = side->pmax_sum = side->likelihood_sum =
        side->significant_sum = 0;
    side->angle_change = side->offset_change = side->reliability_sum = side->class_change = 0;
    side->changed = 0;
    for (int k = 0; k < r->reference_count; k++)
        side->references[k].weight_sum = 0;
}

enum status estep_set_references(struct refiner *r, struct side *side, int first, int count, struct err *err) {
    struct batch *batch = &r->batch;
    TRY(batch_references(batch, r->reference_count, err));
    for (int k = first; k < first + count; k++) {
        struct reference *c = &side->references[k];
        batch->projectors[k] = c->projector;
        batch->accumulators[k] = c->accumulator;
        batch->log_shares[k] = (float)log(fmax(classes_prior(r, c), LEAST_SHARE));
        TRY(bands_set_reference(r, c, err));
        if (r->placement.sums_on_host)
            TRY(accumulator_clear_beside(c->accumulator, r->placement.workspace, r->pixels.size, &r->symmetry, err));
        else
            TRY(accumulator_clear_on(c->accumulator, r->placement.workspace, r->pixels.size, err));
        if (classifies(r)) TRY(projector_power(c->projector, c->tau2, err));
    }
    return STATUS_OK;
}

/* The mask takes away most of the noise of an image and none of the particle's signal, and it makes neighbouring
 * pixels of the transform alike. Measured on masked images, the noise of a pixel is mask_share of what it was; compared
 * with such noise as if pixels were independent, every difference between poses would count 1/mask_share times. In
 * real space the pixels inside the mask are independent, and their sum over the mask is that over the transform with
 * the noise of the whole image. */
static void set_whole_noise(const struct refiner *r, struct side *side) {
    size_t count = (size_t)r->sigma2_optics * (size_t)r->shells;
    for (size_t i = 0; i < count; i++)
        side->whole_noise[i] = (float)(side->sigma2[i] / r->mask_share);
}

/* A norm is that of all shells. What images of a coarser grid would have beyond their last shell is what others have
 * there: without it, their norms would be too small, and they would be scaled up. */
static void set_noise_shares(const struct refiner *r, struct side *side) {
    for (int o = 0; o < r->sigma2_optics; o++)
        side->noise_shares[o] =
            regrid_share(side->sigma2 + (size_t)o * (size_t)r->shells, r->shells, grids_limit(&r->set, o));
}

/* Returns Σ |P|²/σ² of a projection of a class over the compared pixels, the mean over all views. */
static double class_variance(const struct refiner *r, const struct side *side, const struct reference *c) {
    double sum = 0;
    for (int shell = 1; shell <= r->compared_size / 2; shell++)
        sum += (r->pixels.shell_begin[shell + 1] - r->pixels.shell_begin[shell]) * 2 * c->tau2[shell] /
               estep_least_noise(r, side, shell);
    return sum;
}

/* Returns whether the coarse pass may multiply rounded values: log-likelihoods then change by a small part of what
 * children differ by, and the power of the references is known exactly, as that of classes is. */
static bool rounds_little(const struct refiner *r, const struct side *side, int first, int count) {
    static const double LITTLE = 0.05, PRECISION = 1.0 / 4096; /* of a log-likelihood; deviation of a product */
    if (!classifies(r) || !r->busy) return false;
    for (int k = first; k < first + count; k++)
        if (!(sqrt(class_variance(r, side, &side->references[k])) * PRECISION < LITTLE)) return false;
    return true;
}

enum status estep_compare_with(struct refiner *r, struct side *side, int first, int count, struct err *err) {
    const struct schedule *s = &r->schedule;
    const struct alignment_iteration iteration = {.pixels = &r->pixels,
                                                  .coarse_pixels = r->coarse_pixels,
                                                  .screen_pixels = r->screen_pixels,
                                                  .rounded = rounds_little(r, side, first, count),
                                                  .sampling = s->kept ? &r->batch.given : &r->sampling,
                                                  .local = s->local,
                                                  .near_sigma = schedule_near_sigma(s),
                                                  .near_range = s->options.poses_given ? s->options.local_range : 0,
                                                  .given_poses = s->kept,
                                                  .oversampled = s->oversampled,
                                                  .summed = classifies(r) ? 0 : SUMMED,
                                                  .particle_count = side->member_count,
                                                  .reference_count = count,
                                                  .references = r->batch.projectors + first,
                                                  .sums = r->batch.accumulators + first,
                                                  .reference_log_prior = count > 1 ? r->batch.log_shares + first : NULL,
                                                  .sigma_offset = side->sigma_offset,
                                                  .sigma2 = side->whole_noise,
                                                  .optics_count = r->sigma2_optics,
                                                  .shared_shell = r->shared_shell};
    set_whole_noise(r, side);
    set_noise_shares(r, side);
    TRY(alignment_begin(r->alignment, &iteration, err));
    const int most = alignment_batch(r->alignment) * alignment_workers(r->alignment);
    return batch_reserve(&r->batch, most, r->shells, r->reference_count, err);
}

/* Computes how much the M-step needs beside sums of this size, to make maps from them and to mask these. */
static enum status mstep_bytes(struct refiner *r, int size, size_t *ret_bytes, struct err *err) {
    size_t making, masking = 0;
    TRY(reconstruct_scratch(r->placement.workspace, 3, r->box, size, &r->symmetry, &making, err));
    if (!classifies(r)) TRY(workspace_volumes_bytes(r->placement.workspace, r->box, &masking, err));
    *ret_bytes = making > masking ? making : masking;
    return STATUS_OK;
}

/* Keeps images on the device, and only in what maps at full size leave free (estep_place): in at most an eighth of its
 * memory, or half of it if the host cannot hold all images, which would have to be read again in each iteration. */
static enum status keep_images(struct refiner *r, struct err *err) {
    size_t each = (size_t)r->reference_count * (accumulator_bytes(3, r->box) + projector_bytes(3, r->box));
    size_t sides = (size_t)r->side_count, scratch;
    TRY(mstep_bytes(r, r->box, &scratch, err));
    size_t resting = 3 * (sides - 1) * each, maps = sides * each + scratch, need = resting > maps ? resting : maps;
    double image = (double)r->box * r->box * sizeof(float);
    bool held = (double)r->set.present * image <= (double)r->set.cache_limit;
    double memory = alignment_memory(r->alignment), share = memory / (held ? 8 : 2);
    double most = fmax(0, fmin(memory - (double)need, share));
    return alignment_keep_images(r->alignment, (int)r->set.count, (size_t)most, err);
}

/* Keeps maps of halves on the device through the M-step: each copy to the host and back takes as long as the map. Only
 * where they are a small part of the memory, so that it hardly matters to what is compared at a time. */
static enum status place_maps(struct refiner *r, size_t used, struct err *err) {
    struct placement *p = &r->placement;
    float **const maps[] = {&p->maps.unfiltered[0], &p->maps.unfiltered[1], &p->maps.map[0], &p->maps.map[1],
                            &p->maps.combined,      &p->bands[0],           &p->bands[1]};
    const size_t count = sizeof maps / sizeof *maps, n = (size_t)r->box, capacity = workspace_capacity(p->workspace);
    const size_t bytes = count * arena_need(n * n * n, sizeof(float));
    if (classifies(r) || !p->sums_on_device || bytes > capacity / 16 || used + bytes > capacity) return STATUS_OK;
    for (size_t i = 0; i < count; i++)
        TRY(workspace_take_map(p->workspace, r->box, maps[i], err));
    p->maps_on_device = true;
    return STATUS_OK;
}

/* References lie in the device's memory. Sums stay there until the M-step, which then works on the device, under two
 * conditions: the sums of the side that is not at work take at most a third of the memory, and all sums leave room
 * for what the M-step needs beside them. Otherwise sums come to the host after each side, and go back one after the
 * other to become maps. */
enum status estep_place(struct refiner *r, struct err *err) {
    r->placement.workspace = alignment_workspace(r->alignment);
    r->placement.sums_on_device = r->placement.sums_on_host = r->placement.maps_on_device = false;
    if (r->placement.workspace == NULL) return STATUS_OK;
    workspace_reset(r->placement.workspace);
    TRY(keep_images(r, err));
    int size = r->pixels.size;
    size_t each = (size_t)r->reference_count * (accumulator_bytes(3, size) + projector_bytes(3, size));
    size_t all = (size_t)r->side_count * each, scratch, capacity = workspace_capacity(r->placement.workspace);
    TRY(mstep_bytes(r, size, &scratch, err));
    r->placement.sums_on_device = all - each <= capacity / 3 && all + scratch <= capacity;
    r->placement.sums_on_host = !r->placement.sums_on_device;
    return place_maps(r, all + scratch, err);
}

enum status estep_begin(struct refiner *r, struct side *side, struct err *err) {
    /* The side before no longer needs its references. */
    if (r->placement.workspace != NULL && !r->placement.sums_on_device) workspace_reset(r->placement.workspace);
    TRY(estep_set_references(r, side, 0, r->reference_count, err));
    clear_sums(r, side);
    timing_spent(&r->timing, REFINER_REFERENCES);
    if (r->at.seed_class >= 0) r->at.seed_class = 0;
    TRY(estep_compare_with(r, side, 0, r->at.seed_class < 0 ? r->reference_count : 1, err));
    timing_spent(&r->timing, REFINER_PLAN);
    return STATUS_OK;
}

static struct particle *member(const struct refiner *r, const struct side *side, int index) {
    return &r->set.particles[side->members[index]];
}

/* Returns the size of each worker's part of a batch. If images are read each time, two batches are in memory, with a
 * 16th of the memory each. If any image must be read, the first batch stays small, so that the wait for it is short. On
 * the CPU sums depend on the parts: they are those of a single worker. */
static int part_most(const struct refiner *r) {
    int all = alignment_batch(r->alignment), part = all / ALIGNMENT_PARTS;
    double most = all, image = (double)r->box * r->box * sizeof(float), room = host_memory(&r->options) / 16 / image;
    if (r->placement.workspace != NULL) room /= alignment_workers(r->alignment);
    room = fmax(LEAST_BATCH, room);
    if (r->unread == 0) return all;
    if (r->rereads) most = fmin(most, room);
    most = fmin(most, BATCH_TO_READ);
    return r->placement.workspace != NULL && most > part ? (int)most / part * part : (int)most;
}

static int batch_at(const struct refiner *r, const struct side *side, int first) {
    int end = r->at.seed_class < 0 ? side->member_count : side->references[r->at.seed_class].seed_end,
        most = part_most(r) * (r->busy ? alignment_workers(r->alignment) : 1);
    return end - first < most ? end - first : most;
}

/* Starts to read the batch at `next` while the one before it is compared. */
static void read_ahead(struct refiner *r, const struct side *side, int next) {
    const struct side *after = side;
    if (!r->busy) return;
    if (next == side->member_count && side == &r->sides[0] && r->side_count == 2) after = &r->sides[1], next = 0;
    int count = batch_at(r, after, next);
    if (count > 0) loader_begin(r->loader, r->alignment, after->members + next, count);
}

static int by_index(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Lists the images that a side's members lack, as far as their devices have room. left: room of each device. */
static void list_of_side(struct refiner *r, const struct side *side, int left[ALIGNMENT_DEVICES_MOST]) {
    struct images_to_bring *b = &r->to_bring;
    const int workers = alignment_workers(r->alignment);
    for (int i = 0; i < side->member_count; i++) {
        const int index = side->members[i], chunk = r->set.particles[index].chunk;
        if (left[chunk % workers] <= 0 || alignment_keeps_image(r->alignment, index + 1, chunk)) continue;
        left[chunk % workers]--;
        b->indices[b->count++] = index;
    }
}

enum status estep_list_images(struct refiner *r, struct err *err) {
    struct images_to_bring *b = &r->to_bring;
    const int workers = alignment_workers(r->alignment);
    int left[ALIGNMENT_DEVICES_MOST] = {0};
    size_t most = 0;
    b->count = b->next = 0;
    if (workers == 1 || r->unread == 0) return STATUS_OK;
    for (int h = 0; h < r->side_count; h++)
        most += (size_t)r->sides[h].member_count;
    TRY(mem_renew(most, sizeof *b->indices, "the images of an iteration", &b->indices, &b->room, err));
    for (int w = 0; w < workers; w++)
        left[w] = alignment_image_room(r->alignment, w);
    for (int h = 0; h < r->side_count; h++)
        list_of_side(r, &r->sides[h], left);
    qsort(b->indices, (size_t)b->count, sizeof *b->indices, by_index);
    return STATUS_OK;
}

bool estep_images_left(const struct refiner *r) {
    return r->to_bring.next < r->to_bring.count;
}

/* Returns how many of the images left are brought at a time: at first few, so that the wait for them is short. Two
 * batches are in memory, with a quarter of it each. */
static int count_to_bring(const struct refiner *r) {
    const struct images_to_bring *b = &r->to_bring;
    const double image = (double)r->box * r->box * sizeof(float), room = host_memory(&r->options) / 4 / image;
    const int workers = alignment_workers(r->alignment), each = b->next == 0 ? FIRST_TO_BRING : BATCH_TO_READ;
    const double most = fmin(fmax(LEAST_BATCH, room / workers), each) * workers;
    return (int)fmin(fmin(b->count - b->next, most), r->batch.room);
}

enum status estep_bring(struct refiner *r, struct err *err) {
    struct images_to_bring *b = &r->to_bring;
    const int count = count_to_bring(r), *indices = b->indices + b->next;
    const float *const *images;
    r->at.reading = true;
    loader_pass(r->loader, true);
    enum status status = loader_take(r->loader, r->alignment, indices, count, &images, err);
    if (status == STATUS_OK) b->next += count;
    if (status == STATUS_OK && estep_images_left(r))
        loader_begin(r->loader, r->alignment, indices + count, count_to_bring(r));
    loader_pass(r->loader, false);
    TRY(status);
    r->at.reading = false;
    for (int i = 0; i < count; i++)
        r->batch.particles[i] = (struct alignment_particle){
            .image = images[i], .number = indices[i] + 1, .chunk = r->set.particles[indices[i]].chunk};
    status = alignment_bring(r->alignment, r->batch.particles, count, err);
    timing_spent(&r->timing, REFINER_IMAGES);
    return status;
}

/* Takes the members of a batch whose images are twins out of the side. Notes in batch.taken which images are those of
 * the others, and returns how many these are. */
static int leave_out_twins(struct refiner *r, struct side *side, int first, int count) {
    int kept = 0, *taken = r->batch.taken;
    for (int i = 0; i < count; i++) {
        int index = side->members[first + i];
        if (r->busy && twins_meet(&r->met, &r->set, index, &r->crossed)) continue;
        side->members[first + kept] = index;
        taken[kept++] = i;
    }
    int gone = count - kept;
    if (gone == 0) return kept;
    memmove(side->members + first + kept, side->members + first + count,
            (size_t)(side->member_count - first - count) * sizeof *side->members);
    side->member_count -= gone;
    side->met_twins += gone;
    for (int k = r->at.seed_class; k >= 0 && k < r->reference_count; k++)
        side->references[k].seed_end -= gone;
    r->chosen = false;
    return kept;
}

/* Returns the chunk of a particle whose image is the `taken`th of the batch. On the CPU a chunk is the part of the
 * batch that one worker compares. */
static int chunk_of(const struct refiner *r, const struct particle *p, int taken) {
    return r->placement.workspace != NULL ? p->chunk : taken / part_most(r);
}

const struct alignment *estep_keeper(const struct refiner *r) {
    return r->busy || alignment_workers(r->alignment) == 1 ? r->alignment : NULL;
}

enum status estep_load(struct refiner *r, struct side *side, int first, int *ret_count, struct err *err) {
    int count = batch_at(r, side, first);
    const float *const *images;
    TRY(loader_take(r->loader, estep_keeper(r), side->members + first, count, &images, err));
    count = leave_out_twins(r, side, first, count);
    read_ahead(r, side, first + count);
    for (int i = 0; i < count; i++) {
        struct particle *p = member(r, side, first + i);
        struct alignment_particle *b = &r->batch.particles[i];
        /* A particle that has just joined has no norm yet: take the average. */
        if (!p->aligned) p->norm = side->average_norm;
        *b = (struct alignment_particle){.image = images[r->batch.taken[i]],
                                         .ctf = particle_ctf(p),
                                         .optics = p->optics,
                                         .shift = {(int)lround(p->origin[0]), (int)lround(p->origin[1])},
                                         .scale = side->average_norm / p->norm,
                                         .residual = p->residual,
                                         .known_shell = p->residual_shell,
                                         .orientation = side->members[first + i],
                                         .chunk = chunk_of(r, p, r->batch.taken[i]),
                                         .number = side->members[first + i] + 1};
        for (int axis = 0; axis < 2 && r->schedule.kept; axis++)
            b->rest[axis] = p->origin[axis] - b->shift[axis];
        memcpy(b->pose, p->pose, sizeof b->pose);
    }
    *ret_count = count;
    return STATUS_OK;
}

/* At most so many threads take over the results of a batch: the work is short, and other threads read images meanwhile.
 * All are in the team, since OpenMP would end those that a smaller one does not need. */
enum { TAKING_THREADS = 16 };

/* Adds up the noise. Threads share no shell, and each shell is summed in the order of the particles, so that the sum
 * does not depend on the number of threads. */
static void add_powers(struct refiner *r, struct side *side, int first, int count) {
#pragma omp parallel for num_threads(r->context.threads)                                                               \
    schedule(static, (r->shells + TAKING_THREADS - 1) / TAKING_THREADS)
    for (int shell = 1; shell < r->shells; shell++)
        for (int i = 0; i < count; i++) {
            size_t optics = (size_t)member(r, side, first + i)->optics;
            side->sigma2_sum[optics * (size_t)r->shells + (size_t)shell] += r->batch.results[i].power[shell];
        }
}

/* Finds how far the particle moved, then takes over what was found about it. Particles share nothing. */
static void take_over(const struct refiner *r, const struct side *side, struct particle *p,
                      const struct alignment_result *result, struct change *change) {
    int seed = r->at.seed_class > 0 ? r->at.seed_class : 0;
    *change = (struct change){.moved = p->aligned};
    if (p->aligned && !r->schedule.kept) {
        double dx = result->shift[0] - p->origin[0], dy = result->shift[1] - p->origin[1];
        change->angle = symmetry_distance(&r->symmetry, p->pose, result->pose);
        change->offset2 = dx * dx + dy * dy;
    }
    change->classes = p->aligned && p->class_index != seed + result->reference;
    /* Each norm is a multiple of the norm before. The norm of an empty image falls with every iteration, until its
     * inverse would be infinite. */
    const double norm = sqrt(2 * result->norm_sum / side->noise_shares[p->optics]);
    p->norm = fmax(p->norm / side->average_norm * norm, LEAST_NORM * side->average_norm);
    if (!r->schedule.kept) {
        memcpy(p->pose, result->pose, sizeof p->pose);
        memcpy(p->origin, result->shift, sizeof p->origin);
    }
    p->class_index = seed + result->reference;
    p->aligned = true;
    p->max_probability = result->pmax;
    p->log_likelihood = result->log_likelihood;
    p->significant = result->significant;
    p->reliability = result->reliability;
    p->residual = result->residual;
    p->residual_shell = r->pixels.size / 2;
}

/* Adds a particle to the other sums, in the order of the particles. */
static void add_particle(const struct refiner *r, struct side *side, const struct particle *p,
                         const struct alignment_result *result, const struct change *change) {
    int seed = r->at.seed_class > 0 ? r->at.seed_class : 0, references = r->at.seed_class < 0 ? r->reference_count : 1;
    for (int k = 0; k < references; k++)
        side->references[seed + k].weight_sum += result->reference_weights[k];
    side->optics_weight[p->optics] += 1;
    side->offset2_sum += result->offset2;
    side->weight_sum += result->weight_sum;
    side->pmax_sum += result->pmax;
    side->likelihood_sum += result->log_likelihood;
    side->significant_sum += result->significant;
    side->reliability_sum += result->reliability;
    side->norm_sum += p->norm;
    if (!change->moved) return;
    side->angle_change += change->angle;
    side->offset_change += change->offset2;
    side->class_change += change->classes;
    side->changed++;
}

/* Goes to the next class in the iteration that seeds classes: the classes follow each other, each compared with its own
 * members. */
static enum status next_class(struct refiner *r, struct side *side, int first, struct err *err) {
    if (r->at.seed_class < 0 || first < side->references[r->at.seed_class].seed_end) return STATUS_OK;
    TRY(alignment_finish(r->alignment, err));
    while (first >= side->references[r->at.seed_class].seed_end)
        r->at.seed_class++;
    return estep_compare_with(r, side, r->at.seed_class, 1, err);
}

enum status estep_batch(struct refiner *r, struct side *side, int first, int *ret_count, struct err *err) {
    TRY(next_class(r, side, first, err));
    r->at.reading = true;
    TRY(estep_load(r, side, first, ret_count, err));
    r->at.reading = false;
    timing_spent(&r->timing, REFINER_IMAGES);
    if (*ret_count == 0) return STATUS_OK;
    TRY(alignment_add(r->alignment, r->batch.particles, *ret_count, r->batch.results, err));
    timing_spent(&r->timing, REFINER_COMPARE);
    add_powers(r, side, first, *ret_count);
#pragma omp parallel for num_threads(r->context.threads)                                                               \
    schedule(static, (*ret_count + TAKING_THREADS - 1) / TAKING_THREADS)
    for (int i = 0; i < *ret_count; i++)
        take_over(r, side, member(r, side, first + i), &r->batch.results[i], &r->batch.changes[i]);
    for (int i = 0; i < *ret_count; i++)
        add_particle(r, side, member(r, side, first + i), &r->batch.results[i], &r->batch.changes[i]);
    timing_spent(&r->timing, REFINER_PARTICLES);
    return STATUS_OK;
}
