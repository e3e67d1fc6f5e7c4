/* Filters for WBP with cuFFT, a fixed number of rows at a time, so that its choice of algorithm, and so the last bits,
 * are always the same. */
#include <stdlib.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/tomography/tomography_cuda.h"

struct tomography_filter_cuda {
    int padded, rows;
    cufftHandle forward, inverse;
    bool has_forward, has_inverse;
    cudaStream_t stream;
};

namespace {

enum { THREADS = 256, BATCH = TOMOGRAPHY_CHUNK };

__global__ void pad(const float *rows, int nx, int padded, float *ret_rows) {
    int x = (int)(blockIdx.x * THREADS + threadIdx.x);
    size_t row = blockIdx.y;
    if (x < padded)
        ret_rows[row * (size_t)(2 * (padded / 2 + 1)) + (size_t)x] = x < nx ? rows[row * (size_t)nx + (size_t)x] : 0;
}

__global__ void multiply(float2 *rows, int columns, const float *factors, float share) {
    int k = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (k >= columns) return;
    float2 *at = rows + (size_t)blockIdx.y * (size_t)columns + (size_t)k;
    float factor = factors[k] * share;
    *at = make_float2(at->x * factor, at->y * factor);
}

static enum status build(struct tomography_filter_cuda *f, struct err *err) {
    int n = f->padded, columns = n / 2 + 1, real = 2 * columns;
    CUFFT_TRY(cufftPlanMany(&f->forward, 1, &n, &real, 1, real, &columns, 1, columns, CUFFT_R2C, BATCH), err,
              "the plan of a filter");
    f->has_forward = true;
    CUFFT_TRY(cufftPlanMany(&f->inverse, 1, &n, &columns, 1, columns, &real, 1, real, CUFFT_C2R, BATCH), err,
              "the plan of a filter");
    f->has_inverse = true;
    CUFFT_TRY(cufftSetStream(f->forward, f->stream), err, "the plan of a filter");
    CUFFT_TRY(cufftSetStream(f->inverse, f->stream), err, "the plan of a filter");
    return STATUS_OK;
}

} // namespace

extern "C" enum status tomography_filter_create(int padded, int rows, void *stream,
                                                struct tomography_filter_cuda **ret_filter, struct err *err) {
    struct tomography_filter_cuda *f = (struct tomography_filter_cuda *)calloc(1, sizeof *f);
    FAIL_IF(f == NULL, err, STATUS_NO_MEMORY, "no memory for a filter");
    f->padded = padded, f->rows = rows, f->stream = (cudaStream_t)stream;
    enum status status = build(f, err);
    if (status != STATUS_OK) {
        tomography_filter_destroy(&f);
        return status;
    }
    *ret_filter = f;
    return STATUS_OK;
}

extern "C" void tomography_filter_destroy(struct tomography_filter_cuda **filter) {
    struct tomography_filter_cuda *f = *filter;
    if (f == NULL) return;
    if (f->has_forward) (void)cufftDestroy(f->forward);
    if (f->has_inverse) (void)cufftDestroy(f->inverse);
    free(f);
    *filter = NULL;
}

extern "C" enum status tomography_filter_run(struct tomography_filter_cuda *f, const float *rows, int nx,
                                             const float *factors, float share, float *ret_rows, void *stream,
                                             struct err *err) {
    int columns = f->padded / 2 + 1;
    cudaStream_t s = (cudaStream_t)stream;
    pad<<<dim3(blocks_for((size_t)f->padded, THREADS), (unsigned)f->rows), THREADS, 0, s>>>(rows, nx, f->padded,
                                                                                            ret_rows);
    CUDA_TRY(cudaGetLastError(), err, "padding rows");
    for (int row = 0; row < f->rows; row += BATCH) {
        float *from = ret_rows + (size_t)row * (size_t)(2 * columns);
        CUFFT_TRY(cufftExecR2C(f->forward, from, (cufftComplex *)from), err, "the filter's transform");
        multiply<<<dim3(blocks_for((size_t)columns, THREADS), BATCH), THREADS, 0, s>>>((float2 *)from, columns, factors,
                                                                                       share);
        CUDA_TRY(cudaGetLastError(), err, "the filter");
        CUFFT_TRY(cufftExecC2R(f->inverse, (cufftComplex *)from, from), err, "the filter's transform");
    }
    return STATUS_OK;
}
