/* Prepares what a refinement starts from: the reference on the particles' grid, the noise of the particles, and the
 * grey scale that makes reference and particles comparable. */
#include "stages/refiner/setup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/fsc/soft_edge.h"
#include "kernels/prepare/mask.h"
#include "kernels/prepare/prepare.h"
#include "stages/refiner/doubts.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/hand.h"
#include "stages/refiner/mstep.h"
#include "stages/refiner/resample.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum { NOISE_PARTICLES = 1000, NOISE_BATCH = 100, READING_THREADS = 16, RADIUS_LEAST = 4 };

static enum status allocate_reference(struct refiner *r, struct reference *c, struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box, shells = (size_t)r->shells;
    const struct device *device = &r->context.device;
    TRY(device_host_new(device, voxels, sizeof *c->map, "a map", &c->map, err));
    if (r->side_count == 2) TRY(device_host_new(device, voxels, sizeof *c->unfiltered, "a map", &c->unfiltered, err));
    TRY(mem_new(shells, sizeof *c->tau2, "spectra", &c->tau2, err));
    TRY(mem_new(shells, sizeof *c->ssnr, "spectra", &c->ssnr, err));
    TRY(mem_new(shells, sizeof *c->completeness, "spectra", &c->completeness, err));
    TRY(mem_new(shells, sizeof *c->sigma2_reconstruction, "spectra", &c->sigma2_reconstruction, err));
    TRY(projector_create(3, r->box, r->context.threads, &c->projector, err));
    c->share = 1.0 / r->reference_count;
    /* If the device holds the sums, the host seldom needs memory for them. */
    return accumulator_create(3, r->box, device->kind == DEVICE_CPU ? r->box : 2, &c->accumulator, err);
}

static enum status allocate_side(struct refiner *r, struct side *side, struct err *err) {
    TRY(mem_new((size_t)r->reference_count, sizeof *side->references, "maps", &side->references, err));
    for (int k = 0; k < r->reference_count; k++)
        TRY(allocate_reference(r, &side->references[k], err));
    side->average_norm = 1;
    side->sigma_offset = 10 / r->pixel_size;
    return STATUS_OK;
}

static enum alignment_norm reliability(const struct refiner_options *o) {
    if (!o->reliability) return ALIGNMENT_NORM_NONE;
    return o->reliability_norm == 0 ? ALIGNMENT_NORM_L2 : ALIGNMENT_NORM_L2SQ;
}

enum status setup_alignment(struct refiner *r, struct err *err) {
    struct alignment_options options = {.device = r->context.device,
                                        .device_count = r->context.device_count,
                                        .threads = r->context.threads,
                                        .memory = compare_memory(&r->options),
                                        .box = r->box,
                                        .pixel_size = r->pixel_size,
                                        .mask_radius = r->mask_radius,
                                        .max_significant = r->options.max_significant,
                                        .reliability = reliability(&r->options)};
    memcpy(options.devices, r->context.devices, sizeof options.devices);
    alignment_destroy(&r->alignment);
    return alignment_create(&options, &r->alignment, err);
}

/* Checks a map that was read. One NaN would spread over its whole transform. */
static enum status check_map(const struct image *map, const char *what, const char *path, struct err *err) {
    FAIL_IF(map->nx != map->ny || map->nx != map->nz || map->nx < MAP_LEAST, err, STATUS_BAD_FORMAT,
            "the %s %s is %d × %d × %d: a cube was expected", what, path, map->nx, map->ny, map->nz);
    FAIL_IF(!image_values_fit(map->data, image_count(map)), err, STATUS_BAD_FORMAT,
            "the %s %s has voxels that are NaN, infinite or far too large: write it anew", what, path);
    return STATUS_OK;
}

static enum status read_mask(struct refiner *r, struct err *err) {
    struct image mask = {0};
    double sum = 0;
    TRY(mrc_read(r->mask_path, &mask, err));
    enum status status = check_map(&mask, "mask", r->mask_path, err);
    if (status == STATUS_OK)
        status = mem_new((size_t)r->box * (size_t)r->box * (size_t)r->box, sizeof *r->mask, "the mask", &r->mask, err);
    if (status == STATUS_OK)
        status = resample_map(mask.data, mask.nx, mask.pixel_size > 0 ? mask.pixel_size : r->pixel_size, r->box,
                              r->pixel_size, r->mask, err);
    for (size_t i = 0; status == STATUS_OK && i < (size_t)r->box * (size_t)r->box * (size_t)r->box; i++)
        sum += r->mask[i] = fminf(fmaxf(r->mask[i], 0), 1);
    image_destroy(&mask);
    TRY(status);
    FAIL_IF(!(sum > 0), err, STATUS_BAD_FORMAT,
            "the mask %s is empty in the box of the particles: values up to 1 where the density is were expected",
            r->mask_path);
    if (r->set.inverted) hand_invert_map(r->box, r->context.threads, r->mask);
    return STATUS_OK;
}

