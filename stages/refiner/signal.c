#include "stages/refiner/signal.h"

#include <math.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/estep.h"
#include "stages/refiner/given_poses.h"
#include "stages/refiner/resample.h"
#include "stages/refiner/setup.h"

/* FIRST: images that are compared at first, MOST: in all. SCALE: images that tell the grey scale. BEYOND: shells beyond
 * the low-pass of the reference. ON_A_DEVICE: images that one of several devices takes in a row. */
enum { FIRST = 256, MOST = 2048, SCALE = 96, FINEST_ORDER = 2, BEYOND = 3, ON_A_DEVICE = 32 };
/* Deviations: so many are no noise; of few images so many times √images, which no deviation exceeds; and from so many
 * on no more images are compared. */
static const double LEAST = 3, LEAST_OF_FEW = 0.75, SURE = 6;

/* The E-step of the test: its own grid, pixels and references. */
struct trial {
    struct sampling sampling;
    struct fourier_pixels pixels;
    int references;
    float **maps; /* [references]: box³ */
    struct projector **projectors;
    struct accumulator **sums; /* needed by the E-step; nobody reads them */
    float *noise;              /* [optics][shells] */
    int *members;
    int count;
    double *gains; /* [count]: d */
};

static size_t members(const struct refiner *r) {
    size_t count = 0;
    for (int side = 0; side < r->side_count; side++)
        count += (size_t)r->sides[side].member_count;
    return count;
}

static enum status trial_open(struct refiner *r, struct trial *t, struct err *err) {
    const struct refiner_options *o = &r->options;
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box, shells = (size_t)r->shells;
    int shell = schedule_shell(&r->schedule.options, o->initial_lowpass) + BEYOND;
    int size = 2 * shell < r->box ? 2 * shell : r->box, all = (int)members(r);
    int order = o->healpix_order < FINEST_ORDER ? o->healpix_order : FINEST_ORDER;
    t->references = r->map_count;
    size_t count = (size_t)t->references, noise = (size_t)r->sigma2_optics * shells;
    TRY(sampling_create(order, &r->symmetry, o->offset_range, 2 * o->offset_step, &t->sampling, err));
    TRY(fourier_pixels_create(r->box, size, &t->pixels, err));
    TRY(mem_new(count, sizeof *t->maps, "references", &t->maps, err));
    TRY(mem_new(count, sizeof(void *), "references", &t->projectors, err));
    TRY(mem_new(count, sizeof(void *), "references", &t->sums, err));
    TRY(mem_new(noise, sizeof *t->noise, "noise spectra", &t->noise, err));
    for (int k = 0; k < t->references; k++) {
        TRY(mem_new(voxels, sizeof **t->maps, "a map", &t->maps[k], err));
        /* Before the first iteration the references are those of the files, on another scale. */
        if (r->schedule.iteration == 0)
            copy_map(r->sides[0].references[k].map, voxels, t->maps[k]);
        else
            TRY(setup_read_reference(r, r->map_paths[k], t->maps[k], err));
        TRY(projector_create(3, r->box, r->context.threads, &t->projectors[k], err));
        TRY(accumulator_create(3, r->box, 2, &t->sums[k], err));
    }
    for (size_t i = 0; i < noise; i++)
        t->noise[i] = (float)(r->sides[0].sigma2[i] / r->mask_share);
    t->count = all < MOST ? all : MOST;
    TRY(mem_new((size_t)t->count, sizeof *t->members, "particles", &t->members, err));
    TRY(mem_new((size_t)t->count, sizeof *t->gains, "particles", &t->gains, err));
    for (int i = 0, n = 0; n < t->count; i++)
        for (int side = 0; side < r->side_count && n < t->count; side++)
            if (i < r->sides[side].member_count) t->members[n++] = r->sides[side].members[i];
    return STATUS_OK;
}

static void trial_close(struct trial *t) {
    sampling_destroy(&t->sampling);
    fourier_pixels_destroy(&t->pixels);
    for (int k = 0; k < t->references; k++) {
        if (t->maps != NULL) mem_free(&t->maps[k]);
        if (t->projectors != NULL) projector_destroy(&t->projectors[k]);
        if (t->sums != NULL) accumulator_destroy(&t->sums[k]);
    }
    mem_free(&t->maps);
    mem_free(&t->projectors);
    mem_free(&t->sums);
    mem_free(&t->noise);
    mem_free(&t->members);
    mem_free(&t->gains);
}

/* Returns how many images one worker compares at a time, however many workers there are: on the CPU the products of a
 * larger batch round differently. */
static int trial_part(const struct refiner *r) {
    return alignment_workspace(r->alignment) != NULL ? ON_A_DEVICE : alignment_batch(r->alignment);
}

/* Returns how many images are read at a time. On the CPU they are whole parts. */
static int load_most(const struct refiner *r) {
    const int most = alignment_batch(r->alignment) * alignment_workers(r->alignment);
    return alignment_workspace(r->alignment) != NULL && most > FIRST ? FIRST : most;
}

