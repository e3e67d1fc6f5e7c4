/* The coarse pass on a CUDA device: makes the operands where they are used, multiplies with cuBLAS, and turns
 * differences into weights in two passes over them. */
#include <stdlib.h>

#include "common/device_cuda.h"
#include "kernels/expectation/expectation_cuda.h"
#include "kernels/expectation/grid.cuh"
#include "kernels/expectation/product.cuh"
#include "kernels/fourier/launch.cuh"

struct coarse_cuda {
    struct product_cuda *product;
};

namespace {

enum { THREADS = 256 };

/* Returns the part of a value that a tensor core reads, rounded to nearest. */
__device__ inline float high_part(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

/* Stores term `at` of a row. */
template <coarse_precision PRECISION, bool SLICE>
__device__ inline void put(float *row, int terms, int at, float value) {
    if constexpr (PRECISION != COARSE_TF32X3) {
        row[at] = PRECISION == COARSE_TF32 ? high_part(value) : value;
        return;
    }
    int first = at / COARSE_BLOCK * COARSE_BLOCK, length = terms - first < COARSE_BLOCK ? terms - first : COARSE_BLOCK;
    float *block = row + 3 * first + (at - first);
    float high = high_part(value), low = high_part(value - high);
    block[0] = high;
    block[length] = SLICE ? high : low;
    block[2 * length] = SLICE ? low : high;
}

template <coarse_precision PRECISION>
__global__ void make_slices(grid_cuda grid, pixels_cuda pixels, int n_pixels, const float *matrices, size_t row,
                            float *slices, size_t norm_row, float *squares) {
    size_t slice = blockIdx.y;
    int at = (int)(blockIdx.x * THREADS + threadIdx.x), filled = (int)norm_row;
    if (at >= filled) return;
    float m[6];
    for (int i = 0; i < 6; i++)
        m[i] = GRID_PAD * matrices[slice * 9 + i];
    float2 p = at < n_pixels ? grid_sample(grid, m, pixels.kx[at], pixels.ky[at]) : make_float2(0, 0);
    if (squares) squares[slice * norm_row + at] = p.x * p.x + p.y * p.y;
    /* Rows are filled up to multiples of COARSE_STEP: a row of n terms may continue where a row of 2·n terms ends. */
    float *out = slices + slice * row;
    int terms = (int)(row / (PRECISION == COARSE_TF32X3 ? 3 : 1));
    if (2 * at >= terms) return;
    put<PRECISION, true>(out, terms, 2 * at, p.x);
    put<PRECISION, true>(out, terms, 2 * at + 1, p.y);
}

template <coarse_precision PRECISION>
__global__ void make_columns(pixels_cuda pixels, int n_pixels, const float *images, const float *ctf,
                             const float *weight, size_t stride, const float *shifts, int n_shifts, size_t row,
                             float *columns, size_t norm_row, float *halves) {
    size_t particle = blockIdx.y;
    int at = (int)(blockIdx.x * THREADS + threadIdx.x), terms = (int)(row / (PRECISION == COARSE_TF32X3 ? 3 : 1));
    if (at >= (int)norm_row) return;
    float2 x = make_float2(0, 0);
    float half = 0, kx = 0, ky = 0;
    if (at < n_pixels) {
        float c = ctf[particle * stride + at], w = weight[particle * stride + at];
        const float *image = images + particle * 2 * stride + 2 * at;
        x = make_float2(c * w * image[0], c * w * image[1]);
        half = 0.5f * c * c * w;
        kx = (float)pixels.kx[at], ky = (float)pixels.ky[at];
    }
    halves[particle * norm_row + at] = half;
    if (2 * at >= terms) return;
    for (int t = 0; t < n_shifts; t++) {
        float s, c, turns = -2 * (kx * shifts[2 * t] + ky * shifts[2 * t + 1]) / (float)pixels.box;
        sincospif(turns, &s, &c);
        float *out = columns + (particle * n_shifts + t) * row;
        put<PRECISION, false>(out, terms, 2 * at, x.x * c - x.y * s);
        put<PRECISION, false>(out, terms, 2 * at + 1, x.x * s + x.y * c);
    }
}

/* By enum coarse_precision. */
decltype(&make_slices<COARSE_FP32>)
    const SLICES_OF[] = {make_slices<COARSE_FP32>, make_slices<COARSE_TF32X3>, make_slices<COARSE_TF32>};
decltype(&make_columns<COARSE_FP32>)
    const COLUMNS_OF[] = {make_columns<COARSE_FP32>, make_columns<COARSE_TF32X3>, make_columns<COARSE_TF32>};

} // namespace

extern "C" enum status coarse_cuda_create(int device, struct coarse_cuda **ret_coarse, struct err *err) {
    CUDA_TRY(cudaSetDevice(device), err, "choosing it");
    struct coarse_cuda *c = (struct coarse_cuda *)calloc(1, sizeof *c);
    FAIL_IF(c == NULL, err, STATUS_NO_MEMORY, "no memory for the comparison of particles and slices");
    enum status status = product_cuda_create(&c->product, err);
    if (status != STATUS_OK) {
        free(c);
        return status;
    }
    *ret_coarse = c;
    return STATUS_OK;
}

extern "C" void coarse_cuda_destroy(struct coarse_cuda **coarse) {
    if (*coarse == NULL) return;
    product_cuda_destroy(&(*coarse)->product);
    free(*coarse);
    *coarse = NULL;
}

extern "C" enum status coarse_cuda_slices(const struct grid_cuda *grid, const struct pixels_cuda *pixels, int n_pixels,
                                          const float *matrices, int n, enum coarse_precision precision,
                                          float *ret_slices, float *ret_squares, void *stream, struct err *err) {
    size_t row = coarse_row(n_pixels, precision), norm_row = coarse_norm_row(n_pixels);
    /* The second dimension of a launch is at most 65,535. */
    const int most = 65535;
    for (int first = 0; first < n; first += most) {
        dim3 blocks(blocks_for(norm_row, THREADS), (unsigned)(n - first < most ? n - first : most));
        float *squares = ret_squares ? ret_squares + (size_t)first * norm_row : NULL;
        SLICES_OF[precision]<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(
            *grid, *pixels, n_pixels, matrices + (size_t)first * 9, row, ret_slices + (size_t)first * row, norm_row,
            squares);
    }
    CUDA_TRY(cudaGetLastError(), err, "making slices");
    return STATUS_OK;
}

extern "C" enum status coarse_cuda_columns(const struct pixels_cuda *pixels, int n_pixels, const float *images,
                                           const float *ctf, const float *weight, size_t stride, int n,
                                           const float *shifts, int n_shifts, enum coarse_precision precision,
                                           float *ret_columns, float *ret_halves, void *stream, struct err *err) {
    size_t row = coarse_row(n_pixels, precision), norm_row = coarse_norm_row(n_pixels);
    dim3 blocks(blocks_for(norm_row, THREADS), (unsigned)n);
    COLUMNS_OF[precision]<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(
        *pixels, n_pixels, images, ctf, weight, stride, shifts, n_shifts, row, ret_columns, norm_row, ret_halves);
    CUDA_TRY(cudaGetLastError(), err, "shifting images");
    return STATUS_OK;
}

/* Computes ret[n][m of `all`] (m fastest) = factor · b[n][row] · a[m][row]ᵀ, `block` terms at a time. */
static enum status multiply(struct product_cuda *product, cublasComputeType_t compute, size_t row, size_t block,
                            float factor, const float *a, int m, size_t all, const float *b, int n, float *ret,
                            void *stream, struct err *err) {
    for (size_t k = 0; k < row; k += block) {
        const struct product_terms terms = {compute, row, k, row - k < block ? row - k : block};
        TRY(product_cuda_run(product, &terms, factor, a, (size_t)m, all, b, (size_t)n, k > 0, ret, (cudaStream_t)stream,
                             err));
    }
    return STATUS_OK;
}

extern "C" enum status coarse_cuda_product(struct coarse_cuda *c, int n_pixels, enum coarse_precision precision,
                                           const float *slices, const float *squares, int n_slices,
                                           const float *columns, const float *halves, int n_particles, int n_shifts,
                                           size_t all_slices, float *ret_dots, float *ret_norms, void *stream,
                                           struct err *err) {
    /* The sum of a long block loses less than the rounded parts did. */
    static const size_t blocks[] = {COARSE_BLOCK, 3 * COARSE_BLOCK, 8 * COARSE_BLOCK};
    TRY(multiply(c->product, precision == COARSE_FP32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32,
                 coarse_row(n_pixels, precision), blocks[precision], -1, slices, n_slices, all_slices, columns,
                 n_particles * n_shifts, ret_dots, stream, err));
    return multiply(c->product, CUBLAS_COMPUTE_32F, coarse_norm_row(n_pixels), COARSE_BLOCK, 1, squares, n_slices,
                    all_slices, halves, n_particles, ret_norms, stream, err);
}
