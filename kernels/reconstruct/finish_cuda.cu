/* Prepares sums for a map and correlates them: finish_cpu.c on a CUDA device. */
#include "kernels/reconstruct/accumulator.cuh"
#include "kernels/reconstruct/accumulator_private.h"

namespace {

enum { PAD = ACCUMULATOR_PAD, THREADS = 256, ROW_THREADS = 32, ROWS = 8, FSC_THREADS = 64 };

/* Joins (0, y, z) and (0, −y, −z): one point that was written to in two places. */
__global__ void join_pairs(accumulator_cuda all) {
    accumulator_cuda a = accumulator_of(all, (int)blockIdx.z);
    int y = (int)(blockIdx.x * THREADS + threadIdx.x) - a.reach, z = (int)blockIdx.y;
    if (y > a.reach || (z == 0 && y < 0)) return;
    double2 *p = accumulator_at(a, z, y), *q = accumulator_at(a, -z, -y), pv = p[0], qv = q[0];
    double2 sum = make_double2(pv.x + qv.x, pv.y - qv.y), weight = make_double2(p[1].x + q[1].x, 0);
    q[0] = make_double2(sum.x, -sum.y);
    q[1] = weight;
    p[0] = sum;
    p[1] = weight;
}

/* Copies the values that the operators read, at three eighths of the memory traffic of the sums. */
__global__ void copy_samples(const double2 *voxels, size_t count, float2 *values, float *weights) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    double2 value = voxels[2 * at];
    values[at] = make_float2((float)value.x, (float)value.y);
    weights[at] = (float)voxels[2 * at + 1].x;
}

__device__ inline float3 corner(const float2 *values, const float *weights, size_t at) {
    float2 value = values[at];
    return make_float3(value.x, value.y, weights[at]);
}

__device__ inline float3 lerp(float3 a, float3 b, float f) {
    return make_float3(a.x + f * (b.x - a.x), a.y + f * (b.y - a.y), a.z + f * (b.z - a.z));
}

/* Returns one voxel rotated by one operator. */
__device__ inline float3 rotated(const accumulator_cuda &a, const float2 *values, const float *weights, const double *m,
                                 int z, int y, int x) {
    float px = (float)m[0] * x + (float)(m[1] * y + m[2] * z), py = (float)m[3] * x + (float)(m[4] * y + m[5] * z);
    float pz = (float)m[6] * x + (float)(m[7] * y + m[8] * z), turn = px < 0 ? -1.0f : 1.0f, reach = (float)a.reach;
    px *= turn, py *= turn, pz *= turn;
    int gx = (int)px, gy = (int)(py + reach), gz = (int)(pz + reach);
    float fx = px - (float)gx, fy = py - (float)(gy - a.reach), fz = pz - (float)(gz - a.reach);
    size_t row = (size_t)a.nx, plane = row * a.ny, at = gz * plane + gy * row + gx;
    float3 c[4];
    for (int i = 0; i < 4; i++) {
        size_t low = at + (i & 1 ? row : 0) + (i & 2 ? plane : 0);
        c[i] = lerp(corner(values, weights, low), corner(values, weights, low + 1), fx);
    }
    float3 sum = lerp(lerp(c[0], c[1], fy), lerp(c[2], c[3], fy), fz);
    return make_float3(sum.x, turn * sum.y, sum.z);
}

__global__ void sum_operators(accumulator_cuda a, const float2 *values, const float *weights, const double *matrices,
                              int count) {
    int x = (int)(blockIdx.x * ROW_THREADS + threadIdx.x), y = (int)(blockIdx.y * ROWS + threadIdx.y) - a.reach;
    int z = (int)blockIdx.z - a.reach, limit = PAD * a.r_max;
    if (x >= a.nx || y > a.reach) return;
    double re = 0, im = 0, weight = 0;
    if (x * x + y * y + z * z <= limit * limit)
        for (int i = 0; i < count; i++) {
            float3 value = rotated(a, values, weights, matrices + 9 * i, z, y, x);
            re += value.x;
            im += value.y;
            weight += value.z;
        }
    double2 *out = accumulator_at(a, z, y) + 2 * x;
    out[0] = make_double2(re, im);
    out[1] = make_double2(weight, 0);
}

