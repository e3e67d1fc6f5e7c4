/* Matrix products for .cu files. Their elements do not depend, to the last bit, on the number of rows and columns of a
 * call. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_PRODUCT_CUH
#define ICESTREAM_KERNELS_EXPECTATION_PRODUCT_CUH

#include <cublasLt.h>
#include <stddef.h>

#include "common/status.h"

struct product_cuda;
enum status product_cuda_create(struct product_cuda **ret_product, struct err *err);
void product_cuda_destroy(struct product_cuda **product);

/* Computes ret[n][m of `all`] (m fastest) = factor · b[n][row] · a[m][row]ᵀ over terms first .. first + terms − 1 of
 * each row; `add`: adds to ret. Rows and ret are 16-byte aligned. */
struct product_terms {
    cublasComputeType_t compute;
    size_t row, first, terms;
};
enum status product_cuda_run(struct product_cuda *product, const struct product_terms *of, float factor, const float *a,
                             size_t m, size_t all, const float *b, size_t n, bool add, float *ret, cudaStream_t stream,
                             struct err *err);

#endif
