#include "kernels/local_resolution/local_resolution_cuda.h"

#include "kernels/fourier/cufft.cuh"
#include "kernels/local_resolution/local_resolution_private.h"

namespace {

enum { THREADS = 128, PRODUCTS = 3, SUM = 0, COUNT, TERMS };

__device__ inline int frequency(int index, int box) {
    return index <= box / 2 ? index : index - box;
}

/* Sums one shell of one plane z per block. Shell s holds s² − s < k² ≤ s² + s. Columns other than the first and the last
 * count twice, for their conjugates. */
__global__ void plane_power(int box, const float2 *a, const float2 *b, double *ret_sums) {
    int s = (int)blockIdx.x, z = (int)blockIdx.y, kz = frequency(z, box);
    double sums[TERMS] = {0, 0};
    for (int y = (int)threadIdx.x; y < box; y += THREADS) {
        int ky = frequency(y, box), rest = ky * ky + kz * kz, most = s * s + s - rest;
        int first = s == 0 ? 0 : root_above(s * s - s + 1 - rest), last = most < 0 ? -1 : root_below(most);
        size_t row = ((size_t)z * box + y) * (size_t)(box / 2 + 1);
        for (int x = first; x <= last && x <= box / 2; x++) {
            double copies = x == 0 || 2 * x == box ? 1 : 2;
            double are = (double)a[row + x].x, aim = (double)a[row + x].y;
            double bre = (double)b[row + x].x, bim = (double)b[row + x].y;
            sums[SUM] += copies * (are * are + aim * aim + bre * bre + bim * bim);
            sums[COUNT] += 2 * copies;
        }
    }
    for (int t = 0; t < TERMS; t++) {
        double sum = block_sum(sums[t]);
        if (threadIdx.x == 0) ret_sums[((size_t)z * gridDim.x + s) * TERMS + t] = sum;
    }
}

/* Computes one shell per block. */
__global__ void mean_power(const double *sums, int planes, double *ret_power) {
    double totals[TERMS] = {0, 0};
    for (int t = 0; t < TERMS; t++) {
        for (int z = (int)threadIdx.x; z < planes; z += THREADS)
            totals[t] += sums[((size_t)z * gridDim.x + blockIdx.x) * TERMS + t];
        totals[t] = block_sum(totals[t]);
    }
    if (threadIdx.x == 0) ret_power[blockIdx.x] = totals[COUNT] > 0 ? totals[SUM] / totals[COUNT] : 0;
}

__global__ void cut(int box, const float2 *from, const float *gains, double last, int grid, float2 *to) {
    int x = (int)(blockIdx.x * THREADS + threadIdx.x), y = (int)blockIdx.y, z = (int)blockIdx.z;
    if (x > grid / 2) return;
    int ky = frequency(y, grid), kz = frequency(z, grid), r2 = x * x + ky * ky + kz * kz;
    float2 value = make_float2(0, 0);
    if ((double)r2 <= (last + 1) * (last + 1)) {
        size_t row = (size_t)(kz < 0 ? kz + box : kz) * box + (size_t)(ky < 0 ? ky + box : ky);
        float gain = gains[(int)(sqrtf((float)r2) * LOCAL_FINE + 0.5f)];
        value = from[row * (size_t)(box / 2 + 1) + x];
        value.x *= gain;
        value.y *= gain;
    }
    to[((size_t)z * grid + y) * (size_t)(grid / 2 + 1) + x] = value;
}

/* One position of one row per thread. */
__global__ void products(int grid, const float *a, const float *b, local_cuda_taps taps, float *lines) {
    size_t rows = (size_t)grid * grid, at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= rows * taps.points) return;
    int point = (int)(at % taps.points), x = taps.starts[point];
    const float *weights = taps.weights + (size_t)point * taps.length;
    size_t row = at / taps.points * grid;
    float sums[PRODUCTS] = {0, 0, 0};
    for (int j = 0; j < taps.length; j++) {
        float va = a[row + x], vb = b[row + x], weight = weights[j];
        sums[0] += weight * (va * vb);
        sums[1] += weight * (va * va);
        sums[2] += weight * (vb * vb);
        x = x + 1 < grid ? x + 1 : 0;
    }
    for (int q = 0; q < PRODUCTS; q++)
        lines[(size_t)q * rows * taps.points + at] = sums[q];
}

