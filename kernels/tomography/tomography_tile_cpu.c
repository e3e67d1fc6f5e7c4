/* The inner loops: one tile, 64 rows. */
#include <string.h>

#include "common/multiversion.h"
#include "kernels/tomography/tomography_cpu.h"

enum { LANES = TOMOGRAPHY_LANES, TILE_X = TOMOGRAPHY_TILE_X };

/* Sixteen vectors at a time if the processor has 32 registers of 512 bits. There a load takes as long as a
 * multiply-add, and the compiler would load twice what is used twice: KEEP holds it in its register. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ICESTREAM_NO_MULTIVERSION)
#define HAVE_WIDE 1
#define WIDE __attribute__((target("arch=x86-64-v4")))
#define KEEP(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#else
#define HAVE_WIDE 0
#define WIDE
#define KEEP(a, b, c, d) (void)0
#endif
typedef float wide __attribute__((vector_size(64)));
typedef float narrow __attribute__((vector_size(32)));

MULTIVERSION void tomography_tile_by_ray(const struct tomography_setup *s, const struct tomography_tile *tile,
                                         const struct tomography_tile_weights *w, struct tomography_tile_rays *ret) {
    enum { MOST = sizeof ret->from / sizeof *ret->from };
    int least = w->ray[0], most = least, at[MOST] = {0}, skip = tomography_skip(s);
    for (int z = 0; z < tile->depth; z++)
        for (int x = 0; x < tile->width; x++) {
            int ray = w->ray[z * TILE_X + x];
            least = ray < least ? ray : least;
            most = ray > most ? ray : most;
        }
    for (int z = 0; z < tile->depth; z++)
        for (int x = 0; x < tile->width; x++)
            at[w->ray[z * TILE_X + x] - least]++;
    /* A ray meets the voxels whose first ray it is, and those of the three before. */
    ret->least = least;
    ret->count = most - least + 4;
    ret->from[0] = 0;
    for (int i = 0; i < ret->count; i++) {
        ret->from[i + 1] = ret->from[i];
        for (int k = skip; k < 4 - skip && k <= i; k++)
            ret->from[i + 1] += at[i - k];
    }
    memcpy(at, ret->from, sizeof at);
    for (int z = 0; z < tile->depth; z++)
        for (int x = 0; x < tile->width; x++) {
            int first = w->ray[z * TILE_X + x] - least, voxel = z * s->nx + x;
            const float *q = w->weight[z * TILE_X + x];
            for (int k = skip; k < 4 - skip; k++)
                ret->meetings[at[first + k]++] = (struct tomography_meeting){voxel, q[k], q[4 + k]};
        }
}

/* Projects one ray of one block; every loaded coefficient serves both sums. */
WIDE static void project_wide(const struct tomography_meeting *m, const struct tomography_meeting *end,
                              const float *first, float *to0, float *to1) {
    wide *t0 = (wide *)to0, *t1 = (wide *)to1;
    wide a0 = t0[0], a1 = t0[1], a2 = t0[2], a3 = t0[3], b0 = t1[0], b1 = t1[1], b2 = t1[2], b3 = t1[3];
    for (; m < end; m++) {
        const wide *c = (const wide *)(first + (size_t)m->voxel * LANES);
        wide c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
        KEEP(c0, c1, c2, c3);
        a0 += m->q0 * c0, a1 += m->q0 * c1, a2 += m->q0 * c2, a3 += m->q0 * c3;
        b0 += m->q1 * c0, b1 += m->q1 * c1, b2 += m->q1 * c2, b3 += m->q1 * c3;
    }
    t0[0] = a0, t0[1] = a1, t0[2] = a2, t0[3] = a3;
    t1[0] = b0, t1[1] = b1, t1[2] = b2, t1[3] = b3;
}

/* The same for 16 registers of 8 floats: half the rows. */
MULTIVERSION static void project_narrow(const struct tomography_meeting *m, const struct tomography_meeting *end,
                                        const float *first, float *to0, float *to1) {
    narrow *t0 = (narrow *)to0, *t1 = (narrow *)to1;
    narrow a0 = t0[0], a1 = t0[1], a2 = t0[2], a3 = t0[3], b0 = t1[0], b1 = t1[1], b2 = t1[2], b3 = t1[3];
    for (; m < end; m++) {
        const narrow *c = (const narrow *)(first + (size_t)m->voxel * LANES);
        a0 += m->q0 * c[0], a1 += m->q0 * c[1], a2 += m->q0 * c[2], a3 += m->q0 * c[3];
        b0 += m->q1 * c[0], b1 += m->q1 * c[1], b2 += m->q1 * c[2], b3 += m->q1 * c[3];
    }
    t0[0] = a0, t0[1] = a1, t0[2] = a2, t0[3] = a3;
    t1[0] = b0, t1[1] = b1, t1[2] = b2, t1[3] = b3;
}

/* The same without q1, for any width of vector. */
MULTIVERSION static void project_alone(const struct tomography_meeting *m, const struct tomography_meeting *end,
                                       const float *first, float *to) {
    narrow *t = (narrow *)to;
    narrow a0 = t[0], a1 = t[1], a2 = t[2], a3 = t[3], a4 = t[4], a5 = t[5], a6 = t[6], a7 = t[7];
    for (; m < end; m++) {
        const narrow *c = (const narrow *)(first + (size_t)m->voxel * LANES);
        a0 += m->q0 * c[0], a1 += m->q0 * c[1], a2 += m->q0 * c[2], a3 += m->q0 * c[3];
        a4 += m->q0 * c[4], a5 += m->q0 * c[5], a6 += m->q0 * c[6], a7 += m->q0 * c[7];
    }
    t[0] = a0, t[1] = a1, t[2] = a2, t[3] = a3, t[4] = a4, t[5] = a5, t[6] = a6, t[7] = a7;
}

