/* The E-step on the CPU: memory, plan of an iteration, preparation of a batch. */
#include "kernels/alignment/cpu/alignment.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum status alignment_cpu_reserve(struct grown *buffer, size_t count, const char *what, struct err *err) {
    if (count <= buffer->capacity) return STATUS_OK;
    mem_free(&buffer->data);
    buffer->capacity = 0;
    TRY(mem_new(count, sizeof *buffer->data, what, &buffer->data, err));
    buffer->capacity = count;
    return STATUS_OK;
}

enum status alignment_cpu_reserve_list(struct int_list *list, int capacity, struct err *err) {
    if (capacity <= list->capacity) return STATUS_OK;
    int larger = capacity + capacity / 4;
    mem_free(&list->data);
    list->count = list->capacity = 0;
    TRY(mem_new((size_t)larger, sizeof *list->data, "a list of poses", &list->data, err));
    list->capacity = larger;
    return STATUS_OK;
}

static void destroy_thread(struct thread_space *t) {
    prepare_destroy(&t->prepare);
    expectation_destroy(&t->expectation);
    void *owned[] = {t->pose_slice.data,  t->pose_shift.data, t->poses.data,  t->local_slices.data,
                     t->local_prior.data, t->sums.data,       t->shifted.data};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static void destroy_particle(struct batch_particle *b) {
    sampling_subset_destroy(&b->near);
    free(b->significant.data);
    free(b->rows.data);
    free(b->contributions);
    free(b->shift_slot);
}

static void destroy(struct alignment *alignment) {
    struct alignment_cpu *a = alignment->cpu;
    if (a == NULL) return;
    for (int i = 0; a->threads != NULL && i < a->options.threads; i++)
        destroy_thread(&a->threads[i]);
    for (int i = 0; i < ALIGNMENT_BATCH_MOST; i++)
        destroy_particle(&a->particles[i]);
    expectation_destroy(&a->expectation);
    void *owned[] = {a->shell_pixels,       a->coarse_shift, a->fine_shift,   a->row_prior.data,
                     a->coarse_slices.data, a->spectra.data, a->coarse.data,  a->priors.data,
                     a->fine_slices.data,   a->shifted.data, a->scatter.data, a->slots.data,
                     a->scatter_order.data, a->threads};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    mem_free(&alignment->cpu);
}

static enum status count_pixels(struct alignment_cpu *a, struct err *err) {
    struct fourier_pixels all = {0};
    TRY(mem_new((size_t)a->shells, sizeof *a->shell_pixels, "spectra", &a->shell_pixels, err));
    TRY(fourier_pixels_create(a->options.box, a->options.box, &all, err));
    for (int s = 1; s < a->shells; s++)
        a->shell_pixels[s] = all.shell_begin[s + 1] - all.shell_begin[s];
    fourier_pixels_destroy(&all);
    return STATUS_OK;
}

static enum status build(struct alignment_cpu *a, struct err *err) {
    int threads = a->options.threads;
    TRY(count_pixels(a, err));
    TRY(mem_new((size_t)threads, sizeof *a->threads, "threads", &a->threads, err));
    for (int i = 0; i < threads; i++) {
        TRY(prepare_create(a->options.box, &a->threads[i].prepare, err));
        TRY(expectation_create(&a->pixels, 1, &a->threads[i].expectation, err));
    }
    return expectation_create(&a->pixels, threads, &a->expectation, err);
}

static enum status create(struct alignment *alignment, struct err *err) {
    struct alignment_cpu *a = NULL;
    TRY(mem_new(1, sizeof *a, "an E-step", &alignment->cpu, err));
    a = alignment->cpu;
    a->options = alignment->options;
    a->shells = a->options.box / 2 + 1;
    return build(a, err);
}

static enum status set_shifts(struct alignment_cpu *a, struct err *err) {
    const struct sampling *s = a->iteration.sampling;
    mem_free(&a->coarse_shift);
    mem_free(&a->fine_shift);
    TRY(mem_new((size_t)a->shifts, sizeof *a->coarse_shift, "shifts", &a->coarse_shift, err));
    TRY(mem_new((size_t)a->fine_shifts, sizeof *a->fine_shift, "shifts", &a->fine_shift, err));
    for (int t = 0; t < a->fine_shifts; t++) {
        int coarse = t / a->translations;
        sampling_shift(s, coarse, a->coarse_shift[coarse]);
        if (a->iteration.oversampled)
            sampling_child_shift(s, coarse, t % a->translations, a->fine_shift[t]);
        else
            memcpy(a->fine_shift[t], a->coarse_shift[coarse], sizeof a->fine_shift[t]);
    }
    for (int i = 0; i < ALIGNMENT_BATCH_MOST; i++) {
        mem_free(&a->particles[i].shift_slot);
        TRY(mem_new((size_t)a->fine_shifts, sizeof *a->particles[i].shift_slot, "shifts", &a->particles[i].shift_slot,
                    err));
    }
    return STATUS_OK;
}

static enum status set_priors(struct alignment_cpu *a, struct err *err) {
    if (a->iteration.reference_log_prior == NULL || a->iteration.local) return STATUS_OK;
    TRY(alignment_cpu_reserve(&a->row_prior, (size_t)a->rows, "priors", err));
    for (int i = 0; i < a->rows; i++)
        a->row_prior.data[i] = a->iteration.reference_log_prior[i / a->orientations];
    return STATUS_OK;
}

static int clamp_batch(double particles) {
    return particles < 1 ? 1 : particles > ALIGNMENT_BATCH_MOST ? ALIGNMENT_BATCH_MOST : (int)particles;
}

/* Chooses how many particles to process at a time, and how many coarse slices to keep: all if they fit; otherwise
 * slices are made anew for every batch. */
static enum status plan(struct alignment_cpu *a, struct err *err) {
    enum { LEAST_ROWS = 1024 };
    double quarter = a->options.memory / 4 / sizeof(float), rows = a->rows, box = a->options.box;
    double weights = a->iteration.local ? 0 : rows * a->shifts, slice = 2.0 * grid_pixels(&a->iteration);
    /* Image, spectra and shifted images of a particle. */
    double floats = box * box + (6.0 + 2.0 * a->fine_shifts) * a->pixels.count;
    double least = sizeof(float) * (floats + weights + (a->iteration.local ? 0 : fmin(rows, LEAST_ROWS) * slice) +
                                    a->rotations * 2.0 * a->fine_pixels);
    FAIL_IF(least > a->options.memory, err, STATUS_NO_MEMORY,
            "comparing particles with %d references at %d orientations and %d shifts needs at least %.4g MiB, %.4g are "
            "allowed: raise `memory`, or search a coarser grid",
            a->iteration.reference_count, a->orientations, a->shifts, least / 0x1p20, a->options.memory / 0x1p20);
    a->batch = clamp_batch(quarter / floats);
    a->slice_rows = a->rows;
    if (a->iteration.local) return STATUS_OK;
    if (rows * slice > quarter) a->slice_rows = (int)fmin(rows, fmax(LEAST_ROWS, quarter / slice));
    /* At most about 1e11 operations per batch: a second or two. */
    double most = fmin(quarter / weights, 1e11 / (weights * 4 * grid_pixels(&a->iteration)));
    a->batch = clamp_batch(fmin(most, a->batch));
    return STATUS_OK;
}

static enum status begin(struct alignment *alignment, const struct alignment_iteration *iteration, struct err *err) {
    struct alignment_cpu *a = alignment->cpu;
    a->iteration = *iteration;
    a->pixels = *iteration->pixels;
    a->fine_pixels = fourier_pixels_within(iteration->pixels, 2 * projector_grid(iteration->references[0]).r_max);
    a->orientations = sampling_orientation_count(iteration->sampling);
    a->shifts = iteration->sampling->shift_count;
    a->rotations = iteration->oversampled ? sampling_rotations(iteration->sampling) : 1;
    a->translations = iteration->oversampled ? SAMPLING_SHIFTS : 1;
    a->fine_shifts = a->shifts * a->translations;
    double rows = (double)a->orientations * iteration->reference_count;
    /* A search of the whole grid numbers samples and slices too. A local search numbers rows only, and lists their
     * samples. */
    FAIL_IF(!iteration->local && rows * fmax(a->rotations, a->shifts) > INT_MAX, err, STATUS_UNSUPPORTED,
            "%d references at %d orientations and %d shifts are more samples than can be numbered: search a coarser "
            "grid, or near the last poses only",
            iteration->reference_count, a->orientations, a->shifts);
    a->rows = (int)rows;
    a->sliced = a->all_slices = false;
    TRY(plan(a, err));
    TRY(set_shifts(a, err));
    return set_priors(a, err);
}

static int batch(const struct alignment *alignment) {
    return alignment->cpu->batch;
}

/* Computes spectra, CTF and weights of one particle, and the priors of its shifts. */
static void prepare_particle(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *space) {
    const struct alignment_particle *p = b->particle;
    const struct alignment_iteration *it = &a->iteration;
    const struct prepare_options options = {.shift_x = p->shift[0],
                                            .shift_y = p->shift[1],
                                            .scale = p->scale,
                                            .mask_radius = a->options.mask_radius,
                                            .shared_shell = it->shared_shell};
    prepare_image(space->prepare, p->image, &options, &a->pixels, b->masked, b->unmasked, b->result->power);
    if (it->given_poses) {
        fourier_pixels_shift(&a->pixels, a->pixels.count, b->masked, p->rest[0], p->rest[1], b->masked);
        fourier_pixels_shift(&a->pixels, a->pixels.count, b->unmasked, p->rest[0], p->rest[1], b->unmasked);
    }
    if (p->ctf != NULL)
        ctf_at(p->ctf, a->options.box, a->options.pixel_size, a->pixels.count, a->pixels.kx, a->pixels.ky, b->ctf);
    else
        for (int i = 0; i < a->pixels.count; i++)
            b->ctf[i] = 1;
    const float *sigma2 = it->sigma2 + (size_t)p->optics * (size_t)a->shells;
    for (int i = 0; i < a->pixels.count; i++)
        b->weight[i] = 1 / sigma2[a->pixels.shell[i]];
    for (int t = 0; t < a->shifts; t++) {
        double x = p->shift[0] + a->coarse_shift[t][0], y = p->shift[1] + a->coarse_shift[t][1];
        b->shift_log_prior[t] = (float)(-(x * x + y * y) / (2 * it->sigma_offset * it->sigma_offset));
    }
}

static enum status prepare_batch(struct alignment_cpu *a, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err) {
    size_t n = (size_t)a->pixels.count, shifts = (size_t)a->shifts;
    TRY(alignment_cpu_reserve(&a->spectra, 6 * n * (size_t)count, "particle spectra", err));
    TRY(alignment_cpu_reserve(&a->priors, shifts * (size_t)count, "priors", err));
    for (int i = 0; i < count; i++) {
        float *at = a->spectra.data + 6 * n * (size_t)i;
        struct batch_particle *b = &a->particles[i];
        b->particle = &particles[i];
        b->result = &results[i];
        b->masked = at;
        b->unmasked = at + 2 * n;
        b->ctf = at + 4 * n;
        b->weight = at + 5 * n;
        b->shift_log_prior = a->priors.data + shifts * (size_t)i;
    }
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++)
        prepare_particle(a, &a->particles[i], &a->threads[omp_get_thread_num()]);
    return STATUS_OK;
}

