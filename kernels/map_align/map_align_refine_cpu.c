/* Refinement of candidates over 3 angles and 3 shifts. */
#include <math.h>
#include <stdlib.h>
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

/* Candidates that go on to finer shells; coordinates; rounds of a stage. FIRST_ANGLE: °, about half a step of the grid.
 */
enum { FINALISTS = 5, COORDINATES = 6, LEAST_ROUNDS = 4, MOST_ROUNDS = 16 };
#define FIRST_ANGLE 6.0
#define LAST_ANGLE 0.1
/* A correlation beyond this counts as this: interpolation alone takes as much off. */
#define MOST_FSC 0.95

/* Shells up to `last`, and the steps that begin and end with it. */
struct stage {
    int last, count; /* count: pixels of a plane */
    double angle, last_angle, shift_per_degree;
};

/* The fixed map's samples that are moved back, those of the moved map, its matrices. */
size_t map_align_refine_scratch(const struct map_aligner *a) {
    return (size_t)a->planes * (4 * (size_t)a->pixels.count + 9) + 32;
}

/* Sums Re(f conj m), or Re(f m), and |m · weight|². */
MULTIVERSION static void correlate(const float *f, const float *m, const float *weight, int count, float conjugate,
                                   double *dot, double *norm) {
    float products = 0, squares = 0;
#pragma omp simd reduction(+ : products, squares)
    for (int i = 0; i < count; i++) {
        const float re = m[2 * i], im = m[2 * i + 1];
        products += f[2 * i] * re + conjugate * f[2 * i + 1] * im;
        squares += weight[i] * weight[i] * (re * re + im * im);
    }
    *dot += (double)products, *norm += (double)squares;
}

/* Returns the correlation of the samples in a pose, but for a factor that all poses share. */
static double correlation(const struct map_aligner *a, const struct stage *stage, const struct map_pose *pose,
                          float *scratch) {
    const size_t floats = 2 * (size_t)stage->count;
    float *fixed = scratch, *moved = fixed + floats * (size_t)a->planes, *planes = moved + floats * (size_t)a->planes;
    map_align_planes(a, pose->rotation, planes);
    map_align_shift_samples(a, stage->count, pose->shift, fixed);
    projector_slices(a->moved, &a->pixels, stage->count, a->planes, planes, 1, moved);
    double dot = 0, norm = 0;
    for (int p = 0; p < a->planes; p++)
        correlate(fixed + floats * (size_t)p, moved + floats * (size_t)p, a->weight_moved, stage->count,
                  pose->inverted ? -1 : 1, &dot, &norm);
    return norm > 0 ? dot / sqrt(norm) : 0;
}

/* Fills ret_fsc[last + 1] with the correlation of each shell's samples in a pose. Leaves the samples in scratch. */
static void correlate_shells(const struct map_aligner *a, const struct stage *stage, const struct map_pose *pose,
                             float *scratch, double *ret_fsc) {
    double sums[FOURIER_SIZE_MOST_3D / 2 + 1][3] = {{0}};
    correlation(a, stage, pose, scratch);
    const size_t floats = 2 * (size_t)stage->count;
    for (int p = 0; p < a->planes; p++) {
        const float *f = scratch + floats * (size_t)p, *m = f + floats * (size_t)a->planes;
        for (int i = 0; i < stage->count; i++, f += 2, m += 2) {
            double *sum = sums[a->pixels.shell[i]];
            sum[0] += (double)(f[0] * m[0]) + (pose->inverted ? -1 : 1) * (double)(f[1] * m[1]);
            sum[1] += (double)(f[0] * f[0] + f[1] * f[1]);
            sum[2] += (double)(m[0] * m[0] + m[1] * m[1]);
        }
    }
    for (int s = 0; s <= stage->last; s++)
        ret_fsc[s] = sums[s][1] > 0 && sums[s][2] > 0 ? sums[s][0] / sqrt(sums[s][1] * sums[s][2]) : 0;
}

/* Weighs shells by what they tell when maps correlate as they do in the best pose: by ρ/(1 − ρ²), the factor of Re(F conj
 * M) in the logarithm of the probability of two values of variance 1 with the correlation ρ. Shells of noise drop out. */
