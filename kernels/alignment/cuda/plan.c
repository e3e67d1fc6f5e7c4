/* Plans an iteration: what it keeps on the device, and how many particles and slices at a time fit into the rest. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

/* Least number of particles that sums have room for: the last bits of sums are the same for any number up to this. */
static const double PARTICLES_OF_SUMS = 1e6;

/* Queues the copy of a small array, without waiting. */
static enum status upload(struct alignment_cuda *a, const void *host, size_t count, size_t size, const char *what,
                          const void *ret_pointer, struct err *err) {
    void *to = NULL;
    size_t bytes = count * size;
    TRY(arena_take(a->arena, count, size, what, &to, err));
    *(void **)ret_pointer = to;
    if (arena_need(bytes, 1) > ALIGNMENT_PUT_BYTES - a->put_used)
        return device_put(&a->options.device, to, host, bytes, err);
    char *from = a->put_block + a->put_used;
    a->put_used += arena_need(bytes, 1);
    memcpy(from, host, bytes);
    return stream_cuda_put(a->stream, to, from, bytes, err);
}

static void to_float(const double *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

/* Copies the frames of the directions and, if the fine pass has children, of their children. */
static enum status upload_frames(struct alignment_cuda *a, struct err *err) {
    const struct sampling *s = a->iteration.sampling;
    struct sampling_cuda *d = &a->sampling;
    size_t directions = (size_t)s->direction_count, children = directions * (size_t)d->direction_children;
    _cleanup_(mem_free) float *frames = NULL;
    TRY(mem_new(children, 9 * sizeof *frames, "directions", &frames, err));
    to_float(s->frames[0], directions * 9, frames);
    TRY(upload(a, frames, directions, 9 * sizeof *frames, "directions", &d->frames, err));
    d->child_frames = d->frames;
    if (d->direction_children == 1) return STATUS_OK;
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (size_t i = 0; i < children; i++) {
        double frame[9];
        sampling_child_frame(s, (int)(i / 4), (int)(i % 4), frame);
        to_float(frame, 9, frames + 9 * i);
    }
    return upload(a, frames, children, 9 * sizeof *frames, "directions", &d->child_frames, err);
}

static enum status upload_turns(struct alignment_cuda *a, struct err *err) {
    const struct sampling *s = a->iteration.sampling;
    struct sampling_cuda *d = &a->sampling;
    size_t count = (size_t)s->psi_count, shifts = (size_t)s->shift_count;
    size_t most = count > shifts ? count : shifts;
    _cleanup_(mem_free) float *values = NULL;
    TRY(mem_new(most * 8, sizeof *values, "angles and shifts", &values, err));
    for (size_t i = 0; i < count; i++) {
        double psi = (double)i * s->psi_step * M_PI / 180;
        values[2 * i] = (float)cos(psi), values[2 * i + 1] = (float)sin(psi);
    }
    TRY(upload(a, values, count, 2 * sizeof *values, "angles", &d->psi, err));
    d->child_psi = d->psi;
    for (size_t i = 0; i < 2 * count && d->psi_children == 2; i++) {
        double psi = ((double)(i / 2) + (i % 2 == 0 ? -0.25 : 0.25)) * s->psi_step * M_PI / 180;
        values[2 * i] = (float)cos(psi), values[2 * i + 1] = (float)sin(psi);
    }
    if (d->psi_children == 2) TRY(upload(a, values, 2 * count, 2 * sizeof *values, "angles", &d->child_psi, err));
    for (size_t t = 0; t < shifts; t++) {
        double shift[2];
        sampling_shift(s, (int)t, shift);
        to_float(shift, 2, values + 2 * t);
    }
    TRY(upload(a, values, shifts, 2 * sizeof *values, "shifts", &d->shifts, err));
    d->child_shifts = d->shifts;
    if (d->shift_children == 1) return STATUS_OK;
    for (size_t t = 0; t < 4 * shifts; t++) {
        double shift[2];
        sampling_child_shift(s, (int)(t / 4), (int)(t % 4), shift);
        to_float(shift, 2, values + 2 * t);
    }
    return upload(a, values, 4 * shifts, 2 * sizeof *values, "shifts", &d->child_shifts, err);
}

static enum status upload_sampling(struct alignment_cuda *a, struct err *err) {
    const struct sampling *s = a->iteration.sampling;
    bool children = a->iteration.oversampled;
    a->sampling = (struct sampling_cuda){.references = a->iteration.reference_count,
                                         .directions = s->direction_count,
                                         .psi_count = s->psi_count,
                                         .shift_count = s->shift_count,
                                         .direction_children = children ? sampling_direction_children(s) : 1,
                                         .psi_children = children ? 2 : 1,
                                         .shift_children = children ? 4 : 1};
    a->rotations = a->sampling.direction_children * a->sampling.psi_children;
    a->most = (uint32_t)most_coarse_samples(&a->options, &a->iteration);
    a->screened = (uint32_t)most_screened_samples(&a->options, &a->iteration);
    a->each = a->rotations * a->sampling.shift_children;
    a->orientations = sampling_orientation_count(s);
    a->rows = a->orientations * a->iteration.reference_count;
    TRY(upload_frames(a, err));
    return upload_turns(a, err);
}

/* Copies a reference from the leader's device. */
static enum status copy_reference(struct alignment_cuda *a, const float *values, size_t count, const float **ret_values,
                                  struct err *err) {
    float *copy = NULL;
    TRY(arena_take(a->arena, count, 2 * sizeof *copy, "a reference", &copy, err));
    TRY(alignment_cuda_copy_from(copy, a->options.device.index, values, a->leader->options.device.index,
                                 count * 2 * sizeof *copy, stream_cuda_kernels(a->stream), err));
    *ret_values = copy;
    return STATUS_OK;
}

static enum status upload_references(struct alignment_cuda *a, struct err *err) {
    const struct alignment_iteration *it = &a->iteration;
    const struct fourier_pixels *pixels = it->pixels;
    size_t n = (size_t)pixels->count;
    struct references_cuda *r = &a->references;
    *r = (struct references_cuda){.pixels = {.box = pixels->box, .count = pixels->count},
                                  .coarse_pixels = it->coarse_pixels};
    TRY(upload(a, pixels->kx, n, sizeof *pixels->kx, "pixels", &r->pixels.kx, err));
    TRY(upload(a, pixels->ky, n, sizeof *pixels->ky, "pixels", &r->pixels.ky, err));
    TRY(upload(a, pixels->shell, n, sizeof *pixels->shell, "pixels", &r->shell, err));
    for (int k = 0; k < it->reference_count; k++) {
        struct projector_grid grid = projector_grid(it->references[k]);
        size_t values = (size_t)grid.nx * (size_t)grid.ny * (size_t)grid.nz;
        r->grids[k] = (struct grid_cuda){
            .nx = grid.nx, .ny = grid.ny, .reach = grid.reach, .r_max = grid.r_max, .dimensions = grid.dimensions};
        if (grid.workspace != NULL && a->leader != NULL)
            TRY(copy_reference(a, grid.values, values, &r->grids[k].values, err));
        else if (grid.workspace != NULL)
            r->grids[k].values = grid.values;
        else
            TRY(upload(a, grid.values, values, 2 * sizeof(float), "a reference", &r->grids[k].values, err));
    }
    r->fine_pixels = fourier_pixels_within(pixels, 2 * r->grids[0].r_max);
    return STATUS_OK;
}

/* Returns whether sums lie in memory of the iteration; else they are the accumulator itself. */
static bool sums_apart(const struct alignment_cuda *a, const struct accumulator_grid *grid) {
    return grid->workspace == NULL || a->iteration.add_to || a->leader != NULL;
}

/* Counts the sums that lie in memory of the iteration. */
static enum status count_sums(const struct alignment_cuda *a, int *ret_count, struct err *err) {
    const struct alignment_iteration *it = &a->iteration;
    const struct sums_cuda *s = &a->sums;
    const struct accumulator_grid all = accumulator_grid(it->sums[0]);
    *ret_count = 0;
    for (int k = 0; k < it->reference_count; k++) {
        struct accumulator_grid grid = accumulator_grid(it->sums[k]);
        bool larger = it->add_to && grid.workspace != NULL && grid.r_max >= s->r_max && grid.r_max == all.r_max &&
                      grid.dimensions == s->dimensions;
        FAIL_IF(!larger && (it->add_to || grid.nx != s->nx || grid.ny != s->ny || grid.nz != s->nz), err,
                STATUS_BAD_ARGUMENT, "sums of %d px were not cleared for a Fourier size of %d px", grid.r_max * 2,
                it->pixels->size);
        *ret_count += sums_apart(a, &grid);
    }
    return STATUS_OK;
}

/* Takes sums of the accumulator's own size (kernels/reconstruct/accumulator_private.h). An accumulator that lies on the
 * device is used itself: its fixed-point values become doubles in place. */
static enum status take_sums(struct alignment_cuda *a, struct err *err) {
    const struct alignment_iteration *it = &a->iteration;
    int dimensions = a->references.grids[0].dimensions, r_max = it->pixels->size / 2, reach = 2 * r_max + 1, count = 0;
    char *taken = NULL;
    struct sums_cuda *s = &a->sums;
    *s = (struct sums_cuda){.nx = reach + 1,
                            .ny = 2 * reach + 1,
                            .nz = dimensions == 3 ? 2 * reach + 1 : 1,
                            .reach = reach,
                            .r_max = r_max,
                            .dimensions = dimensions};
    alignment_cuda_sums_scale(it->sigma2, it->optics_count, a->shells, fmax(it->particle_count, PARTICLES_OF_SUMS), s);
    size_t bytes = (size_t)s->nx * (size_t)s->ny * (size_t)s->nz * 4 * sizeof(int64_t);
    TRY(count_sums(a, &count, err));
    if (count > 0) {
        TRY(arena_take(a->arena, (size_t)count, bytes, "the sums of a reference", &taken, err));
        TRY(stream_cuda_zero(a->stream, taken, (size_t)count * bytes, err));
    }
    for (int k = 0; k < it->reference_count; k++) {
        struct accumulator_grid grid = accumulator_grid(it->sums[k]);
        if (sums_apart(a, &grid)) {
            s->voxels[k] = (int64_t *)(void *)taken;
            taken += bytes;
        } else {
            s->voxels[k] = (int64_t *)grid.values;
            TRY(stream_cuda_zero(a->stream, s->voxels[k], bytes, err));
        }
    }
    TRY(arena_take(a->arena, 1, sizeof *s->overflow, "the sums of a reference", &s->overflow, err));
    return stream_cuda_zero(a->stream, s->overflow, sizeof *s->overflow, err);
}

static enum status upload_coarse_grid(struct alignment_cuda *a, struct err *err) {
    const struct alignment_iteration *it = &a->iteration;
    _cleanup_(mem_free) float *values = NULL;
    size_t orientations = (size_t)a->orientations;
    a->row_log_prior = NULL;
    if (it->local) return STATUS_OK;
    TRY(mem_new(orientations * 9 > (size_t)a->rows ? orientations * 9 : (size_t)a->rows, sizeof *values, "poses",
                &values, err));
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int o = 0; o < a->orientations; o++) {
        double m[9];
        sampling_matrix(it->sampling, o, m);
        to_float(m, 9, values + 9 * (size_t)o);
    }
    TRY(upload(a, values, orientations, 9 * sizeof *values, "poses", &a->matrices, err));
    if (it->reference_log_prior == NULL) return STATUS_OK;
    for (int row = 0; row < a->rows; row++)
        values[row] = it->reference_log_prior[row / a->orientations];
    return upload(a, values, (size_t)a->rows, sizeof *values, "priors", &a->row_log_prior, err);
}

