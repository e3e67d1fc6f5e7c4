/* The alignment on a CUDA device: memory and plans that live as long as the alignment, and the begin and end of an
 * iteration. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

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
    for (int slot = 0; slot < STREAM_SLOTS; slot++)
        TRY(mem_new(ALIGNMENT_PARTICLES_MOST, sizeof *a->near, "poses near particles", &a->near_of[slot], err));
    a->found = &a->found_of[0];
    TRY(alignment_cuda_images_create(a, err));
    TRY(device_host_new(&o->device, ALIGNMENT_PUT_BYTES, 1, "grids of an iteration", &a->put_block, err));
    TRY(stream_cuda_create(o->device.index, &a->stream, err));
    TRY(coarse_cuda_create(o->device.index, &a->coarse, err));
    TRY(prepare_cuda_create(o->box, ALIGNMENT_PARTICLES_MOST, &a->prepare, err));
    TRY(worker_create(&a->worker, err));
    TRY(arena_create(&o->device, (size_t)o->memory, &a->arena, err));
    return workspace_create(&o->device, a->arena, stream_cuda_kernels(a->stream), stream_cuda_busy(a->stream),
                            &a->workspace, err);
}

static enum status create(struct alignment *alignment, struct err *err) {
    struct alignment_cuda *a = NULL;
    TRY(mem_new(1, sizeof *a, "alignment", &alignment->cuda, err));
    a = alignment->cuda;
    a->options = alignment->options;
    a->shells = a->options.box / 2 + 1;
    return open_all(a, err);
}

static void destroy(struct alignment *alignment) {
    struct alignment_cuda *a = alignment->cuda;
    if (a == NULL) return;
    worker_destroy(&a->worker);
    if (a->stream != NULL) (void)stream_cuda_adopt(a->stream, NULL); /* another device may be the current one */
    workspace_destroy(&a->workspace);
    arena_destroy(&a->arena);
    prepare_cuda_destroy(&a->prepare);
    coarse_cuda_destroy(&a->coarse);
    stream_cuda_destroy(&a->stream);
    device_host_free(&a->options.device, &a->host_block);
    device_host_free(&a->options.device, &a->near_block);
    device_host_free(&a->options.device, &a->put_block);
    device_host_free(&a->options.device, &a->sums_block);
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        for (int i = 0; a->near_of[slot] != NULL && i < ALIGNMENT_PARTICLES_MOST; i++)
            sampling_subset_destroy(&a->near_of[slot][i]);
        mem_free(&a->near_of[slot]);
    }
    alignment_cuda_images_destroy(a);
    alignment_cuda_order_destroy(&a->order);
    mem_free(&a->shell_pixels);
    mem_free(&alignment->cuda);
}

static struct workspace *workspace(const struct alignment *alignment) {
    return alignment->cuda->workspace;
}

static int batch(const struct alignment *alignment) {
    return ALIGNMENT_PARTS * alignment->cuda->particles;
}

/* Fetches the sums of many small classes together, through page-locked memory. */
static enum status fetch_small(struct alignment_cuda *a, struct err *err) {
    int count = a->iteration.reference_count;
    size_t at[ALIGNMENT_REFERENCES_MOST + 1] = {0};
    for (int k = 0; k < count; k++) {
        struct accumulator_grid grid = accumulator_grid(a->iteration.sums[k]);
        size_t mine = grid.workspace == NULL ? grid.bytes : 0;
        at[k + 1] = at[k] + mine;
        if (mine > 0) TRY(stream_cuda_get(a->stream, a->sums_block + at[k], a->sums.voxels[k], mine, err));
    }
    TRY(stream_cuda_wait(a->stream, err));
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int k = 0; k < count; k++)
        if (at[k + 1] > at[k])
            memcpy(accumulator_grid(a->iteration.sums[k]).values, a->sums_block + at[k], at[k + 1] - at[k]);
    return STATUS_OK;
}

/* Returns the bytes of the sums that lie in host memory. */
static size_t host_sums(const struct alignment_cuda *a) {
    size_t bytes = 0;
    for (int k = 0; k < a->iteration.reference_count; k++) {
        struct accumulator_grid grid = accumulator_grid(a->iteration.sums[k]);
        if (grid.workspace == NULL) bytes += grid.bytes;
    }
    return bytes;
}

