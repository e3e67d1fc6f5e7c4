/* Times the lists of a batch at real sizes, beside the time of reading and writing them once at 4 TB/s. By the host's
 * clock, over many consecutive calls. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_SAMPLES_TIMES_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_SAMPLES_TIMES_H

#include <stdio.h>
#include <time.h>

#include "tests/kernels/alignment_lists.h"

/* One batch, all in device memory. */
struct timed {
    struct sampling_cuda sampling;
    struct particles_cuda particles;
    struct samples_cuda samples;
    int n_rows, each;
    uint32_t *kept, *begin, *row_begin, *list;
    struct row_cuda *rows;
    struct sample_counts *counts;
    float *values, *weights, *least, *reference_weights;
    struct top_sum *sums;
    struct best_cuda *best;
    struct contribution_cuda *contributions;
    int *own;
};

static inline enum status time_bits_count(struct timed *t, struct err *err) {
    return alignment_cuda_compress_count(t->kept, t->particles.count, t->sampling.shift_count, t->n_rows, t->counts,
                                         t->begin, t->row_begin, NULL, err);
}

static inline enum status time_bits_fill(struct timed *t, struct err *err) {
    return alignment_cuda_compress_fill(t->kept, t->particles.count, t->sampling.shift_count, t->n_rows, NULL, t->begin,
                                        t->row_begin, t->rows, t->list, NULL, err);
}

static inline enum status time_weigh(struct timed *t, struct err *err) {
    return alignment_cuda_weigh(&t->particles, &t->samples, &t->sampling, t->each, t->values, t->least, NULL, err);
}

static inline enum status time_keep_count(struct timed *t, struct err *err) {
    return alignment_cuda_keep_count(&t->samples, t->particles.count, t->weights, t->sums, t->counts, t->begin,
                                     t->row_begin, NULL, err);
}

static inline enum status time_keep_fill(struct timed *t, struct err *err) {
    return alignment_cuda_keep_fill(&t->samples, t->particles.count, t->weights, t->sums, t->begin, t->row_begin,
                                    t->rows, t->list, NULL, err);
}

static inline enum status time_contributions_count(struct timed *t, struct err *err) {
    return alignment_cuda_contributions_count(&t->particles, &t->samples, &t->sampling, t->weights, t->sums, t->least,
                                              t->own, t->best, t->begin, NULL, err);
}

static inline enum status time_contributions_fill(struct timed *t, struct err *err) {
    return alignment_cuda_contributions_fill(&t->particles, &t->samples, &t->sampling, t->weights, t->sums, t->best,
                                             t->begin, t->contributions, t->reference_weights, NULL, err);
}

static inline void print_time(const char *what, enum status (*call)(struct timed *, struct err *), struct timed *t,
                              double bytes) {
    enum { CALLS = 20, BATCHES = 7 };
    struct err err = {0};
    double best = 1e9, word;
    for (int batch = 0; batch < BATCHES; batch++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < CALLS; i++)
            must(call(t, &err), &err);
        from_device(&word, t->least, sizeof(float));
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ms = ((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6) / CALLS;
        best = ms < best ? ms : best;
    }
    printf("  %-20s %8.4f ms, floor %8.4f, ratio %.1f\n", what, best, bytes / 4e9, best * 4e9 / bytes);
}

