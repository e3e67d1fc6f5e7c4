/* Scatters slices. Each thread owns a slab of z planes, goes through all slices in order and adds the pixels that fall
 * into its slab. A voxel therefore gets its contributions in the same order for any number of threads, without atomics
 * or copies of the grid. Locating pixels that another thread adds is wasted; it takes a tenth of the time of adding
 * them. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/reconstruct/accumulator_private.h"

/* Processes BLOCK pixels at a time, and prefetches their voxels AHEAD of use. */
enum { PAD = ACCUMULATOR_PAD, BLOCK = 256, AHEAD = 16, MAX_SLABS = 256, SAMPLED_SLICES = 512 };

/* Places of a block's pixels, without those that fall beyond r_max or outside the slab. */
struct places {
    int pixel[BLOCK];      /* within the block */
    unsigned index[BLOCK]; /* of the lowest corner */
    int z[BLOCK];          /* its plane, from 0 */
    float fx[BLOCK], fy[BLOCK], fz[BLOCK];
    float turn[BLOCK]; /* −1 if the conjugate goes to the mirrored place */
    int keep[BLOCK];
};

/* Locates the pixels of a block in planes first .. last-1, the slab. m: rows 1 and 2 of PAD · A. Returns how many
 * pixels are kept. */
static inline __attribute__((always_inline)) int locate(const struct accumulator *a, const short *kx, const short *ky,
                                                        int count, const float m[6], bool is_3d, int first, int last,
                                                        struct places *at) {
    const float reach = (float)a->reach;
    const int r2_max = a->r_max * a->r_max, bias = a->reach;
    const unsigned nx = (unsigned)a->nx, ny = (unsigned)a->ny;
    for (int i = 0; i < count; i++) {
        int ix = kx[i], iy = ky[i];
        float u = (float)ix, v = (float)iy;
        float x = m[0] * u + m[3] * v, y = m[1] * u + m[4] * v, z = is_3d ? m[2] * u + m[5] * v : 0;
        float turn = x < 0 ? -1.0f : 1.0f;
        x *= turn, y *= turn, z *= turn;
        /* Adding reach makes values positive, so that truncation is the floor. */
        int gx = (int)x, gy = (int)(y + reach), gz = is_3d ? (int)(z + reach) : 0;
        at->fx[i] = x - (float)gx;
        at->fy[i] = y - (float)(gy - bias);
        at->fz[i] = is_3d ? z - (float)(gz - bias) : 0;
        at->index[i] = ((unsigned)gz * ny + (unsigned)gy) * nx + (unsigned)gx;
        at->z[i] = gz;
        at->turn[i] = turn;
        at->keep[i] = ix * ix + iy * iy <= r2_max && gz + 1 >= first && gz < last;
    }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        at->pixel[kept] = i;
        kept += at->keep[i];
    }
    return kept;
}

/* Prefetches two voxels side by side, which may lie in two cache lines. */
static inline __attribute__((always_inline)) void fetch_row(const accumulator_voxel *voxel) {
    __builtin_prefetch(voxel, 1);
    __builtin_prefetch(voxel + 1, 1);
}

/* Adds to the four voxels of one plane about a point. */
static inline __attribute__((always_inline)) void add_plane(accumulator_voxel *corner, size_t row, double fx, double fy,
                                                            double weight, const accumulator_voxel *value) {
    double low = weight * (1 - fy), high = weight * fy;
    corner[0] += low * (1 - fx) * *value;
    corner[1] += low * fx * *value;
    corner[row] += high * (1 - fx) * *value;
    corner[row + 1] += high * fx * *value;
}

MULTIVERSION static void add_slice_3d(struct accumulator *a, const struct fourier_pixels *pixels, int count,
                                      const float m[6], const float *data, const float *weight, int first, int last) {
    struct places at;
    const size_t row = (size_t)a->nx, plane = row * (size_t)a->ny;
    for (int begin = 0; begin < count; begin += BLOCK) {
        int n = count - begin < BLOCK ? count - begin : BLOCK;
        int kept = locate(a, pixels->kx + begin, pixels->ky + begin, n, m, true, first, last, &at);
        for (int k = 0; k < kept; k++) {
            int i = at.pixel[k], p = begin + i;
            accumulator_voxel value = {(double)data[2 * p], (double)(at.turn[i] * data[2 * p + 1]), (double)weight[p],
                                       0};
            accumulator_voxel *corner = a->voxels + at.index[i];
            if (k + AHEAD < kept) {
                const accumulator_voxel *soon = a->voxels + at.index[at.pixel[k + AHEAD]];
                fetch_row(soon);
                fetch_row(soon + row);
                fetch_row(soon + plane);
                fetch_row(soon + plane + row);
            }
            double fx = (double)at.fx[i], fy = (double)at.fy[i], fz = (double)at.fz[i];
            if (at.z[i] >= first) add_plane(corner, row, fx, fy, 1 - fz, &value);
            if (at.z[i] + 1 < last) add_plane(corner + plane, row, fx, fy, fz, &value);
        }
    }
}