double setup_bytes_of_maps(const struct refiner *r, int size) {
    double each = (double)(accumulator_bytes(3, size) + projector_bytes(3, size));
    return 1.06 * each * (classifies(r) ? r->reference_count : 1);
}

/* Checks that maps fit the device. The last iteration of a refinement is at full size. How far a classification will
 * compare is not known; its first iteration must fit. */
static enum status check_memory(const struct refiner *r, struct err *err) {
    const struct workspace *workspace = alignment_workspace(r->alignment);
    if (workspace == NULL) return STATUS_OK;
    int size = classifies(r) ? schedule_first_size(&r->schedule.options) : r->box;
    double need = setup_bytes_of_maps(r, size), capacity = (double)workspace_capacity(workspace);
    FAIL_IF(need > capacity, err, STATUS_NO_MEMORY,
            "%d maps of %d px, compared up to %d px, need %.2f GiB of the device's memory, %.2f GiB may be used: %s",
            classifies(r) ? r->reference_count : r->side_count, r->box, size, need * 0x1p-30, capacity * 0x1p-30,
            r->options.memory > 0
                ? "set `memory` to more; auto is all that is free, or in a graph a part of a device that others share"
                : "end other programs that use the device, or extract smaller particles");
    return STATUS_OK;
}

static struct schedule_options schedule_options(const struct refiner *r) {
    const struct refiner_options *o = &r->options;
    return (struct schedule_options){.classifies = classifies(r),
                                     .references = r->reference_count,
                                     .box = r->box,
                                     .pixel_size = r->pixel_size,
                                     .initial_lowpass = o->initial_lowpass,
                                     .diameter = o->diameter,
                                     .join_resolution = o->join_resolution,
                                     .healpix_order = o->healpix_order,
                                     .local_order = o->local_order,
                                     .poses_given = r->set.poses_given,
                                     .keep_poses = o->skip_align,
                                     .maps_of_poses =
                                         r->set.poses_given && (!classifies(r) || r->map_count < r->reference_count),
                                     .local_range = o->local_range,
                                     .offset_range = o->offset_range,
                                     .offset_step = o->offset_step,
                                     .iterations = o->iterations,
                                     .part_particles = o->part_particles};
}

/* White noise of an image keeps Σ w² / box² of its power under a mask w. */
static enum status find_mask_share(struct refiner *r, struct err *err) {
    size_t pixels = (size_t)r->box * (size_t)r->box;
    _cleanup_(mem_free) float *outside = NULL;
    TRY(mem_new(pixels, sizeof *outside, "a mask", &outside, err));
    prepare_mask_outside(r->box, r->mask_radius, outside);
    double sum = 0;
    for (size_t i = 0; i < pixels; i++)
        sum += (1 - (double)outside[i]) * (1 - (double)outside[i]);
    r->mask_share = sum / (double)pixels;
    return STATUS_OK;
}

double setup_map_share(const struct refiner *r) {
    double voxels = (double)r->box * r->box * r->box, sum = 0;
    if (r->mask != NULL) {
        for (size_t i = 0; i < (size_t)voxels; i++)
            sum += (double)r->mask[i] * (double)r->mask[i];
        return sum / voxels;
    }
    const double step = 0.01; /* px */
    for (double d = step / 2; d < r->mask_radius + MASK_EDGE; d += step) {
        double inside = 1 - soft_edge_outside(d, r->mask_radius, MASK_EDGE);
        sum += 4 * M_PI * d * d * inside * inside * step;
    }
    return sum / voxels;
}

/* Returns how many threads read. Of many threads, half read and half compare. */
static int reading_threads(const struct refiner *r) {
    const int threads = r->context.threads;
    if (threads < READING_THREADS) return threads;
    return threads / 2 > READING_THREADS ? threads / 2 : READING_THREADS;
}

