/* Sums for the M-step: sums the contributions of a part's particles to a slice, in their order, then scatters the slice
 * into the accumulator of its reference. */
#include <string.h>

#include "common/multiversion.h"
#include "kernels/alignment/cpu/alignment.h"

enum { SCATTER_CHUNK = 256 };

MULTIVERSION void alignment_cpu_add_scaled(float *sum, const float *values, float factor, int count) {
    for (int i = 0; i < count; i++)
        sum[i] += factor * values[i];
}

MULTIVERSION static void weigh_unmasked(const struct batch_particle *b, float factor, int n) {
    for (int i = 0; i < n; i++) {
        float w = factor * b->ctf[i] * b->weight[i];
        b->unmasked[2 * i] *= w;
        b->unmasked[2 * i + 1] *= w;
    }
}

MULTIVERSION static void add_weights(float *sum, const float *ctf, const float *weight, float factor, int n) {
    for (int i = 0; i < n; i++)
        sum[i] += factor * ctf[i] * ctf[i] * weight[i];
}

struct scatter_job {
    const int *begin;   /* of each slice, into entries */
    const int *entries; /* particle, contribution; ordered by slice, then by particle */
    const int *slices;  /* slices with entries */
};

/* Sums the contributions of all particles of the part to one slice. */
static void gather_slice(const struct alignment_cpu *a, const struct scatter_job *job, int slice, float *data,
                         float *weight) {
    int n = a->pixels.count;
    memset(data, 0, 2 * (size_t)n * sizeof *data);
    memset(weight, 0, (size_t)n * sizeof *weight);
    for (int i = job->begin[slice]; i < job->begin[slice + 1];) {
        int particle = job->entries[2 * i];
        const struct batch_particle *b = &a->particles[particle];
        float sum = 0;
        for (; i < job->begin[slice + 1] && job->entries[2 * i] == particle; i++) {
            const struct contribution *c = &b->contributions[job->entries[2 * i + 1]];
            size_t row = b->first_shifted + (size_t)b->shift_slot[c->shift];
            alignment_cpu_add_scaled(data, a->shifted.data + row * 2 * (size_t)n, c->weight, 2 * n);
            sum += c->weight;
        }
        add_weights(weight, b->ctf, b->weight, sum, n);
    }
}

/* Computes CTF/σ² times the unmasked images at every shift that matters. */
static enum status shift_unmasked(struct alignment_cpu *a, int first, int count, struct err *err) {
    size_t rows = 0, n = (size_t)a->pixels.count;
    for (int i = first; i < first + count; i++) {
        a->particles[i].first_shifted = rows;
        rows += (size_t)a->particles[i].used_shifts;
    }
    TRY(alignment_cpu_reserve(&a->shifted, rows * 2 * n, "shifted images", err));
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int i = first; i < first + count; i++) {
        struct batch_particle *b = &a->particles[i];
        weigh_unmasked(b, (float)b->result->reliability, a->pixels.count);
        for (int t = 0; t < a->fine_shifts; t++)
            if (b->shift_slot[t] >= 0)
                fourier_pixels_shift(&a->pixels, a->pixels.count, b->unmasked, a->fine_shift[t][0], a->fine_shift[t][1],
                                     a->shifted.data + (b->first_shifted + (size_t)b->shift_slot[t]) * 2 * n);
    }
    return STATUS_OK;
}

/* Sorts contributions by slice; the counting sort keeps the order of particles within a slice. */
static enum status sort_contributions(struct alignment_cpu *a, int first, int count, struct scatter_job *job,
                                      int *ret_used, struct err *err) {
    int slices = a->slots.count * a->rotations, total = 0, used = 0;
    for (int i = first; i < first + count; i++)
        total += a->particles[i].contribution_count;
    TRY(alignment_cpu_reserve_list(&a->scatter_order, 2 * slices + 2 + 2 * total, err));
    int *begin = a->scatter_order.data, *list = begin + slices + 2, *entries = list + slices;
    memset(begin, 0, ((size_t)slices + 2) * sizeof *begin);
    for (int i = first; i < first + count; i++)
        for (int c = 0; c < a->particles[i].contribution_count; c++)
            begin[a->particles[i].contributions[c].slice + 2]++;
    for (int s = 0; s < slices; s++) {
        if (begin[s + 2] > 0) list[used++] = s;
        begin[s + 2] += begin[s + 1];
    }
    /* begin[s + 1] is where slice s continues; when all entries are placed, it is where slice s + 1 begins. */
    for (int i = first; i < first + count; i++)
        for (int c = 0; c < a->particles[i].contribution_count; c++) {
            int at = begin[a->particles[i].contributions[c].slice + 1]++;
            entries[2 * at] = i;
            entries[2 * at + 1] = c;
        }
    *job = (struct scatter_job){.begin = begin, .entries = entries, .slices = list};
    *ret_used = used;
    return STATUS_OK;
}

/* Returns how many slices from `at` on can be scattered together: all into one accumulator. */
static int chunk_size(const struct alignment_cpu *a, const struct scatter_job *job, int at, int used,
                      int *ret_reference) {
    int chunk = 1;
    *ret_reference = alignment_cpu_slice_reference(a, job->slices[at]);
    while (chunk < SCATTER_CHUNK && at + chunk < used &&
           alignment_cpu_slice_reference(a, job->slices[at + chunk]) == *ret_reference)
        chunk++;
    return chunk;
}

enum status alignment_cpu_back_project(struct alignment_cpu *a, int first, int count, struct err *err) {
    struct scatter_job job;
    int used, reference, n = a->pixels.count;
    if (a->turns != NULL) TRY(alignment_turns_await(a->turns, a->turn, err));
    TRY(shift_unmasked(a, first, count, err));
    TRY(sort_contributions(a, first, count, &job, &used, err));
    size_t per_slice = 3 * (size_t)n + 9;
    TRY(alignment_cpu_reserve(&a->scatter, SCATTER_CHUNK * per_slice, "slices to be scattered", err));
    float *data = a->scatter.data, *weight = data + SCATTER_CHUNK * 2 * (size_t)n;
    float *matrices = weight + SCATTER_CHUNK * (size_t)n;
    const float *all_matrices =
        a->fine_slices.data + (size_t)a->slots.count * (size_t)a->rotations * 2 * (size_t)a->fine_pixels;
    for (int at = 0, chunk; at < used; at += chunk) {
        chunk = chunk_size(a, &job, at, used, &reference);
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
        for (int i = 0; i < chunk; i++) {
            int slice = job.slices[at + i];
            gather_slice(a, &job, slice, data + (size_t)i * 2 * (size_t)n, weight + (size_t)i * (size_t)n);
            memcpy(matrices + 9 * i, all_matrices + 9 * (size_t)slice, 9 * sizeof *matrices);
        }
        TRY(accumulator_add(a->iteration.sums[reference], &a->pixels, n, chunk, matrices, data, weight,
                            a->options.threads, err));
    }
    return STATUS_OK;
}
