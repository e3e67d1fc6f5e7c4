/* A batch of the fine pass on the host, with its results from plain loops: differences, weights, contributions. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_FINE_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_FINE_H

#include "kernels/alignment/cuda/alignment.h"
#include "kernels/expectation/expectation.h"
#include "tests/kernels/alignment_lists.h"
#include "tests/kernels/devices.h"

/* A batch for the fine pass, beside its plain result. */
struct fine {
    struct sampling_cuda sampling;
    struct particles_cuda particles;
    struct host_lists lists;
    struct samples_cuda samples;
    int each;
    float *differences, *shift_log_prior, *child_shifts;
};

static inline void make_fine(struct fine *f, int particles, const int grid[4], const int children[3], double density) {
    f->sampling = (struct sampling_cuda){.references = grid[0],
                                         .directions = grid[1],
                                         .psi_count = grid[2],
                                         .shift_count = grid[3],
                                         .direction_children = children[0],
                                         .psi_children = children[1],
                                         .shift_children = children[2]};
    f->each = children[0] * children[1] * children[2];
    size_t shifts = (size_t)grid[3], fine_shifts = shifts * (size_t)children[2];
    free(random_bits(particles, grid[3], grid[0] * grid[1] * grid[2], density, NULL, &f->lists));
    for (uint32_t r = 0; r < f->lists.row_count; r++)
        f->lists.rows[r].log_prior = (float)(-3 * uniform());
    f->samples = lists_on_device(&f->lists);
    size_t count = (size_t)f->lists.count * (size_t)f->each;
    f->differences = host_new(count + 1, sizeof(float));
    for (int p = 0; p < particles; p++) {
        double about = 400 * normal(), spread = p % 4 == 3 ? 1 : 12;
        for (size_t i = (size_t)f->lists.begin[p] * f->each; i < (size_t)f->lists.begin[p + 1] * f->each; i++)
            f->differences[i] = (float)(about + spread * normal());
    }
    f->shift_log_prior = host_new((size_t)particles * shifts, sizeof(float));
    for (size_t i = 0; i < (size_t)particles * shifts; i++)
        f->shift_log_prior[i] = (float)(-2 * uniform());
    f->child_shifts = host_new(2 * fine_shifts, sizeof(float));
    for (size_t i = 0; i < 2 * fine_shifts; i++)
        f->child_shifts[i] = (float)(6 * uniform() - 3);
    f->sampling.child_shifts = on_device(f->child_shifts, 2 * fine_shifts, sizeof(float));
    f->particles = (struct particles_cuda){
        .count = particles,
        .shift_log_prior = on_device(f->shift_log_prior, (size_t)particles * shifts, sizeof(float))};
}

static inline void free_fine(struct fine *f) {
    lists_free(&f->lists);
    free(f->differences);
    free(f->shift_log_prior);
    free(f->child_shifts);
}

/* Returns the device's weights, and the smallest difference of each particle. */
static inline float *weigh_twice(const struct fine *f, float *ret_least) {
    struct err err = {0};
    size_t count = (size_t)f->lists.count * (size_t)f->each, n = (size_t)f->particles.count;
    float *first = host_new(count + 1, sizeof *first), *second = host_new(count + 1, sizeof *second);
    for (int run = 0; run < 2; run++) {
        float *values = on_device(f->differences, count + 1, sizeof *values),
              *least = on_device(NULL, n, sizeof *least);
        must(alignment_cuda_weigh(&f->particles, &f->samples, &f->sampling, f->each, values, least, NULL, &err), &err);
        from_device(run ? second : first, values, count * sizeof *values);
        from_device(ret_least, least, n * sizeof *least);
    }
    assert_memory_equal(first, second, count * sizeof *first);
    free(second);
    return first;
}