static size_t slice_bytes(const struct alignment_cuda *a) {
    int n = grid_pixels(&a->iteration);
    return (coarse_row(n, grid_precision(a)) + coarse_norm_row(n)) * sizeof(float);
}

/* Returns the bytes of a particle in a batch: image, spectra, and results of the coarse pass. */
static size_t particle_bytes(const struct alignment_cuda *a) {
    size_t box = (size_t)a->options.box, shifts = (size_t)a->sampling.shift_count, rows = (size_t)a->rows;
    int n = grid_pixels(&a->iteration);
    size_t bytes = STREAM_SLOTS * (box * box * sizeof(float) + 256);
    bytes += 6 * a->stride * sizeof(float) + (shifts + (size_t)a->shells + 64) * sizeof(float);
    bytes += prepare_cuda_scratch(a->prepare, 64, a->iteration.shared_shell) / 64 + top_sum_scratch(1);
    if (a->iteration.local) return bytes;
    bytes += (shifts * coarse_row(n, grid_precision(a)) + coarse_norm_row(n)) * sizeof(float);
    bytes += (shifts + 1) * rows * sizeof(float) + shifts * kept_words(a->rows) * sizeof(uint32_t);
    return bytes;
}

/* Divides the memory that is left, or as the leader has divided its own: no digit may then depend on which device
 * compares a particle. A third is for the fine pass, whose lists have any length. All slices are stored if they need at
 * most another third; otherwise as many as fit into a tenth. */
