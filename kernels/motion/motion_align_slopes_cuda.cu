/* Steps of the alignment on a CUDA device: sums of shifted spectra, their power by rings, slopes and curvatures. Each
 * sum is made in a fixed order, so that a movie always gives the same shifts. */
#include <string.h>

#include "kernels/motion/motion_align_cuda.cuh"

namespace {

enum { THREADS = ALIGN_THREADS };

/* Sums the shifted spectra of a member at each frequency. With weights, adds up the curvature of each block. */
__global__ void __launch_bounds__(THREADS) add_spectra(align_set set, int count, const float *weight) {
    const int i = blockIdx.x * THREADS + threadIdx.x, member = blockIdx.y;
    const size_t at = (size_t)member * count + i;
    const bool inside = i < count;
    const int ring = inside ? set.band.rings[i] : ALIGN_OUTSIDE;
    float shared = 0, xx = 0, xy = 0, yy = 0;
    if (inside) {
        const float2 f = align_frequency(set.band, i);
        const float2 *value = set.spectra + (size_t)member * set.frames * count + i;
        const float2 *shift = set.shifts + (size_t)member * set.frames;
        float2 sum = {0, 0};
        float total = 0;
        for (int j = 0; ring < ALIGN_OUTSIDE && j < set.frames; j++) {
            const float2 t = align_shifted(value[(size_t)j * count], f, shift[j]);
            sum.x += t.x, sum.y += t.y;
            total += t.x * t.x + t.y * t.y;
        }
        shared = sum.x * sum.x + sum.y * sum.y - total;
        set.sum[at] = sum, set.shared[at] = shared, set.total[at] = total;
        if (weight && ring < ALIGN_OUTSIDE) {
            const float k = (float)(2 * M_PI), w = weight[ring] * (i % (set.band.nx / 2 + 1) == 0 ? 0.5f : 1.0f);
            const float x = k * f.x, y = k * f.y, part = w * shared / set.frames;
            xx = x * x * part, xy = x * y * part, yy = y * y * part;
        }
    }
    if (weight == NULL) return;
    double sums[3] = {block_sum(xx), block_sum(xy), block_sum(yy)};
    if (threadIdx.x == 0)
        for (int k = 0; k < 3; k++)
            set.curvatures[((size_t)member * gridDim.x + blockIdx.x) * 3 + k] = sums[k];
}

/* Adds up the slopes of one frame of a member in one chunk of the frequencies. */
__global__ void __launch_bounds__(THREADS) add_slopes(align_set set, int count, const float *weight) {
    const int chunk = blockIdx.x, frame = blockIdx.y, member = blockIdx.z;
    const int last = min((chunk + 1) * ALIGN_CHUNK, count);
    const size_t which = (size_t)member * set.frames + frame;
    const float2 shift = set.shifts[which], *value = set.spectra + which * count;
    const float2 *sum = set.sum + (size_t)member * count;
    double x = 0, y = 0;
    for (int i = chunk * ALIGN_CHUNK + threadIdx.x; i < last; i += THREADS) {
        const int ring = set.band.rings[i];
        if (ring >= ALIGN_OUTSIDE) continue;
        const float2 f = align_frequency(set.band, i), t = align_shifted(value[i], f, shift), r = sum[i];
        const float w = weight[ring] * (i % (set.band.nx / 2 + 1) == 0 ? 0.5f : 1.0f);
        const float part = -(float)(2 * M_PI) * w * (t.x * r.y - t.y * r.x);
        x += (double)(f.x * part), y += (double)(f.y * part);
    }
    x = block_sum(x), y = block_sum(y);
    if (threadIdx.x == 0) {
        set.slopes[(which * gridDim.x + chunk) * 2] = x;
        set.slopes[(which * gridDim.x + chunk) * 2 + 1] = y;
    }
}

/* Adds up one ring per block, without column 0. ret: [3][MOTION_RINGS]. */
__global__ void __launch_bounds__(4 * THREADS) add_rings(align_set set, int count, double *ret) {
    const int ring = blockIdx.x, columns = set.band.nx / 2 + 1;
    double shared = 0, total = 0, number = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        if (set.band.rings[i] != ring || i % columns == 0) continue;
        shared += (double)set.shared[i], total += (double)set.total[i], number += 1;
    }
    double sums[3] = {block_sum(shared), block_sum(total), block_sum(number)};
    if (threadIdx.x == 0)
        for (int k = 0; k < 3; k++)
            ret[k * MOTION_RINGS + ring] = sums[k];
}

