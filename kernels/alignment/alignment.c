#include "kernels/alignment/alignment.h"

#include <limits.h>

#include "common/memory.h"
#include "kernels/alignment/alignment_private.h"

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct alignment_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &alignment_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &alignment_cuda_work;
#else
    return NULL;
#endif
}

static enum status check_options(const struct alignment_options *o, struct err *err) {
    FAIL_IF(o->box < 8 || o->box % 2 != 0 || !(o->pixel_size > 0) || !(o->mask_radius > 0) || !(o->memory >= 0) ||
                o->max_significant < 1 || o->max_significant > 1 << 25,
            err, STATUS_BAD_ARGUMENT,
            "particles of %d px of %g Å in a circle of %g px cannot be compared with a reference: the box must be even "
            "and at least 8 px; pixel size, mask radius and memory must be positive",
            o->box, o->pixel_size, o->mask_radius);
    FAIL_IF(o->device_count < 0 || o->device_count > ALIGNMENT_DEVICES_MOST, err, STATUS_BAD_ARGUMENT,
            "%d devices cannot share particles, at most %d can", o->device_count, ALIGNMENT_DEVICES_MOST);
    return STATUS_OK;
}

/* Libraries take memory of their own at their first use. */
enum status alignment_find_memory(const struct device *device, double *ret_memory, struct err *err) {
    static const double ON_THE_CPU = 4 * 0x1p30, FOR_LIBRARIES = 0x1p30;
    size_t unused = 0;
    TRY(device_memory_free(device, &unused, err));
    *ret_memory = device->kind == DEVICE_CPU ? ON_THE_CPU : (double)unused - fmin(FOR_LIBRARIES, (double)unused / 4);
    return STATUS_OK;
}

static enum status build(struct alignment *a, struct err *err) {
    TRY(check_options(&a->options, err));
    if (a->options.device_count > 1) {
        a->work = &alignment_several_work;
        return a->work->create(a, err);
    }
    if (!(a->options.memory > 0)) TRY(alignment_find_memory(&a->options.device, &a->options.memory, err));
    a->work = work_on(&a->options.device);
    FAIL_IF(a->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can compare particles");
    return a->work->create(a, err);
}

enum status alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                             struct err *err) {
    struct alignment *a = NULL;
    TRY(mem_new(1, sizeof *a, "an E-step", &a, err));
    a->options = *options;
    if (a->options.threads < 1) a->options.threads = 1;
    enum status status = build(a, err);
    if (status != STATUS_OK) {
        alignment_destroy(&a);
        return status;
    }
    *ret_alignment = a;
    return STATUS_OK;
}

void alignment_destroy(struct alignment **alignment) {
    if (*alignment == NULL) return;
    if ((*alignment)->work != NULL) (*alignment)->work->destroy(*alignment);
    mem_free(alignment);
}

double alignment_memory(const struct alignment *a) {
    return a->options.memory;
}

struct workspace *alignment_workspace(const struct alignment *a) {
    return a->work->workspace != NULL ? a->work->workspace(a) : NULL;
}

enum status alignment_keep_images(struct alignment *a, int count, size_t most_bytes, struct err *err) {
    a->begun = false;
    return a->work->keep_images != NULL ? a->work->keep_images(a, count, most_bytes, err) : STATUS_OK;
}

void alignment_forget_images(struct alignment *a) {
    a->begun = false;
    if (a->work->forget_images != NULL) a->work->forget_images(a);
}

int alignment_workers(const struct alignment *a) {
    return a->several != NULL ? alignment_several_count(a) : 1;
}

bool alignment_keeps_image(const struct alignment *a, int number, int chunk) {
    if (a->several != NULL) return alignment_several_keeps_image(a, number, chunk);
    return a->work->keeps_image != NULL && a->work->keeps_image(a, number);
}

int alignment_image_room(const struct alignment *a, int chunk) {
    if (a->several != NULL) return alignment_several_image_room(a, chunk);
    return a->work->image_room != NULL ? a->work->image_room(a) : 0;
}

