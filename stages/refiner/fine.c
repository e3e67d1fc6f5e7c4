/* The fine pass: the children of the coarse samples that matter (or, while next to everything matters, these samples
 * themselves), at the full current size; from their probabilities the best pose, the noise, the norm and the slices
 * that are back-projected.
 *
 * A batch is worked through in parts whose slices fit into memory. The orientations of a part are shared: a child that
 * several particles need is projected once, and what they give to it is summed before it is scattered. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/expectation/posterior.h"
#include "stages/refiner/refiner_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

static const double ADAPTIVE_FRACTION = 0.999;
static const double LEAST_NORM = 1e-3; /* over the mean of all */
enum { SCATTER_CHUNK = 256 };

static int ascending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int find_slot(const struct int_list *slots, int orientation) {
    int low = 0, high = slots->count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (slots->data[middle] < orientation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many particles from `first` on make up a part: their slices fit, or it is one. */
static int part_size(const struct refiner *r, int first, int count) {
    double most = r->options.memory / 4 / (r->rotations * 2.0 * r->pixels.count * sizeof(float));
    double all = sampling_orientation_count(&r->sampling), sum = 0;
    if (r->all_slices) return count - first;
    int i = first;
    for (; i < count; i++) {
        sum += r->batch[i].orientations.count;
        if (i > first && fmin(sum, all) > most) break;
    }
    return i - first;
}

/* Whether the slices of the whole grid fit, and this part alone needs a good part of them: then they are projected
 * once for all particles of the half that are still to come. */
static bool want_all(const struct refiner *r, int total) {
    double all = sampling_orientation_count(&r->sampling);
    double floats = all * r->rotations * (2.0 * r->pixels.count + 9);
    return !r->local && floats * sizeof(float) <= r->options.memory / 4 && total > all / 16;
}

static enum status list_all(struct refiner *r, struct err *err) {
    int all = sampling_orientation_count(&r->sampling);
    TRY(int_list_reserve(&r->slots, all, err));
    for (int i = 0; i < all; i++)
        r->slots.data[i] = i;
    r->slots.count = all;
    r->all_slices = true;
    return STATUS_OK;
}

/* The orientations that a part needs, each once. */
static enum status list_needed(struct refiner *r, int first, int count, int total, struct err *err) {
    struct int_list *slots = &r->slots;
    TRY(int_list_reserve(slots, total, err));
    slots->count = 0;
    for (int i = first; i < first + count; i++) {
        const struct int_list *list = &r->batch[i].orientations;
        memcpy(slots->data + slots->count, list->data, (size_t)list->count * sizeof *list->data);
        slots->count += list->count;
    }
    qsort(slots->data, (size_t)slots->count, sizeof *slots->data, ascending);
    int unique = 0;
    for (int i = 0; i < slots->count; i++)
        if (i == 0 || slots->data[i] != slots->data[i - 1]) slots->data[unique++] = slots->data[i];
    slots->count = unique;
    return STATUS_OK;
}

/* Pose of a slice of the part. */
static void fine_matrix(const struct refiner *r, int slice, double ret_matrix[9]) {
    int orientation = r->slots.data[slice / r->rotations];
    if (r->oversampled)
        sampling_child_matrix(&r->sampling, orientation, slice % r->rotations, ret_matrix);
    else
        sampling_matrix(&r->sampling, orientation, ret_matrix);
}

/* The slices of the orientations that a part needs. */
static enum status project_part(struct refiner *r, const struct half *half, int first, int count, struct err *err) {
    int total = 0;
    if (r->all_slices) return STATUS_OK;
    for (int i = first; i < first + count; i++)
        total += r->batch[i].orientations.count;
    TRY(want_all(r, total) ? list_all(r, err) : list_needed(r, first, count, total, err));
    const struct int_list *slots = &r->slots;
    int unique = slots->count;
    size_t n = (size_t)r->pixels.count, slices = (size_t)unique * (size_t)r->rotations;
    TRY(grown_reserve(&r->fine_slices, slices * (2 * n + 9), "slices of the fine pass", err));
    float *matrices = r->fine_slices.data + slices * 2 * n;
#pragma omp parallel for num_threads(r->options.threads) schedule(static)
    for (int i = 0; i < unique * r->rotations; i++) {
        double m[9];
        fine_matrix(r, i, m);
        for (int j = 0; j < 9; j++)
            matrices[(size_t)i * 9 + (size_t)j] = (float)m[j];
    }
    projector_slices(half->projector, &r->pixels, r->pixels.count, unique * r->rotations, matrices, r->options.threads,
                     r->fine_slices.data);
    return STATUS_OK;
}

enum status estep_reserve_values(struct thread_space *s, size_t count, struct err *err) {
    if (count <= s->pose_capacity) return STATUS_OK;
    mem_free(&s->pose_values);
    s->pose_capacity = 0;
    TRY(mem_new(count, 2 * sizeof *s->pose_values, "poses of the fine pass", &s->pose_values, err));
    s->pose_capacity = 2 * count;
    return STATUS_OK;
}

static enum status reserve_poses(struct thread_space *s, int poses, struct err *err) {
    TRY(int_list_reserve(&s->pose_slice, poses, err));
    TRY(int_list_reserve(&s->pose_shift, poses, err));
    return estep_reserve_values(s, (size_t)poses, err);
}

/* All fine poses of the significant samples, those of one slice together. */
static int list_poses(const struct refiner *r, const struct batch_particle *b, struct thread_space *s) {
    int shifts = r->sampling.shift_count, count = 0, orientation = 0;
    for (int begin = 0, end; begin < b->significant.count; begin = end, orientation++) {
        int row = b->significant.data[begin] / shifts;
        for (end = begin; end < b->significant.count && b->significant.data[end] / shifts == row;)
            end++;
        int slot = find_slot(&r->slots, b->orientations.data[orientation]);
        for (int child = 0; child < r->rotations; child++)
            for (int i = begin; i < end; i++)
                for (int t = 0; t < r->translations; t++) {
                    s->pose_slice.data[count] = slot * r->rotations + child;
                    s->pose_shift.data[count++] = b->significant.data[i] % shifts * r->translations + t;
                }
    }
    return count;
}

/* As list_poses: each pose has the prior of its coarse sample. */
static void add_priors(const struct refiner *r, const struct batch_particle *b, float *values) {
    int shifts = r->sampling.shift_count, count = 0;
    for (int begin = 0, end; begin < b->significant.count; begin = end) {
        int row = b->significant.data[begin] / shifts;
        float orientation = r->local ? b->near.log_priors[row] : 0;
        for (end = begin; end < b->significant.count && b->significant.data[end] / shifts == row;)
            end++;
        for (int child = 0; child < r->rotations; child++)
            for (int i = begin; i < end; i++) {
                float prior = orientation + b->shift_log_prior[b->significant.data[i] % shifts];
                for (int t = 0; t < r->translations; t++)
                    values[count++] -= prior;
            }
    }
}

static enum status reserve_contributions(struct batch_particle *b, size_t count, struct err *err) {
    if ((int)count <= b->contribution_capacity) return STATUS_OK;
    struct contribution *larger = realloc(b->contributions, 2 * count * sizeof *larger);
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for %zu poses", count);
    b->contributions = larger;
    b->contribution_capacity = (int)(2 * count);
    return STATUS_OK;
}

/* Poses that hold 99.9 %, with weights that sum to 1 over all poses; the best one. */
static enum status keep_poses(struct refiner *r, struct batch_particle *b, struct thread_space *s, int poses,
                              struct err *err) {
    double least, sum;
    float threshold;
    size_t kept;
    int best = 0;
    posterior_weights(s->pose_values, 1, poses, NULL, NULL, &least, &sum);
    expectation_top_sum(s->pose_values, (size_t)poses, ADAPTIVE_FRACTION, &threshold, &kept);
    TRY(reserve_contributions(b, kept, err));
    b->contribution_count = 0;
    b->offset2 = b->weight_sum = 0;
    b->used_shifts = 0;
    for (int t = 0; t < r->fine_shifts; t++)
        b->shift_slot[t] = -1;
    for (int i = 0; i < poses; i++) {
        if (s->pose_values[i] > s->pose_values[best]) best = i;
        if (s->pose_values[i] < threshold || b->contribution_count == b->contribution_capacity) continue;
        int t = s->pose_shift.data[i];
        double weight = s->pose_values[i] / sum;
        if (b->shift_slot[t] < 0) b->shift_slot[t] = b->used_shifts++;
        b->contributions[b->contribution_count++] =
            (struct contribution){.slice = s->pose_slice.data[i], .shift = t, .weight = (float)weight};
        double x = b->shift[0] + r->fine_shift[t][0], y = b->shift[1] + r->fine_shift[t][1];
        b->offset2 += weight * (x * x + y * y);
        b->weight_sum += weight;
    }
    b->pmax = s->pose_values[best] / sum;
    b->log_likelihood = log(sum) - least;
    int slice = s->pose_slice.data[best], t = s->pose_shift.data[best];
    fine_matrix(r, slice, b->best_pose);
    b->best_shift[0] = b->shift[0] + r->fine_shift[t][0];
    b->best_shift[1] = b->shift[1] + r->fine_shift[t][1];
    /* Residual sums want to know it again. */
    s->pose_slice.count = slice;
    s->pose_shift.count = t;
    return STATUS_OK;
}

MULTIVERSION static void add_scaled(float *sum, const float *values, float factor, int count) {
    for (int i = 0; i < count; i++)
        sum[i] += factor * values[i];
}

/* cross += Re(P conj A), power += W |P|². */
MULTIVERSION static void add_products(const float *slice, const float *a, float weight, int n, float *cross,
                                      float *power) {
    for (int i = 0; i < n; i++) {
        float re = slice[2 * i], im = slice[2 * i + 1];
        cross[i] += re * a[2 * i] + im * a[2 * i + 1];
        power[i] += weight * (re * re + im * im);
    }
}

/* Σ w |cP − X|² per shell, expanded so that each slice and each shifted image is gone over once: Σ_t w X_t first. What
 * the images hold beyond the current size is all noise and is in b->power already, on the same scale. */
static void residuals(struct refiner *r, struct batch_particle *b, struct thread_space *s) {
    int n = r->pixels.count;
    memset(s->cross, 0, (size_t)n * sizeof *s->cross);
    memset(s->power, 0, (size_t)n * sizeof *s->power);
    for (int i = 0; i < b->contribution_count;) {
        int slice = b->contributions[i].slice;
        float weight = 0;
        memset(s->sum, 0, 2 * (size_t)n * sizeof *s->sum);
        for (; i < b->contribution_count && b->contributions[i].slice == slice; i++) {
            const struct contribution *c = &b->contributions[i];
            weight += c->weight;
            add_scaled(s->sum, s->shifted + (size_t)b->shift_slot[c->shift] * 2 * (size_t)n, c->weight, 2 * n);
        }
        add_products(r->fine_slices.data + (size_t)slice * 2 * (size_t)n, s->sum, weight, n, s->cross, s->power);
    }
    double sum = 0;
    for (int shell = 1; shell <= r->pixels.size / 2; shell++) {
        double shell_sum = 0;
        for (int i = r->pixels.shell_begin[shell]; i < r->pixels.shell_begin[shell + 1]; i++) {
            double x2 =
                (double)b->masked[2 * i] * b->masked[2 * i] + (double)b->masked[2 * i + 1] * b->masked[2 * i + 1];
            double c = b->ctf[i];
            shell_sum += b->weight_sum * x2 - 2 * c * s->cross[i] + c * c * s->power[i];
        }
        b->power[shell] = (float)(shell_sum / b->weight_sum / (2 * r->shell_pixels[shell]));
    }
    for (int shell = 1; shell < r->shells; shell++)
        sum += b->power[shell] * 2.0 * r->shell_pixels[shell];
    b->norm_sum = sum;
}

/* Σ |X − cP|² at the best pose, up to the shell of the last iteration and up to this one's. */
static void best_residual(const struct refiner *r, struct batch_particle *b, const struct thread_space *s) {
    int n = r->pixels.count, known = b->particle->residual_shell;
    const float *p = r->fine_slices.data + (size_t)s->pose_slice.count * 2 * (size_t)n;
    const float *x = s->shifted + (size_t)b->shift_slot[s->pose_shift.count] * 2 * (size_t)n;
    b->residual_sums[0] = b->residual_sums[1] = 0;
    for (int i = 0; i < n; i++) {
        double re = x[2 * i] - b->ctf[i] * p[2 * i], im = x[2 * i + 1] - b->ctf[i] * p[2 * i + 1];
        b->residual_sums[1] += re * re + im * im;
        if (r->pixels.shell[i] <= known) b->residual_sums[0] += re * re + im * im;
    }
}

static void likelihood_constant(const struct refiner *r, const struct half *half, struct batch_particle *b) {
    const float *sigma2 = half->sigma2 + (size_t)b->optics * (size_t)r->shells;
    double sum = 0;
    for (int shell = 1; shell <= r->pixels.size / 2; shell++) {
        for (int i = r->pixels.shell_begin[shell]; i < r->pixels.shell_begin[shell + 1]; i++)
            sum += 0.5 * b->weight[i] *
                   ((double)b->masked[2 * i] * b->masked[2 * i] + (double)b->masked[2 * i + 1] * b->masked[2 * i + 1]);
        sum += r->shell_pixels[shell] * log(2 * M_PI * sigma2[shell]);
    }
    b->log_likelihood -= sum;
}

static enum status fine_particle(struct refiner *r, const struct half *half, struct batch_particle *b,
                                 struct thread_space *s, struct err *err) {
    int n = r->pixels.count;
    TRY(reserve_poses(s, b->significant.count * r->rotations * r->translations, err));
    int poses = list_poses(r, b, s);
    const struct expectation_particle e = {.image = b->masked, .ctf = b->ctf, .weight = b->weight};
    TRY(expectation_fine(s->expectation, n, r->fine_slices.data, &e, (const double(*)[2])r->fine_shift, r->fine_shifts,
                         s->pose_slice.data, s->pose_shift.data, poses, s->pose_values, err));
    add_priors(r, b, s->pose_values);
    TRY(keep_poses(r, b, s, poses, err));
    size_t need = (size_t)b->used_shifts * 2 * (size_t)n;
    if (need > s->shifted_capacity) {
        mem_free(&s->shifted);
        s->shifted_capacity = 0;
        TRY(mem_new(need, sizeof *s->shifted, "shifted images", &s->shifted, err));
        s->shifted_capacity = need;
    }
    for (int t = 0; t < r->fine_shifts; t++)
        if (b->shift_slot[t] >= 0)
            fourier_pixels_shift(&r->pixels, n, b->masked, r->fine_shift[t][0], r->fine_shift[t][1],
                                 s->shifted + (size_t)b->shift_slot[t] * 2 * (size_t)n);
    likelihood_constant(r, half, b);
    if (r->options.reliability) best_residual(r, b, s);
    residuals(r, b, s);
    return STATUS_OK;
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
    const int *entries; /* particle, contribution; ordered by slice, then particle */
    const int *slices;  /* those that have entries */
};

/* What all particles of the part give to one slice. */
static void gather_slice(const struct refiner *r, const struct scatter_job *job, int slice, float *data,
                         float *weight) {
    int n = r->pixels.count;
    memset(data, 0, 2 * (size_t)n * sizeof *data);
    memset(weight, 0, (size_t)n * sizeof *weight);
    for (int i = job->begin[slice]; i < job->begin[slice + 1];) {
        int particle = job->entries[2 * i];
        const struct batch_particle *b = &r->batch[particle];
        float sum = 0;
        for (; i < job->begin[slice + 1] && job->entries[2 * i] == particle; i++) {
            const struct contribution *c = &b->contributions[job->entries[2 * i + 1]];
            size_t row = b->first_shifted + (size_t)b->shift_slot[c->shift];
            add_scaled(data, r->shifted.data + row * 2 * (size_t)n, c->weight, 2 * n);
            sum += c->weight;
        }
        add_weights(weight, b->ctf, b->weight, sum, n);
    }
}

/* CTF/σ² times the unmasked images at every shift that matters. */
static enum status shift_unmasked(struct refiner *r, int first, int count, struct err *err) {
    size_t rows = 0, n = (size_t)r->pixels.count;
    for (int i = first; i < first + count; i++) {
        r->batch[i].first_shifted = rows;
        rows += (size_t)r->batch[i].used_shifts;
    }
    TRY(grown_reserve(&r->shifted, rows * 2 * n, "shifted images", err));
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
    for (int i = first; i < first + count; i++) {
        struct batch_particle *b = &r->batch[i];
        weigh_unmasked(b, (float)b->particle->reliability, r->pixels.count);
        for (int t = 0; t < r->fine_shifts; t++)
            if (b->shift_slot[t] >= 0)
                fourier_pixels_shift(&r->pixels, r->pixels.count, b->unmasked, r->fine_shift[t][0], r->fine_shift[t][1],
                                     r->shifted.data + (b->first_shifted + (size_t)b->shift_slot[t]) * 2 * n);
    }
    return STATUS_OK;
}

/* Contributions sorted by slice (counting sort: the order of particles within a slice is kept). */
static enum status sort_contributions(struct refiner *r, int first, int count, struct scatter_job *job, int *ret_used,
                                      struct err *err) {
    int slices = r->slots.count * r->rotations, total = 0, used = 0;
    for (int i = first; i < first + count; i++)
        total += r->batch[i].contribution_count;
    TRY(int_list_reserve(&r->fine_slots, 2 * slices + 2 + 2 * total, err));
    int *begin = r->fine_slots.data, *list = begin + slices + 2, *entries = list + slices;
    memset(begin, 0, ((size_t)slices + 2) * sizeof *begin);
    for (int i = first; i < first + count; i++)
        for (int c = 0; c < r->batch[i].contribution_count; c++)
            begin[r->batch[i].contributions[c].slice + 2]++;
    for (int s = 0; s < slices; s++) {
        if (begin[s + 2] > 0) list[used++] = s;
        begin[s + 2] += begin[s + 1];
    }
    /* begin[s + 1] is where slice s goes on; when all are placed it is where s + 1 begins. */
    for (int i = first; i < first + count; i++)
        for (int c = 0; c < r->batch[i].contribution_count; c++) {
            int at = begin[r->batch[i].contributions[c].slice + 1]++;
            entries[2 * at] = i;
            entries[2 * at + 1] = c;
        }
    *job = (struct scatter_job){.begin = begin, .entries = entries, .slices = list};
    *ret_used = used;
    return STATUS_OK;
}

static enum status back_project(struct refiner *r, struct half *half, int first, int count, struct err *err) {
    struct scatter_job job;
    int used, n = r->pixels.count;
    TRY(shift_unmasked(r, first, count, err));
    TRY(sort_contributions(r, first, count, &job, &used, err));
    size_t per_slice = 3 * (size_t)n + 9;
    TRY(grown_reserve(&r->scatter, SCATTER_CHUNK * per_slice, "slices to be scattered", err));
    float *data = r->scatter.data, *weight = data + SCATTER_CHUNK * 2 * (size_t)n;
    float *matrices = weight + SCATTER_CHUNK * (size_t)n;
    const float *all_matrices = r->fine_slices.data + (size_t)r->slots.count * (size_t)r->rotations * 2 * (size_t)n;
    for (int at = 0; at < used; at += SCATTER_CHUNK) {
        int chunk = used - at < SCATTER_CHUNK ? used - at : SCATTER_CHUNK;
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
        for (int i = 0; i < chunk; i++) {
            int slice = job.slices[at + i];
            gather_slice(r, &job, slice, data + (size_t)i * 2 * (size_t)n, weight + (size_t)i * (size_t)n);
            memcpy(matrices + 9 * i, all_matrices + 9 * (size_t)slice, 9 * sizeof *matrices);
        }
        TRY(accumulator_add(half->accumulator, &r->pixels, n, chunk, matrices, data, weight, r->options.threads, err));
    }
    return STATUS_OK;
}

/* s of refinement-extensions: 3/4 + 1/2 sigmoid of the relative gain in the residual. */
static void update_reliability(const struct refiner *r, struct batch_particle *b) {
    struct particle *p = b->particle;
    double now = sqrt(b->residual_sums[0]);
    p->reliability = 1;
    if (p->residual >= 0 && now > 0) p->reliability = 0.75 + 0.5 / (1 + exp(-(p->residual - now) / now));
    p->residual = sqrt(b->residual_sums[1]);
    p->residual_shell = r->pixels.size / 2;
}

/* The sums over particles, in their order, so that they do not depend on the number of threads. */
static void take_over(struct refiner *r, struct half *half, struct batch_particle *b) {
    struct particle *p = b->particle;
    for (int shell = 1; shell < r->shells; shell++)
        half->sigma2_sum[(size_t)b->optics * (size_t)r->shells + (size_t)shell] += b->power[shell];
    half->optics_weight[b->optics] += 1;
    half->offset2_sum += b->offset2;
    half->weight_sum += b->weight_sum;
    half->pmax_sum += b->pmax;
    half->likelihood_sum += b->log_likelihood;
    half->significant_sum += p->significant;
    if (p->aligned) {
        double dx = b->best_shift[0] - p->origin[0], dy = b->best_shift[1] - p->origin[1];
        half->angle_change += symmetry_distance(&r->symmetry, p->pose, b->best_pose);
        half->offset_change += dx * dx + dy * dy;
        half->changed++;
    }
    /* Each norm is a multiple of the one before: that of an image that holds nothing falls with every iteration, until
     * its inverse is no number any more. */
    p->norm = fmax(p->norm / half->average_norm * sqrt(2 * b->norm_sum), LEAST_NORM * half->average_norm);
    half->norm_sum += p->norm;
    memcpy(p->pose, b->best_pose, sizeof p->pose);
    memcpy(p->origin, b->best_shift, sizeof p->origin);
    p->aligned = true;
    p->max_probability = b->pmax;
    p->log_likelihood = b->log_likelihood;
    half->reliability_sum += p->reliability;
}

static enum status fine_part(struct refiner *r, struct half *half, int first, int count, struct err *err) {
    TRY(project_part(r, half, first, count, err));
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
    for (int i = first; i < first + count; i++) {
        struct err mine = {0};
        enum status status = fine_particle(r, half, &r->batch[i], &r->threads[omp_get_thread_num()], &mine);
        if (status != STATUS_OK) {
#pragma omp critical(refiner_fine)
            {
                failed = status;
                if (err != NULL) *err = mine;
            }
        }
    }
    TRY(failed);
    if (r->options.reliability)
        for (int i = first; i < first + count; i++)
            update_reliability(r, &r->batch[i]);
    TRY(back_project(r, half, first, count, err));
    for (int i = first; i < first + count; i++)
        take_over(r, half, &r->batch[i]);
    return STATUS_OK;
}

enum status estep_fine(struct refiner *r, struct half *half, int count, struct err *err) {
    for (int first = 0, part; first < count; first += part) {
        part = part_size(r, first, count);
        TRY(fine_part(r, half, first, part, err));
    }
    return STATUS_OK;
}
