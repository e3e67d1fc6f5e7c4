/* Lists of samples (kernels/alignment/cuda/alignment.h) on the host, made by plain loops. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_LISTS_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_LISTS_H

#include "kernels/alignment/cuda/alignment.h"
#include "tests/kernels/devices.h"

struct host_lists {
    int particles;
    uint32_t count, row_count;
    struct row_cuda *rows;
    uint32_t *samples, *begin, *row_begin;
};

static inline struct host_lists lists_new(int particles, uint32_t rows, uint32_t samples) {
    size_t n = (size_t)particles + 1;
    return (struct host_lists){.particles = particles,
                               .count = samples,
                               .row_count = rows,
                               .rows = host_new((size_t)rows + 1, sizeof(struct row_cuda)),
                               .samples = host_new((size_t)samples + 1, sizeof(uint32_t)),
                               .begin = host_new(n, sizeof(uint32_t)),
                               .row_begin = host_new(n, sizeof(uint32_t))};
}

static inline void lists_free(struct host_lists *lists) {
    free(lists->rows);
    free(lists->samples);
    free(lists->begin);
    free(lists->row_begin);
    *lists = (struct host_lists){0};
}

/* Appends a row after `count` samples and `row_count` rows; leaves out rows without samples. */
static inline void lists_add_row(struct host_lists *lists, int particle, int row, float log_prior,
                                 const uint32_t *samples, uint32_t count) {
    if (count == 0) return;
    lists->rows[lists->row_count++] = (struct row_cuda){particle, row, lists->count, log_prior};
    memcpy(lists->samples + lists->count, samples, count * sizeof *samples);
    lists->count += count;
}

static inline void lists_end_particle(struct host_lists *lists, int particle) {
    lists->begin[particle + 1] = lists->count;
    lists->row_begin[particle + 1] = lists->row_count;
    lists->rows[lists->row_count] = (struct row_cuda){particle + 1, 0, lists->count, 0};
}

/* Makes bits as posterior_cuda leaves them, and the lists that they stand for. A fraction `density` of the rows has
 * samples, at about half of its shifts; density 1: all rows at all shifts. The caller frees both. */
static inline uint32_t *random_bits(int particles, int n_shifts, int n_rows, double density, const float *row_log_prior,
                                    struct host_lists *ret_lists) {
    size_t words = kept_words(n_rows), total = words * (size_t)n_shifts * (size_t)particles;
    uint32_t *kept = host_new(total + 1, sizeof *kept), *row = host_new((size_t)n_shifts, sizeof *row), rows = 0,
             count = 0;
    for (int p = 0; p < particles; p++)
        for (int r = 0; r < n_rows; r++)
            for (int t = 0, any = uniform() < density; t < n_shifts && any; t++) {
                if (density < 1 && uniform() < 0.5) continue;
                kept[((size_t)p * (size_t)n_shifts + (size_t)t) * words + (size_t)r / 32] |= 1u << (r % 32);
                rows += any == 1;
                count++;
                any = 2;
            }
    *ret_lists = lists_new(particles, rows, count);
    ret_lists->count = ret_lists->row_count = 0;
    for (int p = 0; p < particles; p++) {
        for (int r = 0; r < n_rows; r++) {
            uint32_t found = 0;
            for (int t = 0; t < n_shifts; t++)
                if (kept[((size_t)p * (size_t)n_shifts + (size_t)t) * words + (size_t)r / 32] >> (r % 32) & 1)
                    row[found++] = (uint32_t)(r * n_shifts + t);
            lists_add_row(ret_lists, p, r, row_log_prior ? row_log_prior[r] : 0, row, found);
        }
        lists_end_particle(ret_lists, p);
    }
    free(row);
    return kept;
}

/* Lists the samples whose weight reaches the threshold of their particle. */
static inline struct host_lists lists_where(const struct host_lists *from, const float *weights,
                                            const struct top_sum *sums) {
    struct host_lists kept = lists_new(from->particles, from->row_count, from->count);
    uint32_t *row = host_new((size_t)from->count + 1, sizeof *row);
    kept.count = kept.row_count = 0;
    for (int p = 0; p < from->particles; p++) {
        for (uint32_t r = from->row_begin[p]; r < from->row_begin[p + 1]; r++) {
            uint32_t found = 0;
            for (uint32_t s = from->rows[r].first; s < from->rows[r + 1].first; s++)
                if (weights[s] >= sums[p].threshold) row[found++] = from->samples[s];
            lists_add_row(&kept, p, from->rows[r].row, from->rows[r].log_prior, row, found);
        }
        lists_end_particle(&kept, p);
    }
    free(row);
    return kept;
}

static inline struct samples_cuda lists_on_device(const struct host_lists *lists) {
    size_t n = (size_t)lists->particles + 1;
    return (struct samples_cuda){.count = lists->count,
                                 .row_count = lists->row_count,
                                 .rows = on_device(lists->rows, (size_t)lists->row_count + 1, sizeof(struct row_cuda)),
                                 .samples = on_device(lists->samples, (size_t)lists->count + 1, sizeof(uint32_t)),
                                 .begin = on_device(lists->begin, n, sizeof(uint32_t)),
                                 .row_begin = on_device(lists->row_begin, n, sizeof(uint32_t))};
}

#endif
