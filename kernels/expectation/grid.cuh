/* Values of a prepared reference between its grid points, for .cu files: interpolation as in kernels/projector, by the
 * same rules, in full precision. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_GRID_CUH
#define ICESTREAM_KERNELS_EXPECTATION_GRID_CUH

#include "kernels/expectation/expectation_cuda.h"

/* Grid points per pixel. */
enum { GRID_PAD = 2 };

/* The functions below fix which products are fused with which sums: a value is the same to the last bit whether it
 * comes from a reference, from its quads or from stored slices. */
__device__ static inline float2 grid_between(float2 a, float2 b, float f) {
    return make_float2(fmaf(f, b.x - a.x, a.x), fmaf(f, b.y - a.y, a.y));
}

/* Interpolates a cell from quads. a: the value and its change in y; b: the change of both in z. */
__device__ static inline float2 grid_quad(float4 a, float4 b, float fy, float fz) {
    float both = fy * fz;
    return make_float2(fmaf(both, b.z, fmaf(fz, b.x, fmaf(fy, a.z, a.x))),
                       fmaf(both, b.w, fmaf(fz, b.y, fmaf(fy, a.w, a.y))));
}

/* Makes a quad as grid_quads_cuda does, from the values at a point and one further in y, in z, and in both. */
__device__ static inline void grid_quad_of(float2 at, float2 y, float2 z, float2 yz, float4 *ret_a, float4 *ret_b) {
    *ret_a = make_float4(at.x, at.y, y.x - at.x, y.y - at.y);
    *ret_b = make_float4(z.x - at.x, z.y - at.y, (yz.x - z.x) - (y.x - at.x), (yz.y - z.y) - (y.y - at.y));
}

/* Interpolates from the corners: from values, or from quads. */
__device__ static inline float2 grid_corners(const struct grid_cuda &g, unsigned corner, float fx, float fy, float fz) {
    const float2 *at = (const float2 *)g.values + corner;
    if (g.dimensions != 3)
        return grid_between(grid_between(__ldg(at), __ldg(at + g.nx), fy),
                            grid_between(__ldg(at + 1), __ldg(at + g.nx + 1), fy), fx);
    const float2 *up = at + (size_t)g.ny * g.nx;
    float2 side[2];
#pragma unroll
    for (int x = 0; x < 2; x++) {
        float4 a, b;
        grid_quad_of(__ldg(at + x), __ldg(at + g.nx + x), __ldg(up + x), __ldg(up + g.nx + x), &a, &b);
        side[x] = grid_quad(a, b, fy, fz);
    }
    return grid_between(side[0], side[1], fx);
}

__device__ static inline float2 grid_quad_corners(const struct grid_cuda &g, unsigned corner, float fx, float fy,
                                                  float fz) {
    const float4 *at = (const float4 *)g.quads + 2 * (size_t)corner;
    return grid_between(grid_quad(__ldg(at), __ldg(at + 1), fy, fz), grid_quad(__ldg(at + 2), __ldg(at + 3), fy, fz),
                        fx);
}

/* Place of a point: the lowest corner of its cell, the fractions beyond the corner, and turn = -1 for the conjugate of
 * the opposite point. */
struct grid_place {
    unsigned corner;
    float fx, fy, fz, turn;
};

/* Locates (x, y, z) about the origin, within GRID_PAD r_max of it. The half x < 0 is not stored. */
__device__ static inline struct grid_place grid_locate(const struct grid_cuda &g, float x, float y, float z) {
    struct grid_place p;
    p.turn = x < 0 ? -1.0f : 1.0f;
    x *= p.turn, y *= p.turn, z *= p.turn;
    /* Adding reach makes values positive, so that truncation is the floor. */
    int gx = (int)x, gy = (int)(y + (float)g.reach), gz = g.dimensions == 3 ? (int)(z + (float)g.reach) : 0;
    p.fx = x - (float)gx, p.fy = y - (float)(gy - g.reach), p.fz = z - (float)(gz - g.reach);
    p.corner = ((unsigned)gz * (unsigned)g.ny + (unsigned)gy) * (unsigned)g.nx + (unsigned)gx;
    return p;
}

/* Returns the value at a place. QUADS: from quads. */
template <bool QUADS> __device__ static inline float2 grid_value(const struct grid_cuda &g, float x, float y, float z) {
    struct grid_place p = grid_locate(g, x, y, z);
    float2 value =
        QUADS ? grid_quad_corners(g, p.corner, p.fx, p.fy, p.fz) : grid_corners(g, p.corner, p.fx, p.fy, p.fz);
    return make_float2(value.x, p.turn * value.y);
}

/* Returns one coordinate of a pixel. m_u, m_v: entries of the slice's matrix. */
__device__ static inline float grid_coordinate(float m_u, float m_v, float u, float v) {
    return fmaf(m_u, u, m_v * v);
}

/* Returns the value at a pixel; 0 beyond r_max. m: rows 0 and 1 of the slice's matrix times GRID_PAD. */
__device__ static inline float2 grid_sample(const struct grid_cuda &g, const float m[6], int kx, int ky) {
    if (kx * kx + ky * ky > g.r_max * g.r_max) return make_float2(0, 0);
    float u = (float)kx, v = (float)ky;
    float x = grid_coordinate(m[0], m[3], u, v), y = grid_coordinate(m[1], m[4], u, v);
    float z = grid_coordinate(m[2], m[5], u, v);
    return g.quads ? grid_value<true>(g, x, y, z) : grid_value<false>(g, x, y, z);
}

#endif