static enum status divide(struct alignment_cuda *a, struct err *err) {
    size_t left = arena_left(a->arena), rows = (size_t)a->rows, slices = 0;
    if (a->leader != NULL) {
        a->rows_at_once = a->leader->rows_at_once;
        a->particles = a->leader->particles;
        return STATUS_OK;
    }
    a->rows_at_once = 0;
    if (!a->iteration.local) {
        size_t at_once = rows * slice_bytes(a) <= left / 3 ? rows : left / 10 / slice_bytes(a);
        FAIL_IF(at_once < 1, err, STATUS_NO_MEMORY, "not enough memory for slices of %d pixels: %zu MiB are left",
                grid_pixels(&a->iteration), left >> 20);
        /* A product of rows that do not begin at multiples of 16 bytes sums in another order. */
        if (at_once < rows && at_once > 4) at_once -= at_once % 4;
        a->rows_at_once = (int)at_once;
        slices = at_once * slice_bytes(a);
    }
    size_t particles = (left - slices) / 3 * 2 / particle_bytes(a);
    size_t sample = alignment_cuda_blocks_bytes(1, a->each, sizeof(float)) + sizeof(struct row_cuda);
    FAIL_IF(particles < 1 || left / 3 < 1000 * sample, err, STATUS_NO_MEMORY,
            "not enough memory to compare a particle with %d poses: %zu MiB are needed, %zu of %zu MiB are left; allow "
            "more memory",
            a->rows, (slices + particle_bytes(a)) * 3 / 2 >> 20, left >> 20, arena_capacity(a->arena) >> 20);
    size_t most = ALIGNMENT_PARTICLES_MOST;
    a->particles = (int)(particles < most ? particles : most);
    return STATUS_OK;
}

