#include "stages/refiner/initial/lane.h"

#include <math.h>

#include "common/memory.h"

/* Each lane is a thread of its own, which mostly waits for the device. Twice as many do no more, and take longer to
 * open. */
enum { LANES_MOST = 8 };
/* GiB of a device: a lane works with LANE_LEAST, and more than LANE_MOST makes it no faster. Each further map of a
 * start takes a part of that again. */
static const double LANE_LEAST = 0.25, LANE_MOST = 1, FURTHER = 0.25;

static int least(int a, int b) {
    return a < b ? a : b;
}

static int devices_of(const struct starts_options *o) {
    return o->device_count > 1 ? o->device_count : 1;
}

struct device lane_device(const struct starts_options *o, int lane) {
    return o->device_count > 1 ? o->devices[lane % o->device_count] : o->device;
}

/* Finds the memory for lanes, bytes: that of the device with the least. */
static enum status find_memory(const struct starts_options *o, double *ret_memory, struct err *err) {
    double least = INFINITY;
    for (int i = 0; i < devices_of(o); i++) {
        const struct device device = lane_device(o, i);
        size_t unused;
        TRY(device_memory_free(&device, &unused, err));
        /* Libraries take memory of their own. */
        least = fmin(least, (double)unused - fmin(0x1p30, (double)unused / 4));
    }
    *ret_memory = least;
    return STATUS_OK;
}

enum status lane_plan(const struct starts_options *o, int starts, int *ret_count, double *ret_memory, struct err *err) {
    const double size = (1 + FURTHER * (o->classes > 1 ? o->classes - 1 : 0)) * 0x1p30;
    const int devices = devices_of(o), wanted = least(starts, o->threads);
    double memory = o->memory * 0x1p30;
    *ret_count = least(devices, starts);
    *ret_memory = memory;
    if (o->device.kind == DEVICE_CPU) return STATUS_OK;
    if (!(memory > 0)) TRY(find_memory(o, &memory, err));
    const int fitting = (int)fmin(memory / (LANE_LEAST * size), LANES_MOST);
    const int alone = least(fitting, wanted) > 1 ? least(fitting, wanted) : 1;
    *ret_count = least(devices * alone, wanted) > 1 ? least(devices * alone, wanted) : 1;
    *ret_memory = fmin(memory / alone, LANE_MOST * size);
    return STATUS_OK;
}

enum status lane_open(const struct initial_images *images, const struct fourier_pixels *pixels,
                      const struct alignment_options *options, const struct starts_options *starts, struct lane *lane,
                      struct err *err) {
    *lane = (struct lane){.images = images,
                          .pixels = pixels,
                          .symmetry = starts->symmetry,
                          .threads = options->threads,
                          .shells = images->box / 2 + 1,
                          .classes = starts->classes > 1 ? starts->classes : 1};
    const size_t classes = (size_t)lane->classes;
    TRY(alignment_create(options, &lane->alignment, err));
    lane->workspace = alignment_workspace(lane->alignment);
    TRY(mem_new(classes, sizeof(struct projector *), "projectors", &lane->projectors, err));
    TRY(mem_new(classes, sizeof(struct accumulator *), "sums", &lane->sums, err));
    for (int k = 0; k < lane->classes; k++) {
        TRY(projector_create(3, images->box, options->threads, &lane->projectors[k], err));
        TRY(accumulator_create(3, images->box, pixels->size, &lane->sums[k], err));
    }
    TRY(mem_new(classes * (size_t)lane->shells, sizeof *lane->tau2, "spectra", &lane->tau2, err));
    TRY(mem_new(classes, sizeof *lane->log_prior, "priors", &lane->log_prior, err));
    for (int i = 0; i < STARTS_ORDERS; i++)
        TRY(sampling_create(i + 1, starts->symmetry, 0.1 * starts->diameter / images->pixel_size, 2, &lane->grids[i],
                            err));
    return STATUS_OK;
}

void lane_close(struct lane *lane) {
    for (int i = 0; i < STARTS_ORDERS; i++)
        sampling_destroy(&lane->grids[i]);
    for (int k = 0; lane->projectors != NULL && k < lane->classes; k++)
        projector_destroy(&lane->projectors[k]);
    for (int k = 0; lane->sums != NULL && k < lane->classes; k++)
        accumulator_destroy(&lane->sums[k]);
    mem_free(&lane->projectors);
    mem_free(&lane->sums);
    mem_free(&lane->log_prior);
    mem_free(&lane->weights);
    alignment_destroy(&lane->alignment);
    mem_free(&lane->tau2);
    mem_free(&lane->particles);
    mem_free(&lane->results);
    mem_free(&lane->powers);
}