__global__ void weigh(size_t outer, int line, size_t inner, const float *in, local_cuda_taps taps, float *out) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= outer * taps.points * inner) return;
    size_t column = at % inner, rest = at / inner;
    int point = (int)(rest % taps.points), place = taps.starts[point];
    const float *weights = taps.weights + (size_t)point * taps.length;
    const float *values = in + rest / taps.points * line * inner + column;
    float sum = 0;
    for (int j = 0; j < taps.length; j++) {
        sum += weights[j] * values[(size_t)place * inner];
        place = place + 1 < line ? place + 1 : 0;
    }
    out[at] = sum;
}

__global__ void divide(size_t count, float *field) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    float scale = sqrtf(field[count + at]) * sqrtf(field[2 * count + at]);
    field[at] = scale > 0 ? field[at] / scale : 0;
}

__device__ inline float between(float a, float b, float share) {
    return a + share * (b - a);
}

__global__ void cross(int box, int points, const float *field, float from, float to, float *before, float *shells,
                      unsigned long long *left) {
    int x = (int)(blockIdx.x * THREADS + threadIdx.x), y = (int)blockIdx.y, z = (int)blockIdx.z;
    size_t voxel = ((size_t)z * box + y) * box + x;
    bool remains = false;
    if (x < box && !(shells[voxel] > 0)) {
        double scale = (double)(points - 1) / box;
        int ix = (int)(x * scale), iy = (int)(y * scale), iz = (int)(z * scale);
        float dx = (float)(x * scale - ix), dy = (float)(y * scale - iy), dz = (float)(z * scale - iz);
        size_t row = points, plane = row * points;
        const float *corner = field + (size_t)iz * plane + (size_t)iy * row + ix;
        float ends[2];
        for (int i = 0; i < 2; i++)
            ends[i] = between(between(corner[i], corner[plane + i], dz),
                              between(corner[row + i], corner[plane + row + i], dz), dy);
        float now = between(ends[0], ends[1], dx);
        if (now < LOCAL_THRESHOLD)
            shells[voxel] =
                from + (to > from ? (before[voxel] - LOCAL_THRESHOLD) / (before[voxel] - now) : 0) * (to - from);
        else
            remains = true;
        before[voxel] = now;
    }
    int count = __syncthreads_count(remains);
    if (threadIdx.x == 0 && count > 0) atomicAdd(left, (unsigned long long)count);
}

__global__ void close_rest(size_t count, float most, float *shells) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count && !(shells[at] > 0 && shells[at] < most)) shells[at] = most;
}

__global__ void mean(size_t count, float *a, const float *b) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) a[at] = 0.5f * (a[at] + b[at]);
}

__device__ inline float ramp(float share) {
    return share > 0 ? share : 0;
}

/* The share is local_share's. */
__global__ void blend(size_t count, float before, float level, float after, const float *shells, const float *map,
                      float *out) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float at = shells[i], share;
    if (at < level)
        share = before < level ? ramp((at - before) / (level - before)) : 1;
    else
        share = after > level ? ramp((after - at) / (after - level)) : 1;
    out[i] += share * map[i];
}

__global__ void invert(size_t count, float length, float *shells) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) shells[at] = length / shells[at];
}

size_t cube(int side) {
    return (size_t)side * side * side;
}

} // namespace

extern "C" size_t local_cuda_scratch(int box) {
    return (size_t)box * (size_t)(box / 2 + 1) * TERMS * sizeof(double);
}

