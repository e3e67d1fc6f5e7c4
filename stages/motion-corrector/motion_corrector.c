#include "stages/motion-corrector/motion_corrector.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "stages/motion-corrector/spectrum.h"

/* Alignment: the largest shift, the number of iterations, and the increment that ends them. */
static const double SEARCH = 50, TOLERANCE = 0.05; /* px */
enum { ITERATIONS = 20 };
/* Side of a patch, px, below which the default takes fewer patches. */
enum { PATCHES = 5, PATCH_SIDE = 400 };
/* Dose of the frames that one spectrum sums, e⁻/Å². The frames are aligned, so that rings rise with every frame until
 * radiation damage: with 20 instead of 4, as unaligned frames need, fits reach 5.5 to 7 Å instead of 8 to 9. */
static const double SPECTRUM_DOSE = 20;

struct motion_corrector {
    struct motion_corrector_task task;
    struct motion *motion;
    double *doses; /* [frames] */
    float *power;
    size_t power_room;
};

void motion_corrector_destroy(struct motion_corrector **corrector) {
    if (corrector == NULL || *corrector == NULL) return;
    motion_destroy(&(*corrector)->motion);
    free((*corrector)->doses);
    free((*corrector)->power);
    mem_free(corrector);
}

static int patches_along(const struct param_floats *wanted, int axis, int side) {
    if (wanted->count == 2) return (int)lround(wanted->values[axis]);
    int most = side / PATCH_SIDE;
    return most > PATCHES ? PATCHES : most > 0 ? most : 1;
}

static struct motion_task motion_of(const struct motion_corrector_task *task) {
    const struct motion_corrector_options *o = task->options;
    return (struct motion_task){.nx = task->nx,
                                .ny = task->ny,
                                .frames = task->frames,
                                .pixels = task->pixels,
                                .align = {.bfactor = o->bfactor,
                                          .patches_x = patches_along(&o->patches, 0, task->nx),
                                          .patches_y = patches_along(&o->patches, 1, task->ny),
                                          .group = o->group_frames,
                                          .search = SEARCH,
                                          .iterations = ITERATIONS,
                                          .tolerance = TOLERANCE},
                                .threads = task->threads,
                                .device = task->device};
}

/* Frames whose sum gives one spectrum. Without doses, half of the movie: most have about 40 e⁻/Å². */
static int spectrum_group(int frames, const struct exposure *exposure) {
    double group = exposure->dose_per_frame > 0 ? SPECTRUM_DOSE / exposure->dose_per_frame : frames / 2.0;
    return (int)fmin(fmax(round(group), 1), frames);
}

static struct motion_sum_options sum_options(const struct motion_corrector_task *task, const struct exposure *exposure,
                                             const double *doses) {
    return (struct motion_sum_options){.bin = task->options->bin,
                                       .pixel_size = exposure->pixel_size,
                                       .voltage = exposure->voltage,
                                       .dose = doses,
                                       .spectrum_box = spectrum_shape(task->nx, task->ny, exposure->pixel_size).box,
                                       .spectrum_group = spectrum_group(task->frames, exposure),
                                       .halves = task->options->half_sets};
}

/* Fills the exposure at the end of each frame, counted from the first of the movie even where that is not used. */
static void fill_doses(const struct exposure *exposure, int frames, double *doses) {
    for (int j = 0; j < frames; j++)
        doses[j] = exposure->pre_exposure + exposure->dose_per_frame * (exposure->first_frame + j);
}

size_t motion_corrector_bytes(const struct motion_corrector_task *task, const struct exposure *exposure) {
    bool weighted = exposure->dose_per_frame > 0;
    const struct motion_task motion = motion_of(task);
    /* The estimate asks only whether there are doses. */
    const struct motion_sum_options sum = sum_options(task, exposure, weighted ? &exposure->dose_per_frame : NULL);
    size_t power = image_bytes(sum.spectrum_box / 2 + 1, sum.spectrum_box, 1);
    return task->device.kind == DEVICE_CPU ? mem_sum(power, motion_bytes(&motion, &sum)) : power;
}

enum status motion_corrector_create(const struct motion_corrector_task *task, struct motion_corrector **ret_corrector,
                                    struct err *err) {
    _cleanup_(motion_corrector_destroy) struct motion_corrector *c = NULL;
    const struct motion_task motion = motion_of(task);
    TRY(mem_new(1, sizeof *c, "a motion correction", &c, err));
    c->task = *task;
    TRY(motion_create(&motion, &c->motion, err));
    TRY(mem_new((size_t)task->frames, sizeof *c->doses, "the doses of frames", &c->doses, err));
    *ret_corrector = c;
    c = NULL;
    return STATUS_OK;
}

static enum status make_power(struct motion_corrector *c, int box, struct err *err) {
    size_t count = (size_t)box * (size_t)(box / 2 + 1);
    if (count <= c->power_room) return STATUS_OK;
    mem_free(&c->power);
    c->power_room = 0;
    TRY(mem_new_unset(count, sizeof *c->power, "a spectrum", &c->power, err));
    c->power_room = count;
    return STATUS_OK;
}

/* A spectrum overflows before the sums of the frames do. */
static enum status check_power(const float *power, int box, struct err *err) {
    size_t count = (size_t)box * (size_t)(box / 2 + 1);
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = !isfinite(power[i]) || power[i] > most ? power[i] : most;
    FAIL_IF(
        !isfinite(most) || !(most > 0), err, STATUS_BAD_FORMAT,
        "the power of the frames is %g: their values, times those of the gain reference, are too large or too small to "
        "be counts",
        (double)most);
    return STATUS_OK;
}

enum status motion_corrector_run(struct motion_corrector *c, const struct motion_frames *frames,
                                 const struct exposure *exposure, struct corrected *ret, struct err *err) {
    const struct motion_corrector_task *task = &c->task;
    struct spectrum_shape shape = spectrum_shape(task->nx, task->ny, exposure->pixel_size);
    struct motion_report report = {0};
    int nx, ny;
    ret->weighted = exposure->dose_per_frame > 0;
    ret->halves = task->options->half_sets;
    fill_doses(exposure, task->frames, c->doses);
    const struct motion_sum_options options = sum_options(task, exposure, ret->weighted ? c->doses : NULL);
    motion_sum_size(task->nx, task->ny, options.bin, &nx, &ny);
    TRY(corrected_resize(ret, nx, ny, shape.side, err));
    TRY(make_power(c, shape.box, err));
    TRY(motion_take(c->motion, frames, err));
    TRY(motion_align(c->motion, &ret->model, &report, err));
    TRY(corrected_take_report(ret, &report, err));
    const struct motion_sums sums = {.weighted = ret->weighted ? ret->weighted_sum.data : NULL,
                                     .unweighted = ret->unweighted_sum.data,
                                     .even = ret->halves ? ret->even.data : NULL,
                                     .odd = ret->halves ? ret->odd.data : NULL,
                                     .power = c->power};
    TRY(motion_sum(c->motion, &ret->model, &options, &sums, err));
    TRY(check_power(c->power, shape.box, err));
    spectrum_fill(&shape, c->power, ret->spectrum.data);
    ret->spectrum.pixel_size = (float)shape.pixel_size;
    float pixel_size = (float)(exposure->pixel_size * task->options->bin);
    ret->weighted_sum.pixel_size = ret->unweighted_sum.pixel_size = pixel_size;
    ret->even.pixel_size = ret->odd.pixel_size = pixel_size;
    ret->lengths = motion_lengths(&ret->model, exposure);
    return STATUS_OK;
}