/* A lane's memory on a device holds the references while particles are compared, and after that the map that is
 * made. */
static void clear_workspace(struct lane *lane) {
    if (lane->workspace != NULL) workspace_reset(lane->workspace);
}

enum status lane_set_maps(struct lane *lane, const float *maps, int count, int size, struct err *err) {
    const size_t box = (size_t)lane->images->box, voxels = box * box * box;
    clear_workspace(lane);
    lane->compared = count;
    for (int k = 0; k < count; k++) {
        lane->log_prior[k] = 0;
        TRY(projector_set_map_on(lane->projectors[k], lane->workspace, maps + (size_t)k * voxels, size, err));
    }
    return STATUS_OK;
}

static enum status reserve(struct lane *lane, int count, struct err *err) {
    if (count <= lane->room) return STATUS_OK;
    lane->room = 0;
    mem_free(&lane->particles);
    mem_free(&lane->results);
    mem_free(&lane->powers);
    mem_free(&lane->weights);
    TRY(mem_new((size_t)count, sizeof *lane->particles, "particles", &lane->particles, err));
    TRY(mem_new((size_t)count, sizeof *lane->results, "particles", &lane->results, err));
    TRY(mem_new((size_t)count * (size_t)lane->shells, sizeof *lane->powers, "spectra", &lane->powers, err));
    TRY(mem_new((size_t)count * (size_t)lane->classes, sizeof *lane->weights, "weights", &lane->weights, err));
    lane->room = count;
    return STATUS_OK;
}

/* Prepares the comparison of one image, by its place in members. */
static void take(struct lane *lane, int member, int place) {
    const struct initial_images *images = lane->images;
    const int index = images->members[member];
    const size_t pixels = (size_t)images->box * (size_t)images->box;
    lane->particles[place] = (struct alignment_particle){.image = images->values + (size_t)index * pixels,
                                                         .ctf = images->with_ctf[index] ? &images->ctfs[index] : NULL,
                                                         .scale = 1,
                                                         .residual = -1,
                                                         .number = index + 1,
                                                         .orientation = place};
    lane->results[place].power = lane->powers + (size_t)place * (size_t)lane->shells;
    lane->results[place].reference_weights =
        lane->compared > 1 ? lane->weights + (size_t)place * (size_t)lane->classes : NULL;
}

enum status lane_compare(struct lane *lane, const struct alignment_iteration *given, const int *at, int count,
                         struct err *err) {
    struct alignment_iteration iteration = *given;
    iteration.references = lane->projectors;
    iteration.reference_count = lane->compared;
    iteration.reference_log_prior = lane->compared > 1 ? lane->log_prior : NULL;
    iteration.sums = lane->sums;
    iteration.particle_count = count;
    for (int k = 0; k < lane->compared; k++)
        TRY(accumulator_clear(lane->sums[k], lane->pixels->size, err));
    TRY(alignment_begin(lane->alignment, &iteration, err));
    TRY(reserve(lane, count, err));
    for (int i = 0; i < count; i++)
        take(lane, at[i], i);
    const int most = alignment_batch(lane->alignment);
    for (int first = 0, part; first < count; first += part) {
        part = count - first < most ? count - first : most;
        TRY(alignment_add(lane->alignment, lane->particles + first, part, lane->results + first, err));
    }
    return alignment_finish(lane->alignment, err);
}

enum status lane_make_map(struct lane *lane, const struct accumulator *sums, const float *tau2, double fudge,
                          float *ret_map, struct err *err) {
    const struct reconstruct_options options = {
        .tau2 = tau2, .tau_fudge = fudge, .minres_shell = 0, .threads = lane->threads};
    struct accumulator *own = lane->sums[0];
    clear_workspace(lane);
    if (lane->workspace != NULL)
        TRY(accumulator_clear_beside(own, lane->workspace, lane->pixels->size, lane->symmetry, err));
    else
        TRY(accumulator_clear(own, lane->pixels->size, err));
    TRY(accumulator_merge(own, sums, err));
    TRY(accumulator_finish(own, lane->symmetry, lane->threads, err));
    return reconstruct_map(own, &options, ret_map, NULL, NULL, err);
}
