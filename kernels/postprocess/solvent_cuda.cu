#include "kernels/postprocess/solvent_cuda.h"

#include <math.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/fsc/soft_edge.h"

namespace {

/* Extension and edge (px) and the histogram are those of mask_cpu.c. */
enum { THREADS = 128, PLANE_THREADS = 512, EXTEND = 3, EDGE = 6, BINS = 1024 };
#define FAR 1e9f

typedef unsigned long long whole;

struct place {
    int x, y, z;
    size_t at;
    bool valid;
};

__device__ inline place place_of(int columns, int box) {
    place p;
    p.x = (int)(blockIdx.x * THREADS + threadIdx.x), p.y = (int)blockIdx.y, p.z = (int)blockIdx.z;
    p.at = ((size_t)p.z * box + p.y) * columns + p.x;
    p.valid = p.x < columns;
    return p;
}

dim3 blocks_of(int columns, int box) {
    return dim3(blocks_for((size_t)columns, THREADS), (unsigned)box, (unsigned)box);
}

__device__ inline int squared(int x, int y, int z) {
    return x * x + y * y + z * z;
}

__global__ void multiply(solvent_sphere sphere, const float *map, const float *mask, float *out) {
    place p = place_of(sphere.box, sphere.box);
    if (!p.valid) return;
    int c = sphere.box / 2;
    float value = map[p.at];
    if (sphere.radius > 0) {
        double r = sqrt((double)squared(p.x - c, p.y - c, p.z - c));
        value = (float)((1 - soft_edge_outside(r, sphere.radius, sphere.edge)) * (double)value);
    }
    out[p.at] = mask ? value * mask[p.at] : value;
}

__global__ void filter(int box, double shell, double edge, bool beyond, double factor, float2 *spectrum) {
    place p = place_of(box / 2 + 1, box);
    if (!p.valid) return;
    int ky = p.y <= box / 2 ? p.y : p.y - box, kz = p.z <= box / 2 ? p.z : p.z - box;
    double r = sqrt((double)squared(p.x, ky, kz)), keep = 0;
    if (r < shell - edge)
        keep = 1;
    else if (r < shell)
        keep = 0.5 - 0.5 * cos(M_PI * (shell - r) / edge);
    float by = (float)(factor * (beyond ? 1 - keep : keep));
    spectrum[p.at].x *= by;
    spectrum[p.at].y *= by;
}

/* Integer squares: |k| < shell + 1/2 means |k|² ≤ shell² + shell. */
__global__ void join(int box, int low, int reached, float factor, const float2 *inner, float2 *spectrum) {
    place p = place_of(box / 2 + 1, box);
    if (!p.valid) return;
    int ky = p.y <= box / 2 ? p.y : p.y - box, kz = p.z <= box / 2 ? p.z : p.z - box, r2 = squared(p.x, ky, kz);
    float2 all = spectrum[p.at], in = inner[p.at], out = make_float2(0, 0);
    if (r2 > reached * reached + reached) out = make_float2(all.x - in.x, all.y - in.y);
    if (r2 <= low * low + low) out.x += in.x, out.y += in.y;
    spectrum[p.at] = make_float2(factor * out.x, factor * out.y);
}

__global__ void subtract(int box, float *a, const float *b) {
    place p = place_of(box, box);
    if (p.valid) a[p.at] -= b[p.at];
}

/* Returns whether a voxel lies within the sphere that fills the box. */
__device__ inline bool counts(int box, int x, int y, int z) {
    int c = box / 2;
    return squared(x - c, y - c, z - c) < c * c;
}

/* Finds the smallest and largest value within the sphere, one plane per block. */
__global__ void find_extremes(int box, const float *map, float2 *ret_extremes) {
    __shared__ float least[PLANE_THREADS], most[PLANE_THREADS];
    int z = (int)blockIdx.x, t = (int)threadIdx.x;
    const float *plane = map + (size_t)z * box * box;
    least[t] = INFINITY, most[t] = -INFINITY;
    for (int i = t; i < box * box; i += PLANE_THREADS)
        if (counts(box, i % box, i / box, z)) {
            least[t] = fminf(least[t], plane[i]);
            most[t] = fmaxf(most[t], plane[i]);
        }
    for (int step = PLANE_THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (t >= step) continue;
        least[t] = fminf(least[t], least[t + step]);
        most[t] = fmaxf(most[t], most[t + step]);
    }
    if (t == 0) ret_extremes[z] = make_float2(least[0], most[0]);
}

/* Joins the extremes of all planes into those of the first. One block. */
__global__ void join_extremes(int box, float2 *extremes) {
    if (threadIdx.x != 0) return;
    float2 all = extremes[0];
    for (int z = 1; z < box; z++)
        all = make_float2(fminf(all.x, extremes[z].x), fmaxf(all.y, extremes[z].y));
    extremes[0] = all;
}

/* Counts one plane per block. Integer counts: their sum does not depend on the order. */
__global__ void count_bins(int box, const float *map, const float2 *extremes, whole *counted) {
    __shared__ unsigned count[BINS];
    int z = (int)blockIdx.x;
    const float *plane = map + (size_t)z * box * box;
    double least = (double)extremes->x, step = ((double)extremes->y - least) / BINS;
    if (!(extremes->y > extremes->x)) return;
    for (int b = (int)threadIdx.x; b < BINS; b += PLANE_THREADS)
        count[b] = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < box * box; i += PLANE_THREADS) {
        if (!counts(box, i % box, i / box, z)) continue;
        int bin = (int)(((double)plane[i] - least) / step);
        atomicAdd(&count[bin < 0 ? 0 : bin < BINS ? bin : BINS - 1], 1u);
    }
    __syncthreads();
    for (int b = (int)threadIdx.x; b < BINS; b += PLANE_THREADS)
        if (count[b] > 0) atomicAdd(&counted[b], (whole)count[b]);
}

