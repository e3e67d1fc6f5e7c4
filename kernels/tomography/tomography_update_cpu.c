/* Computes residuals, and applies the back-projection to the coefficients. */
#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/multiversion.h"
#include "kernels/tomography/tomography_cpu.h"

enum { LANES = TOMOGRAPHY_LANES, TILE_X = TOMOGRAPHY_TILE_X, TILE_Z = TOMOGRAPHY_TILE_Z };
/* Floats of a block's tile: two sums a voxel and lane. */
enum { TILE_SUMS = 2 * TOMOGRAPHY_TILE * LANES };

static int thread_number(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static size_t at_rays(const struct tomography_cpu *cpu, int block, int tilt) {
    return ((size_t)block * (size_t)cpu->setup->tilts + (size_t)tilt) * cpu->rays * LANES;
}

static size_t at_voxel(const struct tomography_cpu *cpu, int block, int z, int x) {
    const struct tomography_setup *s = cpu->setup;
    return (((size_t)block * (size_t)s->nz + (size_t)z) * (size_t)s->nx + (size_t)x);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Computes 1 / sum for the rows y of a block with n neighbours above and below; 0 beyond the last row. */
static void inverse_sums(const struct tomography_setup *s, int block, double sum0, double sum1, float *ret_inverse) {
    for (int lane = 0; lane < LANES; lane++)
        ret_inverse[lane] = 0;
    float values[3];
    for (int n = 0; n < 3; n++) {
        double sum = sum0 + n * sum1;
        values[n] = sum < TOMOGRAPHY_LEAST_WEIGHT ? 0 : (float)(1 / fmax(sum, TOMOGRAPHY_SMALL_WEIGHT));
    }
    int rows = least(LANES, s->ny - block * LANES);
    for (int lane = 0; lane < rows; lane++)
        ret_inverse[lane] = values[2];
    if (block == 0) ret_inverse[0] = values[s->ny > 1];
    if (block * LANES + rows == s->ny) ret_inverse[rows - 1] = values[s->ny > 1];
}

static void clear_block(struct tomography_cpu *cpu, int block, int tilt) {
    size_t bytes = cpu->rays * LANES * sizeof(float);
    memset(cpu->rays0 + at_rays(cpu, block, tilt), 0, bytes);
    if (cpu->rays1) memset(cpu->rays1 + at_rays(cpu, block, tilt), 0, bytes);
}

/* Projects tilts t0 .. t1 of a group of blocks. */
static void project_group(struct tomography_cpu *cpu, int group, int t0, int t1, int thread) {
    const struct tomography_setup *s = cpu->setup;
    int from = group * TOMOGRAPHY_FORTH, to = least(from + TOMOGRAPHY_FORTH, cpu->blocks);
    struct tomography_tile_weights *w = cpu->tiles + thread * TOMOGRAPHY_TILTS;
    struct tomography_tile_rays *met = cpu->tile_rays + thread;
    for (int block = from; block < to; block++)
        for (int t = t0; t < t1; t++)
            clear_block(cpu, block, t);
    for (int z = 0; z < s->nz; z += TILE_Z)
        for (int x = 0; x < s->nx; x += TILE_X) {
            struct tomography_tile tile = {z, least(TILE_Z, s->nz - z), x, least(TILE_X, s->nx - x)};
            for (int t = t0; t < t1; t++) {
                tomography_matrix_tile(cpu->matrix, t, &tile, w);
                tomography_tile_by_ray(s, &tile, w, met);
                for (int block = from; block < to; block++) {
                    size_t rays = at_rays(cpu, block, t);
                    tomography_tile_project(s, met, cpu->coefficients + at_voxel(cpu, block, z, x) * LANES,
                                            cpu->rays0 + rays, cpu->rays1 ? cpu->rays1 + rays : NULL);
                }
            }
        }
}

void tomography_cpu_project(struct tomography_cpu *cpu) {
    int groups = (cpu->blocks + TOMOGRAPHY_FORTH - 1) / TOMOGRAPHY_FORTH, tilts = cpu->setup->tilts;
    /* Enough pieces for all threads, but enough tilts in each that loaded coefficients are reused. */
    int piece = 1 + tilts * groups / (8 * cpu->threads);
    piece = piece < 4 ? 4 : piece;
    int pieces = (tilts + piece - 1) / piece;
#pragma omp parallel for schedule(dynamic) num_threads(cpu->threads)
    for (int task = 0; task < groups * pieces; task++) {
        int t0 = task % pieces * piece;
        project_group(cpu, task / pieces, t0, least(t0 + piece, tilts), thread_number());
    }
}

/* Row y of W c includes the q1 of its neighbours; neighbours of the first and last lane are in other blocks. */
MULTIVERSION static double correct_ray(const float *measured, float *rays0, const float *rays1, float before,
                                       float after, const float *inverse) {
    float sides[LANES + 2], sum[LANES];
    for (int lane = 0; lane < LANES; lane++)
        sum[lane] = rays0[lane];
    if (rays1) {
        sides[0] = before, sides[LANES + 1] = after;
        memcpy(sides + 1, rays1, LANES * sizeof(float));
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += sides[lane] + sides[lane + 2];
    }
    double squares = 0;
    for (int lane = 0; lane < LANES; lane++) {
        float difference = measured[lane] - sum[lane], weighted = inverse[lane] * difference;
        rays0[lane] = weighted;
        sum[lane] = weighted * difference;
    }
    for (int lane = 0; lane < LANES; lane++)
        squares += (double)sum[lane];
    return squares;
}

static double correct_block(struct tomography_cpu *cpu, int block, int tilt, const float *rays1) {
    const struct tomography_setup *s = cpu->setup;
    size_t at = at_rays(cpu, block, tilt), stride = (size_t)s->tilts * cpu->rays * LANES;
    double squares = 0;
    float inverse[LANES];
    for (int ray = 0; ray < s->nx; ray++) {
        size_t i = at + (size_t)(ray + TOMOGRAPHY_PAD) * LANES, sums = (size_t)tilt * (size_t)s->nx + (size_t)ray;
        inverse_sums(s, block, cpu->sums0[sums], cpu->sums1[sums], inverse);
        float before = rays1 && block > 0 ? rays1[i - stride + LANES - 1] : 0;
        float after = rays1 && block + 1 < cpu->blocks ? rays1[i + stride] : 0;
        squares += correct_ray(cpu->measured + i, cpu->rays0 + i, rays1 ? rays1 + i : NULL, before, after, inverse);
    }
    return squares;
}

/* Sums every block on its own, then in order: the result does not depend on the number of threads. */
static double correct_all(struct tomography_cpu *cpu, const float *rays1) {
    int tilts = cpu->setup->tilts;
#pragma omp parallel for schedule(dynamic) num_threads(cpu->threads)
    for (int task = 0; task < cpu->blocks * tilts; task++)
        cpu->norms[task] = correct_block(cpu, task / tilts, task % tilts, rays1);
    double squares = 0;
    for (int task = 0; task < cpu->blocks * tilts; task++)
        squares += cpu->norms[task];
    return squares;
}

double tomography_cpu_correct(struct tomography_cpu *cpu) {
    return correct_all(cpu, cpu->rays1);
}

double tomography_cpu_start(struct tomography_cpu *cpu, bool plain) {
    size_t bytes = (size_t)cpu->blocks * (size_t)cpu->setup->tilts * cpu->rays * LANES * sizeof(float);
    memset(cpu->rays0, 0, bytes);
    double squares = correct_all(cpu, NULL);
    if (plain) memcpy(cpu->rays0, cpu->measured, bytes);
    return squares;
}

static bool is_masked(const struct tomography_setup *s, int y, int z, int x) {
    const unsigned char *mask = s->options.mask;
    return mask && !mask[((size_t)z * (size_t)s->ny + (size_t)y) * (size_t)s->nx + (size_t)x];
}

/* Applies non-negativity and mask to a coefficient to which nothing more is added in this iteration. */
static void keep_allowed(const struct tomography_setup *s, int y, int z, int x, float *coefficient) {
    if ((s->options.non_negative && *coefficient < 0) || is_masked(s, y, z, x)) *coefficient = 0;
}

struct update {
    struct tomography_cpu *cpu;
    double relaxation;
    bool plain;
};

/* Computes the factors of a block's coefficients in a voxel column. */
static void make_factors(const struct update *u, int block, int z, int x, float *ret_factors) {
    const struct tomography_cpu *cpu = u->cpu;
    size_t voxel = (size_t)z * (size_t)cpu->setup->nx + (size_t)x;
    if (u->plain) {
        for (int lane = 0; lane < LANES; lane++)
            ret_factors[lane] = block * LANES + lane < cpu->setup->ny;
        return;
    }
    inverse_sums(cpu->setup, block, cpu->columns0[voxel], cpu->columns1[voxel], ret_factors);
    for (int lane = 0; lane < LANES; lane++)
        ret_factors[lane] *= (float)u->relaxation;
}

MULTIVERSION static void add_column(const float *sums, const float *factors, bool halo, bool cut, float *coefficients) {
    float sides[LANES + 2], sum[LANES];
    for (int lane = 0; lane < LANES; lane++)
        sum[lane] = sums[lane];
    if (halo) {
        sides[0] = sides[LANES + 1] = 0;
        memcpy(sides + 1, sums + LANES, LANES * sizeof(float));
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += sides[lane] + sides[lane + 2];
    }
    float first = coefficients[0] + factors[0] * sum[0];
    float last = coefficients[LANES - 1] + factors[LANES - 1] * sum[LANES - 1];
    for (int lane = 0; lane < LANES; lane++) {
        float c = coefficients[lane] + factors[lane] * sum[lane];
        coefficients[lane] = cut && c < 0 ? 0 : c;
    }
    /* The rows at the ends of a block are not complete yet: add_edges cuts them. */
    coefficients[0] = first, coefficients[LANES - 1] = last;
}

static void finish_tile(const struct update *u, int block, const struct tomography_tile *tile, const float *sums) {
    struct tomography_cpu *cpu = u->cpu;
    const struct tomography_setup *s = cpu->setup;
    bool masked = s->options.mask && !u->plain, cut = s->options.non_negative && !u->plain;
    float factors[LANES];
    for (int z = tile->z0; z < tile->z0 + tile->depth; z++)
        for (int x = tile->x0; x < tile->x0 + tile->width; x++) {
            const float *sum = sums + (size_t)((z - tile->z0) * TILE_X + (x - tile->x0)) * 2 * LANES;
            size_t voxel = at_voxel(cpu, block, z, x);
            float *c = cpu->coefficients + voxel * LANES;
            make_factors(u, block, z, x, factors);
            add_column(sum, factors, s->halo, cut, c);
            if (cpu->edges) {
                cpu->edges[2 * voxel] = sum[LANES];
                cpu->edges[2 * voxel + 1] = sum[2 * LANES - 1];
            }
            for (int y = block * LANES; masked && y < least(s->ny, (block + 1) * LANES); y++)
                if (is_masked(s, y, z, x)) c[y - block * LANES] = 0;
        }
}

/* Back-projects some tilts of the tile from .. to blocks. */
static void back_project_tile(struct tomography_cpu *cpu, const struct tomography_tile *tile, int t0, int from, int to,
                              struct tomography_tile_weights *w, float *sums) {
    int tilts = least(TOMOGRAPHY_TILTS, cpu->setup->tilts - t0);
    for (int t = 0; t < tilts; t++)
        tomography_matrix_tile(cpu->matrix, t0 + t, tile, &w[t]);
    for (int block = from; block < to; block++, sums += TILE_SUMS) {
        const float *rays[TOMOGRAPHY_TILTS] = {NULL};
        for (int t = 0; t < tilts; t++)
            rays[t] = cpu->rays0 + at_rays(cpu, block, t0 + t);
        tomography_tile_back_project(cpu->setup, tile, tilts, w, rays, sums);
    }
}

/* Back-projects a group's tiles of the slices from z on, from column x0 to x1. */
static void back_project_group(const struct update *u, int group, int z, int x0, int x1, int thread) {
    struct tomography_cpu *cpu = u->cpu;
    const struct tomography_setup *s = cpu->setup;
    float *sums = cpu->scratch + (size_t)thread * TOMOGRAPHY_BACK * TILE_SUMS;
    int from = group * TOMOGRAPHY_BACK, to = least(from + TOMOGRAPHY_BACK, cpu->blocks);
    for (int x = x0; x < x1; x += TILE_X) {
        struct tomography_tile tile = {z, least(TILE_Z, s->nz - z), x, least(TILE_X, s->nx - x)};
        memset(sums, 0, TOMOGRAPHY_BACK * TILE_SUMS * sizeof *sums);
        for (int t = 0; t < s->tilts; t += TOMOGRAPHY_TILTS)
            back_project_tile(cpu, &tile, t, from, to, cpu->tiles + thread * TOMOGRAPHY_TILTS, sums);
        for (int block = from; block < to; block++)
            finish_tile(u, block, &tile, sums + (size_t)(block - from) * TILE_SUMS);
    }
}

/* Adds what a block's neighbours contribute to its first and last row. */
static void add_edges(const struct update *u, int block, int z) {
    struct tomography_cpu *cpu = u->cpu;
    const struct tomography_setup *s = cpu->setup;
    int rows = least(LANES, s->ny - block * LANES);
    float factors[LANES];
    for (int x = 0; x < s->nx; x++) {
        float *c = cpu->coefficients + at_voxel(cpu, block, z, x) * LANES;
        make_factors(u, block, z, x, factors);
        if (cpu->edges && block > 0) c[0] += factors[0] * cpu->edges[2 * at_voxel(cpu, block - 1, z, x) + 1];
        if (cpu->edges && block + 1 < cpu->blocks)
            c[LANES - 1] += factors[LANES - 1] * cpu->edges[2 * at_voxel(cpu, block + 1, z, x)];
        if (u->plain) continue;
        keep_allowed(s, block * LANES, z, x, &c[0]);
        keep_allowed(s, block * LANES + rows - 1, z, x, &c[rows - 1]);
    }
}

void tomography_cpu_back_project(struct tomography_cpu *cpu, double relaxation, bool plain) {
    struct update u = {cpu, relaxation, plain};
    int groups = (cpu->blocks + TOMOGRAPHY_BACK - 1) / TOMOGRAPHY_BACK, nz = cpu->setup->nz, nx = cpu->setup->nx;
    int layers = (nz + TILE_Z - 1) / TILE_Z, columns = (nx + TILE_X - 1) / TILE_X;
    /* With few rows and slices each layer is cut into pieces, so that no thread is idle. */
    int pieces = least(columns, 1 + 4 * cpu->threads / (groups * layers));
    int width = (columns + pieces - 1) / pieces * TILE_X;
#pragma omp parallel for schedule(dynamic) num_threads(cpu->threads)
    for (int task = 0; task < groups * layers * pieces; task++) {
        int layer = task / pieces % layers, x = task % pieces * width;
        back_project_group(&u, task / pieces / layers, layer * TILE_Z, x, least(x + width, nx), thread_number());
    }
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int task = 0; task < cpu->blocks * nz; task++)
        add_edges(&u, task / nz, task % nz);
}
