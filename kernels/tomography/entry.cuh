/* Finds the rays that a voxel meets at a tilt and the voxel's weights on the rays, for each kind of matrix.
 * kernels/tomography/tomography.h defines u, q0 and q1. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_ENTRY_CUH
#define ICESTREAM_KERNELS_TOMOGRAPHY_ENTRY_CUH

#include "kernels/tomography/tomography_cuda.h"

/* Weights of a voxel on rays first .. first + 3: q0 in the voxel's own row y, q1 in rows y − 1 and y + 1. */
struct entry {
    int first;
    float4 q0, q1;
};

/* Floats of tomography_matrix_cuda.weights. */
enum { TABLE_FLOATS = 8 * (TOMOGRAPHY_STEPS + 1) };

/* Computes u − offsets[t] of voxel (x, z), px. */
static __device__ inline double centred_position(const struct tomography_matrix_cuda &m, int t, int x, int z) {
    return (x - 0.5 * (m.nx - 1)) * m.cosines[t] + (z - 0.5 * (m.nz - 1)) * m.sines[t];
}

/* Returns u of voxel (x, z) at tilt t, px. x ≥ nx and z ≥ nz are allowed; Blob-ELLR reads the last column or row for
 * such voxels. */
template <int KIND>
static __device__ inline double position(const struct tomography_matrix_cuda &m, int t, int x, int z) {
    /* At 90° all x have almost the same u; the order of x would be lost in fractions of single precision. */
    if (KIND != TOMOGRAPHY_BLOB_ELLR || m.cosines[t] < 1e-6) return centred_position(m, t, x, z) + m.offsets[t];
    x = min(x, m.nx - 1), z = min(z, m.nz - 1);
    /* Counted from the centre, (−x, z) at −θ and (−x, −z) at θ have −u. */
    bool negative = m.mirror[t];
    if (negative) x = m.nx - 1 - x;
    int n = z * m.nx + x, count = m.nx * m.nz, half = (count + 1) / 2;
    if (n >= half) n = count - 1 - n, negative = !negative;
    size_t at = (size_t)m.pair[t] * (size_t)half + (size_t)n;
    double u = (double)m.floors[at] + (double)m.fractions[at];
    return (negative ? -u : u) + m.offsets[t];
}

/* Interpolates linearly: a at part 0, b at part 1. */
static __device__ inline float4 between(float4 a, float4 b, float part) {
    return make_float4(a.x + part * (b.x - a.x), a.y + part * (b.y - a.y), a.z + part * (b.z - a.z),
                       a.w + part * (b.w - a.w));
}

/* Returns the entry of voxel (x, z) at tilt t. table: m.weights, or its copy in shared memory (copy_table). q1 is 0
 * unless COUPLED. */
template <int KIND, bool COUPLED>
static __device__ inline entry entry_of(const struct tomography_matrix_cuda &m, const float4 *table, int t, int x,
                                        int z) {
    entry e;
    e.q1 = make_float4(0, 0, 0, 0);
    if (KIND == TOMOGRAPHY_ELLR) {
        x = min(x, m.nx - 1), z = min(z, m.nz - 1);
        size_t count = (size_t)m.nx * (size_t)m.nz, at = 4 * (size_t)t * count + (size_t)z * (size_t)m.nx + (size_t)x;
        e.first = m.rays[at];
        e.q0 = make_float4(m.a0[at], m.a0[at + count], m.a0[at + 2 * count], m.a0[at + 3 * count]);
        if (COUPLED) e.q1 = make_float4(m.a1[at], m.a1[at + count], m.a1[at + 2 * count], m.a1[at + 3 * count]);
        return e;
    }
    double u = position<KIND>(m, t, x, z), whole = floor(u);
    float fraction = (float)(u - whole) * TOMOGRAPHY_STEPS;
    int step = min((int)fraction, TOMOGRAPHY_STEPS - 1);
    fraction -= (float)step;
    const float4 *row = table + 2 * step;
    e.first = (int)whole - 1;
    e.q0 = between(row[0], row[2], fraction);
    if (COUPLED) e.q1 = between(row[1], row[3], fraction);
    return e;
}

/* Copies m.weights into a table of TABLE_FLOATS in shared memory. All threads of the block call it, and synchronise
 * before the first of them reads the table. */
static __device__ inline void copy_table(const struct tomography_matrix_cuda &m, float *table) {
    for (int i = (int)threadIdx.x; i < TABLE_FLOATS; i += (int)blockDim.x)
        table[i] = m.weights[i];
}

#endif