/* Does `threshold` of mask_cpu.c. One block of BINS threads. Sums are integers below 2⁵³. */
__global__ void __launch_bounds__(BINS) choose_level(const float2 *extremes, const whole *counted, float *ret_level) {
    __shared__ double below[BINS], below_sum[BINS], below_square[BINS], between[BINS];
    int b = (int)threadIdx.x;
    double count = (double)counted[b];
    below[b] = count, below_sum[b] = count * b, below_square[b] = count * b * b;
    __syncthreads();
    for (int step = 1; step < BINS; step *= 2) {
        double more[3] = {0, 0, 0};
        if (b >= step) more[0] = below[b - step], more[1] = below_sum[b - step], more[2] = below_square[b - step];
        __syncthreads();
        below[b] += more[0], below_sum[b] += more[1], below_square[b] += more[2];
        __syncthreads();
    }
    double n = below[BINS - 1], sum = below_sum[BINS - 1];
    between[b] = -1;
    if (b < BINS - 1 && below[b] > 0 && below[b] < n) {
        double m0 = below_sum[b] / below[b], m1 = (sum - below_sum[b]) / (n - below[b]);
        between[b] = below[b] * (n - below[b]) * (m1 - m0) * (m1 - m0);
    }
    __syncthreads();
    if (b != 0) return;
    double best = -1, cut = 0, mean = 0, deviation = 0;
    int chosen = -1;
    for (int i = 0; i < BINS; i++)
        if (between[i] > best) best = between[i], chosen = i;
    if (chosen >= 0) {
        cut = chosen + 1, mean = below_sum[chosen] / below[chosen];
        deviation = sqrt(fmax(0.0, below_square[chosen] / below[chosen] - mean * mean));
    }
    double least = (double)extremes->x, step = ((double)extremes->y - least) / BINS;
    double level = fmax(mean + 0.5 + 0.5 * (cut - mean - 0.5), fmin(mean + 0.5 + 2 * deviation, cut));
    *ret_level = extremes->y > extremes->x ? (float)(least + step * level) : INFINITY;
}

/* Marks voxels: 0 inside, FAR outside. */
__global__ void mark(int box, const float *map, const float *level, float *out) {
    place p = place_of(box, box);
    if (p.valid) out[p.at] = counts(box, p.x, p.y, p.z) && map[p.at] >= *level ? 0 : FAR;
}

/* Computes along one axis: out[i] = min over j within reach of in[j] + (i − j)². */
__global__ void nearest(int box, const float *in, int axis, int reach, float *out) {
    place p = place_of(box, box);
    if (!p.valid) return;
    int i = axis == 0 ? p.x : axis == 1 ? p.y : p.z;
    ptrdiff_t stride = axis == 0 ? 1 : axis == 1 ? box : (ptrdiff_t)box * box;
    float least = in[p.at];
    for (int j = -reach; j <= reach; j++)
        if (i + j >= 0 && i + j < box) least = fminf(least, in[(ptrdiff_t)p.at + j * stride] + (float)(j * j));
    out[p.at] = least;
}

__global__ void extend(int box, float *map) {
    place p = place_of(box, box);
    if (p.valid) map[p.at] = map[p.at] < EXTEND * EXTEND ? 0 : FAR;
}

/* Turns squared distances into the mask, and sums it, one plane per block. */
__global__ void soften(int box, const float *distances, float *ret_mask, double *ret_sums) {
    size_t plane = (size_t)blockIdx.x * box * box;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < box * box; i += PLANE_THREADS) {
        float r = sqrtf(distances[plane + i]);
        float wide = r >= EDGE ? 0 : r > 0 ? 0.5f + 0.5f * cosf((float)M_PI * r / EDGE) : 1;
        float value = fmaxf(0, 2 * wide - 1);
        ret_mask[plane + i] = value;
        sum += (double)value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) ret_sums[blockIdx.x] = sum;
}

