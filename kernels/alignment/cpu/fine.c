/* The fine pass: compares the children of the coarse samples that matter, at the full current size. While nearly all
 * samples matter, it compares the samples themselves. From the probabilities it computes the best pose, the noise, the
 * norm and the slices that are back-projected.
 *
 * A batch is processed in parts whose slices fit into memory. The particles of a part share rows: a child that several
 * particles need is projected once, and their contributions to it are summed before they are scattered. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/alignment/cpu/alignment.h"
#include "kernels/expectation/posterior.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

static int ascending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int find_slot(const struct int_list *slots, int row) {
    int low = 0, high = slots->count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (slots->data[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns how many particles from `first` on form a part: as many as have room for their slices, at least one. */
static int part_size(const struct alignment_cpu *a, int first, int count) {
    double most = a->options.memory / 4 / (a->rotations * 2.0 * a->fine_pixels * sizeof(float));
    double all = a->rows, sum = 0;
    if (a->all_slices) return count - first;
    int i = first;
    for (; i < count; i++) {
        sum += a->particles[i].rows.count;
        if (i > first && fmin(sum, all) > most) break;
    }
    return i - first;
}

/* Returns whether to project the slices of the whole grid once for all remaining particles of the iteration: if they
 * fit, and this part alone needs a good part of them. */
static bool want_all(const struct alignment_cpu *a, int total) {
    double all = a->rows;
    double floats = all * a->rotations * (2.0 * a->fine_pixels + 9);
    return !a->iteration.local && floats * sizeof(float) <= a->options.memory / 4 && total > all / 16;
}

static enum status list_all(struct alignment_cpu *a, struct err *err) {
    int all = a->rows;
    TRY(alignment_cpu_reserve_list(&a->slots, all, err));
    for (int i = 0; i < all; i++)
        a->slots.data[i] = i;
    a->slots.count = all;
    a->all_slices = true;
    return STATUS_OK;
}

