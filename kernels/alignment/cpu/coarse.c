/* The coarse pass: compares every pose of the grid in every reference, at a size at which neighbouring poses just
 * differ. The samples that hold 99.9 % of the probability go on to the fine pass. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cpu/alignment.h"
#include "kernels/expectation/posterior.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Makes slices of rows first .. first+count−1 of the grid. */
static void slice_rows(const struct alignment_cpu *a, int first, int count, float *out) {
    enum { CHUNK = 1024 };
    int n = grid_pixels(&a->iteration);
    float matrices[CHUNK][9];
    for (int done = 0, chunk; done < count; done += chunk) {
        int row = first + done, reference = row / a->orientations, left = (reference + 1) * a->orientations - row;
        chunk = count - done < CHUNK ? count - done : CHUNK;
        if (chunk > left) chunk = left;
        for (int i = 0; i < chunk; i++) {
            double m[9];
            sampling_matrix(a->iteration.sampling, (row + i) % a->orientations, m);
            for (int j = 0; j < 9; j++)
                matrices[i][j] = (float)m[j];
        }
        projector_slices(a->iteration.references[reference], &a->pixels, n, chunk, matrices[0], a->options.threads,
                         out + (size_t)done * 2 * (size_t)n);
    }
}

static struct expectation_particle comparison(const struct batch_particle *b) {
    return (struct expectation_particle){.image = b->masked, .ctf = b->ctf, .weight = b->weight};
}

enum status alignment_cpu_compare_all(struct alignment_cpu *a, int count, bool empty, const double (*shifts)[2],
                                      int n_shifts, float *ret_diff2, struct err *err) {
    size_t n = (size_t)grid_pixels(&a->iteration), stride = (size_t)a->rows * (size_t)n_shifts;
    struct expectation_particle comparisons[ALIGNMENT_BATCH_MOST];
    _cleanup_(mem_free) float *nothing = NULL;
    if (empty) TRY(mem_new(2 * n, sizeof *nothing, "an empty image", &nothing, err));
    for (int i = 0; i < count; i++) {
        comparisons[i] = comparison(&a->particles[i]);
        if (empty) comparisons[i].image = nothing;
    }
    TRY(alignment_cpu_reserve(&a->coarse_slices, (size_t)a->slice_rows * 2 * n, "slices of the coarse pass", err));
    for (int first = 0; first < a->rows; first += a->slice_rows) {
        int rows = a->rows - first < a->slice_rows ? a->rows - first : a->slice_rows;
        if (!a->sliced) slice_rows(a, first, rows, a->coarse_slices.data);
        a->sliced = rows == a->rows;
        TRY(expectation_coarse_part(a->expectation, (int)n, a->coarse_slices.data, rows, comparisons, count, shifts,
                                    n_shifts, ret_diff2 + (size_t)first * (size_t)n_shifts, stride, err));
    }
    return STATUS_OK;
}

/* Returns the row of the grid for a row of a particle's coarse pass. */
static int grid_row(const struct alignment_cpu *a, const struct batch_particle *b, int row) {
    if (!a->iteration.local) return row;
    return row / b->near.count * a->orientations + b->near.orientations[row % b->near.count];
}

/* Returns the least weight of the samples that matter.
 *
 * At low resolution thousands of samples fit a particle equally well. The fine pass over all of them would take most of
 * the time of the first iterations, and show only that again. The best samples stand for the rest. */
static float least_weight(const struct batch_particle *b, size_t samples, size_t most, size_t *ret_kept) {
    float threshold;
    expectation_top_sum(b->coarse, samples, ALIGNMENT_FRACTION, &threshold, ret_kept);
    b->result->significant = (int)*ret_kept;
    if (*ret_kept > most) expectation_largest(b->coarse, samples, threshold, most, &threshold, ret_kept);
    return threshold;
}

