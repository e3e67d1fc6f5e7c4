/* Compares lists of samples and of contributions on a CUDA device with plain loops over the same input. New random
 * input from a printed seed, or from a given one: gpu_alignment_samples [SEED | time [SEED]]. Outputs are poisoned
 * before; everything runs twice and is compared bit for bit. `time`: times real sizes beside their lower bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/alignment/cuda/alignment.h"
#include "tests/kernels/alignment_fine.h"
#include "tests/kernels/alignment_lists.h"
#include "tests/kernels/alignment_samples_times.h"
#include "tests/kernels/devices.h"

/* Runs twice, each time into newly poisoned memory, and checks that the results are identical. */
static void *twice(enum status (*work)(void *, void *, struct err *), void *input, size_t bytes) {
    struct err err = {0};
    unsigned char *first = host_new(bytes + 1, 1), *second = host_new(bytes + 1, 1);
    for (int run = 0; run < 2; run++) {
        void *out = on_device(NULL, bytes + 1, 1);
        must(work(input, out, &err), &err);
        from_device(run ? second : first, out, bytes);
    }
    assert_memory_equal(first, second, bytes);
    free(second);
    return first;
}

static void check_lists(const struct host_lists *found, const struct host_lists *truth) {
    for (int i = 0; i <= truth->particles; i++) {
        assert_int_equal(found->begin[i], truth->begin[i]);
        assert_int_equal(found->row_begin[i], truth->row_begin[i]);
    }
    for (uint32_t i = 0; i <= truth->row_count; i++) {
        const struct row_cuda *a = &found->rows[i], *b = &truth->rows[i];
        if (a->particle != b->particle || a->row != b->row || a->first != b->first || a->log_prior != b->log_prior)
            fail_msg("row %u: particle %d, row %d, first %u, prior %g; expected %d, %d, %u, %g", i, a->particle, a->row,
                     a->first, a->log_prior, b->particle, b->row, b->first, b->log_prior);
    }
    for (uint32_t i = 0; i < truth->count; i++)
        if (found->samples[i] != truth->samples[i])
            fail_msg("sample %u: %u, expected %u", i, found->samples[i], truth->samples[i]);
}

/* Counts and fills a list; the host knows its size only from the count. */
typedef enum status (*count_call)(const void *from, struct sample_counts *, uint32_t *, uint32_t *, struct err *);
typedef enum status (*fill_call)(const void *from, const uint32_t *, const uint32_t *, struct row_cuda *, uint32_t *,
                                 struct err *);

static void check_both(const void *from, count_call count, fill_call fill, const struct host_lists *truth) {
    struct err err = {0};
    struct host_lists found[2];
    size_t n = (size_t)truth->particles;
    struct sample_counts *counts = host_new(n + 1, sizeof *counts);
    for (int run = 0; run < 2; run++) {
        struct host_lists *f = &found[run];
        struct sample_counts *c = on_device(NULL, n + 1, sizeof *c);
        uint32_t *begin = on_device(NULL, n + 1, sizeof *begin), *row_begin = on_device(NULL, n + 1, sizeof *begin);
        must(count(from, c, begin, row_begin, &err), &err);
        *f = lists_new(truth->particles, truth->row_count, truth->count);
        from_device(counts, c, n * sizeof *counts);
        from_device(f->begin, begin, (n + 1) * sizeof *begin);
        from_device(f->row_begin, row_begin, (n + 1) * sizeof *begin);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(counts[i].samples, truth->begin[i + 1] - truth->begin[i]);
            assert_int_equal(counts[i].rows, truth->row_begin[i + 1] - truth->row_begin[i]);
        }
        struct row_cuda *rows = on_device(NULL, truth->row_count + 1, sizeof *rows);
        uint32_t *samples = on_device(NULL, truth->count + 1, sizeof *samples), guard;
        must(fill(from, begin, row_begin, rows, samples, &err), &err);
        from_device(f->rows, rows, (truth->row_count + 1) * sizeof *rows);
        from_device(f->samples, samples, truth->count * sizeof *samples);
        from_device(&guard, samples + truth->count, sizeof guard);
        assert_int_equal(guard, 0xffffffffu); /* nothing is written beyond the end */
        check_lists(f, truth);
    }
    for (int run = 0; run < 2; run++)
        lists_free(&found[run]);
    free(counts);
}

