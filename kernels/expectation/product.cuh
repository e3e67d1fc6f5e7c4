/* Multiplies matrices on a CUDA device, for .cu files. An element has the same bits whatever the sizes m and n of the
 * call. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_PRODUCT_CUH
#define ICESTREAM_KERNELS_EXPECTATION_PRODUCT_CUH

#include <cublasLt.h>
#include <stddef.h>

#include "common/status.h"

struct product_cuda;
enum status product_cuda_create(struct product_cuda **ret_product, struct err *err);
void product_cuda_destroy(struct product_cuda **product);

/* The terms k = first .. first + terms − 1 that a product sums. row: floats between two rows of a, and of b. */
struct product_terms {
    cublasComputeType_t compute;
    size_t row, first, terms;
};
/* Computes ret[j][i] = factor · Σ_k a[i][k] b[j][k] for i < m and j < n, with a[m][row], b[n][row], ret[n][all], all ≥
 * m. add: adds the products to ret. Pointers are device pointers; rows of a and b, and ret, are 16-byte aligned.
 * STATUS_UNSUPPORTED: cuBLAS has no such product. */
enum status product_cuda_run(struct product_cuda *product, const struct product_terms *of, float factor, const float *a,
                             size_t m, size_t all, const float *b, size_t n, bool add, float *ret, cudaStream_t stream,
                             struct err *err);

#endif
