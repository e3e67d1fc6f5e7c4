/* The inner loops: one tile, one tilt, 64 rows. */
#include "common/multiversion.h"
#include "kernels/tomography/tomography_cpu.h"

enum { LANES = TOMOGRAPHY_LANES, TILE_X = TOMOGRAPHY_TILE_X };

typedef float wide __attribute__((vector_size(64)));
typedef float narrow __attribute__((vector_size(32)));

void tomography_tile_starts(const struct tomography_setup *s, const struct tomography_tile *tile,
                            const struct tomography_tile_weights *w, struct tomography_starts *ret_starts) {
    int least = w->ray[0], most = least;
    for (int z = 0; z < tile->depth; z++) {
        int from = w->ray[z * TILE_X], to = w->ray[z * TILE_X + tile->width - 1];
        least = from < least ? from : least;
        most = to > most ? to : most;
    }
    /* Rays least .. most + 3 are met; at[i] speaks of least − 3 + i, and ray s asks for s − 3 and s + 1. */
    for (int z = 0; z < tile->depth; z++) {
        int x = 0;
        for (int i = 0; i <= most + 7 - least; i++) {
            while (x < tile->width && w->ray[z * TILE_X + x] < least - 3 + i)
                x++;
            ret_starts->at[z][i] = (short)x;
        }
    }
    ret_starts->base = least - 3;
    ret_starts->least = least > TOMOGRAPHY_PAD ? least : TOMOGRAPHY_PAD;
    ret_starts->most = most + 3 < s->nx + TOMOGRAPHY_PAD - 1 ? most + 3 : s->nx + TOMOGRAPHY_PAD - 1;
}

/* One ray of one block: for 32 registers of 16, every coefficient that is loaded serves both sums. */
struct one_ray {
    const struct tomography_tile *tile;
    const struct tomography_tile_weights *weights;
    const struct tomography_starts *starts;
    const float *coefficients;
    size_t row; /* floats from z to z + 1 */
    int ray;
};

MULTIVERSION static void project_wide(const struct one_ray *r, float *to0, float *to1) {
    wide a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
    for (int z = 0; z < r->tile->depth; z++) {
        const short *start = r->starts->at[z] + (r->ray - 3 - r->starts->base);
        const int *rays = r->weights->ray + z * TILE_X;
        const float(*weight)[8] = r->weights->weight + z * TILE_X;
        const float *row = r->coefficients + (size_t)z * r->row;
        for (int x = start[0]; x < start[4]; x++) {
            const wide *c = (const wide *)(row + (size_t)x * LANES);
            const float *q = weight[x] + (r->ray - rays[x]);
            a0 += q[0] * c[0], a1 += q[0] * c[1], a2 += q[0] * c[2], a3 += q[0] * c[3];
            b0 += q[4] * c[0], b1 += q[4] * c[1], b2 += q[4] * c[2], b3 += q[4] * c[3];
        }
    }
    wide *t0 = (wide *)to0, *t1 = (wide *)to1;
    t0[0] += a0, t0[1] += a1, t0[2] += a2, t0[3] += a3;
    t1[0] += b0, t1[1] += b1, t1[2] += b2, t1[3] += b3;
}

/* The same for 16 registers of 8: half the rows at a time. */
MULTIVERSION static void project_narrow(const struct one_ray *r, float *to0, float *to1) {
    narrow a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
    for (int z = 0; z < r->tile->depth; z++) {
        const short *start = r->starts->at[z] + (r->ray - 3 - r->starts->base);
        const int *rays = r->weights->ray + z * TILE_X;
        const float(*weight)[8] = r->weights->weight + z * TILE_X;
        const float *row = r->coefficients + (size_t)z * r->row;
        for (int x = start[0]; x < start[4]; x++) {
            const narrow *c = (const narrow *)(row + (size_t)x * LANES);
            const float *q = weight[x] + (r->ray - rays[x]);
            a0 += q[0] * c[0], a1 += q[0] * c[1], a2 += q[0] * c[2], a3 += q[0] * c[3];
            b0 += q[4] * c[0], b1 += q[4] * c[1], b2 += q[4] * c[2], b3 += q[4] * c[3];
        }
    }
    narrow *t0 = (narrow *)to0, *t1 = (narrow *)to1;
    t0[0] += a0, t0[1] += a1, t0[2] += a2, t0[3] += a3;
    t1[0] += b0, t1[1] += b1, t1[2] += b2, t1[3] += b3;
}

/* Without q1, any width of vector. */
MULTIVERSION static void project_alone(const struct one_ray *r, float *to) {
    narrow a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, a4 = {0}, a5 = {0}, a6 = {0}, a7 = {0};
    for (int z = 0; z < r->tile->depth; z++) {
        const short *start = r->starts->at[z] + (r->ray - 3 - r->starts->base);
        const int *rays = r->weights->ray + z * TILE_X;
        const float(*weight)[8] = r->weights->weight + z * TILE_X;
        const float *row = r->coefficients + (size_t)z * r->row;
        for (int x = start[0]; x < start[4]; x++) {
            const narrow *c = (const narrow *)(row + (size_t)x * LANES);
            float q = weight[x][r->ray - rays[x]];
            a0 += q * c[0], a1 += q * c[1], a2 += q * c[2], a3 += q * c[3];
            a4 += q * c[4], a5 += q * c[5], a6 += q * c[6], a7 += q * c[7];
        }
    }
    narrow *t = (narrow *)to;
    t[0] += a0, t[1] += a1, t[2] += a2, t[3] += a3;
    t[4] += a4, t[5] += a5, t[6] += a6, t[7] += a7;
}