struct bits {
    int particles, n_shifts, n_rows;
    const uint32_t *kept;
    const float *row_log_prior;
};

static enum status count_bits(const void *from, struct sample_counts *counts, uint32_t *begin, uint32_t *row_begin,
                              struct err *err) {
    const struct bits *b = from;
    return alignment_cuda_compress_count(b->kept, b->particles, b->n_shifts, b->n_rows, counts, begin, row_begin, NULL,
                                         err);
}

static enum status fill_bits(const void *from, const uint32_t *begin, const uint32_t *row_begin, struct row_cuda *rows,
                             uint32_t *samples, struct err *err) {
    const struct bits *b = from;
    return alignment_cuda_compress_fill(b->kept, b->particles, b->n_shifts, b->n_rows, b->row_log_prior, begin,
                                        row_begin, rows, samples, NULL, err);
}

static void compress_trial(int particles, int n_shifts, int n_rows, double density, bool priors) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    float *row_log_prior = host_new((size_t)n_rows, sizeof *row_log_prior);
    for (int i = 0; i < n_rows; i++)
        row_log_prior[i] = (float)-uniform();
    struct host_lists truth;
    uint32_t *kept = random_bits(particles, n_shifts, n_rows, density, priors ? row_log_prior : NULL, &truth);
    size_t words = kept_words(n_rows) * (size_t)n_shifts * (size_t)particles;
    const struct bits b = {particles, n_shifts, n_rows, on_device(kept, words + 1, sizeof *kept),
                           priors ? on_device(row_log_prior, (size_t)n_rows, sizeof *row_log_prior) : NULL};
    check_both(&b, count_bits, fill_bits, &truth);
    lists_free(&truth);
    free(kept);
    free(row_log_prior);
    arena_close(arena, ARENA_ITERATION);
}

static void bits_become_lists(void **state) {
    (void)state;
    compress_trial(0, 3, 50, 0.5, false);
    compress_trial(1, 1, 1, 1, false);
    compress_trial(1, 1, 1, 0, true);
    compress_trial(1, 21, 31, 0.1, true);
    compress_trial(3, 21, 33, 1, true);
    compress_trial(5, 7, 1000, 0.002, false);
    compress_trial(2, 81, 20011, 0.03, true);
    compress_trial(2, 5, 40000, 1, true);
    compress_trial(700, 3, 97, 0.05, true);
    compress_trial(7, 21, 36864, 0.0005, false);
}

struct weights_input {
    struct samples_cuda samples;
    int particles;
    const float *weights;
    const struct top_sum *sums;
};

static enum status count_weights(const void *from, struct sample_counts *counts, uint32_t *begin, uint32_t *row_begin,
                                 struct err *err) {
    const struct weights_input *w = from;
    return alignment_cuda_keep_count(&w->samples, w->particles, w->weights, w->sums, counts, begin, row_begin, NULL,
                                     err);
}

static enum status fill_weights(const void *from, const uint32_t *begin, const uint32_t *row_begin,
                                struct row_cuda *rows, uint32_t *samples, struct err *err) {
    const struct weights_input *w = from;
    return alignment_cuda_keep_fill(&w->samples, w->particles, w->weights, w->sums, begin, row_begin, rows, samples,
                                    NULL, err);
}

static void keep_trial(int particles, int n_shifts, int n_rows, double density, double threshold) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    struct host_lists lists, truth;
    free(random_bits(particles, n_shifts, n_rows, density, NULL, &lists));
    float *weights = host_new(lists.count + 1, sizeof *weights);
    struct top_sum *sums = host_new((size_t)particles + 1, sizeof *sums);
    for (uint32_t i = 0; i < lists.count; i++)
        weights[i] = (float)uniform();
    for (int p = 0; p < particles; p++)
        sums[p].threshold = (float)(threshold * (p % 3 ? 1 : uniform()));
    for (uint32_t r = 0; r < lists.row_count; r++)
        lists.rows[r].log_prior = (float)uniform();
    for (int p = 0; p < particles; p++) /* one weight equals the threshold exactly */
        if (lists.begin[p + 1] > lists.begin[p]) weights[lists.begin[p]] = sums[p].threshold;
    truth = lists_where(&lists, weights, sums);
    const struct weights_input w = {lists_on_device(&lists), particles,
                                    on_device(weights, lists.count + 1, sizeof *weights),
                                    on_device(sums, (size_t)particles + 1, sizeof *sums)};
    check_both(&w, count_weights, fill_weights, &truth);
    lists_free(&lists);
    lists_free(&truth);
    free(weights);
    free(sums);
    arena_close(arena, ARENA_ITERATION);
}