/* Lists the rows that a part needs, each once. */
static enum status list_needed(struct alignment_cpu *a, int first, int count, int total, struct err *err) {
    struct int_list *slots = &a->slots;
    TRY(alignment_cpu_reserve_list(slots, total, err));
    slots->count = 0;
    for (int i = first; i < first + count; i++) {
        const struct int_list *list = &a->particles[i].rows;
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

int alignment_cpu_slice_reference(const struct alignment_cpu *a, int slice) {
    return a->slots.data[slice / a->rotations] / a->orientations;
}

static void slice_matrix(const struct alignment_cpu *a, int slice, double ret_matrix[9]) {
    int orientation = a->slots.data[slice / a->rotations] % a->orientations;
    if (a->iteration.oversampled)
        sampling_child_matrix(a->iteration.sampling, orientation, slice % a->rotations, ret_matrix);
    else
        sampling_matrix(a->iteration.sampling, orientation, ret_matrix);
}

/* Projects the slices of the rows that a part needs. */
static enum status project_part(struct alignment_cpu *a, int first, int count, struct err *err) {
    int total = 0;
    if (a->all_slices) return STATUS_OK;
    for (int i = first; i < first + count; i++)
        total += a->particles[i].rows.count;
    TRY(want_all(a, total) ? list_all(a, err) : list_needed(a, first, count, total, err));
    int slices = a->slots.count * a->rotations;
    size_t n = (size_t)a->fine_pixels;
    TRY(alignment_cpu_reserve(&a->fine_slices, (size_t)slices * (2 * n + 9), "slices of the fine pass", err));
    float *matrices = a->fine_slices.data + (size_t)slices * 2 * n;
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int i = 0; i < slices; i++) {
        double m[9];
        slice_matrix(a, i, m);
        for (int j = 0; j < 9; j++)
            matrices[(size_t)i * 9 + (size_t)j] = (float)m[j];
    }
    for (int begin = 0, end; begin < slices; begin = end) {
        int reference = alignment_cpu_slice_reference(a, begin);
        for (end = begin; end < slices && alignment_cpu_slice_reference(a, end) == reference;)
            end += a->rotations;
        projector_slices(a->iteration.references[reference], &a->pixels, a->fine_pixels, end - begin,
                         matrices + (size_t)begin * 9, a->options.threads, a->fine_slices.data + (size_t)begin * 2 * n);
    }
    return STATUS_OK;
}

static enum status reserve_poses(struct thread_space *s, int poses, struct err *err) {
    TRY(alignment_cpu_reserve_list(&s->pose_slice, poses, err));
    TRY(alignment_cpu_reserve_list(&s->pose_shift, poses, err));
    if ((size_t)poses <= s->poses.capacity) return STATUS_OK;
    return alignment_cpu_reserve(&s->poses, 2 * (size_t)poses, "poses of the fine pass", err);
}

/* Returns whether a child of a row lies beyond the range of a local search. */
static bool is_left_out(const struct alignment_cpu *a, const struct batch_particle *b, int row, int child) {
    return a->iteration.local && a->iteration.oversampled && (b->near.left_out[row % b->near.count] >> child & 1);
}

/* Lists all fine poses of the significant samples, grouped by slice. */
static int list_poses(const struct alignment_cpu *a, const struct batch_particle *b, struct thread_space *s) {
    int shifts = a->shifts, count = 0, at = 0;
    for (int begin = 0, end; begin < b->significant.count; begin = end, at++) {
        int row = b->significant.data[begin] / shifts;
        for (end = begin; end < b->significant.count && b->significant.data[end] / shifts == row;)
            end++;
        int slot = find_slot(&a->slots, b->rows.data[at]);
        for (int child = 0; child < a->rotations; child++)
            for (int i = begin; i < end && !is_left_out(a, b, row, child); i++)
                for (int t = 0; t < a->translations; t++) {
                    s->pose_slice.data[count] = slot * a->rotations + child;
                    s->pose_shift.data[count++] = b->significant.data[i] % shifts * a->translations + t;
                }
    }
    return count;
}

static float row_prior(const struct alignment_cpu *a, const struct batch_particle *b, int row) {
    const float *of_reference = a->iteration.reference_log_prior;
    int each = a->iteration.local ? b->near.count : a->orientations;
    return (a->iteration.local ? b->near.log_priors[row % each] : 0) +
           (of_reference != NULL ? of_reference[row / each] : 0);
}

/* Adds priors in the order of list_poses: each pose has the prior of its coarse sample. */
static void add_priors(const struct alignment_cpu *a, const struct batch_particle *b, float *values) {
    int shifts = a->shifts, count = 0;
    for (int begin = 0, end; begin < b->significant.count; begin = end) {
        int row = b->significant.data[begin] / shifts;
        float of_row = row_prior(a, b, row);
        for (end = begin; end < b->significant.count && b->significant.data[end] / shifts == row;)
            end++;
        for (int child = 0; child < a->rotations; child++)
            for (int i = begin; i < end && !is_left_out(a, b, row, child); i++) {
                float prior = of_row + b->shift_log_prior[b->significant.data[i] % shifts];
                for (int t = 0; t < a->translations; t++)
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

/* Adds a contributing pose. */
static void add_contribution(const struct alignment_cpu *a, struct batch_particle *b, int slice, int t, double weight) {
    struct alignment_result *result = b->result;
    const int *own = b->particle->shift;
    if (b->shift_slot[t] < 0) b->shift_slot[t] = b->used_shifts++;
    b->contributions[b->contribution_count++] =
        (struct contribution){.slice = slice, .shift = t, .weight = (float)weight};
    double x = own[0] + a->fine_shift[t][0], y = own[1] + a->fine_shift[t][1];
    result->offset2 += weight * (x * x + y * y);
    result->weight_sum += weight;
    if (result->reference_weights != NULL)
        result->reference_weights[alignment_cpu_slice_reference(a, slice)] += (float)weight;
}

/* Keeps the poses that are added to the sums, with weights that sum to 1 over all poses, and finds the best pose. */
static enum status keep_poses(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *s,
                              int poses, struct err *err) {
    struct alignment_result *result = b->result;
    double least, sum;
    float threshold;
    size_t kept;
    int best = 0;
    posterior_weights(s->poses.data, 1, poses, NULL, NULL, &least, &sum);
    expectation_top_sum(s->poses.data, (size_t)poses, summed_share(&a->iteration), &threshold, &kept);
    TRY(reserve_contributions(b, kept, err));
    b->contribution_count = b->used_shifts = 0;
    result->offset2 = result->weight_sum = 0;
    for (int k = 0; result->reference_weights != NULL && k < a->iteration.reference_count; k++)
        result->reference_weights[k] = 0;
    for (int t = 0; t < a->fine_shifts; t++)
        b->shift_slot[t] = -1;
    for (int i = 0; i < poses; i++) {
        if (s->poses.data[i] > s->poses.data[best]) best = i;
        if (s->poses.data[i] < threshold || b->contribution_count == b->contribution_capacity) continue;
        add_contribution(a, b, s->pose_slice.data[i], s->pose_shift.data[i], s->poses.data[i] / sum);
    }
    b->best_slice = s->pose_slice.data[best];
    b->best_shift = s->pose_shift.data[best];
    result->pmax = s->poses.data[best] / sum;
    result->evidence = log(sum) - least;
    result->nothing = a->iteration.doubtful ? probability_of_nothing(result->evidence, b->particle->nothing) : 0;
    result->reference = alignment_cpu_slice_reference(a, b->best_slice);
    slice_matrix(a, b->best_slice, result->pose);
    for (int i = 0; i < 2; i++)
        result->shift[i] = b->particle->shift[i] + a->fine_shift[b->best_shift][i];
    return STATUS_OK;
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

/* Weights each image by the probability that it contains a particle. */
static void apply_doubt(const struct alignment_cpu *a, struct batch_particle *b) {
    struct alignment_result *result = b->result;
    const struct alignment_particle *p = b->particle;
    result->left_out =
        a->iteration.doubtful && !(result->norm_sum >= p->norm_least && result->norm_sum <= p->norm_most);
    if (!a->iteration.doubtful) return;
    double kept = probability_of_something(result->evidence, p->nothing);
    result->pmax *= kept;
    if (result->left_out) kept = 0;
    result->offset2 *= kept;
    result->weight_sum *= kept;
    for (int k = 0; result->reference_weights != NULL && k < a->iteration.reference_count; k++)
        result->reference_weights[k] *= (float)kept;
    for (int i = 0; i < b->contribution_count; i++)
        b->contributions[i].weight *= (float)kept;
    if (!result->left_out) return;
    result->reliability = 0;
    b->contribution_count = b->used_shifts = 0;
    for (int t = 0; t < a->fine_shifts; t++)
        b->shift_slot[t] = -1;
}

/* Computes Σ w |cP − X|² per shell. The square is expanded, and Σ_t w X_t summed first, so that each slice and each
 * shifted image is read once. Beyond the current size images are all noise; result->power holds that already, on the
 * same scale. */
static void residuals(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *s) {
    struct alignment_result *result = b->result;
    size_t n = (size_t)a->fine_pixels, row = (size_t)a->pixels.count;
    float *sums = s->sums.data, *cross = sums + 2 * n, *power = cross + row;
    memset(cross, 0, 2 * row * sizeof *cross); /* 0 beyond the pixels of the references */
    for (int i = 0; i < b->contribution_count;) {
        int slice = b->contributions[i].slice;
        float weight = 0;
        memset(sums, 0, 2 * n * sizeof *sums);
        for (; i < b->contribution_count && b->contributions[i].slice == slice; i++) {
            const struct contribution *c = &b->contributions[i];
            weight += c->weight;
            alignment_cpu_add_scaled(sums, s->shifted.data + (size_t)b->shift_slot[c->shift] * 2 * row, c->weight,
                                     2 * (int)n);
        }
        add_products(a->fine_slices.data + (size_t)slice * 2 * n, sums, weight, (int)n, cross, power);
    }
    for (int shell = 1; shell <= a->pixels.size / 2; shell++) {
        double shell_sum = 0, nothing_sum = 0;
        for (int i = a->pixels.shell_begin[shell]; i < a->pixels.shell_begin[shell + 1]; i++) {
            double x2 =
                (double)b->masked[2 * i] * b->masked[2 * i] + (double)b->masked[2 * i + 1] * b->masked[2 * i + 1];
            double c = b->ctf[i];
            shell_sum += result->weight_sum * x2 - 2 * c * cross[i] + c * c * power[i];
            nothing_sum += x2;
        }
        shell_sum = (1 - result->nothing) * (shell_sum / result->weight_sum) + result->nothing * nothing_sum;
        result->power[shell] = (float)(shell_sum / (2 * a->shell_pixels[shell]));
    }
    result->norm_sum = 0;
    for (int shell = 1; shell < a->shells; shell++)
        result->norm_sum += result->power[shell] * 2.0 * a->shell_pixels[shell];
}

/* Computes |X − cP| at the best pose, up to the shell of the last iteration and up to the current one, and the
 * reliability. */
static void best_residual(const struct alignment_cpu *a, struct batch_particle *b, const struct thread_space *s) {
    int n = a->pixels.count;
    const float *p = a->fine_slices.data + (size_t)b->best_slice * 2 * (size_t)a->fine_pixels;
    const float *x = s->shifted.data + (size_t)b->shift_slot[b->best_shift] * 2 * (size_t)n;
    double known = 0, all = 0;
    for (int i = 0; i < n; i++) {
        const bool has = i < a->fine_pixels;
        double re = x[2 * i] - (has ? b->ctf[i] * p[2 * i] : 0),
               im = x[2 * i + 1] - (has ? b->ctf[i] * p[2 * i + 1] : 0);
        all += re * re + im * im;
        if (a->pixels.shell[i] <= b->particle->known_shell) known += re * re + im * im;
    }
    b->result->reliability = alignment_reliability(a->options.reliability, b->particle->residual, sqrt(known));
    b->result->residual = sqrt(all);
}

/* Returns Σ ½|X|²/σ² + Σ ln 2πσ²: the part that all poses of a particle share. */
static double likelihood_constant(const struct alignment_cpu *a, const struct batch_particle *b) {
    const float *sigma2 = a->iteration.sigma2 + (size_t)b->particle->optics * (size_t)a->shells;
    double sum = 0;
    for (int shell = 1; shell <= a->pixels.size / 2; shell++) {
        for (int i = a->pixels.shell_begin[shell]; i < a->pixels.shell_begin[shell + 1]; i++)
            sum += 0.5 * b->weight[i] *
                   ((double)b->masked[2 * i] * b->masked[2 * i] + (double)b->masked[2 * i + 1] * b->masked[2 * i + 1]);
        sum += a->shell_pixels[shell] * log(2 * M_PI * sigma2[shell]);
    }
    return sum;
}

static enum status fine_particle(const struct alignment_cpu *a, struct batch_particle *b, struct thread_space *s,
                                 struct err *err) {
    size_t n = (size_t)a->pixels.count;
    FAIL_IF((double)b->significant.count * a->rotations * a->translations > INT_MAX / 2, err, STATUS_UNSUPPORTED,
            "%d samples of a particle fit equally well, too many to compare all their children: is a reference empty?",
            b->significant.count);
    TRY(reserve_poses(s, b->significant.count * a->rotations * a->translations, err));
    int poses = list_poses(a, b, s);
    const struct expectation_particle e = {.image = b->masked, .ctf = b->ctf, .weight = b->weight};
    TRY(expectation_fine(s->expectation, a->fine_pixels, a->fine_slices.data, &e, (const double(*)[2])a->fine_shift,
                         a->fine_shifts, s->pose_slice.data, s->pose_shift.data, poses, s->poses.data, err));
    add_priors(a, b, s->poses.data);
    TRY(keep_poses(a, b, s, poses, err));
    TRY(alignment_cpu_reserve(&s->shifted, (size_t)b->used_shifts * 2 * n, "shifted images", err));
    TRY(alignment_cpu_reserve(&s->sums, 4 * n, "sums over poses", err));
    for (int t = 0; t < a->fine_shifts; t++)
        if (b->shift_slot[t] >= 0)
            fourier_pixels_shift(&a->pixels, (int)n, b->masked, a->fine_shift[t][0], a->fine_shift[t][1],
                                 s->shifted.data + (size_t)b->shift_slot[t] * 2 * n);
    double evidence = b->result->evidence;
    if (a->iteration.doubtful) evidence = evidence_with_nothing(evidence, b->particle->nothing);
    b->result->log_likelihood = evidence - likelihood_constant(a, b);
    b->result->reliability = 1;
    b->result->residual = -1;
    if (a->options.reliability != ALIGNMENT_NORM_NONE) best_residual(a, b, s);
    residuals(a, b, s);
    apply_doubt(a, b);
    return STATUS_OK;
}

static enum status fine_part(struct alignment_cpu *a, int first, int count, struct err *err) {
    TRY(project_part(a, first, count, err));
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int i = first; i < first + count; i++) {
        struct err own = {0};
        enum status status = fine_particle(a, &a->particles[i], &a->threads[omp_get_thread_num()], &own);
        if (status != STATUS_OK) {
#pragma omp critical(alignment_cpu_fine)
            {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    TRY(failed);
    return alignment_cpu_back_project(a, first, count, err);
}

enum status alignment_cpu_fine(struct alignment_cpu *a, int count, struct err *err) {
    for (int first = 0, part; first < count; first += part) {
        part = part_size(a, first, count);
        TRY(fine_part(a, first, part, err));
    }
    return STATUS_OK;
}
