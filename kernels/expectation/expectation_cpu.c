#include "kernels/expectation/expectation.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Tile of the matrix product: TILE_ROWS orientations by about TILE_COLUMNS (particle, shift) columns. Its result stays
 * in the second-level cache until it is written out. */
enum { TILE_ROWS = 192, TILE_COLUMNS = 480, TILE_TERMS = 256 };

struct buffer {
    float *data;
    size_t capacity;
};

struct expectation {
    const struct fourier_pixels *pixels;
    int threads;
    struct buffer columns; /* [particle][shift][2·n]: c X_t / σ² */
    struct buffer halves;  /* [particle][n]: c² / (2 σ²) */
    struct buffer scratch; /* per thread: an image, |P|² of a tile's rows, the tile, its norms */
};

static enum status reserve(struct buffer *buffer, size_t count, struct err *err) {
    if (count <= buffer->capacity) return STATUS_OK;
    mem_free(&buffer->data);
    buffer->capacity = 0;
    TRY(mem_new(count, sizeof *buffer->data, "the comparison of particles and slices", &buffer->data, err));
    buffer->capacity = count;
    return STATUS_OK;
}

enum status expectation_create(const struct fourier_pixels *pixels, int threads, struct expectation **ret_expectation,
                               struct err *err) {
    struct expectation *e = calloc(1, sizeof *e);
    FAIL_IF(e == NULL, err, STATUS_NO_MEMORY, "no memory for the comparison of particles and slices");
    e->pixels = pixels;
    e->threads = threads > 0 ? threads : 1;
    /* This code divides the tiles among threads; threads of OpenBLAS below them would only wait for each other. */
    openblas_set_num_threads(1);
    *ret_expectation = e;
    return STATUS_OK;
}

void expectation_destroy(struct expectation **expectation) {
    struct expectation *e = *expectation;
    if (e == NULL) return;
    mem_free(&e->columns.data);
    mem_free(&e->halves.data);
    mem_free(&e->scratch.data);
    free(e);
    *expectation = NULL;
}

void expectation_reference(const struct fourier_pixels *pixels, int n_pixels, const float *slices, int n_orientations,
                           const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                           double *ret_diff2) {
    for (int o = 0; o < n_orientations; o++)
        for (int t = 0; t < n_shifts; t++) {
            const float *slice = slices + (size_t)o * 2 * (size_t)n_pixels;
            double sum = 0;
            for (int i = 0; i < n_pixels; i++) {
                double phase = -2 * M_PI * (pixels->kx[i] * shifts[t][0] + pixels->ky[i] * shifts[t][1]) / pixels->box;
                double re = particle->image[2 * i], im = particle->image[2 * i + 1];
                double x = re * cos(phase) - im * sin(phase), y = re * sin(phase) + im * cos(phase);
                double a = (double)particle->ctf[i] * slice[2 * i] - x,
                       b = (double)particle->ctf[i] * slice[2 * i + 1] - y;
                sum += 0.5 * particle->weight[i] * (a * a + b * b - x * x - y * y);
            }
            ret_diff2[(size_t)o * (size_t)n_shifts + (size_t)t] = sum;
        }
}

MULTIVERSION static void weigh_image(const struct expectation_particle *particle, int n, float *out) {
    for (int i = 0; i < n; i++) {
        float factor = particle->ctf[i] * particle->weight[i];
        out[2 * i] = factor * particle->image[2 * i];
        out[2 * i + 1] = factor * particle->image[2 * i + 1];
    }
}

MULTIVERSION static void half_weights(const struct expectation_particle *particle, int n, float *out) {
    for (int i = 0; i < n; i++)
        out[i] = 0.5f * particle->ctf[i] * particle->ctf[i] * particle->weight[i];
}

MULTIVERSION static void square_slices(const float *slices, size_t count, float *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = slices[2 * i] * slices[2 * i] + slices[2 * i + 1] * slices[2 * i + 1];
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Computes tile[rows][columns] = factor · a[rows][terms] · b[columns][terms]ᵀ in blocks of terms, so that rounding
 * grows with the number of blocks, not with the number of terms. */
static void multiply(int rows, int columns, int terms, float factor, const float *a, const float *b, float *tile,
                     int tile_stride) {
    for (int k = 0; k < terms; k += TILE_TERMS)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, smaller(TILE_TERMS, terms - k), factor,
                    a + k, terms, b + k, terms, k == 0 ? 0.0f : 1.0f, tile, tile_stride);
}

struct coarse_job {
    int n, n_orientations, n_particles, n_shifts;
    int tile_particles; /* particles in one tile */
    const float *slices, *columns, *halves;
    float *out;
    size_t stride; /* between particles in out */
};