__global__ void add_planes(int box, const double *sums, double *ret_sum) {
    double sum = 0;
    for (int z = (int)threadIdx.x; z < box; z += THREADS)
        sum += sums[z];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *ret_sum = sum;
}

struct scratch_parts {
    whole *counts;
    double *sums;
    float2 *extremes;
    float *level;
};

size_t cut_scratch(int box, char *at, scratch_parts *ret_parts) {
    char *begin = at;
    ret_parts->counts = (whole *)at, at += aligned(BINS * sizeof(whole));
    ret_parts->sums = (double *)at, at += aligned((size_t)box * sizeof(double));
    ret_parts->extremes = (float2 *)at, at += aligned((size_t)box * sizeof(float2));
    ret_parts->level = (float *)at, at += aligned(sizeof(float));
    return (size_t)(at - begin);
}

/* Computes squared distances to the nearest 0 of `map` within reach, into `spare`. */
void run_distances(int box, int reach, float *map, float *spare, cudaStream_t stream) {
    dim3 blocks = blocks_of(box, box);
    nearest<<<blocks, THREADS, 0, stream>>>(box, map, 0, reach, spare);
    nearest<<<blocks, THREADS, 0, stream>>>(box, spare, 1, reach, map);
    nearest<<<blocks, THREADS, 0, stream>>>(box, map, 2, reach, spare);
}

} // namespace

extern "C" enum status solvent_cuda_multiply(const struct solvent_sphere *sphere, const float *map,
                                             const float *mask_or_null, float *out, void *stream, struct err *err) {
    multiply<<<blocks_of(sphere->box, sphere->box), THREADS, 0, (cudaStream_t)stream>>>(*sphere, map, mask_or_null,
                                                                                        out);
    CUDA_TRY(cudaGetLastError(), err, "masking a map");
    return STATUS_OK;
}

extern "C" enum status solvent_cuda_filter(int box, double shell, double edge, bool beyond, double factor,
                                           float *spectrum, void *stream, struct err *err) {
    filter<<<blocks_of(box / 2 + 1, box), THREADS, 0, (cudaStream_t)stream>>>(box, shell, edge, beyond, factor,
                                                                              (float2 *)spectrum);
    CUDA_TRY(cudaGetLastError(), err, "filtering a map");
    return STATUS_OK;
}

extern "C" enum status solvent_cuda_join(int box, int low, int reached, double factor, const float *inner,
                                         float *spectrum, void *stream, struct err *err) {
    join<<<blocks_of(box / 2 + 1, box), THREADS, 0, (cudaStream_t)stream>>>(box, low, reached, (float)factor,
                                                                            (const float2 *)inner, (float2 *)spectrum);
    CUDA_TRY(cudaGetLastError(), err, "joining bands of a map");
    return STATUS_OK;
}

extern "C" enum status solvent_cuda_subtract(int box, float *a, const float *b, void *stream, struct err *err) {
    subtract<<<blocks_of(box, box), THREADS, 0, (cudaStream_t)stream>>>(box, a, b);
    CUDA_TRY(cudaGetLastError(), err, "subtracting a map");
    return STATUS_OK;
}

extern "C" size_t solvent_cuda_scratch(int box) {
    scratch_parts parts;
    return cut_scratch(box, NULL, &parts);
}

extern "C" enum status solvent_cuda_mask(int box, float *map, void *scratch, float *ret_mask, double *ret_inside,
                                         void *cuda_stream, struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    dim3 blocks = blocks_of(box, box);
    unsigned planes = (unsigned)box;
    scratch_parts s;
    (void)cut_scratch(box, (char *)scratch, &s);
    CUDA_TRY(cudaMemsetAsync(s.counts, 0, BINS * sizeof *s.counts, stream), err, "clearing a histogram");
    find_extremes<<<planes, PLANE_THREADS, 0, stream>>>(box, map, s.extremes);
    join_extremes<<<1, 32, 0, stream>>>(box, s.extremes);
    count_bins<<<planes, PLANE_THREADS, 0, stream>>>(box, map, s.extremes, s.counts);
    choose_level<<<1, BINS, 0, stream>>>(s.extremes, s.counts, s.level);
    mark<<<blocks, THREADS, 0, stream>>>(box, map, s.level, ret_mask);
    run_distances(box, EXTEND, ret_mask, map, stream);
    extend<<<blocks, THREADS, 0, stream>>>(box, map);
    run_distances(box, EDGE, map, ret_mask, stream);
    /* The distances are stored where the mask will be: one thread reads and writes each voxel. */
    soften<<<planes, PLANE_THREADS, 0, stream>>>(box, ret_mask, ret_mask, s.sums);
    add_planes<<<1, THREADS, 0, stream>>>(box, s.sums, ret_inside);
    CUDA_TRY(cudaGetLastError(), err, "making a mask");
    return STATUS_OK;
}