/* Copies the references with the corners of each cell side by side, which makes slices twice as fast when they are
 * computed as needed. Only if the copy takes at most a quarter of the memory left. */
static enum status make_quads(struct alignment_cuda *a, struct err *err) {
    size_t floats = grid_quads_floats(&a->references.grids[0]);
    int count = a->iteration.reference_count;
    if (a->references.grids[0].dimensions != 3) return STATUS_OK;
    const bool fits = (size_t)count * floats * sizeof(float) <= arena_left(a->arena) / 4;
    if (a->leader != NULL ? a->leader->references.grids[0].quads == NULL : !fits) return STATUS_OK;
    for (int k = 0; k < count; k++) {
        struct grid_cuda *grid = &a->references.grids[k];
        float *quads = NULL;
        TRY(arena_take(a->arena, floats, sizeof *quads, "a reference", &quads, err));
        TRY(stream_cuda_begin(a->stream, err));
        TRY(grid_quads_cuda(grid, quads, stream_cuda_kernels(a->stream), err));
        TRY(stream_cuda_end(a->stream, err));
        grid->quads = quads;
    }
    return STATUS_OK;
}

/* Makes the slices of the fine pass once, if they take at most half of the memory left; with so much memory, more
 * particles at a time would save nothing. */
static enum status make_fine_slices(struct alignment_cuda *a, struct err *err) {
    size_t slices = (size_t)a->rows * (size_t)a->rotations, row = 2 * alignment_cuda_fine_slice_row(&a->references);
    float *values = NULL;
    a->references.slices = NULL;
    const bool fits = !a->iteration.local && slices * row * sizeof *values <= arena_left(a->arena) / 2;
    if (a->leader != NULL ? a->leader->references.slices == NULL : !fits) return make_quads(a, err);
    TRY(arena_take(a->arena, slices * row, sizeof *values, "slices of the fine pass", &values, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_fine_slices(&a->references, &a->sampling, 0, a->rows, values, stream_cuda_kernels(a->stream),
                                   err));
    TRY(stream_cuda_end(a->stream, err));
    a->references.slices = values;
    return STATUS_OK;
}

static enum status take_slices(struct alignment_cuda *a, struct err *err) {
    size_t n = (size_t)a->rows_at_once;
    a->slices = a->squares = NULL;
    a->slices_made = false;
    if (n == 0) return STATUS_OK;
    int pixels = grid_pixels(&a->iteration);
    size_t row = coarse_row(pixels, grid_precision(a));
    TRY(arena_take(a->arena, n * row, sizeof(float), "slices", &a->slices, err));
    return arena_take(a->arena, n * coarse_norm_row(pixels), sizeof(float), "slices", &a->squares, err);
}

/* Parts of one block, each aligned; base NULL: only counts the length. */
struct block {
    char *base;
    size_t bytes;
};

static void *carve(struct block *block, size_t bytes) {
    void *part = block->base ? block->base + block->bytes : NULL;
    block->bytes += arena_need(bytes, 1);
    return part;
}

static void carve_slot(struct block *block, size_t particles, struct alignment_cuda_slot *slot) {
    slot->which = carve(block, particles * sizeof *slot->which);
    slot->own = carve(block, particles * 2 * sizeof *slot->own);
    slot->known_shell = carve(block, particles * sizeof *slot->known_shell);
    slot->residual = carve(block, particles * sizeof *slot->residual);
    slot->doubts = carve(block, particles * sizeof *slot->doubts);
}

static void carve_found(const struct alignment_cuda *a, struct block *block, struct alignment_cuda_found *f) {
    size_t n = (size_t)a->particles;
    f->coarse = carve(block, n * sizeof *f->coarse);
    f->counts = carve(block, n * sizeof *f->counts);
    f->screened = carve(block, n * sizeof *f->screened);
    f->best = carve(block, n * sizeof *f->best);
    f->power = carve(block, n * (size_t)a->shells * sizeof *f->power);
    f->reference_weights = carve(block, n * (size_t)a->iteration.reference_count * sizeof *f->reference_weights);
    f->factors = carve(block, n * sizeof *f->factors);
    f->residuals = carve(block, n * 2 * sizeof *f->residuals);
    f->constant = carve(block, n * sizeof *f->constant);
    f->contributions = carve(block, (n + 1) * sizeof *f->contributions);
}

static void carve_host(struct alignment_cuda *a, struct block *block) {
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        carve_slot(block, (size_t)a->particles, &a->host[slot]);
        carve_found(a, block, &a->found_of[slot]);
    }
}