/* Only the leader's sums go to the host. */
static enum status reserve_sums(struct alignment_cuda *a, struct err *err) {
    size_t bytes = host_sums(a);
    if (a->leader != NULL || bytes <= a->sums_bytes || bytes > ALIGNMENT_SUMS_BYTES) return STATUS_OK;
    device_host_free(&a->options.device, &a->sums_block);
    a->sums_bytes = 0;
    TRY(device_host_new(&a->options.device, bytes + bytes / 4, 1, "sums of references", &a->sums_block, err));
    a->sums_bytes = bytes + bytes / 4;
    return STATUS_OK;
}

static enum status begin(struct alignment *alignment, const struct alignment_iteration *iteration, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    FAIL_IF(iteration->reference_count > ALIGNMENT_REFERENCES_MOST, err, STATUS_UNSUPPORTED,
            "%d references: a CUDA device compares particles with at most %d", iteration->reference_count,
            ALIGNMENT_REFERENCES_MOST);
    /* The iteration may run on another thread than the one before. */
    TRY(stream_cuda_adopt(a->stream, err));
    /* Work of an abandoned iteration may still run, and its images may still be in transfer. */
    for (int slot = 0; slot < STREAM_SLOTS; slot++)
        TRY(stream_cuda_brought(a->stream, slot, err));
    TRY(stream_cuda_wait(a->stream, err));
    a->put_used = 0;
    a->joined = (struct sums_fill){0};
    a->leader = alignment->leader != NULL ? alignment->leader->cuda : NULL;
    if (a->leader != NULL) TRY(alignment_cuda_see(a->options.device.index, a->leader->options.device.index, err));
    arena_close(a->arena, ARENA_ITERATION);
    a->iteration = *iteration;
    TRY(arena_open(a->arena, ARENA_ITERATION, err));
    TRY(alignment_cuda_plan(a, err));
    TRY(reserve_sums(a, err));
    return alignment_cuda_near_plan(a, err);
}

static enum status fetch_sums(struct alignment_cuda *a, struct err *err) {
    size_t bytes = host_sums(a);
    if (bytes == 0 && a->iteration.add_to) return STATUS_OK; /* work that uses the sums is queued behind */
    TRY(stream_cuda_wait(a->stream, err));
    if (bytes == 0) return STATUS_OK;
    if (bytes <= ALIGNMENT_SUMS_BYTES) return fetch_small(a, err);
    for (int k = 0; k < a->iteration.reference_count; k++) {
        struct accumulator_grid grid = accumulator_grid(a->iteration.sums[k]);
        if (grid.workspace == NULL)
            TRY(device_get(&a->options.device, grid.values, a->sums.voxels[k], grid.bytes, err));
    }
    return STATUS_OK;
}

/* Converts the sums to doubles, in place or into the workspace's sums. */
static enum status convert_sums(struct alignment_cuda *a, struct err *err) {
    const int count = a->iteration.reference_count;
    void *stream = stream_cuda_kernels(a->stream);
    struct sums_to_cuda to = {.reach = accumulator_grid(a->iteration.sums[0]).reach};
    if (!a->iteration.add_to) {
        for (int k = 0; k < count; k++)
            TRY(alignment_cuda_sums_to_double(&a->sums, k, stream, err));
        return STATUS_OK;
    }
    for (int k = 0; k < count; k++)
        to.voxels[k] = accumulator_grid(a->iteration.sums[k]).values;
    return alignment_cuda_sums_add_to(&a->sums, count, &to, stream, err);
}

static enum status finish(struct alignment *alignment, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    TRY(alignment_cuda_close(alignment, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(convert_sums(a, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(fetch_sums(a, err));
    arena_close(a->arena, ARENA_ITERATION);
    return STATUS_OK;
}

static enum status seconds(struct alignment *alignment, double *ret_seconds, struct err *err) {
    return stream_cuda_seconds(alignment->cuda->stream, ret_seconds, err);
}

static size_t trace(struct alignment *alignment, struct arena_step *steps, size_t capacity) {
    struct arena *arena = alignment->cuda->arena;
    size_t count = arena_trace_count(arena);
    arena_trace(arena, steps, capacity);
    return count;
}

const struct alignment_work alignment_cuda_work = {
    .create = create,
    .destroy = destroy,
    .workspace = workspace,
    .keep_images = alignment_cuda_keep_images,
    .forget_images = alignment_cuda_forget_images,
    .keeps_image = alignment_cuda_keeps_image,
    .image_room = alignment_cuda_image_room,
    .bring = alignment_cuda_bring,
    .begin = begin,
    .batch = batch,
    .scale = alignment_cuda_scale,
    .add = alignment_cuda_add,
    .finish = finish,
    .close = alignment_cuda_close,
    .join = alignment_cuda_join,
    .seconds = seconds,
    .trace = trace,
};
