#include "kernels/alignment/alignment.h"

#include <limits.h>

#include "common/memory.h"
#include "kernels/alignment/alignment_private.h"

struct alignment {
    struct alignment_options options;
    struct alignment_iteration iteration;
    bool begun;
    struct alignment_cpu *cpu; /* one of them */
    struct alignment_cuda *cuda;
};

static enum status check_options(const struct alignment_options *o, struct err *err) {
    FAIL_IF(o->box < 8 || o->box % 2 != 0 || !(o->pixel_size > 0) || !(o->mask_radius > 0) || !(o->memory >= 0) ||
                o->max_significant < 1 || o->max_significant > 1 << 25,
            err, STATUS_BAD_ARGUMENT,
            "particles of %d px of %g Å in a circle of %g px cannot be compared with a reference: the box must be even "
            "and at least 8 px, the others positive",
            o->box, o->pixel_size, o->mask_radius);
    return STATUS_OK;
}

/* Libraries take memory of their own when they are first used. */
static enum status find_memory(struct alignment_options *o, struct err *err) {
    static const double ON_THE_CPU = 4 * 0x1p30, FOR_LIBRARIES = 0x1p30;
    size_t unused = 0;
    if (o->memory > 0) return STATUS_OK;
    TRY(device_memory_free(&o->device, &unused, err));
    o->memory = o->device.kind == DEVICE_CPU ? ON_THE_CPU : (double)unused - fmin(FOR_LIBRARIES, (double)unused / 4);
    return STATUS_OK;
}

static enum status build(struct alignment *a, struct err *err) {
    TRY(check_options(&a->options, err));
    TRY(find_memory(&a->options, err));
    if (a->options.device.kind == DEVICE_CPU) return alignment_cpu_create(&a->options, &a->cpu, err);
#ifdef ALIGNMENT_HAVE_CUDA
    return alignment_cuda_create(&a->options, &a->cuda, err);
#else
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: an E-step can run on the CPU only");
#endif
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
    alignment_cpu_destroy(&(*alignment)->cpu);
#ifdef ALIGNMENT_HAVE_CUDA
    alignment_cuda_destroy(&(*alignment)->cuda);
#endif
    mem_free(alignment);
}

double alignment_memory(const struct alignment *a) {
    return a->options.memory;
}

struct workspace *alignment_workspace(const struct alignment *a) {
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_workspace(a->cuda);
#endif
    (void)a;
    return NULL;
}

enum status alignment_keep_images(struct alignment *a, int count, size_t most_bytes, struct err *err) {
    a->begun = false;
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_keep_images(a->cuda, count, most_bytes, err);
#endif
    (void)count, (void)most_bytes, (void)err;
    return STATUS_OK;
}

bool alignment_can_number(double orientations, int references) {
    return orientations * references <= INT_MAX;
}

/* References and sums lie in the host's memory, or in this device's. */
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
    int orientations = sampling_orientation_count(iteration->sampling);
    FAIL_IF(!alignment_can_number(orientations, iteration->reference_count), err, STATUS_UNSUPPORTED,
            "%d references at %d orientations are more than can be numbered: search a coarser grid",
            iteration->reference_count, orientations);
    TRY(check_places(a, iteration, err));
    a->begun = false;
    a->iteration = *iteration;
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) TRY(alignment_cuda_begin(a->cuda, iteration, err));
#endif
    if (a->cuda == NULL) TRY(alignment_cpu_begin(a->cpu, iteration, err));
    a->begun = true;
    return STATUS_OK;
}

int alignment_batch(const struct alignment *a) {
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_batch(a->cuda);
#endif
    return alignment_cpu_batch(a->cpu);
}

static enum status check_particles(const struct alignment *a, const struct alignment_particle *particles, int count,
                                   struct err *err) {
    FAIL_IF(!a->begun, err, STATUS_BAD_STATE, "particles cannot be compared outside of an iteration");
    FAIL_IF(count < 0 || count > alignment_batch(a), err, STATUS_BAD_ARGUMENT,
            "%d particles were to be compared at a time, %d at most", count, alignment_batch(a));
    for (int i = 0; i < count; i++)
        FAIL_IF(particles[i].optics < 0 || particles[i].optics >= a->iteration.optics_count, err, STATUS_BAD_ARGUMENT,
                "a particle is of optics group %d, there are %d", particles[i].optics + 1, a->iteration.optics_count);
    return STATUS_OK;
}

enum status alignment_scale(struct alignment *a, const struct alignment_particle *particles, int count,
                            double *ret_mean, double *dots, double *norms, struct err *err) {
    TRY(check_particles(a, particles, count, err));
    FAIL_IF(a->iteration.local, err, STATUS_BAD_ARGUMENT, "a grey scale is looked for in all orientations");
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_scale(a->cuda, particles, count, ret_mean, dots, norms, err);
#endif
    return alignment_cpu_scale(a->cpu, particles, count, ret_mean, dots, norms, err);
}

enum status alignment_add(struct alignment *a, const struct alignment_particle *particles, int count,
                          struct alignment_result *results, struct err *err) {
    TRY(check_particles(a, particles, count, err));
    if (count == 0) return STATUS_OK;
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_add(a->cuda, particles, count, results, err);
#endif
    return alignment_cpu_add(a->cpu, particles, count, results, err);
}

double alignment_log_poses(const struct alignment_iteration *iteration, const int shift[2]) {
    const struct sampling *s = iteration->sampling;
    double sum = 0, each = sampling_orientation_count(s);
    if (iteration->oversampled) each *= sampling_rotations(s) * SAMPLING_SHIFTS;
    /* Relative to the largest there can be about: a shift of far more than sigma has a prior of 0 as it stands. */
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
    FAIL_IF(!a->begun, err, STATUS_BAD_STATE, "no iteration was begun");
    a->begun = false;
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_finish(a->cuda, err);
#endif
    return STATUS_OK; /* sums went straight into the accumulators */
}

enum status alignment_device_seconds(struct alignment *a, double *ret_seconds, struct err *err) {
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_seconds(a->cuda, ret_seconds, err);
#endif
    (void)a, (void)err;
    *ret_seconds = 0;
    return STATUS_OK;
}

size_t alignment_trace(struct alignment *a, struct arena_step *steps, size_t capacity) {
#ifdef ALIGNMENT_HAVE_CUDA
    if (a->cuda != NULL) return alignment_cuda_trace(a->cuda, steps, capacity);
#endif
    (void)a, (void)steps, (void)capacity;
    return 0;
}