/* density: fraction of rows that are kept. */
static inline void print_table(const char *title, int particles, const int grid[4], const int children[3],
                               double density) {
    struct err err = {0};
    struct timed t = {.each = children[0] * children[1] * children[2], .n_rows = grid[0] * grid[1] * grid[2]};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    t.sampling = (struct sampling_cuda){.references = grid[0],
                                        .directions = grid[1],
                                        .psi_count = grid[2],
                                        .shift_count = grid[3],
                                        .direction_children = children[0],
                                        .psi_children = children[1],
                                        .shift_children = children[2]};
    struct host_lists lists;
    size_t n = (size_t)particles, words = kept_words(t.n_rows) * (size_t)grid[3] * n;
    uint32_t *kept = random_bits(particles, grid[3], t.n_rows, density, NULL, &lists);
    t.kept = on_device(kept, words, sizeof *kept);
    t.samples = lists_on_device(&lists);
    size_t values = (size_t)lists.count * (size_t)t.each, contributions = 0;
    float *random = host_new(values, sizeof *random),
          *shifts = host_new(n * (size_t)(grid[3] * children[2]) * 2, sizeof *shifts);
    struct top_sum *sums = host_new(n, sizeof *sums);
    for (size_t i = 0; i < values; i++) { /* one in a hundred contributes */
        random[i] = (float)uniform();
        contributions += random[i] >= 0.99f;
    }
    for (size_t i = 0; i < n; i++)
        sums[i] = (struct top_sum){.total = 100, .threshold = 0.99f};
    t.values = on_device(random, values, sizeof *random);
    t.weights = on_device(random, values, sizeof *random);
    t.sums = on_device(sums, n, sizeof *sums);
    t.sampling.child_shifts = on_device(shifts, (size_t)(grid[3] * children[2]) * 2, sizeof *shifts);
    t.particles = (struct particles_cuda){.count = particles,
                                          .shift_log_prior = on_device(shifts, n * (size_t)grid[3], sizeof *shifts)};
    t.begin = on_device(NULL, n + 1, sizeof *t.begin);
    t.row_begin = on_device(NULL, n + 1, sizeof *t.begin);
    t.counts = on_device(NULL, n, sizeof *t.counts);
    t.rows = on_device(NULL, (size_t)lists.row_count + 1, sizeof *t.rows);
    t.list = on_device(NULL, lists.count, sizeof *t.list);
    t.least = on_device(shifts, n, sizeof *t.least);
    t.own = on_device(shifts, 2 * n, sizeof *t.own);
    t.best = on_device(NULL, n, sizeof *t.best);
    t.contributions = on_device(NULL, contributions, sizeof *t.contributions);
    t.reference_weights = grid[0] > 1 ? on_device(NULL, n * (size_t)grid[0], sizeof(float)) : NULL;
    double list_bytes = lists.count * 4.0 + lists.row_count * 16.0, value_bytes = (double)values * 4;
    printf("%s: %d particles, %d rows x %d shifts, %u samples in %u rows, %d values each, %zu contributions\n", title,
           particles, t.n_rows, grid[3], lists.count, lists.row_count, t.each, contributions);
    print_time("compress_count", time_bits_count, &t, (double)words * 4);
    print_time("compress_fill", time_bits_fill, &t, (double)words * 4 + list_bytes);
    print_time("weigh", time_weigh, &t, 2 * value_bytes + list_bytes);
    print_time("contributions_count", time_contributions_count, &t, value_bytes + lists.row_count * 16.0);
    print_time("contributions_fill", time_contributions_fill, &t,
               value_bytes + lists.row_count * 16.0 + (double)contributions * sizeof *t.contributions);
    if (t.each == 1) {
        print_time("keep_count", time_keep_count, &t, value_bytes + lists.row_count * 16.0);
        print_time("keep_fill", time_keep_fill, &t, value_bytes + lists.row_count * 16.0 + list_bytes / 100);
    }
    free(kept);
    free(random);
    free(shifts);
    free(sums);
    lists_free(&lists);
    arena_close(arena, ARENA_ITERATION);
}

static inline int print_times(void) {
    void *none = NULL;
    if (open_arena(&none) != 0) return 1;
    print_table("3D, order 3", 256, (const int[]){1, 768, 48, 21}, (const int[]){4, 2, 4}, 0.008);
    print_table("3D, 4 references", 256, (const int[]){4, 192, 24, 21}, (const int[]){4, 2, 4}, 0.016);
    print_table("2D, 50 classes", 512, (const int[]){50, 1, 30, 29}, (const int[]){1, 2, 4}, 0.05);
    print_table("local, coarse", 192, (const int[]){1, 20, 10, 21}, (const int[]){1, 1, 1}, 1);
    return close_arena(&none);
}

#endif