static bool has_wide_vectors(void) {
#if HAVE_WIDE
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

void tomography_tile_project(const struct tomography_setup *setup, const struct tomography_tile_rays *rays,
                             const float *coefficients, float *rays0, float *rays1) {
    bool is_wide = has_wide_vectors();
    int begin = rays->least < TOMOGRAPHY_PAD ? TOMOGRAPHY_PAD - rays->least : 0;
    int after = setup->nx + TOMOGRAPHY_PAD - rays->least;
    for (int i = begin; i < rays->count && i < after; i++) {
        const struct tomography_meeting *from = rays->meetings + rays->from[i],
                                        *end = rays->meetings + rays->from[i + 1];
        size_t at = (size_t)(rays->least + i) * LANES, half = LANES / 2;
        if (!setup->halo) {
            project_alone(from, end, coefficients, rays0 + at);
        } else if (is_wide) {
            project_wide(from, end, coefficients, rays0 + at, rays1 + at);
        } else {
            project_narrow(from, end, coefficients, rays0 + at, rays1 + at);
            project_narrow(from, end, coefficients + half, rays0 + at + half, rays1 + at + half);
        }
    }
}

/* A row of voxels at some tilts, so that sums are loaded and stored once for all of these tilts. */
struct some_tilts {
    int count, width;
    const int *ray[TOMOGRAPHY_TILTS];
    const float (*weight[TOMOGRAPHY_TILTS])[8];
    const float *rays[TOMOGRAPHY_TILTS];
};

/* sums [x][2][lane]. */
WIDE static void back_project_wide(const struct some_tilts *s, float *sums) {
    for (int x = 0; x < s->width; x++) {
        wide *to = (wide *)(sums + (size_t)x * 2 * LANES);
        wide a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], b0 = to[4], b1 = to[5], b2 = to[6], b3 = to[7];
        for (int t = 0; t < s->count; t++) {
            const wide *r = (const wide *)(s->rays[t] + (size_t)s->ray[t][x] * LANES);
            const float *q = s->weight[t][x];
            for (int k = 0; k < 4; k++, r += 4, q++) {
                wide r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];
                KEEP(r0, r1, r2, r3);
                a0 += q[0] * r0, a1 += q[0] * r1, a2 += q[0] * r2, a3 += q[0] * r3;
                b0 += q[4] * r0, b1 += q[4] * r1, b2 += q[4] * r2, b3 += q[4] * r3;
            }
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[4] = b0, to[5] = b1, to[6] = b2, to[7] = b3;
    }
}

MULTIVERSION static void back_project_narrow(const struct some_tilts *s, int half, float *sums) {
    for (int x = 0; x < s->width; x++) {
        narrow *to = (narrow *)(sums + (size_t)x * 2 * LANES + half);
        narrow a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], b0 = to[8], b1 = to[9], b2 = to[10], b3 = to[11];
        for (int t = 0; t < s->count; t++) {
            const narrow *r = (const narrow *)(s->rays[t] + half + (size_t)s->ray[t][x] * LANES);
            const float *q = s->weight[t][x];
            for (int k = 0; k < 4; k++, r += 8, q++) {
                a0 += q[0] * r[0], a1 += q[0] * r[1], a2 += q[0] * r[2], a3 += q[0] * r[3];
                b0 += q[4] * r[0], b1 += q[4] * r[1], b2 += q[4] * r[2], b3 += q[4] * r[3];
            }
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[8] = b0, to[9] = b1, to[10] = b2, to[11] = b3;
    }
}

MULTIVERSION static void back_project_alone(const struct some_tilts *s, int skip, float *sums) {
    for (int x = 0; x < s->width; x++) {
        narrow *to = (narrow *)(sums + (size_t)x * 2 * LANES);
        narrow a0 = to[0], a1 = to[1], a2 = to[2], a3 = to[3], a4 = to[4], a5 = to[5], a6 = to[6], a7 = to[7];
        for (int t = 0; t < s->count; t++) {
            const narrow *r = (const narrow *)(s->rays[t] + (size_t)(s->ray[t][x] + skip) * LANES);
            for (int k = skip; k < 4 - skip; k++, r += 8) {
                float q = s->weight[t][x][k];
                a0 += q * r[0], a1 += q * r[1], a2 += q * r[2], a3 += q * r[3];
                a4 += q * r[4], a5 += q * r[5], a6 += q * r[6], a7 += q * r[7];
            }
        }
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3, to[4] = a4, to[5] = a5, to[6] = a6, to[7] = a7;
    }
}

void tomography_tile_back_project(const struct tomography_setup *setup, const struct tomography_tile *tile, int tilts,
                                  const struct tomography_tile_weights *w, const float *const *rays, float *sums) {
    bool is_wide = has_wide_vectors();
    struct some_tilts s = {.count = tilts, .width = tile->width};
    for (int z = 0; z < tile->depth; z++) {
        float *to = sums + (size_t)z * TILE_X * 2 * LANES;
        for (int t = 0; t < tilts; t++) {
            s.ray[t] = w[t].ray + z * TILE_X;
            s.weight[t] = w[t].weight + z * TILE_X;
            s.rays[t] = rays[t];
        }
        if (!setup->halo) {
            back_project_alone(&s, tomography_skip(setup), to);
        } else if (is_wide) {
            back_project_wide(&s, to);
        } else {
            back_project_narrow(&s, 0, to);
            back_project_narrow(&s, LANES / 2, to);
        }
    }
}