bool alignment_can_number(double orientations, int references) {
    return orientations * references <= INT_MAX;
}

/* Checks that references and sums lie in host memory or in this device's. */
static enum status check_places(const struct alignment *a, const struct alignment_iteration *iteration,
                                struct err *err) {
    const struct workspace *mine = alignment_workspace(a);
    for (int k = 0; k < iteration->reference_count; k++) {
        const struct workspace *reference = projector_grid(iteration->references[k]).workspace;
        const struct workspace *sums = accumulator_grid(iteration->sums[k]).workspace;
        FAIL_IF((reference != NULL && reference != mine) || (sums != NULL && sums != mine), err, STATUS_BAD_ARGUMENT,
                "reference %d or its sums lie in another device's memory", k + 1);
    }
    return STATUS_OK;
}

enum status alignment_begin(struct alignment *a, const struct alignment_iteration *iteration, struct err *err) {
    FAIL_IF(iteration->reference_count < 1 || iteration->coarse_pixels < 1 ||
                iteration->coarse_pixels > iteration->pixels->count || iteration->pixels->box != a->options.box,
            err, STATUS_BAD_ARGUMENT, "%d references and %d of %d Fourier pixels of a box of %d px cannot be compared",
            iteration->reference_count, iteration->coarse_pixels, iteration->pixels->count, iteration->pixels->box);
    FAIL_IF(iteration->screen_pixels < 0 || iteration->screen_pixels > iteration->coarse_pixels ||
                (iteration->local && iteration->screen_pixels > 0),
            err, STATUS_BAD_ARGUMENT, "%d of %d coarse pixels cannot be compared first", iteration->screen_pixels,
            iteration->coarse_pixels);
    FAIL_IF(!(iteration->summed >= 0 && iteration->summed < 1), err, STATUS_BAD_ARGUMENT,
            "poses that hold %g of the probability cannot be summed", iteration->summed);
    int orientations = sampling_orientation_count(iteration->sampling);
    FAIL_IF(!alignment_can_number(orientations, iteration->reference_count), err, STATUS_UNSUPPORTED,
            "%d references at %d orientations are more than can be numbered: search a coarser grid",
            iteration->reference_count, orientations);
    FAIL_IF(iteration->given_poses &&
                (!iteration->local || iteration->oversampled || iteration->sampling->shift_count != 1),
            err, STATUS_BAD_ARGUMENT, "given poses are compared by a local search of a list, without children");
    TRY(check_places(a, iteration, err));
    a->begun = false;
    a->iteration = *iteration;
    TRY(a->work->begin(a, iteration, err));
    a->begun = true;
    return STATUS_OK;
}

int alignment_batch(const struct alignment *a) {
    return a->work->batch(a);
}

static enum status check_particles(const struct alignment *a, const struct alignment_particle *particles, int count,
                                   struct err *err) {
    FAIL_IF(!a->begun, err, STATUS_BAD_STATE, "particles cannot be compared outside of an iteration");
    const int most = alignment_batch(a) * alignment_workers(a);
    FAIL_IF(count < 0 || count > most, err, STATUS_BAD_ARGUMENT,
            "%d particles cannot be compared at a time, at most %d can", count, most);
    for (int i = 0; i < count; i++)
        FAIL_IF(particles[i].chunk < 0, err, STATUS_BAD_ARGUMENT, "a particle belongs to chunk %d", particles[i].chunk);
    for (int i = 0; i < count; i++)
        FAIL_IF(particles[i].optics < 0 || particles[i].optics >= a->iteration.optics_count, err, STATUS_BAD_ARGUMENT,
                "a particle belongs to optics group %d, but there are only %d", particles[i].optics + 1,
                a->iteration.optics_count);
    for (int i = 0; i < count && a->iteration.given_poses; i++)
        FAIL_IF(particles[i].orientation < 0 ||
                    particles[i].orientation >= sampling_orientation_count(a->iteration.sampling),
                err, STATUS_BAD_ARGUMENT, "a particle has pose %d of a list of %d", particles[i].orientation + 1,
                sampling_orientation_count(a->iteration.sampling));
    return STATUS_OK;
}