static enum status allocate(struct refiner *r, struct err *err) {
    r->box = r->set.box;
    r->shells = r->box / 2 + 1;
    r->pixel_size = r->set.pixel_size;
    r->mask_radius = r->options.diameter / (2 * r->pixel_size);
    FAIL_IF(r->mask_radius < RADIUS_LEAST, err, STATUS_BAD_ARGUMENT,
            "diameter is %g Å, which is %.1f px of the particles (%.4g Å/px): at least %d px are needed",
            r->options.diameter, 2 * r->mask_radius, r->pixel_size, 2 * RADIUS_LEAST);
    if (r->mask_radius > r->box / 2 - MASK_EDGE) r->mask_radius = r->box / 2 - MASK_EDGE;
    TRY(find_mask_share(r, err));
    r->schedule.options = schedule_options(r);
    r->shared_shell = schedule_shared_shell(&r->schedule.options, r->resolution);
    TRY(device_host_new(&r->context.device, (size_t)r->box * (size_t)r->box * (size_t)r->box, sizeof *r->combined,
                        "a map", &r->combined, err));
    TRY(mem_new((size_t)r->shells, sizeof *r->fsc, "spectra", &r->fsc, err));
    TRY(mem_new((size_t)r->shells, sizeof *r->fsc_joined, "spectra", &r->fsc_joined, err));
    for (int side = 0; side < r->side_count; side++)
        TRY(allocate_side(r, &r->sides[side], err));
    TRY(loader_create(&r->set, reading_threads(r), r->context.scratch, &r->loader, err));
    TRY(setup_alignment(r, err));
    TRY(check_memory(r, err));
    if (r->mask_path != NULL) TRY(read_mask(r, err));
    r->map_share = setup_map_share(r);
    return STATUS_OK;
}

static void release_reference(const struct device *device, struct reference *c) {
    projector_destroy(&c->projector);
    accumulator_destroy(&c->accumulator);
    device_host_free(device, &c->map);
    device_host_free(device, &c->unfiltered);
    mem_free(&c->tau2);
    mem_free(&c->ssnr);
    mem_free(&c->completeness);
    mem_free(&c->sigma2_reconstruction);
}

static void release_side(struct refiner *r, struct side *side) {
    for (int k = 0; side->references != NULL && k < r->reference_count; k++)
        release_reference(&r->context.device, &side->references[k]);
    mem_free(&side->references);
    mem_free(&side->all);
    mem_free(&side->members);
    mem_free(&side->sigma2);
    mem_free(&side->whole_noise);
    mem_free(&side->sigma2_sum);
    mem_free(&side->optics_weight);
    mem_free(&side->noise_shares);
}

void setup_release(struct refiner *r) {
    for (int side = 0; side < 2; side++)
        release_side(r, &r->sides[side]);
    device_host_free(&r->context.device, &r->combined);
    for (int i = 0; i < 2; i++)
        device_host_free(&r->context.device, &r->bands[i]);
    mem_free(&r->fsc);
    mem_free(&r->fsc_joined);
    mem_free(&r->mask);
    alignment_destroy(&r->alignment);
    loader_destroy(&r->loader);
    r->box = r->sigma2_optics = 0;
}

enum status setup_allocate(struct refiner *r, struct err *err) {
    FAIL_IF(r->set.box % 2 != 0 || r->set.box < 16, err, STATUS_UNSUPPORTED,
            "particles of %d px cannot be refined: the box must be even and at least 16 px", r->set.box);
    FAIL_IF(r->set.box > FOURIER_SIZE_MOST_3D, err, STATUS_UNSUPPORTED,
            "particles of %d px cannot be refined: the transform of their map has more points than can be numbered; "
            "extract or bin them to at most %d px",
            r->set.box, FOURIER_SIZE_MOST_3D);
    enum status status = allocate(r, err);
    if (status != STATUS_OK) setup_release(r);
    return status;
}