/* Replaces the differences of coarse samples by weights, and lists the samples that matter. */
static enum status select_samples(const struct alignment_cpu *a, struct batch_particle *b, int rows,
                                  const float *row_prior, struct err *err) {
    int shifts = a->shifts;
    size_t samples = (size_t)rows * (size_t)shifts, kept;
    size_t most = a->iteration.screen_pixels > 0 ? most_screened_samples(&a->options, &a->iteration)
                                                 : most_coarse_samples(&a->options, &a->iteration);
    posterior_weights(b->coarse, rows, shifts, row_prior, b->shift_log_prior, NULL, NULL);
    float threshold = least_weight(b, samples, most, &kept);
    TRY(alignment_cpu_reserve_list(&b->significant, (int)kept, err));
    TRY(alignment_cpu_reserve_list(&b->rows, rows < (int)kept ? rows : (int)kept, err));
    b->significant.count = b->rows.count = 0;
    for (int row = 0; row < rows; row++) {
        const float *weights = b->coarse + (size_t)row * (size_t)shifts;
        int before = b->significant.count;
        for (int t = 0; t < shifts; t++)
            if (weights[t] >= threshold) b->significant.data[b->significant.count++] = row * shifts + t;
        if (b->significant.count > before) b->rows.data[b->rows.count++] = grid_row(a, b, row);
    }
    return STATUS_OK;
}

/* Computes the differences of the listed samples of one reference, from row `first` of the list on, over all coarse
 * pixels: b->coarse from *done on. Returns how many rows that were. */
static enum status compare_rows(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *space,
                                int first, int *done, int *ret_rows, struct err *err) {
    enum { ROWS = 256 };
    const int n = a->iteration.coarse_pixels, shifts = a->shifts, *rows = b->rows.data, *samples = b->significant.data;
    const int reference = rows[first] / a->orientations, begin = *done;
    TRY(alignment_cpu_reserve(&space->local_slices, ROWS * (2 * (size_t)n + 9), "slices that matter", err));
    float *slices = space->local_slices.data, *matrices = slices + ROWS * 2 * (size_t)n;
    int count = 0, at = begin;
    for (; count < ROWS && first + count < b->rows.count && rows[first + count] / a->orientations == reference;
         count++) {
        double m[9];
        sampling_matrix(a->iteration.sampling, rows[first + count] % a->orientations, m);
        for (int j = 0; j < 9; j++)
            matrices[9 * count + j] = (float)m[j];
        for (; at < b->significant.count && samples[at] / shifts == rows[first + count]; at++) {
            space->pose_slice.data[at - begin] = count;
            space->pose_shift.data[at - begin] = samples[at] % shifts;
        }
    }
    projector_slices(a->iteration.references[reference], &a->pixels, n, count, matrices, 1, slices);
    const struct expectation_particle e = comparison(b);
    *done = at;
    *ret_rows = count;
    return expectation_fine(space->expectation, n, slices, &e, (const double(*)[2])a->coarse_shift, shifts,
                            space->pose_slice.data, space->pose_shift.data, at - begin, b->coarse + begin, err);
}

/* Compares the listed samples over all coarse pixels, and keeps those of them that matter. */
static enum status compare_screened(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *space,
                                    const float *row_prior, struct err *err) {
    const int count = b->significant.count, shifts = a->shifts;
    int *samples = b->significant.data, done = 0;
    size_t kept;
    TRY(alignment_cpu_reserve_list(&space->pose_slice, count, err));
    TRY(alignment_cpu_reserve_list(&space->pose_shift, count, err));
    for (int first = 0, rows; first < b->rows.count; first += rows)
        TRY(compare_rows(a, b, space, first, &done, &rows, err));
    for (int i = 0; i < count; i++)
        b->coarse[i] -=
            (row_prior != NULL ? row_prior[samples[i] / shifts] : 0) + b->shift_log_prior[samples[i] % shifts];
    posterior_weights(b->coarse, 1, count, NULL, NULL, NULL, NULL);
    float threshold = least_weight(b, (size_t)count, most_coarse_samples(&a->options, &a->iteration), &kept);
    b->significant.count = b->rows.count = 0;
    for (int i = 0; i < count; i++) {
        if (b->coarse[i] < threshold) continue;
        int row = samples[i] / shifts;
        samples[b->significant.count++] = samples[i];
        if (b->rows.count == 0 || b->rows.data[b->rows.count - 1] != row) b->rows.data[b->rows.count++] = row;
    }
    return STATUS_OK;
}