static void weigh_shells(struct map_aligner *a, const struct stage *stage) {
    double fsc[FOURIER_SIZE_MOST_3D / 2 + 1];
    correlate_shells(a, stage, &a->candidates[0], a->scratch, fsc);
    for (int i = 0; i < stage->count; i++) {
        const double rho = fmin(MOST_FSC, fmax(0, fsc[a->pixels.shell[i]]));
        const float factor = (float)(rho / (1 - rho * rho));
        a->weight_moved[i] *= sqrtf(factor);
        for (int p = 0; p < a->planes; p++) {
            float *sample = a->samples + 2 * ((size_t)a->pixels.count * (size_t)p + (size_t)i);
            sample[0] *= factor, sample[1] *= factor;
        }
    }
}

/* Moves one coordinate of a pose: 0 to 2 turn it about an axis by `by` °, 3 to 5 shift it by `by` px. */
static struct map_pose moved_by(const struct map_pose *pose, int coordinate, double by) {
    struct map_pose moved = *pose;
    if (coordinate >= 3) {
        moved.shift[coordinate - 3] += by;
        return moved;
    }
    const int i = (coordinate + 1) % 3, j = (coordinate + 2) % 3;
    const double c = cos(by * M_PI / 180), s = sin(by * M_PI / 180);
    for (int k = 0; k < 3; k++) {
        const double up = pose->rotation[3 * i + k], down = pose->rotation[3 * j + k];
        moved.rotation[3 * i + k] = c * up - s * down;
        moved.rotation[3 * j + k] = s * up + c * down;
    }
    return moved;
}

/* Moves one coordinate to the better of both sides, or to the top of the parabola. Returns whether it moved by half the
 * step or more. */
static bool climb(const struct map_aligner *a, const struct stage *stage, int coordinate, double step,
                  struct map_pose *pose, float *scratch) {
    struct map_pose tries[3] = {moved_by(pose, coordinate, -step), moved_by(pose, coordinate, step)};
    double by[3] = {-step, step, 0};
    for (int i = 0; i < 2; i++)
        tries[i].score = correlation(a, stage, &tries[i], scratch);
    const double curve = tries[0].score - 2 * pose->score + tries[1].score;
    int count = 2;
    if (curve < 0) {
        by[2] = fmax(-step, fmin(step, step * (tries[0].score - tries[1].score) / (2 * curve)));
        tries[2] = moved_by(pose, coordinate, by[2]);
        tries[2].score = correlation(a, stage, &tries[2], scratch);
        count = 3;
    }
    double moved = 0;
    for (int i = 0; i < count; i++)
        if (tries[i].score > pose->score) *pose = tries[i], moved = fabs(by[i]);
    return moved >= step / 2;
}

static void refine(const struct map_aligner *a, const struct stage *stage, struct map_pose *pose, float *scratch) {
    double angle = stage->angle;
    pose->score = correlation(a, stage, pose, scratch);
    for (int round = 0; round < MOST_ROUNDS && angle >= stage->last_angle; round++) {
        bool far = false;
        for (int i = 0; i < COORDINATES; i++)
            far |= climb(a, stage, i, i < 3 ? angle : angle * stage->shift_per_degree, pose, scratch);
        if (!far) angle /= 2;
    }
}

static int by_score(const void *a, const void *b) {
    const double x = ((const struct map_pose *)a)->score, y = ((const struct map_pose *)b)->score;
    return (x < y) - (x > y);
}

static void run_stage(struct map_aligner *a, const struct stage *stage) {
#pragma omp parallel for num_threads(a->threads) schedule(dynamic)
    for (int i = 0; i < a->candidate_count; i++)
        refine(a, stage, &a->candidates[i], a->scratch + (size_t)omp_get_thread_num() * a->scratch_floats);
    qsort(a->candidates, (size_t)a->candidate_count, sizeof *a->candidates, by_score);
}

void map_align_refine(struct map_aligner *a) {
    struct stage stage = {.last = a->grid_last, .angle = FIRST_ANGLE};
    stage.shift_per_degree = a->grid_step / 2 / FIRST_ANGLE;
    for (;;) {
        stage.count = map_align_count(a, stage.last);
        stage.last_angle = stage.angle / (1 << (LEAST_ROUNDS - 1));
        if (stage.last == a->last && a->candidate_count <= FINALISTS)
            stage.last_angle = fmin(stage.last_angle, LAST_ANGLE * a->grid_last / a->last);
        run_stage(a, &stage);
        if (stage.last == a->last && a->candidate_count <= FINALISTS) break;
        if (a->candidate_count > FINALISTS) a->candidate_count = FINALISTS;
        stage.last = 2 * stage.last < a->last ? 2 * stage.last : a->last;
        stage.angle /= 2;
    }
    weigh_shells(a, &stage);
    run_stage(a, &stage);
}