/* Gives new groups the mean spectrum of the groups before them. */
enum status setup_optics(struct refiner *r, struct err *err) {
    int had = r->sigma2_optics, want = r->set.optics_count;
    if (want <= had) return STATUS_OK;
    size_t shells = (size_t)r->shells;
    for (int i = 0; i < r->side_count; i++) {
        struct side *side = &r->sides[i];
        float *larger = NULL;
        TRY(mem_new((size_t)want * shells, sizeof *larger, "noise spectra", &larger, err));

        if (had > 0) memcpy(larger, side->sigma2, (size_t)had * shells * sizeof *larger);
        for (int o = had; o < want; o++)
            for (size_t s = 0; s < shells; s++) {
                double sum = 0;
                for (int k = 0; k < had; k++)
                    sum += larger[(size_t)k * shells + s];
                larger[(size_t)o * shells + s] = had > 0 ? (float)(sum / had) : 1;
            }
        free(side->sigma2);
        side->sigma2 = larger;
        mem_free(&side->whole_noise);
        mem_free(&side->sigma2_sum);
        mem_free(&side->optics_weight);
        mem_free(&side->noise_shares);
        TRY(mem_new((size_t)want * shells, sizeof *side->whole_noise, "noise spectra", &side->whole_noise, err));
        TRY(mem_new((size_t)want * shells, sizeof *side->sigma2_sum, "noise spectra", &side->sigma2_sum, err));
        TRY(mem_new((size_t)want, sizeof *side->optics_weight, "noise spectra", &side->optics_weight, err));
        TRY(mem_new((size_t)want, sizeof *side->noise_shares, "noise spectra", &side->noise_shares, err));
    }
    r->sigma2_optics = want;
    return STATUS_OK;
}

enum status setup_read_map(struct refiner *r, const char *path, int box, double pixel_size, float *map,
                           struct err *err) {
    struct image reference = {0};
    TRY(mrc_read(path, &reference, err));
    enum status status = check_map(&reference, "reference", path, err);
    r->given_box = reference.nx;
    r->given_pixel_size = reference.pixel_size > 0 ? reference.pixel_size : r->pixel_size;
    if (status == STATUS_OK)
        status = resample_map(reference.data, r->given_box, r->given_pixel_size, box, pixel_size, map, err);
    image_destroy(&reference);
    if (status == STATUS_OK && r->set.inverted) hand_invert_map(box, r->context.threads, map);
    return status;
}

enum status setup_read_reference(struct refiner *r, const char *path, float *map, struct err *err) {
    TRY(setup_read_map(r, path, r->box, r->pixel_size, map, err));
    TRY(doubts_look_at_reference(r, map, err));
    double shell = r->box * r->pixel_size / r->options.initial_lowpass + 1;
    TRY(lowpass_map(map, r->box, shell, 2, err));
    if (r->symmetry.count > 1) TRY(symmetry_average_map(&r->symmetry, r->box, map, err));
    mask_sphere(3, r->box, map, r->mask_radius, MASK_EDGE, 0);
    /* Detail beyond the shared shells that mask and low-pass leave would decide on the poses of both halves. */
    return r->shared_shell > 0 ? lowpass_map(map, r->box, r->shared_shell + 0.5, 0, err) : STATUS_OK;
}

enum status setup_reference(struct refiner *r, struct err *err) {
    const size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    for (int k = 0; k < r->reference_count; k++) {
        float *map = r->sides[0].references[k].map;
        if (k < r->map_count)
            TRY(setup_read_reference(r, r->map_paths[k], map, err));
        else
            copy_map(r->sides[0].references[0].map, voxels, map);
    }
    if (r->side_count == 2) copy_map(r->sides[0].references->map, voxels, r->sides[1].references->map);
    return STATUS_OK;
}

/* Sums over particles as they come: the mean of their powers, and their average image. */
struct noise {
    int count, threads;
    size_t pixels, shells;
    struct prepare **prepares; /* [threads] */
    float *average, *powers;   /* [pixels]; [NOISE_BATCH][shells] */
    double *sum;               /* [shells] */
    int *seen;                 /* [shells]: images that have the shell */
};

static enum status noise_open(const struct refiner *r, const struct side *side, struct noise *n, struct err *err) {
    *n = (struct noise){.count = side->member_count < NOISE_PARTICLES ? side->member_count : NOISE_PARTICLES,
                        .threads = r->context.threads,
                        .pixels = (size_t)r->box * (size_t)r->box,
                        .shells = (size_t)r->shells};
    TRY(mem_new((size_t)n->threads, sizeof(struct prepare *), "the noise of particles", &n->prepares, err));
    TRY(mem_new(n->pixels, sizeof *n->average, "the average particle", &n->average, err));
    TRY(mem_new(NOISE_BATCH * n->shells, sizeof *n->powers, "spectra", &n->powers, err));
    TRY(mem_new(n->shells, sizeof *n->sum, "spectra", &n->sum, err));
    TRY(mem_new(n->shells, sizeof *n->seen, "spectra", &n->seen, err));
    for (int t = 0; t < n->threads; t++)
        TRY(prepare_create(r->box, &n->prepares[t], err));
    return STATUS_OK;
}