static void weights_become_lists(void **state) {
    (void)state;
    keep_trial(0, 5, 40, 0.5, 0.5);
    keep_trial(1, 1, 1, 1, 0.5);
    keep_trial(1, 9, 300, 0, 0.5);
    keep_trial(4, 21, 200, 1, 0.97);
    keep_trial(33, 21, 700, 0.3, 0.9);
    keep_trial(600, 5, 31, 0.2, 0.5);
    keep_trial(3, 81, 5000, 0.1, 1.5);
}

static void near(double found, double truth, const char *what, int particle) {
    /* Sums of doubles in another order */
    if (!(fabs(found - truth) <= 1e-12 * fabs(truth) + 1e-300))
        fail_msg("%s of particle %d: %.17g, expected %.17g", what, particle, found, truth);
}

static void check_best(const struct best_cuda *found, const struct best_cuda *truth, int particle, float least) {
    near(found->sum, truth->sum, "sum", particle);
    near(found->offset2, truth->offset2, "offset2", particle);
    near(found->weight_sum, truth->weight_sum, "sum of weights", particle);
    assert_true(found->least == least && found->largest == truth->largest);
    assert_memory_equal(&found->pose, &truth->pose, sizeof found->pose);
    assert_int_equal(found->contributions, truth->contributions);
}

/* Results of alignment_cuda_contributions_* as one block for `twice`. */
struct contributions_input {
    const struct fine *f;
    const float *weights, *least;
    const struct top_sum *sums;
    const int *own;
    const struct best_cuda *best;
    const uint32_t *begin;
    size_t list_bytes;
    bool references;
};

static enum status run_count(void *input, void *out, struct err *err) {
    struct contributions_input *c = input;
    size_t n = (size_t)c->f->particles.count;
    return alignment_cuda_contributions_count(&c->f->particles, &c->f->samples, &c->f->sampling, c->weights, c->sums,
                                              c->least, c->own, out, (uint32_t *)((struct best_cuda *)out + n), NULL,
                                              err);
}

static enum status run_fill(void *input, void *out, struct err *err) {
    struct contributions_input *c = input;
    return alignment_cuda_contributions_fill(&c->f->particles, &c->f->samples, &c->f->sampling, c->weights, c->sums,
                                             c->best, c->begin, out,
                                             c->references ? (float *)((char *)out + c->list_bytes) : NULL, NULL, err);
}