extern "C" enum status local_cuda_power(int box, const float *a, const float *b, void *scratch, double *ret_power,
                                        void *stream, struct err *err) {
    unsigned shells = (unsigned)box / 2 + 1;
    plane_power<<<dim3(shells, (unsigned)box), THREADS, 0, (cudaStream_t)stream>>>(
        box, (const float2 *)a, (const float2 *)b, (double *)scratch);
    mean_power<<<shells, THREADS, 0, (cudaStream_t)stream>>>((const double *)scratch, box, ret_power);
    CUDA_TRY(cudaGetLastError(), err, "measuring the power of maps");
    return STATUS_OK;
}

extern "C" enum status local_cuda_cut(int box, const float *from, const float *gains, double last, int grid, float *to,
                                      void *stream, struct err *err) {
    dim3 blocks(blocks_for((size_t)grid / 2 + 1, THREADS), (unsigned)grid, (unsigned)grid);
    cut<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(box, (const float2 *)from, gains, last, grid, (float2 *)to);
    CUDA_TRY(cudaGetLastError(), err, "cutting a band out of a map");
    return STATUS_OK;
}

extern "C" enum status local_cuda_products(int grid, const float *a, const float *b, const struct local_cuda_taps *taps,
                                           float *ret_lines, void *stream, struct err *err) {
    size_t count = (size_t)grid * grid * taps->points;
    products<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(grid, a, b, *taps, ret_lines);
    CUDA_TRY(cudaGetLastError(), err, "correlating in windows");
    return STATUS_OK;
}

extern "C" enum status local_cuda_weigh(size_t outer, int line, size_t inner, const float *in,
                                        const struct local_cuda_taps *taps, float *out, void *stream, struct err *err) {
    size_t count = outer * taps->points * inner;
    weigh<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(outer, line, inner, in, *taps, out);
    CUDA_TRY(cudaGetLastError(), err, "summing in windows");
    return STATUS_OK;
}

extern "C" enum status local_cuda_divide(size_t count, float *field, void *stream, struct err *err) {
    divide<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, field);
    CUDA_TRY(cudaGetLastError(), err, "correlating in windows");
    return STATUS_OK;
}

extern "C" enum status local_cuda_cross(int box, int points, const float *field, float from, float to, float *before,
                                        float *shells, unsigned long long *left, void *stream, struct err *err) {
    dim3 blocks(blocks_for((size_t)box, THREADS), (unsigned)box, (unsigned)box);
    cross<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(box, points, field, from, to, before, shells, left);
    CUDA_TRY(cudaGetLastError(), err, "finding the local resolution");
    return STATUS_OK;
}

extern "C" enum status local_cuda_close(int box, float last_shell, float *shells, void *stream, struct err *err) {
    close_rest<<<blocks_for(cube(box), THREADS), THREADS, 0, (cudaStream_t)stream>>>(cube(box), last_shell, shells);
    CUDA_TRY(cudaGetLastError(), err, "finding the local resolution");
    return STATUS_OK;
}

extern "C" enum status local_cuda_mean(size_t count, float *a, const float *b, void *stream, struct err *err) {
    mean<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, a, b);
    CUDA_TRY(cudaGetLastError(), err, "averaging half maps");
    return STATUS_OK;
}

extern "C" enum status local_cuda_blend(int box, float before, float at, float after, const float *shells,
                                        const float *map, float *out, void *stream, struct err *err) {
    blend<<<blocks_for(cube(box), THREADS), THREADS, 0, (cudaStream_t)stream>>>(cube(box), before, at, after, shells,
                                                                                map, out);
    CUDA_TRY(cudaGetLastError(), err, "filtering by the local resolution");
    return STATUS_OK;
}

extern "C" enum status local_cuda_resolution(int box, float length, float *shells, void *stream, struct err *err) {
    invert<<<blocks_for(cube(box), THREADS), THREADS, 0, (cudaStream_t)stream>>>(cube(box), length, shells);
    CUDA_TRY(cudaGetLastError(), err, "finding the local resolution");
    return STATUS_OK;
}