static size_t thread_scratch(const struct coarse_job *job) {
    size_t columns = (size_t)job->tile_particles * (size_t)job->n_shifts;
    size_t count = 2 * (size_t)job->n + TILE_ROWS * ((size_t)job->n + columns + (size_t)job->tile_particles);
    return (count + 15) / 16 * 16;
}

MULTIVERSION static void write_tile(const float *dots, int stride, int rows, int n_shifts, const float *norms,
                                    int norm_stride, float *out) {
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < n_shifts; t++)
            out[(size_t)r * (size_t)n_shifts + (size_t)t] =
                dots[(size_t)r * (size_t)stride + (size_t)t] + norms[(size_t)r * (size_t)norm_stride];
}

/* Compares all particles with TILE_ROWS orientations from `first` on. */
static void coarse_rows(const struct coarse_job *job, int first, float *scratch) {
    int rows = smaller(TILE_ROWS, job->n_orientations - first), n = job->n, t = job->n_shifts;
    const float *slices = job->slices + (size_t)first * 2 * (size_t)n;
    float *squares = scratch + 2 * n, *norms = squares + (size_t)TILE_ROWS * (size_t)n;
    float *tile = norms + (size_t)TILE_ROWS * (size_t)job->tile_particles;
    square_slices(slices, (size_t)rows * (size_t)n, squares);
    for (int p = 0; p < job->n_particles; p += job->tile_particles) {
        int particles = smaller(job->tile_particles, job->n_particles - p);
        multiply(rows, particles, n, 1, squares, job->halves + (size_t)p * (size_t)n, norms, particles);
        multiply(rows, particles * t, 2 * n, -1, slices, job->columns + (size_t)p * (size_t)t * 2 * (size_t)n, tile,
                 particles * t);
        for (int q = 0; q < particles; q++)
            write_tile(tile + (size_t)q * (size_t)t, particles * t, rows, t, norms + q, particles,
                       job->out + (size_t)(p + q) * job->stride + (size_t)first * (size_t)t);
    }
}

enum status expectation_coarse(struct expectation *e, int n_pixels, const float *slices, int n_orientations,
                               const struct expectation_particle *particles, int n_particles, const double (*shifts)[2],
                               int n_shifts, float *ret_diff2, struct err *err) {
    return expectation_coarse_part(e, n_pixels, slices, n_orientations, particles, n_particles, shifts, n_shifts,
                                   ret_diff2, (size_t)n_orientations * (size_t)n_shifts, err);
}

enum status expectation_coarse_part(struct expectation *e, int n_pixels, const float *slices, int n_orientations,
                                    const struct expectation_particle *particles, int n_particles,
                                    const double (*shifts)[2], int n_shifts, float *ret_diff2, size_t stride,
                                    struct err *err) {
    FAIL_IF(n_pixels < 1 || n_pixels > e->pixels->count, err, STATUS_BAD_ARGUMENT,
            "%d Fourier pixels cannot be compared: the list has %d", n_pixels, e->pixels->count);
    if (n_orientations < 1 || n_particles < 1 || n_shifts < 1) return STATUS_OK;
    size_t n = (size_t)n_pixels;
    struct coarse_job job = {.n = n_pixels,
                             .n_orientations = n_orientations,
                             .n_particles = n_particles,
                             .n_shifts = n_shifts,
                             .slices = slices,
                             .out = ret_diff2,
                             .stride = stride};
    job.tile_particles = smaller(n_particles, n_shifts < TILE_COLUMNS ? TILE_COLUMNS / n_shifts : 1);
    size_t per_thread = thread_scratch(&job);
    TRY(reserve(&e->columns, (size_t)n_particles * (size_t)n_shifts * 2 * n, err));
    TRY(reserve(&e->halves, (size_t)n_particles * n, err));
    TRY(reserve(&e->scratch, per_thread * (size_t)e->threads, err));
    job.columns = e->columns.data;
    job.halves = e->halves.data;
#pragma omp parallel for num_threads(e->threads) schedule(dynamic)
    for (int p = 0; p < n_particles; p++) {
        float *weighted = e->scratch.data + per_thread * (size_t)omp_get_thread_num();
        weigh_image(&particles[p], n_pixels, weighted);
        half_weights(&particles[p], n_pixels, e->halves.data + (size_t)p * n);
        for (int t = 0; t < n_shifts; t++)
            fourier_pixels_shift(e->pixels, n_pixels, weighted, shifts[t][0], shifts[t][1],
                                 e->columns.data + ((size_t)p * (size_t)n_shifts + (size_t)t) * 2 * n);
    }
#pragma omp parallel for num_threads(e->threads) schedule(dynamic)
    for (int first = 0; first < n_orientations; first += TILE_ROWS)
        coarse_rows(&job, first, e->scratch.data + per_thread * (size_t)omp_get_thread_num());
    return STATUS_OK;
}

