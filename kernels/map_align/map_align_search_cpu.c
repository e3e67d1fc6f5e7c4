/* The grid search: rotations × shifts × hands as a matrix product. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/map_align/map_align_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Rotations of a tile, and the distance of candidates of one hand: more than a step of the grid. */
enum { TILE = 48, COLUMNS = MAP_ALIGN_HANDS * MAP_ALIGN_SHIFTS };
#define APART 25.0

static int terms(const struct map_aligner *a) {
    return 2 * a->planes * map_align_count(a, a->grid_last);
}

/* A tile's slices, its products and its matrices. */
size_t map_align_search_scratch(const struct map_aligner *a) {
    return (size_t)TILE * ((size_t)terms(a) + COLUMNS + 9 * (size_t)a->planes) + 48;
}

void map_align_planes(const struct map_aligner *a, const double rotation[9], float *out) {
    for (int p = 0; p < a->planes; p++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                const double *frame = a->frames[p] + 3 * i;
                *out++ = (float)(frame[0] * rotation[j] + frame[1] * rotation[3 + j] + frame[2] * rotation[6 + j]);
            }
}

MULTIVERSION static void weigh(const float *a, const float *b, int count, float *samples) {
    for (int i = 0; i < count; i++) {
        samples[2 * i] *= a[i] * b[i];
        samples[2 * i + 1] *= a[i] * b[i];
    }
}

void map_align_sample_fixed(struct map_aligner *a) {
    static const double IDENTITY[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float frames[9 * MAP_ALIGN_PLANES];
    const int count = a->pixels.count;
    map_align_planes(a, IDENTITY, frames);
    projector_slices(a->fixed, &a->pixels, count, a->planes, frames, a->threads, a->samples);
    for (int p = 0; p < a->planes; p++)
        weigh(a->weight_fixed, a->weight_moved, count, a->samples + 2 * (size_t)count * (size_t)p);
}

void map_align_shift_samples(const struct map_aligner *a, int count, const double shift[3], float *out) {
    for (int p = 0; p < a->planes; p++) {
        const double *u = a->frames[p], *v = u + 3;
        fourier_pixels_shift(&a->pixels, count, a->samples + 2 * (size_t)a->pixels.count * (size_t)p,
                             -(u[0] * shift[0] + u[1] * shift[1] + u[2] * shift[2]),
                             -(v[0] * shift[0] + v[1] * shift[1] + v[2] * shift[2]),
                             out + 2 * (size_t)count * (size_t)p);
    }
}

/* Fills the shifts of the grid: a ball of two steps. */
static void list_shifts(double step, double (*shifts)[3]) {
    int n = 0;
    for (int z = -2; z <= 2; z++)
        for (int y = -2; y <= 2; y++)
            for (int x = -2; x <= 2; x++) {
                if (x * x + y * y + z * z > 4) continue;
                shifts[n][0] = step * x, shifts[n][1] = step * y, shifts[n][2] = step * z;
                n++;
            }
}

/* Makes a column for each shift: the fixed map moved back; and its conjugate for the other hand. */
static void fill_columns(struct map_aligner *a, const double (*shifts)[3]) {
    const size_t n = (size_t)terms(a);
    for (int s = 0; s < MAP_ALIGN_SHIFTS; s++) {
        float *same = a->columns + n * (size_t)s, *other = same + n * MAP_ALIGN_SHIFTS;
        map_align_shift_samples(a, map_align_count(a, a->grid_last), shifts[s], same);
        for (size_t i = 0; i < n; i += 2)
            other[i] = same[i], other[i + 1] = -same[i + 1];
    }
}

/* The rotation of a point of the grid. The sampling keeps one of A and its mates A·g: these are the rotations Aᵀ and
 * gᵀ·Aᵀ, which differ by a copy of the fixed map. */
static void rotation_of(const struct map_aligner *a, int orientation, double ret[9]) {
    double m[9];
    sampling_matrix(&a->sampling, orientation, m);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            ret[3 * i + j] = m[3 * j + i];
}

/* Keeps the best shift of each rotation and hand of a tile. */
static void keep_best(struct map_aligner *a, int first, int count, const float *products) {
    const size_t orientations = (size_t)sampling_orientation_count(&a->sampling);
    for (int o = 0; o < count; o++)
        for (int hand = 0; hand < MAP_ALIGN_HANDS; hand++) {
            const float *row = products + (size_t)o * COLUMNS + (size_t)hand * MAP_ALIGN_SHIFTS;
            int best = 0;
            for (int s = 1; s < MAP_ALIGN_SHIFTS; s++)
                if (row[s] > row[best]) best = s;
            const size_t at = (size_t)hand * orientations + (size_t)(first + o);
            a->best[at] = row[best], a->best_shift[at] = best;
        }
}

static void search_tile(struct map_aligner *a, int first, int count, float *scratch) {
    const int n = terms(a), columns = a->options.hands ? COLUMNS : MAP_ALIGN_SHIFTS;
    float *products = scratch + (size_t)TILE * (size_t)n, *matrices = products + (size_t)TILE * COLUMNS;
    for (int o = 0; o < count; o++) {
        double rotation[9];
        rotation_of(a, first + o, rotation);
        map_align_planes(a, rotation, matrices + (size_t)o * 9 * (size_t)a->planes);
    }
    projector_slices(a->moved, &a->pixels, map_align_count(a, a->grid_last), count * a->planes, matrices, 1, scratch);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, columns, n, 1, scratch, n, a->columns, n, 0, products,
                COLUMNS);
    if (!a->options.hands)
        for (int o = 0; o < count; o++)
            for (int s = MAP_ALIGN_SHIFTS; s < COLUMNS; s++)
                products[(size_t)o * COLUMNS + (size_t)s] = -INFINITY;
    keep_best(a, first, count, products);
}

