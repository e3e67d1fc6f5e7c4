/* Values of a prepared reference between its points, for .cu files: the interpolation of kernels/projector, by the same
 * rules, in full precision. */
#ifndef ICESTREAM_KERNELS_GRID_DEVICE_CUH
#define ICESTREAM_KERNELS_GRID_DEVICE_CUH

#include "kernels/expectation/expectation_cuda.h"

/* Points of the grid to a pixel. */
enum { GRID_PAD = 2 };

__device__ static inline float2 grid_between(float2 a, float2 b, float f) {
    return make_float2(a.x + f * (b.x - a.x), a.y + f * (b.y - a.y));
}

__device__ static inline float2 grid_plane(const float2 *at, int nx, float fx, float fy) {
    return grid_between(grid_between(__ldg(at), __ldg(at + nx), fy), grid_between(__ldg(at + 1), __ldg(at + nx + 1), fy),
                        fx);
}

/* From the corners as values and as quads have them. */
__device__ static inline float2 grid_corners(const struct grid_cuda &g, unsigned corner, float fx, float fy, float fz) {
    const float2 *at = (const float2 *)g.values + corner;
    float2 low = grid_plane(at, g.nx, fx, fy);
    if (g.dimensions == 3) low = grid_between(low, grid_plane(at + (size_t)g.ny * g.nx, g.nx, fx, fy), fz);
    return low;
}

__device__ static inline float2 grid_quad(float4 a, float4 b, float fy, float fz) {
    float both = fy * fz;
    return make_float2(a.x + fy * a.z + fz * b.x + both * b.z, a.y + fy * a.w + fz * b.y + both * b.w);
}

__device__ static inline float2 grid_quad_corners(const struct grid_cuda &g, unsigned corner, float fx, float fy, float fz) {
    const float4 *at = (const float4 *)g.quads + 2 * (size_t)corner;
    return grid_between(grid_quad(__ldg(at), __ldg(at + 1), fy, fz), grid_quad(__ldg(at + 2), __ldg(at + 3), fy, fz), fx);
}

/* Where a point lies: its cell's lowest corner, how far beyond it, and -1 where the conjugate of the opposite point is
 * meant. */
struct grid_place {
    unsigned corner;
    float fx, fy, fz, turn;
};

/* (x, y, z) about the origin, within GRID_PAD r_max of it. The half x < 0 is not stored. */
__device__ static inline struct grid_place grid_locate(const struct grid_cuda &g, float x, float y, float z) {
    struct grid_place p;
    p.turn = x < 0 ? -1.0f : 1.0f;
    x *= p.turn, y *= p.turn, z *= p.turn;
    /* Made positive, where truncation is the floor. */
    int gx = (int)x, gy = (int)(y + (float)g.reach), gz = g.dimensions == 3 ? (int)(z + (float)g.reach) : 0;
    p.fx = x - (float)gx, p.fy = y - (float)(gy - g.reach), p.fz = z - (float)(gz - g.reach);
    p.corner = ((unsigned)gz * (unsigned)g.ny + (unsigned)gy) * (unsigned)g.nx + (unsigned)gx;
    return p;
}

/* QUADS: from quads. */
template <bool QUADS> __device__ static inline float2 grid_value(const struct grid_cuda &g, float x, float y, float z) {
    struct grid_place p = grid_locate(g, x, y, z);
    float2 value = QUADS ? grid_quad_corners(g, p.corner, p.fx, p.fy, p.fz) : grid_corners(g, p.corner, p.fx, p.fy, p.fz);
    return make_float2(value.x, p.turn * value.y);
}

/* m: rows 0 and 1 of the slice's matrix times GRID_PAD. Beyond r_max: 0. */
__device__ static inline float2 grid_sample(const struct grid_cuda &g, const float m[6], int kx, int ky) {
    if (kx * kx + ky * ky > g.r_max * g.r_max) return make_float2(0, 0);
    float u = (float)kx, v = (float)ky;
    float x = m[0] * u + m[3] * v, y = m[1] * u + m[4] * v, z = m[2] * u + m[5] * v;
    return g.quads ? grid_value<true>(g, x, y, z) : grid_value<false>(g, x, y, z);
}

#endif