/* Terms of one FP32 sum of the fine pass; double adds these sums. A lane of the narrowest vectors (SSE2) then adds 256
 * terms. One FP32 sum over all 65,000 pixels at 360 px would be off by 0.08 where vectors have one lane. */
enum { FINE_TERMS = 1024 };

MULTIVERSION static float dot(const float *a, const float *b, int count) {
    double total = 0;
    for (int begin = 0; begin < count; begin += FINE_TERMS) {
        int end = smaller(begin + FINE_TERMS, count);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = begin; i < end; i++)
            sum += a[i] * b[i];
        total += (double)sum;
    }
    return (float)total;
}

/* Computes four dot products at once: loads the slice once for four shifts. */
MULTIVERSION static void dot4(const float *a, const float *const b[4], int count, float out[4]) {
    const float *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
    double totals[4] = {0};
    for (int begin = 0; begin < count; begin += FINE_TERMS) {
        int end = smaller(begin + FINE_TERMS, count);
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int i = begin; i < end; i++) {
            s0 += a[i] * b0[i];
            s1 += a[i] * b1[i];
            s2 += a[i] * b2[i];
            s3 += a[i] * b3[i];
        }
        totals[0] += (double)s0, totals[1] += (double)s1, totals[2] += (double)s2, totals[3] += (double)s3;
    }
    for (int j = 0; j < 4; j++)
        out[j] = (float)totals[j];
}

MULTIVERSION static float weighted_square(const float *slice, const float *weights, int count) {
    double total = 0;
    for (int begin = 0; begin < count; begin += FINE_TERMS) {
        int end = smaller(begin + FINE_TERMS, count);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = begin; i < end; i++)
            sum += weights[i] * (slice[2 * i] * slice[2 * i] + slice[2 * i + 1] * slice[2 * i + 1]);
        total += (double)sum;
    }
    return (float)total;
}

enum status expectation_fine(struct expectation *e, int n_pixels, const float *slices,
                             const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                             const int *slice_of_pose, const int *shift_of_pose, int n_poses, float *ret_diff2,
                             struct err *err) {
    FAIL_IF(n_pixels < 1 || n_pixels > e->pixels->count, err, STATUS_BAD_ARGUMENT,
            "%d Fourier pixels cannot be compared: the list has %d", n_pixels, e->pixels->count);
    size_t n = (size_t)n_pixels;
    /* The row after the shifted images holds the weighted image before any shift. */
    TRY(reserve(&e->columns, ((size_t)n_shifts + 1) * 2 * n, err));
    TRY(reserve(&e->halves, n, err));
    TRY(reserve(&e->scratch, (size_t)n_shifts, err));
    float *weighted = e->columns.data + (size_t)n_shifts * 2 * n, *used = e->scratch.data;
    weigh_image(particle, n_pixels, weighted);
    half_weights(particle, n_pixels, e->halves.data);
    memset(used, 0, (size_t)n_shifts * sizeof *used);
    for (int i = 0; i < n_poses; i++)
        used[shift_of_pose[i]] = 1;
    for (int t = 0; t < n_shifts; t++)
        if (used[t] > 0)
            fourier_pixels_shift(e->pixels, n_pixels, weighted, shifts[t][0], shifts[t][1],
                                 e->columns.data + (size_t)t * 2 * n);
    int terms = 2 * n_pixels;
    for (int i = 0; i < n_poses;) {
        const float *slice = slices + (size_t)slice_of_pose[i] * 2 * n;
        float norm = weighted_square(slice, e->halves.data, n_pixels);
        int end = i;
        while (end < n_poses && slice_of_pose[end] == slice_of_pose[i])
            end++;
        for (; i + 4 <= end; i += 4) {
            const float *const images[4] = {e->columns.data + (size_t)shift_of_pose[i] * 2 * n,
                                            e->columns.data + (size_t)shift_of_pose[i + 1] * 2 * n,
                                            e->columns.data + (size_t)shift_of_pose[i + 2] * 2 * n,
                                            e->columns.data + (size_t)shift_of_pose[i + 3] * 2 * n};
            float dots[4];
            dot4(slice, images, terms, dots);
            for (int j = 0; j < 4; j++)
                ret_diff2[i + j] = norm - dots[j];
        }
        for (; i < end; i++)
            ret_diff2[i] = norm - dot(slice, e->columns.data + (size_t)shift_of_pose[i] * 2 * n, terms);
    }
    return STATUS_OK;
}