/* Combines two sums. join: both become their mean within the limit; otherwise a += b at all voxels of both. */
__global__ void combine(accumulator_cuda a, accumulator_cuda b, int limit, int depth, bool join) {
    int x = (int)(blockIdx.x * ROW_THREADS + threadIdx.x), y = (int)(blockIdx.y * ROWS + threadIdx.y) - limit;
    int z = (int)blockIdx.z - depth;
    if (x > limit || y > limit || (join && x * x + y * y + z * z > limit * limit)) return;
    double2 *p = accumulator_at(a, z, y) + 2 * x, *q = accumulator_at(b, z, y) + 2 * x;
    for (int i = 0; i < 2; i++) {
        double2 sum = make_double2(p[i].x + q[i].x, p[i].y + q[i].y);
        if (join) sum = q[i] = make_double2(0.5 * sum.x, 0.5 * sum.y);
        p[i] = sum;
    }
}

/* Finds the padded points that belong to a point k of the unpadded grid: those for which ROUND(i / PAD) is k. */
__device__ inline int2 children(int k, int limit) {
    int magnitude = k < 0 ? -k : k;
    int near = magnitude == 0 ? 0 : PAD * magnitude - 1, far = PAD * magnitude < limit ? PAD * magnitude : limit;
    return k < 0 ? make_int2(-far, -near) : make_int2(near, far);
}

/* Computes data over weight of the children; returns false without weight. */
__device__ inline bool sum_children(const accumulator_cuda &a, int2 z, int2 y, int2 x, int limit, double2 *ret) {
    double2 sum = make_double2(0, 0);
    double weight = 0;
    for (int iz = z.x; iz <= z.y; iz++)
        for (int iy = y.x; iy <= y.y; iy++) {
            const double2 *row = accumulator_at(a, iz, iy);
            for (int ix = x.x; ix <= x.y; ix++) {
                if (ix * ix + iy * iy + iz * iz > limit * limit) continue;
                double2 value = row[2 * ix];
                sum.x += value.x, sum.y += value.y;
                weight += row[2 * ix + 1].x;
            }
        }
    if (weight <= 0) return false;
    *ret = make_double2(sum.x / weight, sum.y / weight);
    return true;
}

/* Correlates one shell of one plane per block: ret_sums[plane][shell][3]. Shell s holds the squared radii s² − s + 1 ..
 * s² + s. */
__global__ void correlate(accumulator_cuda all, accumulator_cuda others, int r_max, int depth, double *ret_sums) {
    accumulator_cuda a = accumulator_of(all, (int)blockIdx.z), b = accumulator_of(others, (int)blockIdx.z);
    int s = (int)blockIdx.x, kz = (int)blockIdx.y - depth, limit = PAD * r_max;
    double sums[3] = {0, 0, 0};
    for (int ky = (int)threadIdx.x - s; ky <= s; ky += FSC_THREADS) {
        int rest = ky * ky + kz * kz, most = min(s * s + s, r_max * r_max) - rest;
        int first = root_above(s == 0 ? 0 : s * s - s + 1 - rest), last = most < 0 ? -1 : root_below(most);
        for (int kx = first; kx <= last; kx++) {
            double2 p, q;
            int2 x = children(kx, limit), y = children(ky, limit), z = children(kz, limit);
            if (!sum_children(a, z, y, x, limit, &p) || !sum_children(b, z, y, x, limit, &q)) continue;
            sums[0] += p.x * q.x + p.y * q.y;
            sums[1] += p.x * p.x + p.y * p.y;
            sums[2] += q.x * q.x + q.y * q.y;
        }
    }
    for (int i = 0; i < 3; i++) {
        double sum = block_sum(sums[i]);
        size_t plane = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
        if (threadIdx.x == 0) ret_sums[(plane * gridDim.x + s) * 3 + i] = sum;
    }
}

/* Computes one shell of one reference per block, over planes in a fixed order. Shells beyond the limit are 0, the
 * origin is 1. */