/* Returns the angle (°) between two rotations. */
static double angle_between(const double a[9], const double b[9]) {
    double trace = 0;
    for (int i = 0; i < 9; i++)
        trace += a[i] * b[i];
    return acos(fmax(-1, fmin(1, (trace - 1) / 2))) * 180 / M_PI;
}

/* Takes the best of the grid that is left as a candidate, and strikes what lies near it. Returns whether there was
 * one. */
static bool take_candidate(struct map_aligner *a, const double (*shifts)[3]) {
    const size_t orientations = (size_t)sampling_orientation_count(&a->sampling);
    size_t best = 0;
    for (size_t i = 1; i < MAP_ALIGN_HANDS * orientations; i++)
        if (a->best[i] > a->best[best]) best = i;
    if (!(a->best[best] > -INFINITY)) return false;
    struct map_pose *c = &a->candidates[a->candidate_count++];
    *c = (struct map_pose){.inverted = best >= orientations};
    rotation_of(a, (int)(best % orientations), c->rotation);
    memcpy(c->shift, shifts[a->best_shift[best]], sizeof c->shift);
    for (size_t o = 0; o < orientations; o++) {
        double other[9];
        rotation_of(a, (int)o, other);
        if (angle_between(c->rotation, other) < APART) a->best[o + (c->inverted ? orientations : 0)] = -INFINITY;
    }
    return true;
}

void map_align_search(struct map_aligner *a) {
    const int orientations = sampling_orientation_count(&a->sampling);
    double shifts[MAP_ALIGN_SHIFTS][3];
    list_shifts(a->grid_step, shifts);
    fill_columns(a, (const double(*)[3])shifts);
#pragma omp parallel for num_threads(a->threads) schedule(dynamic)
    for (int first = 0; first < orientations; first += TILE)
        search_tile(a, first, orientations - first < TILE ? orientations - first : TILE,
                    a->scratch + (size_t)omp_get_thread_num() * a->scratch_floats);
    a->candidate_count = 0;
    while (a->candidate_count < MAP_ALIGN_KEPT && take_candidate(a, (const double(*)[3])shifts))
        continue;
}
