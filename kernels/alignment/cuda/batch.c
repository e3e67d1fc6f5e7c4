/* A batch of particles on a CUDA device. Images are copied while the device works on those before them. The coarse pass
 * takes all particles on the device at once, the fine pass as many as its lists have room for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

static const double ADAPTIVE_FRACTION = 0.999;
/* Every thread that starts parallel work always uses this number of threads: OpenMP would destroy the surplus threads
 * for a smaller team, and need milliseconds to create them again for the next larger one. */
enum { BRINGING_THREADS = 8 };

/* Particles of a part. Particle i has the result results[indices[i]]; NULL: results[i]. */
struct part {
    const struct alignment_particle *particles;
    struct alignment_result *results;
    const int *indices;
    int count, slot;
};

/* Memory of the coarse pass over a whole grid: [particles][shifts][kept_words(rows)], with room for the lists. */
struct coarse_pass {
    uint32_t *kept;
    struct top_sum *sums;
    struct sample_counts *counts;
    uint32_t *begin, *row_begin;
};

/* Describes a particle, all but its image. */
static void describe(const struct part *part, int i, struct alignment_cuda_slot *to) {
    const struct alignment_particle *p = &part->particles[i];
    struct prepare_particle_cuda *which = &to->which[i];
    *which = (struct prepare_particle_cuda){.shift_x = p->shift[0],
                                            .shift_y = p->shift[1],
                                            .optics = p->optics,
                                            .has_ctf = p->ctf != NULL,
                                            .scale = (float)p->scale,
                                            .rest_x = (float)p->rest[0],
                                            .rest_y = (float)p->rest[1]};
    if (p->ctf != NULL) {
        struct ctf_terms terms = ctf_prepare(p->ctf);
        memcpy(which->ctf, &terms, sizeof which->ctf);
    }
    to->own[2 * i] = p->shift[0], to->own[2 * i + 1] = p->shift[1];
    to->known_shell[i] = p->known_shell;
    to->residual[i] = p->residual;
    to->doubts[i] = (struct doubt){p->nothing, p->norm_least, p->norm_most};
}

_Static_assert(sizeof(struct ctf_terms) == sizeof((struct prepare_particle_cuda *)0)->ctf, "terms of a CTF");

/* Copies the images of a part to the device. */
static enum status bring(struct alignment_cuda *a, const struct part *part, int threads, struct err *err) {
    struct alignment_cuda_slot *from = &a->host[part->slot], *to = &a->device[part->slot];
    TRY(stream_cuda_brought(a->stream, part->slot, err));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < part->count; i++)
        describe(part, i, from);
    TRY(alignment_cuda_images_bring(a, part->particles, part->count, part->slot, threads, err));
    /* All that follows the images lies in one block. */
    size_t rest = (size_t)((char *)(from->doubts + a->particles) - (char *)from->which);
    return stream_cuda_bring(a->stream, part->slot, to->which, from->which, rest, err);
}

/* Does the host's work for a part before it is compared. */
static enum status bring_all(struct alignment_cuda *a, const struct part *part, int threads, struct err *err) {
    TRY(bring(a, part, threads, err));
    if (!a->iteration.local) return STATUS_OK;
    return alignment_cuda_find_near(a, part->particles, part->count, threads, a->near_of[part->slot], err);
}

/* Runs on the worker's thread and a few more, while other threads list poses. */
static enum status bring_next(void *context, struct err *err) {
    const struct bringing *b = context;
    const struct part part = {.particles = b->particles, .count = b->count, .slot = b->slot};
    int threads = b->alignment->options.threads;
    TRY(stream_cuda_adopt(b->alignment->stream, err));
    return bring_all(b->alignment, &part, threads < BRINGING_THREADS ? threads : BRINGING_THREADS, err);
}