/* Begins an E-step with references first .. first + count − 1. */
static enum status begin(struct refiner *r, struct trial *t, int first, int count, struct err *err) {
    struct workspace *workspace = alignment_workspace(r->alignment);
    if (workspace != NULL) workspace_reset(workspace);
    for (int k = first; k < first + count; k++) {
        TRY(projector_set_map_on(t->projectors[k], workspace, t->maps[k], t->pixels.size, err));
        TRY(accumulator_clear_on(t->sums[k], workspace, t->pixels.size, err));
    }
    const struct alignment_iteration iteration = {.pixels = &t->pixels,
                                                  .coarse_pixels = t->pixels.count,
                                                  .sampling = &t->sampling,
                                                  .particle_count = t->count,
                                                  .reference_count = count,
                                                  .references = t->projectors + first,
                                                  .sums = t->sums + first,
                                                  .sigma_offset =
                                                      fmax(10 / r->pixel_size, given_poses_deviation(&r->set)),
                                                  .sigma2 = t->noise,
                                                  .optics_count = r->sigma2_optics};
    TRY(alignment_begin(r->alignment, &iteration, err));
    return batch_reserve(&r->batch, load_most(r), r->shells, r->reference_count, err);
}

static enum status load(struct refiner *r, const struct trial *t, int first, int end, int *ret_count, struct err *err) {
    const float *const *images;
    const int workers = alignment_workers(r->alignment), part = trial_part(r), most = load_most(r);
    const int count = end - first < most ? end - first : most;
    /* Nobody reads the sums, so that any chunk will do. */
    TRY(loader_take(r->loader, estep_keeper(r), t->members + first, count, &images, err));
    for (int i = 0; i < count; i++) {
        const struct particle *p = &r->set.particles[t->members[first + i]];
        r->batch.particles[i] =
            (struct alignment_particle){.image = images[i],
                                        .ctf = particle_ctf(p),
                                        .optics = p->optics,
                                        .shift = {(int)lround(p->given_origin[0]), (int)lround(p->given_origin[1])},
                                        .scale = 1,
                                        .residual = -1,
                                        .chunk = workers == 1 ? 0 : i / part,
                                        .number = workers == 1 ? t->members[first + i] + 1 : 0};
    }
    *ret_count = count;
    return STATUS_OK;
}

static void scale_map(const struct refiner *r, float *map, double factor) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        map[i] *= (float)factor;
}

/* Brings a reference to the grey scale of the images, as setup_scale does. */
static enum status scale(struct refiner *r, struct trial *t, int k, struct err *err) {
    double mean, dots = 0, norms = 0;
    int count, most = t->count < SCALE ? t->count : SCALE;
    TRY(begin(r, t, k, 1, err));
    TRY(load(r, t, 0, 1, &count, err));
    TRY(alignment_scale(r->alignment, r->batch.particles, 1, &mean, NULL, NULL, err));
    if (!(mean > 0)) return STATUS_OK;
    scale_map(r, t->maps[k], sqrt(500 / mean));
    TRY(begin(r, t, k, 1, err));
    for (int first = 0; first < most; first += count) {
        TRY(load(r, t, first, most, &count, err));
        TRY(alignment_scale(r->alignment, r->batch.particles, count, &mean, &dots, &norms, err));
    }
    if (dots > 0) scale_map(r, t->maps[k], dots / norms);
    return STATUS_OK;
}

/* Adds sign · ln p of members first .. end − 1 to their gains, and turns all references into their negatives. */
static enum status compare(struct refiner *r, struct trial *t, int first, int end, int sign, struct err *err) {
    int count;
    TRY(begin(r, t, 0, t->references, err));
    for (; first < end; first += count) {
        TRY(load(r, t, first, end, &count, err));
        TRY(alignment_add(r->alignment, r->batch.particles, count, r->batch.results, err));
        for (int i = 0; i < count; i++)
            t->gains[first + i] += sign * r->batch.results[i].evidence;
    }
    TRY(alignment_finish(r->alignment, err));
    for (int k = 0; k < t->references; k++)
        scale_map(r, t->maps[k], -1);
    return STATUS_OK;
}

static enum status judge(struct refiner *r, struct trial *t, struct err *err) {
    double sum = 0, squares = 0;
    for (int k = 0; k < t->references; k++)
        TRY(scale(r, t, k, err));
    for (int first = 0, end = FIRST; first < t->count; first = end, end = t->count) {
        if (end > t->count) end = t->count;
        TRY(compare(r, t, first, end, 1, err));
        TRY(compare(r, t, first, end, -1, err));
        for (int i = first; i < end; i++) {
            sum += t->gains[i];
            squares += t->gains[i] * t->gains[i];
        }
        r->signal = (struct signal){
            .particles = members(r), .images = (size_t)end, .deviations = squares > 0 ? sum / sqrt(squares) : 0};
        if (fabs(r->signal.deviations) >= SURE) break;
    }
    return STATUS_OK;
}

bool signal_is_noise(const struct signal *signal) {
    double root = sqrt((double)signal->images);
    return signal->particles > 0 && fabs(signal->deviations) < fmin(LEAST, LEAST_OF_FEW * root);
}

/* A run that goes on needs no reference, whose file may be gone. */
static bool is_known(const struct refiner *r) {
    const struct signal *s = &r->signal;
    bool sure = s->particles > 0 && fabs(s->deviations) >= SURE;
    if (sure || (s->particles > 0 && members(r) < 2 * s->particles)) return true;
    for (int k = 0; k < r->map_count; k++)
        if (r->schedule.iteration > 0 && !file_exists(r->map_paths[k])) return true;
    return false;
}

enum status signal_test(struct refiner *r, struct err *err) {
    struct trial t = {0};
    if (is_known(r)) return STATUS_OK;
    enum status status = trial_open(r, &t, err);
    if (status == STATUS_OK) status = judge(r, &t, err);
    if (alignment_workspace(r->alignment) != NULL) workspace_reset(alignment_workspace(r->alignment));
    trial_close(&t);
    return status;
}
