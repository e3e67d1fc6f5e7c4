/* The coarse pass of local searches on a CUDA device. The host lists the orientations near a particle's last pose; the
 * device compares them at all shifts and keeps those that hold the probability. */
#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

static const double ADAPTIVE_FRACTION = 0.999;

/* Sorts orientations, because lists of rows must ascend. They come by ascending directions, each with consecutive psis
 * that may wrap around, so that hardly anything moves. */
static void sort_near(struct sampling_subset *near) {
    for (int i = 1; i < near->count; i++) {
        int orientation = near->orientations[i], at = i;
        float log_prior = near->log_priors[i];
        uint8_t left_out = near->left_out[i];
        for (; at > 0 && near->orientations[at - 1] > orientation; at--) {
            near->orientations[at] = near->orientations[at - 1];
            near->log_priors[at] = near->log_priors[at - 1];
            near->left_out[at] = near->left_out[at - 1];
        }
        near->orientations[at] = orientation, near->log_priors[at] = log_prior, near->left_out[at] = left_out;
    }
}

enum status alignment_cuda_find_near(const struct alignment_cuda *a, const struct alignment_particle *particles,
                                     int count, int threads, struct sampling_subset *ret_near, struct err *err) {
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        enum status status = alignment_near(&a->iteration, &particles[i], &ret_near[i], &own);
        if (status == STATUS_OK) sort_near(&ret_near[i]);
        if (status != STATUS_OK) {
#pragma omp critical(alignment_near)
            {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    return failed;
}

/* Lists of some particles made by the host: parts of one page-locked block. A row has samples at all shifts; the device
 * lists those. */
struct near_lists {
    size_t row_count, count, longest;
    struct row_cuda *rows;
    uint32_t *begin, *row_begin;
};

static enum status reserve_lists(struct alignment_cuda *a, int count, struct near_lists *l, struct err *err) {
    size_t n = (size_t)count + 1, rows = arena_need(l->row_count + 1, sizeof *l->rows);
    size_t bytes = rows + 2 * arena_need(n, sizeof *l->begin);
    if (bytes > a->near_bytes) {
        device_host_free(&a->options.device, &a->near_block);
        a->near_bytes = 0;
        TRY(device_host_new(&a->options.device, 2 * bytes, 1, "poses near particles", &a->near_block, err));
        a->near_bytes = 2 * bytes;
    }
    char *at = a->near_block;
    l->rows = (struct row_cuda *)(void *)at;
    l->begin = (uint32_t *)(void *)(at + rows);
    l->row_begin = (uint32_t *)(void *)(at + rows + arena_need(n, sizeof *l->begin));
    return STATUS_OK;
}

enum status alignment_cuda_near_plan(struct alignment_cuda *a, struct err *err) {
    static const struct alignment_particle SOME = {.pose = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    const struct alignment_iteration *it = &a->iteration;
    if (!it->local) return STATUS_OK;
    struct sampling_subset *near = &a->near_of[0][0];
    TRY(alignment_near(it, &SOME, near, err));
    struct near_lists lists = {.row_count = (size_t)near->count * (size_t)it->reference_count * (size_t)a->particles};
    return reserve_lists(a, a->particles, &lists, err);
}

static void count_lists(const struct alignment_cuda *a, int first, int count, struct near_lists *l) {
    size_t shifts = (size_t)a->sampling.shift_count, references = (size_t)a->iteration.reference_count;
    *l = (struct near_lists){0};
    for (int i = first; i < first + count; i++) {
        size_t rows = (size_t)a->near[i].count * references;
        l->row_count += rows;
        if (rows * shifts > l->longest) l->longest = rows * shifts;
    }
    l->count = l->row_count * shifts;
}

static void fill_particle(const struct alignment_cuda *a, const struct sampling_subset *near, int particle,
                          uint32_t row, struct row_cuda *rows) {
    const struct alignment_iteration *it = &a->iteration;
    uint32_t shifts = (uint32_t)a->sampling.shift_count;
    for (int k = 0; k < it->reference_count; k++) {
        float prior = it->reference_log_prior != NULL ? it->reference_log_prior[k] : 0;
        for (int o = 0; o < near->count; o++, row++)
            rows[row] = (struct row_cuda){.particle = particle,
                                          .row = k * a->orientations + near->orientations[o],
                                          .first = row * shifts,
                                          .log_prior = near->log_priors[o] + prior,
                                          .left_out = near->left_out[o]};
    }
}

static void fill_lists(const struct alignment_cuda *a, int first, int count, struct near_lists *l) {
    uint32_t row = 0, shifts = (uint32_t)a->sampling.shift_count;
    for (int i = 0; i < count; i++) {
        l->begin[i] = row * shifts, l->row_begin[i] = row;
        row += (uint32_t)(a->near[first + i].count * a->iteration.reference_count);
    }
    l->begin[count] = row * shifts, l->row_begin[count] = row;
    l->rows[row] = (struct row_cuda){.particle = count, .first = row * shifts};
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int i = 0; i < count; i++)
        fill_particle(a, &a->near[first + i], i, l->row_begin[i], l->rows);
}

static enum status make_lists(struct alignment_cuda *a, int first, int count, struct near_lists *l, struct err *err) {
    count_lists(a, first, count, l);
    FAIL_IF(
        l->count > UINT32_MAX / 2, err, STATUS_UNSUPPORTED,
        "%d particles near %zu poses and %d shifts are more samples than a list can number: set `memory` to less, or "
        "search fewer shifts",
        count, l->row_count, a->sampling.shift_count);
    TRY(reserve_lists(a, count, l, err));
    fill_lists(a, first, count, l);
    return STATUS_OK;
}

static enum status put(struct alignment_cuda *a, const void *host, size_t count, size_t size, const void *ret_pointer,
                       struct err *err) {
    void *to = NULL;
    TRY(arena_take(a->arena, count, size, "poses near particles", &to, err));
    TRY(stream_cuda_put(a->stream, to, host, count * size, err));
    *(void **)ret_pointer = to;
    return STATUS_OK;
}

static enum status put_lists(struct alignment_cuda *a, const struct near_lists *l, int count, struct samples_cuda *list,
                             const size_t **ret_begin, struct err *err) {
    size_t n = (size_t)count + 1, *begin = NULL;
    uint32_t *samples = NULL;
    void *stream = stream_cuda_kernels(a->stream);
    *list = (struct samples_cuda){.count = (uint32_t)l->count, .row_count = (uint32_t)l->row_count};
    TRY(put(a, l->rows, l->row_count + 1, sizeof *l->rows, &list->rows, err));
    TRY(put(a, l->begin, n, sizeof *l->begin, &list->begin, err));
    TRY(put(a, l->row_begin, n, sizeof *l->row_begin, &list->row_begin, err));
    TRY(arena_take(a->arena, n, sizeof *begin, "poses near particles", &begin, err));
    TRY(arena_take(a->arena, l->count + 1, sizeof *samples, "poses near particles", &samples, err));
    TRY(alignment_cuda_values_begin(list->begin, count, 1, begin, stream, err));
    TRY(alignment_cuda_whole_rows(list->rows, l->row_count, a->sampling.shift_count, samples, stream, err));
    list->samples = samples;
    *ret_begin = begin;
    return STATUS_OK;
}

enum status alignment_cuda_keep(struct alignment_cuda *a, const struct particles_cuda *p,
                                const struct samples_cuda *list, const size_t *begin, size_t longest, int first,
                                struct samples_cuda *ret_kept, struct err *err) {
    void *stream = stream_cuda_kernels(a->stream), *scratch = NULL;
    float *weights = NULL, *least = NULL;
    struct top_sum *sums = NULL;
    struct sample_counts *counts = NULL;
    uint32_t *kept_begin = NULL, *kept_row_begin = NULL, *samples = NULL;
    struct row_cuda *rows = NULL;
    size_t n = (size_t)p->count;
    TRY(arena_take(a->arena, list->count, sizeof *weights, "weights of the coarse pass", &weights, err));
    TRY(arena_take(a->arena, n, sizeof *least, "weights of the coarse pass", &least, err));
    TRY(arena_take(a->arena, n, sizeof *sums, "sums of weights", &sums, err));
    TRY(arena_take(a->arena, n, sizeof *counts, "lists of samples", &counts, err));
    TRY(arena_take(a->arena, n + 1, sizeof *kept_begin, "lists of samples", &kept_begin, err));
    TRY(arena_take(a->arena, n + 1, sizeof *kept_row_begin, "lists of samples", &kept_row_begin, err));
    TRY(arena_take(a->arena, top_sum_scratch(p->count), 1, "sums of weights", &scratch, err));
    TRY(alignment_cuda_compare(&a->references, &a->sampling, p, list, 0, weights, stream, err));
    TRY(alignment_cuda_weigh(p, list, &a->sampling, 1, weights, least, stream, err));
    TRY(top_sum_cuda(weights, begin, p->count, longest, ADAPTIVE_FRACTION, a->most, scratch, sums, stream, err));
    TRY(alignment_cuda_keep_count(list, p->count, weights, sums, counts, kept_begin, kept_row_begin, stream, err));
    TRY(stream_cuda_get(a->stream, a->found->counts + first, counts, n * sizeof *counts, err));
    TRY(stream_cuda_get(a->stream, a->found->coarse + first, sums, n * sizeof *sums, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_wait(a->stream, err));
    *ret_kept = (struct samples_cuda){.begin = kept_begin, .row_begin = kept_row_begin};
    for (int i = first; i < first + p->count; i++) {
        ret_kept->count += a->found->counts[i].samples;
        ret_kept->row_count += a->found->counts[i].rows;
    }
    TRY(arena_take(a->arena, ret_kept->row_count + 1, sizeof *rows, "lists of samples", &rows, err));
    TRY(arena_take(a->arena, ret_kept->count + 1, sizeof *samples, "lists of samples", &samples, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_keep_fill(list, p->count, weights, sums, kept_begin, kept_row_begin, rows, samples, stream,
                                 err));
    TRY(stream_cuda_end(a->stream, err));
    ret_kept->rows = rows;
    ret_kept->samples = samples;
    return STATUS_OK;
}

enum status alignment_cuda_near(struct alignment_cuda *a, const struct particles_cuda *p, int first,
                                struct samples_cuda *ret_kept, struct err *err) {
    struct near_lists lists = {0};
    struct samples_cuda list;
    const size_t *begin = NULL;
    TRY(make_lists(a, first, p->count, &lists, err));
    TRY(stream_cuda_begin(a->stream, err));
    enum status status = put_lists(a, &lists, p->count, &list, &begin, err);
    if (status == STATUS_OK) status = alignment_cuda_keep(a, p, &list, begin, lists.longest, first, ret_kept, err);
    /* As in alignment_cuda_keep: the device must have read the host's lists before they are reused. */
    if (status == STATUS_NO_MEMORY) TRY(stream_cuda_wait(a->stream, err));
    return status;
}
