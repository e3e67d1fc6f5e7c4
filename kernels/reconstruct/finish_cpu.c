/* Prepares sums for a map: joins Friedel pairs, applies symmetry, shares low resolution between halves. Correlates two
 * such sums. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/reconstruct/accumulator_private.h"

enum { PAD = ACCUMULATOR_PAD, STRETCH = 64, BRICK = 16 };

/* Joins (0, y, z) and (0, −y, −z): one point that was written to in two places. */
static void join_pairs(struct accumulator *a) {
    int first = accumulator_first_plane(a);
    for (int z = 0; z <= -first; z++)
        for (int y = z == 0 ? 0 : -a->reach; y <= a->reach; y++) {
            accumulator_voxel *p = accumulator_row(a, z, y), *q = accumulator_row(a, -z, -y);
            accumulator_voxel sum = {(*p)[0] + (*q)[0], (*p)[1] - (*q)[1], (*p)[2] + (*q)[2], 0};
            accumulator_voxel mate = {sum[0], -sum[1], sum[2], 0};
            *q = mate;
            *p = sum;
        }
}

/* Voxel re im weight 0 in single precision. The symmetry operators read these, at half the memory traffic of the
 * sums. */
typedef float sample __attribute__((vector_size(16)));

/* Places of a stretch of a row for one operator. */
struct places {
    unsigned index[STRETCH];
    float fx[STRETCH], fy[STRETCH], fz[STRETCH], turn[STRETCH];
};

/* Adds the row at (y, z), up to last_x, rotated by one operator. */
MULTIVERSION static void add_rotated_row(const struct accumulator *a, const sample *samples, const double matrix[9],
                                         int z, int y, int last_x, accumulator_voxel *out) {
    const size_t row = (size_t)a->nx, plane = row * (size_t)a->ny;
    const float reach = (float)a->reach, mx = (float)matrix[0], my = (float)matrix[3], mz = (float)matrix[6];
    const float bx = (float)(matrix[1] * y + matrix[2] * z), by = (float)(matrix[4] * y + matrix[5] * z);
    const float bz = (float)(matrix[7] * y + matrix[8] * z);
    const int bias = a->reach;
    const unsigned nx = (unsigned)a->nx, ny = (unsigned)a->ny;
    struct places at;
    for (int begin = 0; begin <= last_x; begin += STRETCH) {
        int n = last_x + 1 - begin < STRETCH ? last_x + 1 - begin : STRETCH;
        for (int i = 0; i < n; i++) {
            float x = (float)(begin + i), px = mx * x + bx, py = my * x + by, pz = mz * x + bz;
            float turn = px < 0 ? -1.0f : 1.0f;
            px *= turn, py *= turn, pz *= turn;
            /* Adding reach makes values positive, so that truncation is the floor. */
            int gx = (int)px, gy = (int)(py + reach), gz = (int)(pz + reach);
            at.fx[i] = px - (float)gx, at.fy[i] = py - (float)(gy - bias), at.fz[i] = pz - (float)(gz - bias);
            at.index[i] = ((unsigned)gz * ny + (unsigned)gy) * nx + (unsigned)gx;
            at.turn[i] = turn;
        }
        for (int i = 0; i < n; i++) {
            const sample *c = samples + at.index[i], *d = c + plane;
            float fx = at.fx[i], fy = at.fy[i], fz = at.fz[i];
            sample low = c[0] + fx * (c[1] - c[0]), low_y = c[row] + fx * (c[row + 1] - c[row]);
            sample high = d[0] + fx * (d[1] - d[0]), high_y = d[row] + fx * (d[row + 1] - d[row]);
            low += fy * (low_y - low);
            high += fy * (high_y - high);
            low += fz * (high - low);
            accumulator_voxel value = {(double)low[0], (double)(at.turn[i] * low[1]), (double)low[2], 0};
            out[begin + i] += value;
        }
    }
}

/* Processes BRICK × BRICK rows for one operator before the next: the values read then stay in the cache next to the
 * core. */
static void sum_bundle(const struct accumulator *a, const sample *samples, const struct symmetry *symmetry, int first_z,
                       int first_y) {
    int limit = PAD * a->r_max, last_z = first_z + BRICK - 1, last_y = first_y + BRICK - 1;
    last_z = last_z < a->reach ? last_z : a->reach;
    last_y = last_y < a->reach ? last_y : a->reach;
    for (int z = first_z; z <= last_z; z++)
        for (int y = first_y; y <= last_y; y++)
            memset(accumulator_row(a, z, y), 0, (size_t)a->nx * sizeof *a->voxels);
    for (int i = 0; i < symmetry->count; i++)
        for (int z = first_z; z <= last_z; z++)
            for (int y = first_y; y <= last_y; y++) {
                int rest = limit * limit - y * y - z * z;
                if (rest >= 0)
                    add_rotated_row(a, samples, symmetry->matrices[i], z, y, (int)sqrt(rest), accumulator_row(a, z, y));
            }
}

static enum status sum_operators(struct accumulator *a, const struct symmetry *symmetry, int threads, struct err *err) {
    size_t count = (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
    _cleanup_(mem_free) sample *samples = NULL;
    TRY(mem_new(count, sizeof *samples, "Fourier grid to be symmetrised", &samples, err));
    for (size_t i = 0; i < count; i++) {
        sample value = {(float)a->voxels[i][0], (float)a->voxels[i][1], (float)a->voxels[i][2], 0};
        samples[i] = value;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads > 0 ? threads : 1)
    for (int z = -a->reach; z <= a->reach; z += BRICK)
        for (int y = -a->reach; y <= a->reach; y += BRICK)
            sum_bundle(a, samples, symmetry, z, y);
    return STATUS_OK;
}

enum status accumulator_cpu_finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                                   struct err *err) {
    join_pairs(a);
    if (symmetry_or_null != NULL && symmetry_or_null->count > 1)
        return sum_operators(a, symmetry_or_null, threads, err);
    return STATUS_OK;
}