static enum status add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                       struct alignment_result *results, struct err *err) {
    struct alignment_cpu *a = alignment->cpu;
    TRY(prepare_batch(a, particles, count, results, err));
    TRY(alignment_cpu_coarse(a, count, err));
    return alignment_cpu_fine(a, count, err);
}

static void take_turn(struct alignment *alignment, struct alignment_turns *turns, int turn) {
    alignment->cpu->turns = turns;
    alignment->cpu->turn = turn;
}

/* Finds D and N of a particle at the pose with the largest D²/N: that term remains of the likelihood if the scale D/N
 * is fitted. half_norms, diff2: N/2 and N/2 − D. */
static void best_fit(const struct alignment_cpu *a, const float *half_norms, const float *diff2, double ret_fit[2]) {
    double best = 0;
    ret_fit[0] = ret_fit[1] = 0;
    for (int o = 0; o < a->orientations; o++) {
        double half_norm = half_norms[o];
        const float *row = diff2 + (size_t)o * (size_t)a->shifts;
        for (int t = 0; t < a->shifts; t++) {
            double dot = half_norm - row[t];
            if (dot > 0 && dot * dot > best * half_norm)
                best = dot * dot / half_norm, ret_fit[0] = dot, ret_fit[1] = 2 * half_norm;
        }
    }
}

