/* Provides the weights of a tile: computed, or read from storage. */
#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/tomography/tomography_cpu.h"

typedef float eight __attribute__((vector_size(32)));

/* Clamps v = u − 1, padded, the place of the first ray. Beyond the image on either side all rays fall on the pads. */
static inline double clamped(double v, int nx) {
    double most = nx + TOMOGRAPHY_PAD;
    v = v < 0 ? 0 : v;
    return v > most ? most : v;
}

/* Looks up the eight weights of f for a row of voxels: interpolated between two entries of the table, each of which is
 * one vector. */
static inline void look_up(const float *table, const float *f, int width, float (*ret_weights)[8]) {
    for (int x = 0; x < width; x++) {
        float step = f[x] * TOMOGRAPHY_STEPS;
        int k = (int)step;
        k = k < TOMOGRAPHY_STEPS ? k : TOMOGRAPHY_STEPS - 1;
        const eight *at = (const eight *)(table + 8 * k);
        *(eight *)ret_weights[x] = at[0] + (step - (float)k) * (at[1] - at[0]);
    }
}

MULTIVERSION static void on_the_fly(const struct tomography_setup *s, int tilt, const struct tomography_tile *tile,
                                    struct tomography_tile_weights *w) {
    float f[TOMOGRAPHY_TILE_X];
    double cosine = s->cosines[tilt];
    for (int z = 0; z < tile->depth; z++) {
        int *ray = w->ray + z * TOMOGRAPHY_TILE_X;
        double first = tomography_position(s, tilt, tile->x0, tile->z0 + z) + (TOMOGRAPHY_PAD - 1);
        for (int x = 0; x < tile->width; x++) {
            double v = clamped(first + x * cosine, s->nx);
            ray[x] = (int)v;
            f[x] = (float)(v - ray[x]);
        }
        look_up(s->weights, f, tile->width, w->weight + z * TOMOGRAPHY_TILE_X);
    }
}

MULTIVERSION static void from_ellr(const struct tomography_matrix_cpu *m, int tilt, const struct tomography_tile *tile,
                                   struct tomography_tile_weights *w) {
    const struct tomography_setup *s = m->setup;
    for (int z = 0; z < tile->depth; z++) {
        size_t j = 4 * (size_t)tilt * m->voxels + (size_t)(tile->z0 + z) * (size_t)s->nx + (size_t)tile->x0;
        int at = z * TOMOGRAPHY_TILE_X;
        for (int x = 0; x < tile->width; x++, j++) {
            w->ray[at + x] = m->index[j];
            for (size_t k = 0; k < 4; k++) {
                w->weight[at + x][k] = m->a[k * m->voxels + j];
                w->weight[at + x][4 + k] = m->a1 ? m->a1[k * m->voxels + j] : 0;
            }
        }
    }
}

/* Voxel (x, z) of a mirrored tilt is voxel (nx − 1 − x, z) of the stored one at −u; voxel N − 1 − j is j at −u. */
MULTIVERSION static void from_blob_ellr(const struct tomography_matrix_cpu *m, int tilt,
                                        const struct tomography_tile *tile, struct tomography_tile_weights *w) {
    const struct tomography_setup *s = m->setup;
    size_t half = (m->voxels + 1) / 2, row = (size_t)s->pair[tilt] * half;
    double whole = floor(s->offsets[tilt]);
    int offset = (int)whole + TOMOGRAPHY_PAD - 1;
    float rest = (float)(s->offsets[tilt] - whole), fractions[TOMOGRAPHY_TILE_X];
    for (int z = 0; z < tile->depth; z++) {
        size_t first = (size_t)(tile->z0 + z) * (size_t)s->nx;
        int at = z * TOMOGRAPHY_TILE_X;
        for (int x = 0; x < tile->width; x++) {
            int column = s->mirror[tilt] ? s->nx - 1 - tile->x0 - x : tile->x0 + x;
            size_t j = first + (size_t)column;
            bool minus = s->mirror[tilt] != (j >= half);
            j = row + (j >= half ? m->voxels - 1 - j : j);
            float f = minus ? rest - m->a[j] : rest + m->a[j];
            int ray = offset + (minus ? -m->index[j] : m->index[j]);
            float down = floorf(f);
            ray += (int)down;
            f -= down;
            if (ray < 0) ray = 0, f = 0;
            if (ray >= s->nx + TOMOGRAPHY_PAD) ray = s->nx + TOMOGRAPHY_PAD, f = 0;
            w->ray[at + x] = ray;
            fractions[x] = f;
        }
        look_up(s->weights, fractions, tile->width, w->weight + at);
    }
}