enum status put_weight(motion_align_cuda *a, const float *weight, err *err) {
    CUDA_TRY(cudaMemcpyAsync(a->weight, weight, MOTION_RINGS * sizeof *weight, cudaMemcpyDefault, a->motion->stream),
             err, "taking weights there");
    return STATUS_OK;
}

} // namespace

enum status motion_align_cuda_put_shifts(struct motion_align_cuda *a, const struct align_set *set, const float *x,
                                         const float *y, struct err *err) {
    size_t count = (size_t)set->members * set->frames;
    for (size_t i = 0; i < count; i++)
        a->host_shifts[i] = make_float2(x[i], y[i]);
    CUDA_TRY(cudaMemcpyAsync(set->shifts, a->host_shifts, count * sizeof(float2), cudaMemcpyDefault, a->motion->stream),
             err, "taking shifts there");
    return STATUS_OK;
}

enum status motion_align_cuda_add(struct motion_align_cuda *a, const struct align_set *set, bool weighted,
                                  struct err *err) {
    size_t count = align_count(&set->band);
    dim3 blocks(blocks_for(count, THREADS), set->members);
    add_spectra<<<blocks, THREADS, 0, a->motion->stream>>>(*set, (int)count, weighted ? a->weight : NULL);
    CUDA_TRY(cudaGetLastError(), err, "summing spectra");
    return STATUS_OK;
}

enum status motion_align_cuda_powers(void *state, const float *x, const float *y, double *shared, double *total,
                                     double *count, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)state;
    cudaStream_t stream = a->motion->stream;
    double sums[3][MOTION_RINGS], *to[3] = {shared, total, count};
    TRY(motion_align_cuda_put_shifts(a, &a->whole, x, y, err));
    TRY(motion_align_cuda_add(a, &a->whole, false, err));
    add_rings<<<MOTION_RINGS, 4 * THREADS, 0, stream>>>(a->whole, (int)align_count(&a->whole.band), a->rings);
    CUDA_TRY(cudaGetLastError(), err, "summing the power of rings");
    CUDA_TRY(cudaMemcpyAsync(sums, a->rings, sizeof sums, cudaMemcpyDefault, stream), err,
             "fetching the power of rings");
    CUDA_TRY(cudaStreamSynchronize(stream), err, "summing the power of rings");
    for (int k = 0; k < 3; k++)
        for (int ring = 0; ring < MOTION_RINGS; ring++)
            to[k][ring] += sums[k][ring];
    return STATUS_OK;
}

/* Adds up parts of sums, [sums][parts][values], always in the same order. */
static void add_parts(const double *parts, size_t sums, int count, int values, double *ret) {
    memset(ret, 0, sums * values * sizeof *ret);
    for (size_t s = 0; s < sums; s++)
        for (int part = 0; part < count; part++)
            for (int k = 0; k < values; k++)
                ret[s * values + k] += parts[(s * count + part) * values + k];
}

enum status motion_align_cuda_slopes(void *state, enum motion_set which, const float *x, const float *y,
                                     const float *weight, double *slope, double *curvature, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)state;
    cudaStream_t stream = a->motion->stream;
    const struct align_set *set = which == MOTION_WHOLE ? &a->whole : &a->patches;
    size_t count = align_count(&set->band), members = set->members, all = members * set->frames;
    unsigned chunks = blocks_for(count, ALIGN_CHUNK), blocks = blocks_for(count, THREADS);
    double *curvatures = set->host + all * chunks * 2;
    TRY(put_weight(a, weight, err));
    TRY(motion_align_cuda_put_shifts(a, set, x, y, err));
    TRY(motion_align_cuda_add(a, set, true, err));
    add_slopes<<<dim3(chunks, set->frames, set->members), THREADS, 0, stream>>>(*set, (int)count, a->weight);
    CUDA_TRY(cudaGetLastError(), err, "summing slopes");
    CUDA_TRY(cudaMemcpyAsync(set->host, set->slopes, all * chunks * 2 * sizeof(double), cudaMemcpyDefault, stream), err,
             "fetching slopes");
    CUDA_TRY(
        cudaMemcpyAsync(curvatures, set->curvatures, members * blocks * 3 * sizeof(double), cudaMemcpyDefault, stream),
        err, "fetching curvatures");
    CUDA_TRY(cudaStreamSynchronize(stream), err, "summing slopes");
    add_parts(set->host, all, (int)chunks, 2, slope);
    add_parts(curvatures, members, (int)blocks, 3, curvature);
    return STATUS_OK;
}