static enum status take_particles(struct alignment_cuda *a, int count, struct particles_cuda *p, struct err *err) {
    size_t n = (size_t)count;
    *p = (struct particles_cuda){.count = count, .stride = a->stride};
    TRY(arena_take(a->arena, n * 2 * a->stride, sizeof(float), "spectra", &p->masked, err));
    TRY(arena_take(a->arena, n * 2 * a->stride, sizeof(float), "spectra", &p->unmasked, err));
    TRY(arena_take(a->arena, n * a->stride, sizeof(float), "CTFs", &p->ctf, err));
    TRY(arena_take(a->arena, n * a->stride, sizeof(float), "weights", &p->weight, err));
    TRY(arena_take(a->arena, n * (size_t)a->sampling.shift_count, sizeof(float), "priors", &p->shift_log_prior, err));
    TRY(arena_take(a->arena, n * (size_t)a->shells, sizeof(float), "spectra", &p->power, err));
    return arena_take(a->arena, n, sizeof(double), "likelihoods", &p->constant, err);
}

static struct particles_cuda from_particle(const struct alignment_cuda *a, const struct particles_cuda *all, int first,
                                           int count) {
    size_t i = (size_t)first;
    return (struct particles_cuda){.count = count,
                                   .stride = all->stride,
                                   .masked = all->masked + i * 2 * all->stride,
                                   .unmasked = all->unmasked + i * 2 * all->stride,
                                   .ctf = all->ctf + i * all->stride,
                                   .weight = all->weight + i * all->stride,
                                   .shift_log_prior = all->shift_log_prior + i * (size_t)a->sampling.shift_count,
                                   .power = all->power + i * (size_t)a->shells,
                                   .constant = all->constant + i};
}

