/* Small kernels that work on whole particles. */
#include "common/device_cuda.h"
#include "kernels/alignment/alignment.h"
#include "kernels/alignment/cuda/alignment.h"
#include "kernels/alignment/cuda/shift.cuh"
#include "kernels/fourier/launch.cuh"

namespace {

enum { THREADS = 128 };

__global__ void spread(const uint32_t *begin, int n, size_t each, size_t *ret_begin) {
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i < n) ret_begin[i] = begin[i] * each;
}

__global__ void list_shifts(const row_cuda *rows, size_t count, unsigned shifts, uint32_t *ret_samples) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) ret_samples[i] = (uint32_t)rows[i / shifts].row * shifts + (uint32_t)(i % shifts);
}

/* Does alignment_reliability. */
__global__ void rely(enum alignment_norm norm, const double *before, const double *residuals, int n,
                     float *ret_factors) {
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= n) return;
    double now = norm != ALIGNMENT_NORM_NONE ? sqrt(residuals[2 * i]) : 0, ratio = before[i] / now;
    double change = (norm == ALIGNMENT_NORM_L2SQ ? ratio * ratio : ratio) - 1;
    ret_factors[i] = before[i] >= 0 && now > 0 ? (float)(0.75 + 0.5 / (1 + exp(-change))) : 1.0f;
}

__global__ void renumber(const contribution_cuda *from, uint32_t count, int add, contribution_cuda *to) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    contribution_cuda c = from[i];
    c.particle += add;
    to[i] = c;
}

__global__ void shift_rest(pixels_cuda pixels, const prepare_particle_cuda *which, size_t stride, float *masked,
                           float *unmasked) {
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= pixels.count) return;
    const prepare_particle_cuda *p = &which[blockIdx.y];
    uint32_t turns = (uint32_t)pixels.kx[i] * shift_turns(p->rest_x, pixels.box) +
                     (uint32_t)pixels.ky[i] * shift_turns(p->rest_y, pixels.box);
    float2 phase = shift_phase(turns);
    float2 *images[] = {(float2 *)masked, (float2 *)unmasked};
    for (int image = 0; image < 2; image++) {
        float2 *at = &images[image][blockIdx.y * stride + (size_t)i], value = *at;
        *at = make_float2(value.x * phase.x - value.y * phase.y, value.x * phase.y + value.y * phase.x);
    }
}

} // namespace

extern "C" enum status alignment_cuda_shift_rest(const struct references_cuda *references,
                                                 const struct prepare_particle_cuda *which,
                                                 struct particles_cuda *particles, void *stream, struct err *err) {
    const struct pixels_cuda *pixels = &references->pixels;
    const dim3 blocks((unsigned)(pixels->count - 1) / THREADS + 1, (unsigned)particles->count);
    shift_rest<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*pixels, which, particles->stride, particles->masked,
                                                             particles->unmasked);
    CUDA_TRY(cudaGetLastError(), err, "shifting images");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_contributions_copy(const struct contribution_cuda *from, uint32_t count, int add,
                                                         struct contribution_cuda *ret_contributions, void *stream,
                                                         struct err *err) {
    if (count == 0) return STATUS_OK;
    renumber<<<(count - 1) / THREADS + 1, THREADS, 0, (cudaStream_t)stream>>>(from, count, add, ret_contributions);
    CUDA_TRY(cudaGetLastError(), err, "listing poses that contribute");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_values_begin(const uint32_t *begin, int particles, int each, size_t *ret_begin,
                                                   void *stream, struct err *err) {
    spread<<<blocks_for((size_t)particles + 1, THREADS), THREADS, 0, (cudaStream_t)stream>>>(begin, particles + 1,
                                                                                             (size_t)each, ret_begin);
    CUDA_TRY(cudaGetLastError(), err, "listing particles");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_reliability(enum alignment_norm norm, const double *before,
                                                  const double *residuals, int particles, float *ret_factors,
                                                  void *stream, struct err *err) {
    rely<<<blocks_for((size_t)particles, THREADS), THREADS, 0, (cudaStream_t)stream>>>(norm, before, residuals,
                                                                                       particles, ret_factors);
    CUDA_TRY(cudaGetLastError(), err, "weighing particles");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_whole_rows(const struct row_cuda *rows, size_t row_count, int shifts,
                                                 uint32_t *ret_samples, void *stream, struct err *err) {
    size_t count = row_count * (size_t)shifts;
    if (count == 0) return STATUS_OK;
    list_shifts<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(
        rows, count, (unsigned)shifts, ret_samples);
    CUDA_TRY(cudaGetLastError(), err, "listing poses");
    return STATUS_OK;
}
