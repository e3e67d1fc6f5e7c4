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

/* At (x, y, z) of the grid about its origin, within GRID_PAD r_max of it. Where the point lies in the half that is not
 * stored (x < 0), the conjugate of the opposite one. */
__device__ static inline float2 grid_value(const struct grid_cuda &g, float x, float y, float z) {
    float turn = x < 0 ? -1.0f : 1.0f;
    x *= turn, y *= turn, z *= turn;
    /* Made positive, where truncation is the floor. */
    int gx = (int)x, gy = (int)(y + (float)g.reach), gz = g.dimensions == 3 ? (int)(z + (float)g.reach) : 0;
    float fx = x - (float)gx, fy = y - (float)(gy - g.reach), fz = z - (float)(gz - g.reach);
    const float2 *at = (const float2 *)g.values + ((size_t)gz * g.ny + gy) * g.nx + gx;
    float2 low = grid_plane(at, g.nx, fx, fy);
    if (g.dimensions == 3) low = grid_between(low, grid_plane(at + (size_t)g.ny * g.nx, g.nx, fx, fy), fz);
    return make_float2(low.x, turn * low.y);
}

/* m: rows 0 and 1 of the slice's matrix times GRID_PAD. Beyond r_max: 0. */
__device__ static inline float2 grid_sample(const struct grid_cuda &g, const float m[6], int kx, int ky) {
    if (kx * kx + ky * ky > g.r_max * g.r_max) return make_float2(0, 0);
    float u = (float)kx, v = (float)ky;
    return grid_value(g, m[0] * u + m[3] * v, m[1] * u + m[4] * v, m[2] * u + m[5] * v);
}

#endif
