/* The fine pass on a CUDA device: children of coarse samples, their weights, residuals and sums. */
#include <math.h>
#include <string.h>

#include "kernels/alignment/cuda/alignment_private.h"

/* Memory of the compared poses. */
struct fine_pass {
    float *values, *least;
    size_t *begin; /* first value of each particle */
    struct top_sum *sums;
    struct best_cuda *best;
    uint32_t *contributions_begin;
    float *power, *reference_weights, *factors;
    double *residuals;
};

static enum status take_pass(struct alignment_cuda *a, size_t n, size_t samples, struct fine_pass *f, struct err *err) {
    const char *what = "poses of the fine pass";
    TRY(arena_take(a->arena, samples * (size_t)a->each, sizeof *f->values, what, &f->values, err));
    TRY(arena_take(a->arena, n, sizeof *f->least, what, &f->least, err));
    TRY(arena_take(a->arena, n + 1, sizeof *f->begin, what, &f->begin, err));
    TRY(arena_take(a->arena, n, sizeof *f->sums, what, &f->sums, err));
    TRY(arena_take(a->arena, n, sizeof *f->best, what, &f->best, err));
    TRY(arena_take(a->arena, n + 1, sizeof *f->contributions_begin, what, &f->contributions_begin, err));
    TRY(arena_take(a->arena, n * (size_t)a->shells, sizeof *f->power, what, &f->power, err));
    TRY(arena_take(a->arena, n * (size_t)a->iteration.reference_count, sizeof *f->reference_weights, what,
                   &f->reference_weights, err));
    TRY(arena_take(a->arena, n, sizeof *f->factors, what, &f->factors, err));
    return arena_take(a->arena, n * 2, sizeof *f->residuals, what, &f->residuals, err);
}