static void check_contributions(const struct fine *f, const float *weights, const float *least,
                                const struct top_sum *sums, bool references) {
    size_t n = (size_t)f->lists.particles, count = (size_t)f->lists.count * (size_t)f->each;
    int *own = host_new(2 * n + 1, sizeof *own);
    for (size_t i = 0; i < 2 * n; i++)
        own[i] = (int)(20 * uniform()) - 10;
    struct plain truth;
    plain_contributions(f, weights, sums, own, &truth);
    uint32_t total = truth.begin[n];
    struct contributions_input c = {.f = f,
                                    .weights = on_device(weights, count + 1, sizeof *weights),
                                    .least = on_device(least, n, sizeof *least),
                                    .sums = on_device(sums, n, sizeof *sums),
                                    .own = on_device(own, 2 * n, sizeof *own),
                                    .references = references,
                                    .list_bytes = total * sizeof(struct contribution_cuda)};
    size_t best_bytes = n * sizeof(struct best_cuda) + (n + 1) * sizeof(uint32_t);
    struct best_cuda *best = twice(run_count, &c, best_bytes);
    const uint32_t *begin = (const uint32_t *)(best + n);
    for (size_t p = 0; p <= n; p++)
        assert_int_equal(begin[p], truth.begin[p]);
    for (size_t p = 0; p < n; p++)
        check_best(&best[p], &truth.best[p], (int)p, least[p]);
    c.best = on_device(best, n, sizeof *best);
    c.begin = on_device(begin, n + 1, sizeof *begin);
    size_t wide = n * (size_t)f->sampling.references;
    struct contribution_cuda *list = twice(run_fill, &c, c.list_bytes + (references ? wide * sizeof(float) : 0));
    for (uint32_t i = 0; i < total; i++) {
        const struct contribution_cuda *a = &list[i], *b = &truth.list[i];
        if (a->particle != b->particle || memcmp(&a->pose, &b->pose, sizeof a->pose) != 0 ||
            !(fabsf(a->weight - b->weight) <= 1e-6f * b->weight))
            fail_msg("contribution %u: particle %d, row %u, rotation %d, shift %d, weight %g, not %d, %u, %d, %d, %g",
                     i, a->particle, a->pose.row, a->pose.rotation, a->pose.shift, (double)a->weight, b->particle,
                     b->pose.row, b->pose.rotation, b->pose.shift, (double)b->weight);
    }
    const float *given = (const float *)(list + total);
    for (size_t i = 0; references && i < wide; i++)
        assert_true(fabs(given[i] - truth.references[i]) <= 1e-7 * truth.references[i]);
    free(own);
    free(best);
    free(list);
    free_plain(&truth);
}

static void fine_trial(int particles, const int grid[4], const int children[3], double density, bool references) {
    struct err err = {0};
    struct fine f;
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    make_fine(&f, particles, grid, children, density);
    float *least = host_new((size_t)particles, sizeof *least), *weights = weigh_twice(&f, least);
    check_weighing(&f, weights, least);
    struct top_sum *sums = choose(&f, weights);
    check_contributions(&f, weights, least, sums, references);
    free(least);
    free(weights);
    free(sums);
    free_fine(&f);
    arena_close(arena, ARENA_ITERATION);
}

static void differences_become_contributions(void **state) {
    (void)state;
    fine_trial(1, (const int[]){1, 1, 1, 1}, (const int[]){1, 1, 1}, 1, false);
    fine_trial(1, (const int[]){1, 1, 1, 1}, (const int[]){4, 2, 4}, 0, true);
    fine_trial(5, (const int[]){1, 48, 12, 21}, (const int[]){4, 2, 4}, 0.02, false);
    fine_trial(9, (const int[]){3, 20, 12, 13}, (const int[]){4, 2, 4}, 0.05, true);
    fine_trial(40, (const int[]){50, 1, 30, 9}, (const int[]){1, 2, 4}, 0.03, true);
    fine_trial(7, (const int[]){2, 30, 7, 5}, (const int[]){1, 1, 1}, 0.4, true);
    fine_trial(3, (const int[]){64, 5, 3, 11}, (const int[]){1, 3, 1}, 0.7, true);
    fine_trial(2, (const int[]){1, 700, 3, 85}, (const int[]){4, 2, 4}, 0.1, false);
}

/* Bytes in paper 001, section "block-compressed": dense, a list of each value with its index, blocks. */
static void memory_is_that_of_the_paper(void **state) {
    (void)state;
    const size_t all = 1000000;
    assert_int_equal(alignment_cuda_blocks_bytes(1, 32, sizeof(double)), 260);
    assert_int_equal(alignment_cuda_blocks_bytes(1, 32, sizeof(float)), 132);
    assert_int_equal(alignment_cuda_blocks_bytes(3000, 8, sizeof(float)), 3000 * 36);
    for (size_t value = 4; value <= 8; value += 4) {
        size_t dense = all * 32 * value, kept = 0;
        while (alignment_cuda_blocks_bytes(kept, 32, value) <= dense)
            kept++;
        double share = (double)kept / (double)all, expected = value == 8 ? 256.0 / 260 : 128.0 / 132;
        assert_true(fabs(share - expected) < 1e-5);
        assert_true(32 * kept * (value + 4) > alignment_cuda_blocks_bytes(kept, 32, value)); /* one index per value */
    }
}