__global__ void divide(const double *all, int planes, int shells, float *ret_fsc) {
    const double *sums = all + (size_t)blockIdx.y * planes * shells * 3;
    int s = (int)blockIdx.x;
    double total[3] = {0, 0, 0};
    if (s < shells)
        for (int i = 0; i < 3; i++) {
            for (int plane = (int)threadIdx.x; plane < planes; plane += THREADS)
                total[i] += sums[((size_t)plane * shells + s) * 3 + i];
            total[i] = block_sum(total[i]);
        }
    if (threadIdx.x > 0) return;
    double scale = sqrt(total[1] * total[2]);
    ret_fsc[(size_t)blockIdx.y * gridDim.x + s] = s == 0 ? 1 : scale > 0 ? (float)(total[0] / scale) : 0;
}

size_t voxel_count(const accumulator_cuda *a) {
    return (size_t)a->nx * a->ny * a->nz;
}

int least(int a, int b) {
    return a < b ? a : b;
}

enum status run_combine(const accumulator_cuda *a, const accumulator_cuda *b, int limit, bool join, void *stream,
                        struct err *err) {
    int depth = a->dimensions == 3 ? limit : 0;
    dim3 blocks(blocks_for((size_t)limit + 1, ROW_THREADS), blocks_for(2 * (size_t)limit + 1, ROWS),
                2 * (unsigned)depth + 1);
    FAIL_IF(a->dimensions != b->dimensions, err, STATUS_BAD_ARGUMENT, "sums in %d and %d dimensions cannot be joined",
            a->dimensions, b->dimensions);
    combine<<<blocks, dim3(ROW_THREADS, ROWS), 0, (cudaStream_t)stream>>>(*a, *b, limit, depth, join);
    CUDA_TRY(cudaGetLastError(), err, "joining sums");
    return STATUS_OK;
}

bool has_operators(const struct symmetry *symmetry) {
    return symmetry != NULL && symmetry->count > 1;
}

enum status same_size(const accumulator_cuda *a, const struct accumulator *host, struct err *err) {
    FAIL_IF(a->dimensions != host->dimensions || a->box != host->box || a->r_max != host->r_max, err,
            STATUS_BAD_ARGUMENT, "sums of %d px, to %d px of a box of %d, are not of %d px, to %d px of a box of %d",
            a->nx, a->r_max, a->box, host->nx, host->r_max, host->box);
    return STATUS_OK;
}

} // namespace

extern "C" struct accumulator_cuda accumulator_cuda_shape(int dimensions, int box, int size) {
    int r_max = size / 2, reach = PAD * r_max + 1, ny = 2 * reach + 1;
    struct accumulator_cuda a = {NULL, dimensions, box, r_max, reach, reach + 1, ny, dimensions == 3 ? ny : 1, 1};
    return a;
}

extern "C" size_t accumulator_cuda_bytes(const struct accumulator_cuda *a) {
    return (size_t)a->count * voxel_count(a) * 4 * sizeof(double);
}

extern "C" enum status accumulator_cuda_put(const struct accumulator_cuda *to, const struct accumulator *from,
                                            void *stream, struct err *err) {
    TRY(same_size(to, from, err));
    CUDA_TRY(cudaMemcpyAsync(to->voxels, from->voxels, accumulator_cuda_bytes(to), cudaMemcpyHostToDevice,
                             (cudaStream_t)stream),
             err, "copying sums");
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)stream), err, "copying sums");
    return STATUS_OK;
}

extern "C" enum status accumulator_cuda_get(const struct accumulator_cuda *from, struct accumulator *to, void *stream,
                                            struct err *err) {
    TRY(same_size(from, to, err));
    CUDA_TRY(cudaMemcpyAsync(to->voxels, from->voxels, accumulator_cuda_bytes(from), cudaMemcpyDeviceToHost,
                             (cudaStream_t)stream),
             err, "copying sums");
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)stream), err, "copying sums");
    return STATUS_OK;
}

extern "C" size_t accumulator_cuda_finish_scratch(const struct accumulator_cuda *a,
                                                  const struct symmetry *symmetry_or_null) {
    if (!has_operators(symmetry_or_null)) return 0;
    return aligned(voxel_count(a) * sizeof(float2)) + aligned(voxel_count(a) * sizeof(float)) +
           aligned((size_t)symmetry_or_null->count * 9 * sizeof(double));
}