static enum status prepare(struct alignment_cuda *a, const struct part *part, struct particles_cuda *particles,
                           struct err *err) {
    const struct alignment_cuda_slot *slot = &a->device[part->slot];
    void *scratch = NULL;
    TRY(take_particles(a, part->count, particles, err));
    TRY(arena_open(a->arena, ARENA_ORIENTATIONS, err));
    TRY(arena_take(a->arena, prepare_cuda_scratch(a->prepare, part->count, a->iteration.shared_shell), 1, "transforms",
                   &scratch, err));
    TRY(stream_cuda_await(a->stream, part->slot, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(prepare_cuda_run(a->prepare, &a->references, &a->sampling, slot->images, slot->which, a->options.pixel_size,
                         a->options.mask_radius, a->iteration.shared_shell, a->sigma2, a->iteration.sigma_offset,
                         scratch, particles, stream_cuda_kernels(a->stream), err));
    if (a->iteration.given_poses)
        TRY(alignment_cuda_shift_rest(&a->references, slot->which, particles, stream_cuda_kernels(a->stream), err));
    TRY(stream_cuda_end(a->stream, err));
    arena_close(a->arena, ARENA_ORIENTATIONS);
    return STATUS_OK;
}

/* Makes slices of rows first .. first + count − 1, which may belong to several references. */
static enum status make_slices(struct alignment_cuda *a, int first, int count, struct err *err) {
    int n = grid_pixels(&a->iteration);
    size_t row = coarse_row(n, grid_precision(a)), norm_row = coarse_norm_row(n);
    for (int at = first; at < first + count;) {
        int k = at / a->orientations, end = (k + 1) * a->orientations;
        if (end > first + count) end = first + count;
        TRY(coarse_cuda_slices(&a->references.grids[k], &a->references.pixels, n,
                               a->matrices + 9 * (size_t)(at % a->orientations), end - at, grid_precision(a),
                               a->slices + (size_t)(at - first) * row, a->squares + (size_t)(at - first) * norm_row,
                               stream_cuda_kernels(a->stream), err));
        at = end;
    }
    return STATUS_OK;
}

static enum status multiply(struct alignment_cuda *a, const struct particles_cuda *p, float *dots, float *norms,
                            struct err *err) {
    int n = grid_pixels(&a->iteration), shifts = a->sampling.shift_count;
    void *stream = stream_cuda_kernels(a->stream);
    float *columns = NULL, *halves = NULL;
    size_t count = (size_t)p->count, row = coarse_row(n, grid_precision(a));
    TRY(arena_take(a->arena, count * (size_t)shifts * row, sizeof *columns, "shifted images", &columns, err));
    TRY(arena_take(a->arena, count * coarse_norm_row(n), sizeof *halves, "shifted images", &halves, err));
    TRY(coarse_cuda_columns(&a->references.pixels, n, p->masked, p->ctf, p->weight, p->stride, p->count,
                            a->sampling.shifts, shifts, grid_precision(a), columns, halves, stream, err));
    for (int first = 0; first < a->rows; first += a->rows_at_once) {
        int rows = a->rows - first < a->rows_at_once ? a->rows - first : a->rows_at_once;
        if (!a->slices_made) TRY(make_slices(a, first, rows, err));
        TRY(coarse_cuda_product(a->coarse, n, grid_precision(a), a->slices, a->squares, rows, columns, halves, p->count,
                                shifts, (size_t)a->rows, dots + first, norms + first, stream, err));
    }
    a->slices_made = a->rows_at_once == a->rows;
    return STATUS_OK;
}

static enum status take_lists(struct alignment_cuda *a, int count, struct coarse_pass *pass, struct err *err) {
    size_t n = (size_t)count;
    TRY(arena_take(a->arena, n, sizeof *pass->sums, "sums of weights", &pass->sums, err));
    TRY(arena_take(a->arena, n, sizeof *pass->counts, "lists of samples", &pass->counts, err));
    TRY(arena_take(a->arena, n + 1, sizeof *pass->begin, "lists of samples", &pass->begin, err));
    return arena_take(a->arena, n + 1, sizeof *pass->row_begin, "lists of samples", &pass->row_begin, err);
}

/* Returns where the host finds how many samples of the whole grid matter to each particle. */
static struct sample_counts *counts_of_grid(const struct alignment_cuda *a) {
    return a->iteration.screen_pixels > 0 ? a->found->screened : a->found->counts;
}

/* Compares every orientation × shift × reference: marks the samples that matter, and counts them. */
static enum status coarse_global(struct alignment_cuda *a, const struct particles_cuda *p, struct coarse_pass *pass,
                                 struct err *err) {
    size_t n = (size_t)p->count, shifts = (size_t)a->sampling.shift_count, rows = (size_t)a->rows;
    void *stream = stream_cuda_kernels(a->stream), *scratch = NULL;
    float *dots = NULL, *norms = NULL;
    TRY(arena_take(a->arena, n * shifts * kept_words(a->rows), sizeof *pass->kept, "samples that matter", &pass->kept,
                   err));
    TRY(take_lists(a, p->count, pass, err));
    TRY(arena_open(a->arena, ARENA_ORIENTATIONS, err));
    TRY(arena_take(a->arena, n * shifts * rows, sizeof *dots, "weights of the coarse pass", &dots, err));
    TRY(arena_take(a->arena, n * rows, sizeof *norms, "weights of the coarse pass", &norms, err));
    TRY(arena_take(a->arena, top_sum_scratch(p->count), 1, "sums of weights", &scratch, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(multiply(a, p, dots, norms, err));
    const struct posterior_input input = {.dots = dots,
                                          .norms = norms,
                                          .slice_log_prior = a->row_log_prior,
                                          .shift_log_prior = p->shift_log_prior,
                                          .n_particles = p->count,
                                          .n_shifts = (int)shifts,
                                          .n_slices = a->rows,
                                          .fraction = ADAPTIVE_FRACTION,
                                          .most = a->iteration.screen_pixels > 0 ? a->screened : a->most};
    TRY(posterior_cuda(&input, scratch, pass->sums, pass->kept, stream, err));
    TRY(alignment_cuda_compress_count(pass->kept, p->count, (int)shifts, a->rows, pass->counts, pass->begin,
                                      pass->row_begin, stream, err));
    TRY(stream_cuda_get(a->stream, counts_of_grid(a), pass->counts, n * sizeof *pass->counts, err));
    TRY(stream_cuda_get(a->stream, a->found->coarse, pass->sums, n * sizeof *pass->sums, err));
    TRY(stream_cuda_end(a->stream, err));
    arena_close(a->arena, ARENA_ORIENTATIONS);
    return STATUS_OK;
}

/* Lists the samples of particles first .. first + p->count − 1 from the bits of the batch. */
static enum status list_samples(struct alignment_cuda *a, const struct coarse_pass *pass,
                                const struct particles_cuda *p, int first, struct samples_cuda *list, struct err *err) {
    void *stream = stream_cuda_kernels(a->stream);
    int shifts = a->sampling.shift_count;
    const uint32_t *kept = pass->kept + (size_t)first * (size_t)shifts * kept_words(a->rows);
    struct row_cuda *rows = NULL;
    uint32_t *samples = NULL, *begin = pass->begin, *row_begin = pass->row_begin;
    *list = (struct samples_cuda){.begin = begin, .row_begin = row_begin};
    const struct sample_counts *counts = counts_of_grid(a);
    for (int i = first; i < first + p->count; i++) {
        list->count += counts[i].samples;
        list->row_count += counts[i].rows;
    }
    TRY(arena_take(a->arena, (size_t)list->row_count + 1, sizeof *rows, "lists of samples", &rows, err));
    TRY(arena_take(a->arena, (size_t)list->count + 1, sizeof *samples, "lists of samples", &samples, err));
    TRY(stream_cuda_begin(a->stream, err));
    /* Counts again, because the first samples are relative to the first particle. */
    TRY(alignment_cuda_compress_count(kept, p->count, shifts, a->rows, pass->counts, begin, row_begin, stream, err));
    TRY(alignment_cuda_compress_fill(kept, p->count, shifts, a->rows, a->row_log_prior, begin, row_begin, rows, samples,
                                     stream, err));
    TRY(stream_cuda_end(a->stream, err));
    list->rows = rows;
    list->samples = samples;
    return STATUS_OK;
}

/* Returns the bytes of a particle's lists in the fine pass, if a tenth of the poses contribute. Lists of samples that
 * are compared over coarse_pixels, in a local search or after screening, hold a number and a weight of each; the fine
 * pass takes `most` of them. */
static size_t lists_bytes(const struct alignment_cuda *a, int particle) {
    const size_t each = (size_t)a->each, row = sizeof(struct row_cuda);
    const size_t of_listed = sizeof(uint32_t) + sizeof(float);
    const size_t of_fine =
        alignment_cuda_blocks_bytes(1, a->each, sizeof(float)) + row + each * sizeof(struct contribution_cuda) / 10;
    if (a->iteration.local) {
        size_t rows = (size_t)a->near[particle].count * (size_t)a->iteration.reference_count;
        return rows * (row + (size_t)a->sampling.shift_count * of_listed) + (rows < a->most ? rows : a->most) * of_fine;
    }
    const struct sample_counts *counts = &counts_of_grid(a)[particle];
    if (a->iteration.screen_pixels == 0) return counts->samples * of_fine;
    return counts->rows * row + counts->samples * of_listed +
           (counts->samples < a->most ? counts->samples : a->most) * of_fine;
}

/* Returns how many particles from `first` on fit into the memory left. */
static int fitting(const struct alignment_cuda *a, int first, int count) {
    size_t left = arena_left(a->arena), need = 0;
    int i = first;
    for (; i < count; i++) {
        need += (a->stride + 4 * (size_t)a->shells) * sizeof(float) + 4096 + lists_bytes(a, i);
        if (i > first && need > left) break;
    }
    return i - first;
}

/* Compares the samples that were screened over coarse_pixels, and lists those to keep. */
static enum status keep_screened(struct alignment_cuda *a, const struct particles_cuda *p,
                                 const struct samples_cuda *screened, int first, struct samples_cuda *ret_kept,
                                 struct err *err) {
    void *stream = stream_cuda_kernels(a->stream);
    size_t longest = 0, *begin = NULL;
    for (int i = first; i < first + p->count; i++)
        if (a->found->screened[i].samples > longest) longest = a->found->screened[i].samples;
    TRY(arena_take(a->arena, (size_t)p->count + 1, sizeof *begin, "lists of samples", &begin, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_values_begin(screened->begin, p->count, 1, begin, stream, err));
    return alignment_cuda_keep(a, p, screened, begin, longest, first, ret_kept, err);
}

static enum status some(struct alignment_cuda *a, const struct part *part, const struct coarse_pass *pass,
                        const struct particles_cuda *all, int first, int count, struct err *err) {
    const struct alignment_cuda_slot *slot = &a->device[part->slot];
    struct particles_cuda p = from_particle(a, all, first, count);
    struct samples_cuda samples;
    struct alignment_cuda_jobs jobs = {.own = slot->own + 2 * (size_t)first,
                                       .known_shell = slot->known_shell + first,
                                       .residual = slot->residual + first,
                                       .doubts = slot->doubts + first,
                                       .particles = part->particles + first};
    if (a->iteration.local)
        TRY(alignment_cuda_near(a, &p, first, &samples, err));
    else
        TRY(list_samples(a, pass, &p, first, &samples, err));
    const struct samples_cuda screened = samples;
    if (a->iteration.screen_pixels > 0) TRY(keep_screened(a, &p, &screened, first, &samples, err));
    return alignment_cuda_fine(a, &p, &samples, &jobs, first, err);
}

/* Runs the fine pass with as many particles as fit; with half as many if that estimate was too low. */
static enum status fine_parts(struct alignment_cuda *a, const struct part *part, const struct coarse_pass *pass,
                              const struct particles_cuda *all, struct err *err) {
    for (int first = 0, count; first < part->count; first += count) {
        enum status status;
        count = fitting(a, first, part->count);
        do {
            struct err own = {0};
            TRY(arena_open(a->arena, ARENA_ORIENTATIONS, err));
            status = some(a, part, pass, all, first, count, &own);
            arena_close(a->arena, ARENA_ORIENTATIONS);
            if (status != STATUS_OK && (status != STATUS_NO_MEMORY || count == 1)) {
                if (err != NULL) *err = own;
                return status;
            }
            if (status != STATUS_OK) count /= 2;
        } while (status != STATUS_OK);
    }
    return STATUS_OK;
}

/* Takes the results of a part, once the device has finished it. */
static enum status take_results(struct alignment_cuda *a, const struct part *part, struct err *err) {
    if (part->count == 0) return STATUS_OK;
    TRY(stream_cuda_released(a->stream, part->slot, err));
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int i = 0; i < part->count; i++)
        alignment_cuda_result(a, &a->found_of[part->slot], &part->particles[i], i,
                              &part->results[part->indices != NULL ? part->indices[i] : i]);
    return STATUS_OK;
}

/* Compares a part. Takes the results of the part before while the device runs the coarse pass of this one; this part's
 * results are still in transfer when the function returns. */
static enum status compare(struct alignment_cuda *a, const struct part *part, const struct part *before,
                           struct err *err) {
    struct particles_cuda particles;
    struct coarse_pass pass = {0};
    a->near = a->near_of[part->slot];
    a->found = &a->found_of[part->slot];
    TRY(prepare(a, part, &particles, err));
    if (!a->iteration.local) TRY(coarse_global(a, &particles, &pass, err));
    TRY(take_results(a, before, err));
    if (!a->iteration.local) TRY(stream_cuda_wait(a->stream, err)); /* for the counts */
    TRY(fine_parts(a, part, &pass, &particles, err));
    return stream_cuda_release(a->stream, part->slot, err);
}

static enum status run(struct alignment_cuda *a, const struct part *part, const struct part *before,
                       const struct part *next, struct err *err) {
    a->bringing =
        (struct bringing){.alignment = a, .particles = next->particles, .count = next->count, .slot = next->slot};
    if (next->count > 0) worker_start(a->worker, bring_next, &a->bringing);
    enum status status = compare(a, part, before, err);
    enum status brought = worker_wait(a->worker, status == STATUS_OK ? err : NULL);
    TRY(status);
    return brought;
}

static struct part part_of(const struct alignment_cuda *a, const struct alignment_particle *particles,
                           struct alignment_result *results, int count, int index) {
    int first = index * a->particles, left = count - first;
    if (left <= 0) return (struct part){0};
    return (struct part){.particles = particles + first,
                         .results = a->sums_near ? results : results + first,
                         .indices = a->sums_near ? a->order.indices + first : NULL,
                         .count = left < a->particles ? left : a->particles,
                         .slot = index % STREAM_SLOTS};
}

enum status alignment_cuda_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                               struct alignment_result *results, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    if (count == 0) return STATUS_OK;
    if (a->sums_near) {
        TRY(alignment_cuda_order(&a->order, particles, count, err));
        particles = a->order.particles;
    }
    struct part part = part_of(a, particles, results, count, 0), before = {0};
    TRY(bring_all(a, &part, a->options.threads, err));
    for (int index = 0; part.count > 0; index++) {
        struct part next = part_of(a, particles, results, count, index + 1);
        TRY(arena_open(a->arena, ARENA_PARTICLES, err));
        enum status status = run(a, &part, &before, &next, err);
        arena_close(a->arena, ARENA_PARTICLES);
        TRY(status);
        before = part;
        part = next;
    }
    return take_results(a, &before, err);
}

/* Computes D and N of the particles of a part, and the first particle's mean. They go where the host otherwise gets
 * residuals and likelihoods. */
static enum status fit(struct alignment_cuda *a, const struct part *part, struct err *err) {
    struct particles_cuda p;
    size_t n = (size_t)part->count, shifts = (size_t)a->sampling.shift_count, rows = (size_t)a->rows;
    void *stream = stream_cuda_kernels(a->stream);
    float *dots = NULL, *norms = NULL;
    double *fits = NULL, *mean = NULL;
    TRY(bring(a, part, a->options.threads, err));
    TRY(prepare(a, part, &p, err));
    TRY(arena_open(a->arena, ARENA_ORIENTATIONS, err));
    TRY(arena_take(a->arena, n * shifts * rows, sizeof *dots, "weights of the coarse pass", &dots, err));
    TRY(arena_take(a->arena, n * rows, sizeof *norms, "weights of the coarse pass", &norms, err));
    TRY(arena_take(a->arena, n, 2 * sizeof *fits, "best poses", &fits, err));
    TRY(arena_take(a->arena, 1, sizeof *mean, "best poses", &mean, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(multiply(a, &p, dots, norms, err));
    TRY(alignment_cuda_best_fits(dots, norms, part->count, (int)shifts, a->rows, a->orientations, fits, mean, stream,
                                 err));
    TRY(stream_cuda_get(a->stream, a->found->residuals, fits, n * 2 * sizeof *fits, err));
    TRY(stream_cuda_get(a->stream, a->found->constant, mean, sizeof *mean, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_release(a->stream, part->slot, err));
    TRY(stream_cuda_wait(a->stream, err));
    arena_close(a->arena, ARENA_ORIENTATIONS);
    return STATUS_OK;
}

enum status alignment_cuda_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 double *ret_mean, double *dots, double *norms, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    if (dots == NULL && count > 1) count = 1;
    for (int first = 0; first < count; first += a->particles) {
        int left = count - first;
        const struct part part = {.particles = particles + first, .count = left < a->particles ? left : a->particles};
        TRY(arena_open(a->arena, ARENA_PARTICLES, err));
        enum status status = fit(a, &part, err);
        arena_close(a->arena, ARENA_PARTICLES);
        TRY(status);
        if (first == 0) *ret_mean = a->found->constant[0];
        for (int i = 0; i < part.count && dots != NULL; i++)
            *dots += a->found->residuals[2 * i], *norms += a->found->residuals[2 * i + 1];
    }
    return STATUS_OK;
}