static void noise_close(struct noise *n) {
    for (int t = 0; n->prepares != NULL && t < n->threads; t++)
        prepare_destroy(&n->prepares[t]);
    mem_free(&n->prepares);
    mem_free(&n->average);
    mem_free(&n->powers);
    mem_free(&n->sum);
    mem_free(&n->seen);
}

/* Adds images in their order, whatever the number of threads. */
static void noise_add(const struct refiner *r, struct noise *n, const int *members, const float *const *images,
                      int count) {
    const struct prepare_options options = {.scale = 1, .mask_radius = r->mask_radius, .shared_shell = r->shared_shell};
#pragma omp parallel num_threads(n->threads)
    {
        struct prepare *mine = n->prepares[omp_get_thread_num()];
#pragma omp for schedule(static)
        for (int i = 0; i < count; i++)
            prepare_image(mine, images[i], &options, NULL, NULL, NULL, n->powers + (size_t)i * n->shells);
#pragma omp for schedule(static)
        for (size_t j = 0; j < n->pixels; j++)
            for (int i = 0; i < count; i++)
                n->average[j] += images[i][j] / (float)n->count;
    }
    for (int i = 0; i < count; i++) {
        double limit = grids_limit(&r->set, r->set.particles[members[i]].optics);
        int last = regrid_last_shell(r->shells, limit);
        for (int s = 0; s <= last; s++) {
            n->sum[s] += n->powers[(size_t)i * n->shells + (size_t)s] / (double)n->count;
            n->seen[s]++;
        }
    }
}

static enum status noise_gather(struct refiner *r, const struct side *side, struct noise *n, struct err *err) {
    for (int first = 0, count; first < n->count; first += count) {
        const float *const *images;
        count = n->count - first < NOISE_BATCH ? n->count - first : NOISE_BATCH;
        TRY(loader_take(r->loader, NULL, side->members + first, count, &images, err));
        int next = first + count, left = n->count - next;
        if (left > 0) loader_begin(r->loader, NULL, side->members + next, left < NOISE_BATCH ? left : NOISE_BATCH);
        noise_add(r, n, side->members + first, images, count);
    }
    return STATUS_OK;
}

/* Estimates noise as the power of the particles minus the power of their average, per shell: signal that all have in
 * common is not noise. */
static enum status noise_of_side(struct refiner *r, struct side *side, struct noise *n, struct err *err) {
    const struct prepare_options options = {.scale = 1, .mask_radius = r->mask_radius, .shared_shell = r->shared_shell};
    TRY(noise_open(r, side, n, err));
    TRY(noise_gather(r, side, n, err));
    float *power = n->powers;
    double *sum = n->sum;
    prepare_image(n->prepares[0], n->average, &options, NULL, NULL, NULL, power);
    for (int s = 0; s < r->shells; s++) {
        /* Images of coarser grids have nothing in the last shells: means are those of the others. */
        double others = n->seen[s] > 0 ? (double)n->count / n->seen[s] : 0;
        sum[s] = sum[s] * others - power[s] * others * others;
    }
    for (int s = 1; s < r->shells; s++)
        if (sum[s] <= 0) sum[s] = sum[s - 1];
    for (int s = r->shells - 2; s >= 0; s--)
        if (sum[s] <= 0) sum[s] = sum[s + 1];
    FAIL_IF(!(sum[1] > 0), err, STATUS_BAD_FORMAT,
            "the particles have no noise: all %d images examined are the same, empty, or NaN", n->count);
    for (int o = 0; o < r->sigma2_optics; o++)
        for (int s = 0; s < r->shells; s++)
            side->sigma2[(size_t)o * (size_t)r->shells + (size_t)s] = (float)sum[s];
    for (int o = 0; o < r->sigma2_optics; o++)
        mstep_floor_noise(side->sigma2 + (size_t)o * (size_t)r->shells, r->shells);
    return STATUS_OK;
}

enum status setup_noise(struct refiner *r, struct err *err) {
    for (int side = 0; side < r->side_count; side++) {
        struct noise noise;
        enum status status = noise_of_side(r, &r->sides[side], &noise, err);
        noise_close(&noise);
        TRY(status);
    }
    return STATUS_OK;
}