extern "C" enum status accumulator_cuda_finish(const struct accumulator_cuda *a,
                                               const struct symmetry *symmetry_or_null, void *scratch,
                                               void *cuda_stream, struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    FAIL_IF(a->dimensions == 2 && has_operators(symmetry_or_null), err, STATUS_BAD_ARGUMENT,
            "symmetry %s cannot be applied to a 2D reconstruction", symmetry_or_null->name);
    int depth = a->dimensions == 3 ? a->reach : 0;
    join_pairs<<<dim3(blocks_for((size_t)a->ny, THREADS), (unsigned)depth + 1, (unsigned)a->count), THREADS, 0,
                 stream>>>(*a);
    CUDA_TRY(cudaGetLastError(), err, "joining conjugate pairs");
    if (!has_operators(symmetry_or_null)) return STATUS_OK;
    size_t count = voxel_count(a);
    float2 *values = (float2 *)scratch;
    float *weights = (float *)((char *)scratch + aligned(count * sizeof(float2)));
    double *matrices = (double *)((char *)weights + aligned(count * sizeof(float)));
    CUDA_TRY(cudaMemcpyAsync(matrices, symmetry_or_null->matrices, (size_t)symmetry_or_null->count * 9 * sizeof(double),
                             cudaMemcpyHostToDevice, stream),
             err, "copying operators of symmetry");
    copy_samples<<<blocks_for(count, THREADS), THREADS, 0, stream>>>((const double2 *)a->voxels, count, values,
                                                                     weights);
    dim3 blocks(blocks_for((size_t)a->nx, ROW_THREADS), blocks_for((size_t)a->ny, ROWS), (unsigned)a->nz);
    sum_operators<<<blocks, dim3(ROW_THREADS, ROWS), 0, stream>>>(*a, values, weights, matrices,
                                                                  symmetry_or_null->count);
    CUDA_TRY(cudaGetLastError(), err, "summing over operators of symmetry");
    return STATUS_OK;
}

extern "C" enum status accumulator_cuda_merge(const struct accumulator_cuda *a, const struct accumulator_cuda *b,
                                              void *stream, struct err *err) {
    return run_combine(a, b, least(a->reach, b->reach), false, stream, err);
}

extern "C" enum status accumulator_cuda_join_shells(const struct accumulator_cuda *a, const struct accumulator_cuda *b,
                                                    int shells, void *stream, struct err *err) {
    return run_combine(a, b, least(PAD * shells, least(a->reach, b->reach)), true, stream, err);
}

extern "C" size_t accumulator_cuda_fsc_scratch(const struct accumulator_cuda *a, const struct accumulator_cuda *b) {
    size_t r_max = (size_t)least(a->r_max, b->r_max);
    return (size_t)a->count * (2 * r_max + 1) * (r_max + 1) * 3 * sizeof(double);
}

extern "C" enum status accumulator_cuda_fsc(const struct accumulator_cuda *a, const struct accumulator_cuda *b,
                                            void *scratch, float *ret_fsc, void *stream, struct err *err) {
    FAIL_IF(a->box != b->box || a->dimensions != b->dimensions || a->count != b->count, err, STATUS_BAD_ARGUMENT,
            "halves with boxes of %d and %d px cannot be correlated", a->box, b->box);
    int r_max = least(a->r_max, b->r_max), depth = a->dimensions == 3 ? r_max : 0, planes = 2 * depth + 1;
    unsigned count = (unsigned)a->count;
    correlate<<<dim3((unsigned)r_max + 1, (unsigned)planes, count), FSC_THREADS, 0, (cudaStream_t)stream>>>(
        *a, *b, r_max, depth, (double *)scratch);
    divide<<<dim3((unsigned)a->box / 2 + 1, count), THREADS, 0, (cudaStream_t)stream>>>((const double *)scratch, planes,
                                                                                        r_max + 1, ret_fsc);
    CUDA_TRY(cudaGetLastError(), err, "correlating halves");
    return STATUS_OK;
}
