/* The alignment on a CUDA device: what lives as long as the run, and the frame of an iteration. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/alignment_cuda_private.h"

static enum status count_pixels(struct alignment_cuda *a, struct err *err) {
    struct fourier_pixels all = {0};
    TRY(mem_new((size_t)a->shells, sizeof *a->shell_pixels, "shells", &a->shell_pixels, err));
    TRY(fourier_pixels_create(a->options.box, a->options.box, &all, err));
    for (int s = 1; s < a->shells; s++)
        a->shell_pixels[s] = all.shell_begin[s + 1] - all.shell_begin[s];
    fourier_pixels_destroy(&all);
    return STATUS_OK;
}

static enum status open_all(struct alignment_cuda *a, struct err *err) {
    const struct alignment_options *o = &a->options;
    TRY(count_pixels(a, err));
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        TRY(mem_new(ALIGNMENT_PARTICLES_MOST, sizeof *a->near, "poses near particles", &a->near_of[slot], err));
        TRY(mem_new(ALIGNMENT_PARTICLES_MOST, sizeof *a->staged[slot], "images of a batch", &a->staged[slot], err));
    }
    a->found = &a->found_of[0];
    TRY(stream_cuda_create(o->device.index, &a->stream, err));
    TRY(coarse_cuda_create(o->device.index, &a->coarse, err));
    TRY(prepare_cuda_create(o->box, ALIGNMENT_PARTICLES_MOST, &a->prepare, err));
    TRY(worker_create(&a->worker, err));
    TRY(arena_create(&o->device, (size_t)o->memory, &a->arena, err));
    return workspace_create(&o->device, a->arena, stream_cuda_kernels(a->stream),
                            stream_cuda_busy(a->stream), &a->workspace, err);
}

enum status alignment_cuda_create(const struct alignment_options *options, struct alignment_cuda **ret_alignment,
                                  struct err *err) {
    struct alignment_cuda *a = NULL;
    TRY(mem_new(1, sizeof *a, "alignment", &a, err));
    a->options = *options;
    if (a->options.threads < 1) a->options.threads = 1;
    a->shells = options->box / 2 + 1;
    enum status status = open_all(a, err);
    if (status != STATUS_OK) {
        alignment_cuda_destroy(&a);
        return status;
    }
    *ret_alignment = a;
    return STATUS_OK;
}

void alignment_cuda_destroy(struct alignment_cuda **alignment) {
    struct alignment_cuda *a = *alignment;
    if (a == NULL) return;
    worker_destroy(&a->worker);
    workspace_destroy(&a->workspace);
    arena_destroy(&a->arena);
    prepare_cuda_destroy(&a->prepare);
    coarse_cuda_destroy(&a->coarse);
    stream_cuda_destroy(&a->stream);
    device_host_free(&a->options.device, &a->host_block);
    device_host_free(&a->options.device, &a->near_block);
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        for (int i = 0; a->near_of[slot] != NULL && i < ALIGNMENT_PARTICLES_MOST; i++)
            sampling_subset_destroy(&a->near_of[slot][i]);
        mem_free(&a->near_of[slot]);
    }
    alignment_cuda_images_destroy(a);
    mem_free(&a->shell_pixels);
    mem_free(alignment);
}

enum status alignment_cuda_begin(struct alignment_cuda *a, const struct alignment_iteration *iteration,
                                 struct err *err) {
    FAIL_IF(iteration->reference_count > ALIGNMENT_REFERENCES_MOST, err, STATUS_UNSUPPORTED,
            "%d references: a CUDA device compares particles with at most %d", iteration->reference_count,
            ALIGNMENT_REFERENCES_MOST);
    TRY(stream_cuda_wait(a->stream, err)); /* what was given up may still run */
    arena_close(a->arena, ARENA_ITERATION);
    a->iteration = *iteration;
    TRY(arena_open(a->arena, ARENA_ITERATION, err));
    TRY(alignment_cuda_plan(a, err));
    return alignment_cuda_near_plan(a, err);
}

struct workspace *alignment_cuda_workspace(const struct alignment_cuda *a) {
    return a->workspace;
}

int alignment_cuda_batch(const struct alignment_cuda *a) {
    return ALIGNMENT_PARTS * a->particles;
}

enum status alignment_cuda_finish(struct alignment_cuda *a, struct err *err) {
    struct sums_fill fill = {0};
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_sums_flush(a, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_wait(a->stream, err));
    TRY(device_get(&a->options.device, &fill, a->sums.overflow, sizeof fill, err));
    FAIL_IF(fill.overflow, err, STATUS_BAD_STATE,
            "sums over particles went beyond what they hold: images are not normalised (their background's standard "
            "deviation should be about 1)");
    TRY(stream_cuda_begin(a->stream, err));
    for (int k = 0; k < a->iteration.reference_count; k++)
        TRY(sums_to_double_cuda(&a->sums, k, stream_cuda_kernels(a->stream), err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_wait(a->stream, err));
    for (int k = 0; k < a->iteration.reference_count; k++) {
        struct accumulator_grid grid = accumulator_grid(a->iteration.sums[k]);
        if (grid.workspace == NULL) TRY(device_get(&a->options.device, grid.values, a->sums.voxels[k], grid.bytes, err));
    }
    arena_close(a->arena, ARENA_ITERATION);
    return STATUS_OK;
}

enum status alignment_cuda_seconds(struct alignment_cuda *a, double *ret_seconds, struct err *err) {
    return stream_cuda_seconds(a->stream, ret_seconds, err);
}

size_t alignment_cuda_trace(struct alignment_cuda *a, struct arena_step *steps, size_t capacity) {
    size_t count = arena_trace_count(a->arena);
    arena_trace(a->arena, steps, capacity);
    return count;
}
