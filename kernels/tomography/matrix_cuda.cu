/* Fills the matrices ELLR and blob-ELLR, and sums over their rows and columns in double. */
#include "kernels/fourier/cufft.cuh"
#include "kernels/tomography/entry.cuh"

namespace {

enum { THREADS = 128 };

__global__ void fill_ellr(struct tomography_matrix_cuda m, float *a0, float *a1, int32_t *rays) {
    int n = (int)(blockIdx.x * THREADS + threadIdx.x), t = (int)blockIdx.y, count = m.nx * m.nz;
    if (n >= count) return;
    entry e = entry_of<TOMOGRAPHY_ON_THE_FLY, true>(m, (const float4 *)m.weights, t, n % m.nx, n / m.nx);
    const float *q0 = &e.q0.x, *q1 = &e.q1.x;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        size_t at = (4 * (size_t)t + (size_t)k) * (size_t)count + (size_t)n;
        a0[at] = q0[k];
        if (a1) a1[at] = q1[k];
        rays[at] = e.first + k;
    }
}

__global__ void fill_blob_ellr(struct tomography_matrix_cuda m, const int32_t *pair_tilt, int32_t *floors,
                               float *fractions) {
    int n = (int)(blockIdx.x * THREADS + threadIdx.x), p = (int)blockIdx.y, half = (m.nx * m.nz + 1) / 2;
    if (n >= half) return;
    double u = centred_position(m, pair_tilt[p], n % m.nx, n / m.nx), whole = floor(u);
    floors[(size_t)p * (size_t)half + (size_t)n] = (int32_t)whole;
    fractions[(size_t)p * (size_t)half + (size_t)n] = (float)(u - whole);
}

static __device__ inline float weight_of(float4 w, int k) {
    return k == 0 ? w.x : k == 1 ? w.y : k == 2 ? w.z : w.w;
}

static __device__ inline float reciprocal(double sum) {
    return sum >= TOMOGRAPHY_LEAST_WEIGHT ? (float)(1 / fmax(sum, TOMOGRAPHY_SMALL_WEIGHT)) : 0;
}

static __device__ inline void write_reciprocals(double sum0, double sum1, size_t at, size_t count, float *ret) {
    for (int beside = 0; beside < 3; beside++)
        ret[(size_t)beside * count + at] = reciprocal(sum0 + beside * sum1);
}

/* One warp per ray; its lanes handle slices z. */
template <bool COUPLED> __global__ void sum_rays(struct tomography_matrix_cuda m, float *ret_rays) {
    int ray = (int)((blockIdx.x * THREADS + threadIdx.x) / 32), t = (int)blockIdx.y;
    if (ray >= m.nx) return;
    double cosine = m.cosines[t], sum0 = 0, sum1 = 0;
    for (int z = (int)threadIdx.x % 32; z < m.nz; z += 32) {
        int from = 0, to = m.nx - 1;
        if (cosine > 1e-6) {
            double zero = centred_position(m, t, 0, z) + m.offsets[t];
            from = (int)fmax(0.0, floor((ray - 2 - zero) / cosine) - 1);
            to = (int)fmin(m.nx - 1.0, ceil((ray + 2 - zero) / cosine) + 1);
        }
        for (int x = from; x <= to; x++) {
            entry e = entry_of<TOMOGRAPHY_ON_THE_FLY, COUPLED>(m, (const float4 *)m.weights, t, x, z);
            int k = ray - e.first;
            if (k < 0 || k > 3) continue;
            sum0 += (double)weight_of(e.q0, k);
            if (COUPLED) sum1 += (double)weight_of(e.q1, k);
        }
    }
    sum0 = warp_sum(sum0), sum1 = warp_sum(sum1);
    if (threadIdx.x % 32 == 0)
        write_reciprocals(sum0, sum1, (size_t)t * (size_t)m.nx + (size_t)ray, (size_t)m.tilts * (size_t)m.nx, ret_rays);
}

template <bool COUPLED> __global__ void sum_voxels(struct tomography_matrix_cuda m, float *ret_voxels) {
    int n = (int)(blockIdx.x * THREADS + threadIdx.x), count = m.nx * m.nz;
    if (n >= count) return;
    double sum0 = 0, sum1 = 0;
    for (int t = 0; t < m.tilts; t++) {
        entry e = entry_of<TOMOGRAPHY_ON_THE_FLY, COUPLED>(m, (const float4 *)m.weights, t, n % m.nx, n / m.nx);
        for (int k = 0; k < 4; k++) {
            if (e.first + k < 0 || e.first + k >= m.nx) continue;
            sum0 += (double)weight_of(e.q0, k);
            if (COUPLED) sum1 += (double)weight_of(e.q1, k);
        }
    }
    write_reciprocals(sum0, sum1, (size_t)n, (size_t)count, ret_voxels);
}

} // namespace

extern "C" enum status tomography_cuda_fill(const struct tomography_matrix_cuda *m, const int32_t *pair_tilt, int pairs,
                                            void *stream, struct err *err) {
    size_t voxels = (size_t)m->nx * (size_t)m->nz;
    cudaStream_t s = (cudaStream_t)stream;
    if (m->kind == TOMOGRAPHY_ELLR)
        fill_ellr<<<dim3(blocks_for(voxels, THREADS), (unsigned)m->tilts), THREADS, 0, s>>>(
            *m, (float *)m->a0, (float *)m->a1, (int32_t *)m->rays);
    else if (m->kind == TOMOGRAPHY_BLOB_ELLR)
        fill_blob_ellr<<<dim3(blocks_for((voxels + 1) / 2, THREADS), (unsigned)pairs), THREADS, 0, s>>>(
            *m, pair_tilt, (int32_t *)m->floors, (float *)m->fractions);
    CUDA_TRY(cudaGetLastError(), err, "filling a matrix");
    return STATUS_OK;
}

extern "C" enum status tomography_cuda_reciprocals(const struct tomography_matrix_cuda *m, float *ret_rays,
                                                   float *ret_voxels, void *stream, struct err *err) {
    cudaStream_t s = (cudaStream_t)stream;
    dim3 of_rays(blocks_for((size_t)m->nx * 32, THREADS), (unsigned)m->tilts);
    unsigned of_voxels = blocks_for((size_t)m->nx * (size_t)m->nz, THREADS);
    if (m->coupled) {
        sum_rays<true><<<of_rays, THREADS, 0, s>>>(*m, ret_rays);
        sum_voxels<true><<<of_voxels, THREADS, 0, s>>>(*m, ret_voxels);
    } else {
        sum_rays<false><<<of_rays, THREADS, 0, s>>>(*m, ret_rays);
        sum_voxels<false><<<of_voxels, THREADS, 0, s>>>(*m, ret_voxels);
    }
    CUDA_TRY(cudaGetLastError(), err, "the sums of a matrix");
    return STATUS_OK;
}