void tomography_matrix_tile(const struct tomography_matrix_cpu *m, int tilt, const struct tomography_tile *tile,
                            struct tomography_tile_weights *ret_weights) {
    if (m->kind == TOMOGRAPHY_ELLR)
        from_ellr(m, tilt, tile, ret_weights);
    else if (m->kind == TOMOGRAPHY_BLOB_ELLR)
        from_blob_ellr(m, tilt, tile, ret_weights);
    else
        on_the_fly(m->setup, tilt, tile, ret_weights);
}

static void store_ellr(struct tomography_matrix_cpu *m, int tilt) {
    const struct tomography_setup *s = m->setup;
    struct tomography_tile_weights w;
    for (int z = 0; z < s->nz; z++)
        for (int x0 = 0; x0 < s->nx; x0 += TOMOGRAPHY_TILE_X) {
            struct tomography_tile tile = {z, 1, x0, s->nx - x0 < TOMOGRAPHY_TILE_X ? s->nx - x0 : TOMOGRAPHY_TILE_X};
            on_the_fly(s, tilt, &tile, &w);
            size_t j = 4 * (size_t)tilt * m->voxels + (size_t)z * (size_t)s->nx + (size_t)x0;
            for (int x = 0; x < tile.width; x++, j++)
                for (size_t k = 0; k < 4; k++) {
                    m->index[k * m->voxels + j] = w.ray[x] + (int)k;
                    m->a[k * m->voxels + j] = w.weight[x][k];
                    if (m->a1) m->a1[k * m->voxels + j] = w.weight[x][4 + k];
                }
        }
}

static void store_blob_ellr(struct tomography_matrix_cpu *m, int pair) {
    const struct tomography_setup *s = m->setup;
    size_t half = (m->voxels + 1) / 2;
    int tilt = s->pair_tilt[pair];
    for (size_t j = 0; j < half; j++) {
        int x = (int)(j % (size_t)s->nx), z = (int)(j / (size_t)s->nx);
        double u = tomography_position(s, tilt, x, z) - s->offsets[tilt];
        m->index[(size_t)pair * half + j] = (int)floor(u);
        m->a[(size_t)pair * half + j] = (float)(u - floor(u));
    }
}

static enum status store(struct tomography_matrix_cpu *m, struct err *err) {
    const struct tomography_setup *s = m->setup;
    size_t entries =
        m->kind == TOMOGRAPHY_ELLR ? 4 * (size_t)s->tilts * m->voxels : (size_t)s->pairs * ((m->voxels + 1) / 2);
    bool two = m->kind == TOMOGRAPHY_ELLR && s->halo;
    int rows = m->kind == TOMOGRAPHY_ELLR ? s->tilts : s->pairs;
    if (m->kind == TOMOGRAPHY_ON_THE_FLY) return STATUS_OK;
    TRY(mem_new_unset(entries, sizeof *m->a, "the matrix", &m->a, err));
    TRY(mem_new_unset(entries, sizeof *m->index, "the matrix", &m->index, err));
    if (two) TRY(mem_new_unset(entries, sizeof *m->a1, "the matrix", &m->a1, err));
    m->bytes = entries * (two ? 12 : 8);
#pragma omp parallel for schedule(dynamic) num_threads(s->options.threads)
    for (int row = 0; row < rows; row++)
        if (m->kind == TOMOGRAPHY_ELLR)
            store_ellr(m, row);
        else
            store_blob_ellr(m, row);
    return STATUS_OK;
}