static bool has_wide_vectors(void) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ICESTREAM_NO_MULTIVERSION)
    return __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

void tomography_tile_project(const struct tomography_setup *s, const struct tomography_tile *tile,
                             const struct tomography_tile_weights *weights, const struct tomography_starts *starts,
                             const float *coefficients, float *rays0, float *rays1) {
    struct one_ray r = {tile, weights, starts, coefficients, (size_t)s->nx * LANES, 0};
    bool is_wide = has_wide_vectors();
    for (r.ray = starts->least; r.ray <= starts->most; r.ray++) {
        size_t at = (size_t)r.ray * LANES;
        if (!s->halo) {
            project_alone(&r, rays0 + at);
        } else if (is_wide) {
            project_wide(&r, rays0 + at, rays1 + at);
        } else {
            project_narrow(&r, rays0 + at, rays1 + at);
            r.coefficients += LANES / 2;
            project_narrow(&r, rays0 + at + LANES / 2, rays1 + at + LANES / 2);
            r.coefficients -= LANES / 2;
        }
    }
}

/* A row of voxels; sums [x][2][lane]. */
MULTIVERSION static void back_project_wide(const int *ray, const float (*weight)[8], int width, const float *rays,
                                           float *sums) {
    for (int x = 0; x < width; x++) {
        wide *to = (wide *)(sums + (size_t)x * 2 * LANES);
        wide a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], b0 = to[4], b1 = to[5], b2 = to[6], b3 = to[7];
        const wide *r = (const wide *)(rays + (size_t)ray[x] * LANES);
        for (int k = 0; k < 4; k++, r += 4) {
            float q0 = weight[x][k], q1 = weight[x][4 + k];
            a0 += q0 * r[0], a1 += q0 * r[1], a2 += q0 * r[2], a3 += q0 * r[3];
            b0 += q1 * r[0], b1 += q1 * r[1], b2 += q1 * r[2], b3 += q1 * r[3];
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[4] = b0, to[5] = b1, to[6] = b2, to[7] = b3;
    }
}

MULTIVERSION static void back_project_narrow(const int *ray, const float (*weight)[8], int width, const float *rays,
                                             float *sums) {
    for (int x = 0; x < width; x++) {
        narrow *to = (narrow *)(sums + (size_t)x * 2 * LANES);
        narrow a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], b0 = to[8], b1 = to[9], b2 = to[10], b3 = to[11];
        const narrow *r = (const narrow *)(rays + (size_t)ray[x] * LANES);
        for (int k = 0; k < 4; k++, r += 8) {
            float q0 = weight[x][k], q1 = weight[x][4 + k];
            a0 += q0 * r[0], a1 += q0 * r[1], a2 += q0 * r[2], a3 += q0 * r[3];
            b0 += q1 * r[0], b1 += q1 * r[1], b2 += q1 * r[2], b3 += q1 * r[3];
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[8] = b0, to[9] = b1, to[10] = b2, to[11] = b3;
    }
}

MULTIVERSION static void back_project_alone(const int *ray, const float (*weight)[8], int width, const float *rays,
                                            float *sums) {
    for (int x = 0; x < width; x++) {
        narrow *to = (narrow *)(sums + (size_t)x * 2 * LANES);
        narrow a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], a4 = to[4], a5 = to[5], a6 = to[6], a7 = to[7];
        const narrow *r = (const narrow *)(rays + (size_t)ray[x] * LANES);
        for (int k = 0; k < 4; k++, r += 8) {
            float q = weight[x][k];
            a0 += q * r[0], a1 += q * r[1], a2 += q * r[2], a3 += q * r[3];
            a4 += q * r[4], a5 += q * r[5], a6 += q * r[6], a7 += q * r[7];
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[4] = a4, to[5] = a5, to[6] = a6, to[7] = a7;
    }
}

void tomography_tile_back_project(const struct tomography_setup *s, const struct tomography_tile *tile,
                                  const struct tomography_tile_weights *w, const float *rays, float *sums) {
    bool is_wide = has_wide_vectors();
    for (int z = 0; z < tile->depth; z++) {
        const int *ray = w->ray + z * TILE_X;
        const float(*weight)[8] = w->weight + z * TILE_X;
        float *to = sums + (size_t)z * TILE_X * 2 * LANES;
        if (!s->halo) {
            back_project_alone(ray, weight, tile->width, rays, to);
        } else if (is_wide) {
            back_project_wide(ray, weight, tile->width, rays, to);
        } else {
            back_project_narrow(ray, weight, tile->width, rays, to);
            back_project_narrow(ray, weight, tile->width, rays + LANES / 2, to + LANES / 2);
        }
    }
}
