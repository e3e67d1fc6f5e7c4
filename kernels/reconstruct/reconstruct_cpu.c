/* The M-step: applies a Wiener filter to the grid and makes the map. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fourier/cube.h"
#include "kernels/fsc/fsc.h"
#include "kernels/reconstruct/accumulator_private.h"

enum { PAD = ACCUMULATOR_PAD };

/* Sums per shell. Each plane has its own, so that the total does not depend on the number of threads. */
struct shell_sums {
    double weight, count;          /* by shell ROUND(r / PAD) */
    double ssnr, covered;          /* sum of weight · T · tau², and how often it is ≥ 1 */
    double filtered, filter_count; /* Wiener denominator, by shell FLOOR(r / PAD) */
};

struct wiener {
    const struct accumulator *accumulator;
    const float *tau2;
    double fudge; /* T times the oversampling of the grid */
    int minres_shell, limit, shells;
    int map_limit;              /* sums within this radius go into the map; at most `limit` */
    const short *round, *floor; /* shell by squared radius */
};

static double denominator(const struct wiener *w, double weight, int shell) {
    if (w->tau2 == NULL || shell < w->minres_shell) return weight;
    double tau2 = w->fudge * (double)w->tau2[shell];
    if (tau2 > 0) return weight + 1 / tau2;
    return weight > 1e-20 ? weight + 1000 / weight : weight;
}

static void sum_plane(const struct wiener *w, int z, struct shell_sums *sums) {
    int limit2 = w->limit * w->limit;
    for (int y = -w->limit; y <= w->limit; y++) {
        const accumulator_voxel *row = accumulator_row(w->accumulator, z, y);
        for (int x = 0, r2 = y * y + z * z; r2 < limit2; r2 += 2 * x + 1, x++) {
            int shell = w->round[r2];
            struct shell_sums *s = sums + shell;
            double weight = row[x][2];
            double ssnr = w->tau2 == NULL ? 0 : weight * w->fudge * (double)w->tau2[shell];
            s->weight += weight;
            s->count += 1;
            s->ssnr += ssnr;
            s->covered += ssnr >= 1;
            sums[w->floor[r2]].filtered += denominator(w, weight, shell);
            sums[w->floor[r2]].filter_count += 1;
        }
    }
}

/* Fills ret_sums[shells]. */
static enum status sum_shells(const struct wiener *w, int threads, struct shell_sums *ret_sums, struct err *err) {
    int depth = w->accumulator->dimensions == 3 ? w->limit : 0, planes = 2 * depth + 1;
    size_t shells = (size_t)w->shells;
    _cleanup_(mem_free) struct shell_sums *sums = NULL;
    TRY(mem_new((size_t)planes * shells, sizeof *sums, "shell sums", &sums, err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int plane = 0; plane < planes; plane++)
        sum_plane(w, plane - depth, sums + (size_t)plane * shells);
    for (size_t s = 0; s < shells; s++) {
        struct shell_sums total = {0};
        for (size_t plane = 0; plane < (size_t)planes; plane++) {
            const struct shell_sums *part = sums + plane * shells + s;
            total.weight += part->weight, total.count += part->count;
            total.ssnr += part->ssnr, total.covered += part->covered;
            total.filtered += part->filtered, total.filter_count += part->filter_count;
        }
        ret_sums[s] = total;
    }
    return STATUS_OK;
}

/* Makes tables of shells by squared radius below limit², to avoid millions of square roots. */
static enum status make_tables(int limit, short **ret_round, short **ret_floor, struct err *err) {
    size_t n = (size_t)limit * (size_t)limit + 1;
    TRY(mem_new(n, sizeof **ret_round, "shell table", ret_round, err));
    TRY(mem_new(n, sizeof **ret_floor, "shell table", ret_floor, err));
    for (size_t r2 = 0; r2 < n; r2++) {
        double r = sqrt((double)r2) / PAD;
        (*ret_round)[r2] = (short)(r + 0.5);
        (*ret_floor)[r2] = (short)r;
    }
    return STATUS_OK;
}

/* The padded transform: of a 2D map a half plane, of a 3D map the frequencies in use. */
struct padded {
    float *spectrum;
    struct fourier_cube *cube_or_null;
};

/* Fills one plane of the padded transform: data over denominator, with the phase origin moved from the centre. */
static void filter_plane(const struct wiener *w, const struct shell_sums *sums, int z, const struct padded *padded) {
    const struct accumulator *a = w->accumulator;
    int n = PAD * a->box, limit2 = w->map_limit * w->map_limit;
    for (int y = -w->map_limit; y <= w->map_limit; y++) {
        const accumulator_voxel *row = accumulator_row(a, z, y);
        float *out = padded->cube_or_null != NULL ? fourier_cube_line(padded->cube_or_null, z, y)
                                                  : padded->spectrum + 2 * (size_t)((y + n) % n) * (size_t)(n / 2 + 1);
        for (int x = 0, r2 = y * y + z * z; r2 < limit2; r2 += 2 * x + 1, x++) {
            const struct shell_sums *s = sums + w->floor[r2];
            double value = denominator(w, row[x][2], w->round[r2]);
            /* Points that hardly any slice came near would be amplified noise. */
            double least = 0.001 * s->filtered / s->filter_count;
            if (value < least) value = least;
            double factor = value > 0 ? ((x + y + z) % 2 == 0 ? 1 : -1) / value : 0;
            out[2 * x] = (float)(factor * row[x][0]);
            out[2 * x + 1] = (float)(factor * row[x][1]);
        }
    }
}

/* Cuts the centre out of the padded map and scales it; 2D. The fall-off of interpolation is corrected after the mask,
 * because the corners of the box are weak there. */
static void cut_map(const struct accumulator *a, const float *padded, float *map) {
    int box = a->box, n = PAD * box, first = (n - box) / 2;
    float scale = 1 / (float)(PAD * PAD);
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++)
            map[y * box + x] = scale * padded[(size_t)(y + first) * (size_t)n + (size_t)(x + first)];
}