MULTIVERSION static void add_slice_2d(struct accumulator *a, const struct fourier_pixels *pixels, int count,
                                      const float m[6], const float *data, const float *weight) {
    struct places at;
    for (int begin = 0; begin < count; begin += BLOCK) {
        int n = count - begin < BLOCK ? count - begin : BLOCK;
        int kept = locate(a, pixels->kx + begin, pixels->ky + begin, n, m, false, 0, 1, &at);
        for (int k = 0; k < kept; k++) {
            int i = at.pixel[k], p = begin + i;
            accumulator_voxel value = {(double)data[2 * p], (double)(at.turn[i] * data[2 * p + 1]), (double)weight[p],
                                       0};
            add_plane(a->voxels + at.index[i], (size_t)a->nx, (double)at.fx[i], (double)at.fy[i], 1, &value);
        }
    }
}

/* Returns the steepest slope of a slice in z: its pixels reach PAD · r_max times this. */
static double climb(const float matrix[9]) {
    return sqrt((double)matrix[2] * (double)matrix[2] + (double)matrix[5] * (double)matrix[5]);
}

/* Chooses slabs with about the same number of pixels: a disc that reaches up to ±h has a share √(1 − (z/h)²) in plane
 * z. */
static void balance(const struct accumulator *a, int n, const float *matrices, int slabs, int *first) {
    double cumulated[2 * (PAD * 1024 + 1) + 2];
    memset(cumulated, 0, sizeof cumulated);
    int step = n > SAMPLED_SLICES ? n / SAMPLED_SLICES : 1;
    for (int i = 0; i < n; i += step) {
        double height = climb(matrices + 9 * (size_t)i) * PAD * a->r_max + 1;
        for (int z = -(int)height; z <= (int)height && z <= a->reach; z++)
            if (z >= -a->reach) cumulated[z + a->reach] += sqrt(1 - z * z / (height * height)) / height;
    }
    for (int z = 1; z < a->nz; z++)
        cumulated[z] += cumulated[z - 1];
    first[0] = 0;
    for (int s = 1, z = 0; s < slabs; s++) {
        while (z < a->nz && cumulated[z] < cumulated[a->nz - 1] * s / slabs)
            z++;
        first[s] = z;
    }
    first[slabs] = a->nz;
}

enum status accumulator_add(struct accumulator *a, const struct fourier_pixels *pixels, int count, int n,
                            const float *matrices, const float *data, const float *weight, int threads,
                            struct err *err) {
    FAIL_IF(count < 0 || count > pixels->count, err, STATUS_BAD_ARGUMENT,
            "%d Fourier pixels cannot be added: the list has %d", count, pixels->count);
    FAIL_IF(a->workspace != NULL, err, STATUS_UNSUPPORTED, "slices can be added to sums in host memory only");
    int slabs = a->dimensions == 2 || threads < 1 ? 1 : threads > MAX_SLABS ? MAX_SLABS : threads;
    int first[MAX_SLABS + 1] = {0, a->nz};
    if (slabs > 1) balance(a, n, matrices, slabs, first);
#pragma omp parallel for schedule(static, 1) num_threads(slabs) if (slabs > 1)
    for (int s = 0; s < slabs; s++)
        for (int i = 0; i < n; i++) {
            const float *matrix = matrices + 9 * (size_t)i;
            const float *values = data + 2 * (size_t)count * (size_t)i, *weights = weight + (size_t)count * (size_t)i;
            float m[6];
            for (int j = 0; j < 6; j++)
                m[j] = PAD * matrix[j];
            if (a->dimensions == 3)
                add_slice_3d(a, pixels, count, m, values, weights, first[s], first[s + 1]);
            else
                add_slice_2d(a, pixels, count, m, values, weights);
        }
    return STATUS_OK;
}

enum status accumulator_cpu_merge(struct accumulator *a, const struct accumulator *b, struct err *err) {
    (void)err;
    int reach = a->reach < b->reach ? a->reach : b->reach;
    int first = a->dimensions == 3 ? -reach : 0;
    for (int z = first; z <= -first; z++)
        for (int y = -reach; y <= reach; y++) {
            accumulator_voxel *to = accumulator_row(a, z, y);
            const accumulator_voxel *from = accumulator_row(b, z, y);
            for (int x = 0; x <= reach; x++)
                to[x] += from[x];
        }
    return STATUS_OK;
}

enum status accumulator_scale(struct accumulator *a, double factor, struct err *err) {
    FAIL_IF(a->workspace != NULL, err, STATUS_UNSUPPORTED, "sums can be multiplied in host memory only");
    size_t count = accumulator_voxels(a);
    for (size_t i = 0; i < count; i++)
        a->voxels[i] *= factor;
    return STATUS_OK;
}
