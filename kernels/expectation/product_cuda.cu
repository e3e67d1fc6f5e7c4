/* cuBLAS chooses the kernel of a product by its size, and kernels add terms in different orders. This file chooses a
 * kernel once per number of terms, as for a large product, and uses it for all sizes. Terms are never divided among
 * blocks. */
#include <stdlib.h>

#include "common/device_cuda.h"
#include "kernels/expectation/product.cuh"

#define CUBLAS_TRY(call, err, what)                                                                                    \
    do {                                                                                                               \
        cublasStatus_t cublas_status_ = (call);                                                                        \
        FAIL_IF(cublas_status_ != CUBLAS_STATUS_SUCCESS, err,                                                          \
                cublas_status_ == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_NO_MEMORY : STATUS_DEVICE,                       \
                "the CUDA device failed at %s: %s", what, cublasLtGetStatusString(cublas_status_));                    \
    } while (0)

namespace {

enum { CHOICES = 16, CANDIDATES = 8, LARGE = 8192 };
/* The fast kernels need a few bytes. */
constexpr size_t WORKSPACE = 1 << 16;

/* Properties that decide the choice. */
struct key {
    cublasComputeType_t compute;
    size_t terms, row, alignment;

    bool operator==(const key &other) const {
        return compute == other.compute && terms == other.terms && row == other.row && alignment == other.alignment;
    }
};

struct choice {
    key of;
    int count;
    cublasLtMatmulHeuristicResult_t candidates[CANDIDATES]; /* best first */
};

struct layouts {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;

    ~layouts() {
        if (preference) (void)cublasLtMatmulPreferenceDestroy(preference);
        if (a) (void)cublasLtMatrixLayoutDestroy(a);
        if (b) (void)cublasLtMatrixLayoutDestroy(b);
        if (c) (void)cublasLtMatrixLayoutDestroy(c);
        if (operation) (void)cublasLtMatmulDescDestroy(operation);
    }
};

enum status describe(const key &k, size_t m, size_t all, size_t n, layouts *l, err *err) {
    const char *what = "describing a product";
    cublasOperation_t turned = CUBLAS_OP_T;
    CUBLAS_TRY(cublasLtMatmulDescCreate(&l->operation, k.compute, CUDA_R_32F), err, what);
    CUBLAS_TRY(cublasLtMatmulDescSetAttribute(l->operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned), err,
               what);
    CUBLAS_TRY(cublasLtMatrixLayoutCreate(&l->a, CUDA_R_32F, k.terms, m, (int64_t)k.row), err, what);
    CUBLAS_TRY(cublasLtMatrixLayoutCreate(&l->b, CUDA_R_32F, k.terms, n, (int64_t)k.row), err, what);
    CUBLAS_TRY(cublasLtMatrixLayoutCreate(&l->c, CUDA_R_32F, m, n, (int64_t)all), err, what);
    return STATUS_OK;
}

enum status prefer(const key &k, layouts *l, err *err) {
    const char *what = "choosing a product";
    size_t workspace = WORKSPACE;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE, wide = 16, narrow = (uint32_t)k.alignment;
    CUBLAS_TRY(cublasLtMatmulPreferenceCreate(&l->preference), err, what);
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } wanted[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &wide, sizeof wide},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &wide, sizeof wide},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &narrow, sizeof narrow},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &narrow, sizeof narrow},
    };
    for (const auto &w : wanted)
        CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(l->preference, w.attribute, w.value, w.size), err, what);
    return STATUS_OK;
}

} // namespace

struct product_cuda {
    cublasLtHandle_t handle;
    void *workspace;
    choice choices[CHOICES];
    int choice_count, oldest;
};

enum status product_cuda_create(struct product_cuda **ret_product, struct err *err) {
    product_cuda *p = (product_cuda *)calloc(1, sizeof *p);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for the comparison of particles and slices");
    cublasStatus_t made = cublasLtCreate(&p->handle);
    if (made != CUBLAS_STATUS_SUCCESS) {
        free(p);
        FAIL(err, STATUS_DEVICE, "the CUDA device failed at opening cuBLAS: %s", cublasLtGetStatusString(made));
    }
    cudaError_t result = cudaMalloc(&p->workspace, WORKSPACE);
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        product_cuda_destroy(&p);
        FAIL(err, cuda_status(result), "the CUDA device has no memory for products: %s", cudaGetErrorString(result));
    }
    *ret_product = p;
    return STATUS_OK;
}

void product_cuda_destroy(struct product_cuda **product) {
    if (*product == NULL) return;
    (void)cudaFree((*product)->workspace);
    (void)cublasLtDestroy((*product)->handle);
    free(*product);
    *product = NULL;
}

namespace {

enum status choose(product_cuda *p, const key &k, const choice **ret_choice, err *err) {
    for (int i = 0; i < p->choice_count; i++)
        if (p->choices[i].of == k) {
            *ret_choice = &p->choices[i];
            return STATUS_OK;
        }
    layouts l;
    choice made = {k, 0, {}};
    TRY(describe(k, LARGE, LARGE + (k.alignment / sizeof(float)) % 4, LARGE, &l, err));
    TRY(prefer(k, &l, err));
    CUBLAS_TRY(cublasLtMatmulAlgoGetHeuristic(p->handle, l.operation, l.a, l.b, l.c, l.c, l.preference, CANDIDATES,
                                              made.candidates, &made.count),
               err, "choosing a product");
    int at = p->choice_count < CHOICES ? p->choice_count++ : p->oldest++ % CHOICES;
    p->choices[at] = made;
    *ret_choice = &p->choices[at];
    return STATUS_OK;
}

} // namespace

enum status product_cuda_run(struct product_cuda *p, const struct product_terms *of, float factor, const float *a,
                             size_t m, size_t all, const float *b, size_t n, bool add, float *ret, cudaStream_t stream,
                             struct err *err) {
    key k = {of->compute, of->terms, of->row, all % 4 == 0 ? 16u : all % 2 == 0 ? 8u : 4u};
    const choice *c = nullptr;
    layouts l;
    float kept = add ? 1 : 0;
    TRY(choose(p, k, &c, err));
    TRY(describe(k, m, all, n, &l, err));
    for (int i = 0; i < c->count; i++) {
        cublasLtMatmulHeuristicResult_t checked;
        const cublasLtMatmulAlgo_t *algorithm = &c->candidates[i].algo;
        if (c->candidates[i].state != CUBLAS_STATUS_SUCCESS ||
            cublasLtMatmulAlgoCheck(p->handle, l.operation, l.a, l.b, l.c, l.c, algorithm, &checked) !=
                CUBLAS_STATUS_SUCCESS ||
            checked.workspaceSize > WORKSPACE)
            continue;
        CUBLAS_TRY(cublasLtMatmul(p->handle, l.operation, &factor, a + of->first, l.a, b + of->first, l.b, &kept, ret,
                                  l.c, ret, l.c, algorithm, p->workspace, WORKSPACE, stream),
                   err, "comparing particles with slices");
        return STATUS_OK;
    }
    FAIL(err, STATUS_UNSUPPORTED, "cuBLAS has no product of %zu × %zu × %zu", m, n, of->terms);
}