enum status alignment_scale(struct alignment *a, const struct alignment_particle *particles, int count,
                            double *ret_mean, double *dots, double *norms, struct err *err) {
    TRY(check_particles(a, particles, count, err));
    FAIL_IF(a->iteration.local || a->iteration.screen_pixels > 0, err, STATUS_BAD_ARGUMENT,
            "a grey scale cannot be measured in a local search, nor in two steps");
    return a->work->scale(a, particles, count, ret_mean, dots, norms, err);
}

/* A device knows the whole pixels of a given shift; all its poses have one and the same shift. */
static void add_rest(const struct alignment_particle *p, struct alignment_result *result) {
    for (int i = 0; i < 2; i++)
        result->shift[i] = p->shift[i] + p->rest[i];
    result->offset2 = result->weight_sum * (result->shift[0] * result->shift[0] + result->shift[1] * result->shift[1]);
}

enum status alignment_bring(struct alignment *a, const struct alignment_particle *particles, int count,
                            struct err *err) {
    FAIL_IF(!a->begun, err, STATUS_BAD_STATE, "images came before an iteration began");
    for (int i = 0; i < count; i++)
        FAIL_IF(particles[i].image == NULL || particles[i].chunk < 0, err, STATUS_BAD_ARGUMENT,
                "image %d cannot come to a device: it is %s", particles[i].number,
                particles[i].image == NULL ? "not in memory" : "of no chunk");
    return a->work->bring != NULL && count > 0 ? a->work->bring(a, particles, count, err) : STATUS_OK;
}

enum status alignment_add(struct alignment *a, const struct alignment_particle *particles, int count,
                          struct alignment_result *results, struct err *err) {
    TRY(check_particles(a, particles, count, err));
    if (count == 0) return STATUS_OK;
    TRY(a->work->add(a, particles, count, results, err));
    for (int i = 0; i < count && a->iteration.given_poses; i++)
        add_rest(&particles[i], &results[i]);
    return STATUS_OK;
}

double alignment_log_poses(const struct alignment_iteration *iteration, const int shift[2]) {
    const struct sampling *s = iteration->sampling;
    double sum = 0, each = sampling_orientation_count(s);
    if (iteration->oversampled) each *= sampling_rotations(s) * SAMPLING_SHIFTS;
    /* Values are relative to about the largest one: the prior of a shift of far more than sigma would underflow to
     * 0. */
    double least = INFINITY, variance = iteration->sigma_offset * iteration->sigma_offset;
    for (int pass = 0; pass < 2; pass++)
        for (int t = 0; t < s->shift_count; t++) {
            double at[2];
            sampling_shift(s, t, at);
            double x = shift[0] + at[0], y = shift[1] + at[1], value = (x * x + y * y) / (2 * variance);
            if (pass == 0)
                least = fmin(least, value);
            else
                sum += exp(least - value);
        }
    return log(sum) - least + log(each);
}

enum status alignment_finish(struct alignment *a, struct err *err) {
    FAIL_IF(!a->begun, err, STATUS_BAD_STATE, "an iteration cannot be finished before it has begun");
    a->begun = false;
    return a->work->finish != NULL ? a->work->finish(a, err) : STATUS_OK;
}

enum status alignment_device_seconds(struct alignment *a, double *ret_seconds, struct err *err) {
    *ret_seconds = 0;
    return a->work->seconds != NULL ? a->work->seconds(a, ret_seconds, err) : STATUS_OK;
}

size_t alignment_trace(struct alignment *a, struct arena_step *steps, size_t capacity) {
    return a->work->trace != NULL ? a->work->trace(a, steps, capacity) : 0;
}