enum status tomography_matrix_create(const struct tomography_setup *setup, enum tomography_matrix kind,
                                     struct tomography_matrix_cpu **ret_matrix, struct err *err) {
    struct tomography_matrix_cpu *m = NULL;
    TRY(mem_new(1, sizeof *m, "the matrix", &m, err));
    m->kind = kind == TOMOGRAPHY_AUTO ? TOMOGRAPHY_ON_THE_FLY : kind;
    m->setup = setup;
    m->voxels = (size_t)setup->nx * (size_t)setup->nz;
    enum status status = store(m, err);
    if (status != STATUS_OK) {
        tomography_matrix_destroy(&m);
        return status;
    }
    *ret_matrix = m;
    return STATUS_OK;
}

void tomography_matrix_destroy(struct tomography_matrix_cpu **matrix) {
    if (!*matrix) return;
    free((*matrix)->a);
    free((*matrix)->a1);
    free((*matrix)->index);
    mem_free(matrix);
}

/* Computes tomography_sums from the weights that the kernels use, so that rays and voxels are divided by the sums of
 * exactly these weights. */
MULTIVERSION static void add_sums(const struct tomography_setup *s, const struct tomography_tile *tile,
                                  const struct tomography_tile_weights *w, int tilt, double *const sums[4]) {
    for (int z = 0; z < tile->depth; z++)
        for (int x = 0; x < tile->width; x++) {
            int at = z * TOMOGRAPHY_TILE_X + x;
            size_t voxel = (size_t)(tile->z0 + z) * (size_t)s->nx + (size_t)(tile->x0 + x);
            for (int k = 0; k < 4; k++) {
                int ray = w->ray[at] + k - TOMOGRAPHY_PAD;
                if (ray < 0 || ray >= s->nx) continue;
                for (int part = 0; part < 2; part++) {
                    double weight = (double)w->weight[at][4 * part + k];
                    if (sums[part]) sums[part][(size_t)tilt * (size_t)s->nx + (size_t)ray] += weight;
                    if (sums[2 + part]) sums[2 + part][voxel] += weight;
                }
            }
        }
}

static void sum_slices(const struct tomography_setup *s, int tilt, int z0, int z1, double *const sums[4]) {
    struct tomography_tile_weights w;
    for (int z = z0; z < z1; z++)
        for (int x0 = 0; x0 < s->nx; x0 += TOMOGRAPHY_TILE_X) {
            struct tomography_tile tile = {z, 1, x0, s->nx - x0 < TOMOGRAPHY_TILE_X ? s->nx - x0 : TOMOGRAPHY_TILE_X};
            on_the_fly(s, tilt, &tile, &w);
            add_sums(s, &tile, &w, tilt, sums);
        }
}

void tomography_sums(const struct tomography_setup *s, double *ret_sums0, double *ret_sums1, double *ret_columns0,
                     double *ret_columns1) {
    double *rays[4] = {ret_sums0, ret_sums1, NULL, NULL}, *columns[4] = {NULL, NULL, ret_columns0, ret_columns1};
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; rays[part] && i < (size_t)s->tilts * (size_t)s->nx; i++)
            rays[part][i] = 0;
        for (size_t i = 0; columns[2 + part] && i < (size_t)s->nz * (size_t)s->nx; i++)
            columns[2 + part][i] = 0;
    }
#pragma omp parallel num_threads(s->options.threads)
    {
#pragma omp for schedule(dynamic) nowait
        for (int tilt = 0; tilt < s->tilts; tilt++)
            sum_slices(s, tilt, 0, s->nz, rays);
#pragma omp for schedule(dynamic)
        for (int z = 0; z < s->nz; z++)
            for (int tilt = 0; tilt < s->tilts; tilt++)
                sum_slices(s, tilt, z, z + 1, columns);
    }
}