/* Computes the weights of all children, and counts the contributions. */
static enum status weigh(struct alignment_cuda *a, const struct particles_cuda *p, const struct samples_cuda *samples,
                         const struct alignment_cuda_jobs *jobs, int first, struct fine_pass *f, uint32_t *ret_count,
                         struct err *err) {
    void *stream = stream_cuda_kernels(a->stream), *scratch = NULL;
    size_t longest = 0;
    for (int i = first; i < first + p->count; i++)
        if (a->found->counts[i].samples > longest) longest = a->found->counts[i].samples;
    TRY(arena_take(a->arena, top_sum_scratch(p->count), 1, "sums of weights", &scratch, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_compare(&a->references, &a->sampling, p, samples, 1, f->values, stream, err));
    TRY(alignment_cuda_weigh(p, samples, &a->sampling, a->each, f->values, f->least, stream, err));
    TRY(alignment_cuda_values_begin(samples->begin, p->count, a->each, f->begin, stream, err));
    TRY(top_sum_cuda(f->values, f->begin, p->count, longest * (size_t)a->each, summed_share(&a->iteration), 0, scratch,
                     f->sums, stream, err));
    TRY(alignment_cuda_contributions_count(p, samples, &a->sampling, f->values, f->sums, f->least, jobs->own, f->best,
                                           f->contributions_begin, stream, err));
    TRY(stream_cuda_get(a->stream, a->found->contributions, f->contributions_begin,
                        ((size_t)p->count + 1) * sizeof *a->found->contributions, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_wait(a->stream, err));
    *ret_count = a->found->contributions[p->count];
    return STATUS_OK;
}

static enum status get_results(struct alignment_cuda *a, size_t n, size_t first, const struct particles_cuda *p,
                               const struct fine_pass *f, struct err *err) {
    const struct alignment_cuda_found *found = a->found;
    size_t shells = (size_t)a->shells, references = (size_t)a->iteration.reference_count;
    TRY(stream_cuda_get(a->stream, found->best + first, f->best, n * sizeof *f->best, err));
    TRY(stream_cuda_get(a->stream, found->power + first * shells, f->power, n * shells * sizeof *f->power, err));
    TRY(stream_cuda_get(a->stream, found->factors + first, f->factors, n * sizeof *f->factors, err));
    TRY(stream_cuda_get(a->stream, found->residuals + 2 * first, f->residuals, 2 * n * sizeof *f->residuals, err));
    TRY(stream_cuda_get(a->stream, found->constant + first, p->constant, n * sizeof *p->constant, err));
    return stream_cuda_get(a->stream, found->reference_weights + first * references, f->reference_weights,
                           n * references * sizeof *f->reference_weights, err);
}

enum status alignment_cuda_fine(struct alignment_cuda *a, const struct particles_cuda *p,
                                const struct samples_cuda *samples, const struct alignment_cuda_jobs *jobs, int first,
                                struct err *err) {
    struct fine_pass f = {0};
    struct contribution_cuda *contributions = NULL;
    void *stream = stream_cuda_kernels(a->stream), *scratch = NULL;
    const bool rely = a->options.reliability != ALIGNMENT_NORM_NONE;
    uint32_t count = 0;
    size_t n = (size_t)p->count;
    TRY(take_pass(a, n, samples->count, &f, err));
    TRY(weigh(a, p, samples, jobs, first, &f, &count, err));
    TRY(arena_take(a->arena, count, sizeof *contributions, "poses that contribute", &contributions, err));
    TRY(arena_take(a->arena, alignment_cuda_residuals_scratch(p), 1, "residuals", &scratch, err));
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_contributions_fill(p, samples, &a->sampling, f.values, f.sums, f.best, f.contributions_begin,
                                          contributions, f.reference_weights, stream, err));
    TRY(alignment_cuda_residuals(&a->references, &a->sampling, p, contributions, f.contributions_begin, f.best,
                                 a->shells, jobs->known_shell, scratch, f.power, rely ? f.residuals : NULL, stream,
                                 err));
    TRY(alignment_cuda_reliability(a->options.reliability, jobs->residual, f.residuals, p->count, f.factors, stream,
                                   err));
    if (a->iteration.doubtful)
        TRY(alignment_cuda_doubt(p, jobs->doubts, a->device_shell_pixels, a->shells, f.contributions_begin, f.best,
                                 contributions, f.power, f.reference_weights, a->iteration.reference_count, f.factors,
                                 stream, err));
    TRY(alignment_cuda_sums_add(a, p, jobs->particles, f.factors, contributions, f.contributions_begin, err));
    TRY(get_results(a, n, (size_t)first, p, &f, err));
    return stream_cuda_end(a->stream, err);
}

void alignment_cuda_result(const struct alignment_cuda *a, const struct alignment_cuda_found *found,
                           const struct alignment_particle *particle, int i, struct alignment_result *r) {
    const struct best_cuda *best = &found->best[i];
    const struct sampling *sampling = a->iteration.sampling;
    const struct pose_cuda *pose = &best->pose;
    int row = (int)pose->row, references = a->iteration.reference_count;
    int orientation = row % a->orientations, shells = a->shells;
    r->reference = row / a->orientations;
    if (a->iteration.oversampled) {
        sampling_child_matrix(sampling, orientation, pose->rotation, r->pose);
        sampling_child_shift(sampling, pose->shift / 4, pose->shift % 4, r->shift);
    } else {
        sampling_matrix(sampling, orientation, r->pose);
        sampling_shift(sampling, pose->shift, r->shift);
    }
    for (int axis = 0; axis < 2; axis++)
        r->shift[axis] += particle->shift[axis];
    r->significant = (int)found->coarse[i].count;
    r->nothing = best->nothing;
    r->left_out = best->left_out;
    r->pmax = best->largest / best->sum;
    r->evidence = r->log_likelihood = log(best->sum) - best->least;
    if (a->iteration.doubtful) {
        r->pmax *= probability_of_something(r->evidence, particle->nothing);
        r->log_likelihood = evidence_with_nothing(r->evidence, particle->nothing);
    }
    r->log_likelihood -= found->constant[i];
    r->weight_sum = best->weight_sum;
    r->offset2 = best->offset2;
    r->norm_sum = 0;
    memcpy(r->power, found->power + (size_t)i * (size_t)shells, (size_t)shells * sizeof *r->power);
    for (int s = 1; s < shells; s++)
        r->norm_sum += r->power[s] * 2.0 * a->shell_pixels[s];
    r->reliability = found->factors[i];
    r->residual = a->options.reliability != ALIGNMENT_NORM_NONE ? sqrt(found->residuals[2 * i + 1]) : -1;
    if (r->reference_weights != NULL)
        memcpy(r->reference_weights, found->reference_weights + (size_t)i * (size_t)references,
               (size_t)references * sizeof *r->reference_weights);
}