/* Computes the priors of the rows near a particle's pose. */
static enum status near_priors(const struct alignment_cpu *a, const struct batch_particle *b,
                               struct thread_space *space, const float **ret_prior, struct err *err) {
    int near = b->near.count, references = a->iteration.reference_count;
    *ret_prior = b->near.log_priors;
    if (references == 1) return STATUS_OK;
    TRY(alignment_cpu_reserve(&space->local_prior, (size_t)near * (size_t)references, "priors", err));
    *ret_prior = space->local_prior.data;
    for (int i = 0; i < near * references; i++)
        space->local_prior.data[i] =
            b->near.log_priors[i % near] +
            (a->iteration.reference_log_prior != NULL ? a->iteration.reference_log_prior[i / near] : 0);
    return STATUS_OK;
}

/* Compares a particle with the grid near its last pose only. */
static enum status coarse_near(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *space,
                               struct err *err) {
    int near = b->near.count, references = a->iteration.reference_count, n = a->iteration.coarse_pixels;
    size_t floats = (size_t)near * 2 * (size_t)n;
    if (floats * (size_t)references + 9 * (size_t)near > space->local_slices.capacity)
        TRY(alignment_cpu_reserve(&space->local_slices, 2 * (floats * (size_t)references + 9 * (size_t)near),
                                  "slices near a pose", err));
    float *slices = space->local_slices.data, *matrices = slices + floats * (size_t)references;
    const float *prior;
    for (int i = 0; i < near; i++) {
        double m[9];
        sampling_matrix(a->iteration.sampling, b->near.orientations[i], m);
        for (int j = 0; j < 9; j++)
            matrices[9 * i + j] = (float)m[j];
    }
    for (int k = 0; k < references; k++)
        projector_slices(a->iteration.references[k], &a->pixels, n, near, matrices, 1, slices + floats * (size_t)k);
    struct expectation_particle e = comparison(b);
    TRY(expectation_coarse(space->expectation, n, slices, near * references, &e, 1, (const double(*)[2])a->coarse_shift,
                           a->shifts, b->coarse, err));
    TRY(near_priors(a, b, space, &prior, err));
    return select_samples(a, b, near * references, prior, err);
}

static enum status prepare_local(struct alignment_cpu *a, int count, struct err *err) {
    size_t total = 0, each = (size_t)a->shifts * (size_t)a->iteration.reference_count;
    for (int i = 0; i < count; i++) {
        struct batch_particle *b = &a->particles[i];
        TRY(alignment_near(&a->iteration, b->particle, &b->near, err));
        FAIL_IF((size_t)b->near.count * each > INT_MAX, err, STATUS_UNSUPPORTED,
                "%d poses near a particle at %zu shifts of references are more samples than can be numbered: search "
                "fewer shifts",
                b->near.count, each);
        total += (size_t)b->near.count * each;
    }
    TRY(alignment_cpu_reserve(&a->coarse, total, "weights of the coarse pass", err));
    total = 0;
    for (int i = 0; i < count; i++) {
        a->particles[i].coarse = a->coarse.data + total;
        total += (size_t)a->particles[i].near.count * each;
    }
    return STATUS_OK;
}

static enum status prepare_global(struct alignment_cpu *a, int count, struct err *err) {
    size_t samples = (size_t)a->rows * (size_t)a->shifts;
    TRY(alignment_cpu_reserve(&a->coarse, samples * (size_t)count, "weights of the coarse pass", err));
    for (int i = 0; i < count; i++)
        a->particles[i].coarse = a->coarse.data + samples * (size_t)i;
    return alignment_cpu_compare_all(a, count, false, (const double(*)[2])a->coarse_shift, a->shifts, a->coarse.data,
                                     err);
}

enum status alignment_cpu_coarse(struct alignment_cpu *a, int count, struct err *err) {
    const float *row_prior = a->iteration.reference_log_prior != NULL ? a->row_prior.data : NULL;
    TRY(a->iteration.local ? prepare_local(a, count, err) : prepare_global(a, count, err));
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        struct thread_space *space = &a->threads[omp_get_thread_num()];
        enum status status = a->iteration.local ? coarse_near(a, &a->particles[i], space, &own)
                                                : select_samples(a, &a->particles[i], a->rows, row_prior, &own);
        if (status == STATUS_OK && a->iteration.screen_pixels > 0)
            status = compare_screened(a, &a->particles[i], space, row_prior, &own);
        if (status != STATUS_OK) {
#pragma omp critical(alignment_cpu_coarse)
            {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    return failed;
}