/* The blocks of the kept samples, placed in an array of all samples, equal the result of working on all samples with
 * the others next to impossible; and the same poses contribute. */
static void blocks_expand_to_the_dense_array(void **state) {
    (void)state;
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    const int grid[4] = {2, 30, 5, 13}, children[3] = {4, 2, 4}, particles = 6;
    struct fine dense, blocks;
    make_fine(&dense, particles, grid, children, 1);
    for (uint32_t r = 0; r < dense.lists.row_count; r++)
        dense.lists.rows[r].log_prior = 0;
    dense.samples = lists_on_device(&dense.lists);
    blocks = dense;
    uint32_t samples = dense.lists.count / particles, each = (uint32_t)dense.each;
    free(random_bits(particles, grid[3], grid[0] * grid[1] * grid[2], 0.05, NULL, &blocks.lists));
    blocks.samples = lists_on_device(&blocks.lists);
    float *differences = host_new((size_t)dense.lists.count * each, sizeof *differences);
    for (size_t i = 0; i < (size_t)dense.lists.count * each; i++)
        differences[i] = INFINITY;
    blocks.differences = host_new((size_t)blocks.lists.count * each + 1, sizeof *differences);
    for (int p = 0; p < particles; p++)
        for (uint32_t s = blocks.lists.begin[p]; s < blocks.lists.begin[p + 1]; s++) {
            size_t to = ((size_t)p * samples + blocks.lists.samples[s]) * each;
            memcpy(blocks.differences + (size_t)s * each, dense.differences + to, each * sizeof *differences);
            memcpy(differences + to, dense.differences + to, each * sizeof *differences);
        }
    free(dense.differences);
    dense.differences = differences;
    float least[2][6], *of_dense = weigh_twice(&dense, least[0]), *of_blocks = weigh_twice(&blocks, least[1]);
    float *expanded = host_new((size_t)dense.lists.count * each, sizeof *expanded);
    for (int p = 0; p < particles; p++)
        for (uint32_t s = blocks.lists.begin[p]; s < blocks.lists.begin[p + 1]; s++)
            memcpy(expanded + ((size_t)p * samples + blocks.lists.samples[s]) * each, of_blocks + (size_t)s * each,
                   each * sizeof *expanded);
    assert_memory_equal(least[0], least[1], sizeof least[0]);
    assert_memory_equal(expanded, of_dense, (size_t)dense.lists.count * each * sizeof *expanded);
    struct top_sum *sums = choose(&dense, of_dense), *block_sums = choose(&blocks, of_blocks);
    assert_memory_equal(sums, block_sums, particles * sizeof *sums);
    check_contributions(&dense, of_dense, least[0], sums, true);
    check_contributions(&blocks, of_blocks, least[1], block_sums, true);
    struct plain a, b;
    const int own[12] = {0};
    plain_contributions(&dense, of_dense, sums, own, &a);
    plain_contributions(&blocks, of_blocks, block_sums, own, &b);
    assert_memory_equal(a.begin, b.begin, (particles + 1) * sizeof *a.begin);
    assert_memory_equal(a.list, b.list, a.begin[particles] * sizeof *a.list);
    free_plain(&a);
    free_plain(&b);
    for (float **p = (float *[]){of_dense, of_blocks, expanded, blocks.differences, NULL}; *p; p++)
        free(*p);
    free(sums);
    free(block_sums);
    lists_free(&blocks.lists);
    free_fine(&dense);
    arena_close(arena, ARENA_ITERATION);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    const char *given = argc > 1 + timed ? argv[1 + timed] : NULL;
    choose_seed(given);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_become_lists),
        cmocka_unit_test(weights_become_lists),
        cmocka_unit_test(differences_become_contributions),
        cmocka_unit_test(memory_is_that_of_the_paper),
        cmocka_unit_test(blocks_expand_to_the_dense_array),
    };
    int failed = cmocka_run_group_tests(tests, open_arena, close_arena);
    return failed ? failed : timed ? print_times() : 0;
}