enum status accumulator_cpu_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err) {
    (void)err;
    int reach = a->reach < b->reach ? a->reach : b->reach, limit = PAD * shells < reach ? PAD * shells : reach;
    int depth = a->dimensions == 3 ? limit : 0;
    for (int z = -depth; z <= depth; z++)
        for (int y = -limit; y <= limit; y++) {
            accumulator_voxel *p = accumulator_row(a, z, y), *q = accumulator_row(b, z, y);
            for (int x = 0; x * x + y * y + z * z <= limit * limit; x++)
                p[x] = q[x] = 0.5 * (p[x] + q[x]);
        }
    return STATUS_OK;
}

/* Finds the padded points that belong to a point k of the unpadded grid: those for which ROUND(i / PAD) is k. */
static void children(int k, int limit, int ret_range[2]) {
    int magnitude = k < 0 ? -k : k;
    int near = magnitude == 0 ? 0 : PAD * magnitude - 1, far = PAD * magnitude < limit ? PAD * magnitude : limit;
    ret_range[0] = k < 0 ? -far : near;
    ret_range[1] = k < 0 ? -near : far;
}

static void sum_children(const struct accumulator *a, int kz, int ky, int kx, int limit, accumulator_voxel *ret_sum) {
    int x[2], y[2], z[2];
    children(kx, limit, x);
    children(ky, limit, y);
    children(kz, limit, z);
    accumulator_voxel sum = {0};
    for (int iz = z[0]; iz <= z[1]; iz++)
        for (int iy = y[0]; iy <= y[1]; iy++) {
            const accumulator_voxel *row = accumulator_row(a, iz, iy);
            for (int ix = x[0]; ix <= x[1]; ix++)
                if (ix * ix + iy * iy + iz * iz <= limit * limit) sum += row[ix];
        }
    *ret_sum = sum;
}

enum { CROSS, POWER_A, POWER_B, TERMS };

/* Sums one plane of the unpadded grid by shells. */
static void correlate_plane(const struct accumulator *a, const struct accumulator *b, int kz, int r_max,
                            double (*sums)[TERMS]) {
    for (int ky = -r_max; ky <= r_max; ky++)
        for (int kx = 0; kx * kx + ky * ky + kz * kz <= r_max * r_max; kx++) {
            accumulator_voxel p, q;
            sum_children(a, kz, ky, kx, PAD * r_max, &p);
            sum_children(b, kz, ky, kx, PAD * r_max, &q);
            if (p[2] <= 0 || q[2] <= 0) continue;
            double are = p[0] / p[2], aim = p[1] / p[2], bre = q[0] / q[2], bim = q[1] / q[2];
            int shell = (int)(sqrt(kx * kx + ky * ky + kz * kz) + 0.5);
            sums[shell][CROSS] += are * bre + aim * bim;
            sums[shell][POWER_A] += are * are + aim * aim;
            sums[shell][POWER_B] += bre * bre + bim * bim;
        }
}

enum status accumulator_cpu_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc,
                                struct err *err) {
    int r_max = a->r_max < b->r_max ? a->r_max : b->r_max;
    int depth = a->dimensions == 3 ? r_max : 0;
    size_t shells = (size_t)r_max + 1;
    /* Each plane has its own sums, added in order, so that the result does not depend on the number of threads. */
    _cleanup_(mem_free) double(*sums)[TERMS] = NULL;
    TRY(mem_new((size_t)(2 * depth + 1) * shells, sizeof *sums, "Fourier shell sums", &sums, err));
#pragma omp parallel for schedule(dynamic, 1) if (depth > 0)
    for (int kz = -depth; kz <= depth; kz++)
        correlate_plane(a, b, kz, r_max, sums + (size_t)(kz + depth) * shells);
    memset(ret_fsc, 0, ((size_t)a->box / 2 + 1) * sizeof *ret_fsc);
    for (size_t s = 0; s < shells; s++) {
        double total[TERMS] = {0};
        for (size_t plane = 0; plane < (size_t)(2 * depth + 1); plane++)
            for (int t = 0; t < TERMS; t++)
                total[t] += sums[plane * shells + s][t];
        double scale = sqrt(total[POWER_A] * total[POWER_B]);
        ret_fsc[s] = scale > 0 ? (float)(total[CROSS] / scale) : 0;
    }
    ret_fsc[0] = 1;
    return STATUS_OK;
}

static enum status clear(struct accumulator *a, struct workspace *workspace_or_null, struct err *err) {
    size_t count = accumulator_voxels(a);
    a->work = &accumulator_cpu_work;
    a->workspace = a->beside = workspace_or_null; /* both NULL: sums in host memory */
    if (count > a->capacity) {
        mem_free(&a->voxels);
        a->capacity = 0;
        TRY(mem_new(count, sizeof *a->voxels, "Fourier grid of a reconstruction", &a->voxels, err));
        a->capacity = count;
    } else {
        memset(a->voxels, 0, count * sizeof *a->voxels);
    }
    return STATUS_OK;
}

const struct accumulator_work accumulator_cpu_work = {
    .clear = clear,
    .finish = accumulator_cpu_finish,
    .merge = accumulator_cpu_merge,
    .join_shells = accumulator_cpu_join_shells,
    .fsc = accumulator_cpu_fsc,
    .sigma2 = accumulator_cpu_sigma2,
    .map = accumulator_cpu_map,
};