static inline void check_weighing(const struct fine *f, const float *weights, const float *least) {
    const struct host_lists *l = &f->lists;
    float *values = host_new((size_t)l->count * f->each + 1, sizeof *values);
    for (uint32_t r = 0; r < l->row_count; r++)
        for (uint32_t s = l->rows[r].first; s < l->rows[r + 1].first; s++) {
            int shift = (int)(l->samples[s] - (uint32_t)(l->rows[r].row * f->sampling.shift_count));
            float prior = l->rows[r].log_prior +
                          f->shift_log_prior[(size_t)l->rows[r].particle * f->sampling.shift_count + shift];
            for (int j = 0; j < f->each; j++)
                values[(size_t)s * f->each + j] = f->differences[(size_t)s * f->each + j] - prior;
        }
    for (int p = 0; p < l->particles; p++) {
        size_t begin = (size_t)l->begin[p] * f->each, end = (size_t)l->begin[p + 1] * f->each;
        float lowest = INFINITY, largest = 0;
        for (size_t i = begin; i < end; i++)
            lowest = values[i] < lowest ? values[i] : lowest;
        if (least[p] != lowest) fail_msg("particle %d: least %.9g, expected %.9g", p, least[p], lowest);
        for (size_t i = begin; i < end; i++) {
            double x = (double)(lowest - values[i]), truth = x > -87 ? exp(x) : 0;
            /* expf is accurate to 2 units in the last place */
            if (!(fabs(weights[i] - truth) <= 3e-7 * truth))
                fail_msg("weight %zu: %g, expected %g", i, weights[i], truth);
            largest = weights[i] > largest ? weights[i] : largest;
        }
        assert_true(begin == end || largest == 1);
    }
    free(values);
}

/* Chooses as kernels/expectation does, with the total in the order of the samples. */
static inline struct top_sum *choose(const struct fine *f, const float *weights) {
    struct top_sum *sums = host_new((size_t)f->lists.particles, sizeof *sums);
    for (int p = 0; p < f->lists.particles; p++) {
        size_t begin = (size_t)f->lists.begin[p] * f->each, end = (size_t)f->lists.begin[p + 1] * f->each, count;
        for (size_t i = begin; i < end; i++)
            sums[p].total += weights[i];
        expectation_top_sum(weights + begin, end - begin, 0.999, &sums[p].threshold, &count);
    }
    return sums;
}

struct plain {
    struct best_cuda *best;
    uint32_t *begin;
    struct contribution_cuda *list;
    double *references;
};

/* Lists contributions in the order of particles, rows, rotations, samples, shift children. */
static inline void plain_contributions(const struct fine *f, const float *weights, const struct top_sum *sums,
                                       const int *own, struct plain *ret) {
    const struct host_lists *l = &f->lists;
    int children = f->sampling.shift_children, rotations = f->each / children, references = f->sampling.references;
    ret->best = host_new((size_t)l->particles + 1, sizeof *ret->best);
    ret->begin = host_new((size_t)l->particles + 1, sizeof *ret->begin);
    ret->list = host_new((size_t)l->count * f->each + 1, sizeof *ret->list);
    ret->references = host_new((size_t)l->particles * references + 1, sizeof *ret->references);
    uint32_t at = 0;
    for (int p = 0; p < l->particles; p++) {
        struct best_cuda *b = &ret->best[p];
        ret->begin[p] = at;
        b->sum = sums[p].total;
        for (uint32_t r = l->row_begin[p]; r < l->row_begin[p + 1]; r++)
            for (int rotation = 0; rotation < rotations; rotation++)
                for (uint32_t s = l->rows[r].first; s < l->rows[r + 1].first; s++)
                    for (int child = 0; child < children; child++) {
                        float w = weights[(size_t)s * f->each + rotation * children + child];
                        if (w < sums[p].threshold || w == 0) continue;
                        int row = l->rows[r].row, coarse = (int)(l->samples[s] % (uint32_t)f->sampling.shift_count);
                        int shift = coarse * children + child;
                        const struct pose_cuda pose = {(uint32_t)row, (uint16_t)rotation, (uint16_t)shift};
                        double weight = w / b->sum, x = own[2 * p] + (double)f->child_shifts[2 * shift],
                               y = own[2 * p + 1] + (double)f->child_shifts[2 * shift + 1];
                        if (w > b->largest) b->largest = w, b->pose = pose;
                        b->offset2 += weight * (x * x + y * y);
                        b->weight_sum += weight;
                        ret->references[(size_t)p * references +
                                        row / (f->sampling.directions * f->sampling.psi_count)] += weight;
                        ret->list[at++] = (struct contribution_cuda){pose, p, (float)weight};
                    }
        b->contributions = at - ret->begin[p];
    }
    ret->begin[l->particles] = at;
}

static inline void free_plain(struct plain *p) {
    free(p->best);
    free(p->begin);
    free(p->list);
    free(p->references);
}

#endif