static enum status scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                         double *ret_mean, double *dots, double *norms, struct err *err) {
    struct alignment_cpu *a = alignment->cpu;
    const double no_shift[1][2] = {{0, 0}};
    size_t rows = (size_t)a->rows, shifts = (size_t)a->shifts;
    _cleanup_(mem_free) struct alignment_result *results = NULL;
    _cleanup_(mem_free) float *power = NULL;
    _cleanup_(mem_free) float *half_norms = NULL;
    TRY(mem_new((size_t)count, sizeof *results, "results", &results, err));
    TRY(mem_new((size_t)count * (size_t)a->shells, sizeof *power, "spectra", &power, err));
    TRY(mem_new((size_t)count * rows, sizeof *half_norms, "slice norms", &half_norms, err));
    for (int i = 0; i < count; i++)
        results[i].power = power + (size_t)i * (size_t)a->shells;
    TRY(prepare_batch(a, particles, count, results, err));
    TRY(alignment_cpu_compare_all(a, count, true, no_shift, 1, half_norms, err));
    *ret_mean = 0;
    for (int o = 0; o < a->orientations; o++)
        *ret_mean += half_norms[o] / (double)a->orientations;
    if (dots == NULL) return STATUS_OK;
    TRY(alignment_cpu_reserve(&a->coarse, (size_t)count * rows * shifts, "weights", err));
    TRY(alignment_cpu_compare_all(a, count, false, (const double(*)[2])a->coarse_shift, a->shifts, a->coarse.data,
                                  err));
    double fits[ALIGNMENT_BATCH_MOST][2];
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++)
        best_fit(a, half_norms + (size_t)i * rows, a->coarse.data + (size_t)i * rows * shifts, fits[i]);
    for (int i = 0; i < count; i++)
        *dots += fits[i][0], *norms += fits[i][1];
    return STATUS_OK;
}

/* Sums go straight into the caller's accumulators: there is nothing to finish. */
const struct alignment_work alignment_cpu_work = {
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .batch = batch,
    .scale = scale,
    .add = add,
    .take_turn = take_turn,
};