static enum status take_batches(struct alignment_cuda *a, struct err *err) {
    size_t n = (size_t)a->particles, pixels = (size_t)a->options.box * (size_t)a->options.box;
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        struct alignment_cuda_slot *to = &a->device[slot];
        struct block block = {0};
        carve_slot(&block, n, to);
        TRY(arena_take(a->arena, n * pixels, sizeof *to->images, "images", &to->images, err));
        TRY(arena_take(a->arena, block.bytes, 1, "images", &block.base, err));
        block.bytes = 0;
        carve_slot(&block, n, to);
    }
    struct block block = {0};
    carve_host(a, &block);
    if (block.bytes > a->host_bytes) {
        /* Page-locking takes longer than some iterations; the reserve avoids doing it again for a few more classes. */
        size_t bytes = block.bytes + block.bytes / 4;
        device_host_free(&a->options.device, &a->host_block);
        a->host_bytes = 0;
        TRY(device_host_new(&a->options.device, bytes, 1, "particles of a batch", &a->host_block, err));
        a->host_bytes = bytes;
    }
    block = (struct block){.base = a->host_block};
    carve_host(a, &block);
    return STATUS_OK;
}

enum status alignment_cuda_plan(struct alignment_cuda *a, struct err *err) {
    const struct alignment_iteration *it = &a->iteration;
    size_t shells = (size_t)a->shells;
    TRY(upload_references(a, err));
    TRY(take_sums(a, err));
    TRY(upload_sampling(a, err));
    TRY(upload(a, it->sigma2, (size_t)it->optics_count * shells, sizeof *it->sigma2, "noise", &a->sigma2, err));
    if (it->doubtful)
        TRY(upload(a, a->shell_pixels, shells, sizeof *a->shell_pixels, "shells", &a->device_shell_pixels, err));
    TRY(upload_coarse_grid(a, err));
    a->stride = ((size_t)it->pixels->count + 31) / 32 * 32;
    TRY(alignment_cuda_sums_plan(a, err));
    TRY(make_fine_slices(a, err));
    TRY(divide(a, err));
    TRY(take_slices(a, err));
    return take_batches(a, err);
}