static void correct_gridding(const struct accumulator *a, const float *correction, int threads, float *map) {
    int box = a->box, c = box / 2, depth = a->dimensions == 3 ? box : 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int z = 0; z < depth; z++)
        for (int y = 0; y < box; y++) {
            int dz = depth == 1 ? 0 : z - c, part = dz * dz + (y - c) * (y - c);
            float *row = map + ((size_t)z * (size_t)box + (size_t)y) * (size_t)box;
            for (int x = 0; x < box; x++)
                row[x] /= correction[part + (x - c) * (x - c)];
        }
}

static enum status fill_correction(const struct accumulator *a, float **ret_correction, struct err *err) {
    int c = a->box / 2, count = a->dimensions * c * c + 1;
    TRY(mem_new((size_t)count, sizeof **ret_correction, "gridding correction", ret_correction, err));
    for (int r2 = 0; r2 < count; r2++) {
        double angle = M_PI * sqrt(r2) / (a->box * PAD), sinc = r2 == 0 ? 1 : sin(angle) / angle;
        (*ret_correction)[r2] = (float)(sinc * sinc);
    }
    return STATUS_OK;
}

void map_space_clear(struct map_space *space) {
    fft_destroy(&space->plan);
    mem_free(&space->spectrum);
    mem_free(&space->padded);
    mem_free(&space->correction);
}

/* Takes memory for a 2D map, with the transform all zeros. */
static enum status open_space(const struct accumulator *a, int threads, struct map_space *space, struct err *err) {
    int n = PAD * a->box;
    const struct fft_options options = {.rank = 2, .shape = {n, n}, .direction = FFT_INVERSE, .threads = threads};
    if (space->plan != NULL) {
        memset(space->spectrum, 0, fft_complex_floats(space->plan) * sizeof *space->spectrum);
        return STATUS_OK;
    }
    enum status status = fft_create(&options, &space->plan, err);
    if (status == STATUS_OK)
        status = mem_new(fft_complex_floats(space->plan), sizeof *space->spectrum, "padded transform", &space->spectrum,
                         err);
    if (status == STATUS_OK)
        status = mem_new(fft_real_count(space->plan), sizeof *space->padded, "padded map", &space->padded, err);
    if (status == STATUS_OK) status = fill_correction(a, &space->correction, err);
    if (status != STATUS_OK) map_space_clear(space);
    return status;
}

static enum status transform_2d(const struct wiener *w, const struct shell_sums *sums, int threads, float *map,
                                struct err *err) {
    const struct accumulator *a = w->accumulator;
    TRY(open_space(a, threads, a->space, err));
    filter_plane(w, sums, 0, &(struct padded){.spectrum = a->space->spectrum});
    fft_run(a->space->plan, a->space->spectrum, a->space->padded);
    cut_map(a, a->space->padded, map);
    mask_sphere(2, a->box, map, a->box / 2, 3, 1);
    correct_gridding(a, a->space->correction, threads, map);
    return STATUS_OK;
}

static enum status transform_3d(const struct wiener *w, const struct shell_sums *sums, int threads, float *map,
                                struct err *err) {
    const struct accumulator *a = w->accumulator;
    const float scale = 1 / ((float)(PAD * PAD * PAD) * (float)a->box);
    _cleanup_(mem_free) float *correction = NULL;
    _cleanup_(fourier_cube_destroy) struct fourier_cube cube = {0};
    TRY(fill_correction(a, &correction, err));
    TRY(fourier_cube_create(a->box, PAD * a->box, w->map_limit > 0 ? w->map_limit : 1, FFT_INVERSE, threads, &cube,
                            err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int z = -w->map_limit; z <= w->map_limit; z++)
        filter_plane(w, sums, z, &(struct padded){.cube_or_null = &cube});
    fourier_cube_inverse(&cube, scale, map);
    mask_sphere(3, a->box, map, a->box / 2, 3, 1);
    correct_gridding(a, correction, threads, map);
    return STATUS_OK;
}

enum status accumulator_cpu_map(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                                float *ret_data_vs_prior, float *ret_completeness, struct err *err) {
    int threads = options->threads > 0 ? options->threads : 1, shells = a->box / 2 + 1;
    _cleanup_(mem_free) short *round = NULL;
    _cleanup_(mem_free) short *below = NULL;
    _cleanup_(mem_free) struct shell_sums *sums = NULL;
    TRY(make_tables(PAD * a->r_max, &round, &below, err));
    TRY(mem_new((size_t)shells, sizeof *sums, "shell sums", &sums, err));
    const struct wiener wiener = {
        .accumulator = a,
        .tau2 = options->tau2,
        .fudge = options->tau_fudge * (a->dimensions == 3 ? PAD * PAD * PAD : PAD * PAD),
        .minres_shell = options->minres_shell,
        .limit = PAD * a->r_max,
        .map_limit = accumulator_map_limit(a->r_max, options->last_shell),
        .shells = shells,
        .round = round,
        .floor = below,
    };
    TRY(sum_shells(&wiener, threads, sums, err));
    TRY(a->dimensions == 3 ? transform_3d(&wiener, sums, threads, map, err)
                           : transform_2d(&wiener, sums, threads, map, err));
    for (int s = 0; s < shells; s++) {
        double count = sums[s].count > 0 ? sums[s].count : 1;
        if (ret_data_vs_prior != NULL) ret_data_vs_prior[s] = (float)(sums[s].ssnr / count);
        if (ret_completeness != NULL) ret_completeness[s] = (float)(sums[s].covered / count);
    }
    return STATUS_OK;
}

enum status accumulator_cpu_sigma2(const struct accumulator *a, float *ret_sigma2, struct err *err) {
    (void)err;
    int limit = PAD * a->r_max, depth = a->dimensions == 3 ? limit : 0;
    double oversampling = a->dimensions == 3 ? PAD * PAD * PAD : PAD * PAD;
    double sum[1025] = {0}, count[1025] = {0};
    for (int z = -depth; z <= depth; z++)
        for (int y = -limit; y <= limit; y++) {
            const accumulator_voxel *row = accumulator_row(a, z, y);
            for (int x = 0, r2 = y * y + z * z; r2 < limit * limit; r2 += 2 * x + 1, x++) {
                int shell = (int)(sqrt(r2) / PAD + 0.5);
                sum[shell] += row[x][2];
                count[shell] += 1;
            }
        }
    for (int s = 0; s <= a->box / 2; s++)
        ret_sigma2[s] = sum[s] > 0 ? (float)(count[s] / (oversampling * sum[s])) : 0;
    return STATUS_OK;
}
