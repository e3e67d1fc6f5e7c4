/* Declares the state of a search on a CUDA device and the steps that the .cu files of kernels/search implement. One
 * stream computes while another stream downloads. Pointers are device pointers unless a comment says otherwise. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_PLAN_CUH
#define ICESTREAM_KERNELS_SEARCH_SEARCH_PLAN_CUH

#include "kernels/fourier/cufft.cuh"
#include "kernels/search/search_setup_cuda.h"

/* Checks the kernel launch before it. */
#define LAUNCH_TRY(err, what) CUDA_TRY(cudaGetLastError(), err, what)

/* The scale of a micrograph, as normalisation finds it. */
struct search_scale {
    float mean, factor, deviation;
    float centre, reach; /* the next pass uses pixels within `reach` of `centre` */
    double used;         /* number of pixels that the last pass used */
    bool settled;        /* another pass would find the same scale */
};

/* Results of the preparation that the host reads. */
struct search_numbers {
    search_scale scale;
    double power[SEARCH_RINGS];
};

/* Padded transforms of the templates and how to rotate them; passed by value to kernels. */
struct search_templates {
    const float2 *grid;   /* [count][2·reach+1][reach+2] */
    const double2 *turns; /* [rotations]: cos and sin of psi times the step of the padded grid */
    const int *last;      /* [work]: the last kx of a row inside the low-pass */
    int reach, work;
};

struct search_fused;
struct search_whiten;

struct search_cuda {
    struct search_options o;
    struct search_setup setup; /* its arrays are NULL once the plan is made */
    int turn;                  /* rotations that are transformed: half of them if the other half are their conjugates */
    int pairs;                 /* pairs of rotations that are correlated at a time */
    size_t half, pixels;       /* elements of a work half plane (complex) and of a map (work²) */
    int term_grid, term_batch; /* side of the transforms that compute terms, px; templates at a time */
    cudaStream_t stream, copies;
    cudaEvent_t event;
    cufftHandle forward, inverse, term_inverse, batch_inverse; /* 0: none */
    void *cufft_work;

    float *micrograph; /* [ny][nx], used if the caller's micrograph is not on the device */
    void *scratch;     /* shared by the steps, one after another */
    double *parts;     /* partial sums */
    search_scale *scale;
    double *power;                            /* [SEARCH_RINGS] */
    float2 *image, *square, *mask, *prepared; /* half planes [work][work/2 + 1] */
    float *ctf;                               /* [work][work/2 + 1] */
    float *statistics;                        /* [3][work²]: mu, sigma, low-passed image */
    float *circle;                            /* [term_grid²] */
    double *terms, *plain_terms;              /* [count][2] mean and power of templates, with and without CTF */
    search_templates templates;
    float2 *padded_ft;
    double2 *turns;
    int *last;
    float2 *rotated;          /* [count][turn] work half planes, or NULL */
    unsigned long long *best; /* [work²]: see search_pack */
    float *score;
    uint16_t *best_template, *best_rotation;
    float *scores; /* scores, rotations: [count][work²]; NULL unless o.per_template */
    uint16_t *rotations;
    search_whiten *whiten; /* NULL: the micrograph is searched as it is */
    search_fused *fused;   /* NULL: cuFFT does the correlations */
    /* Page-locked, of the host. */
    search_numbers *numbers;
    double *host_terms; /* [count][2] terms of the last run; after search_plan_create, the terms without CTF */
    /* Plain host memory [work/2+1]; NULL unless the search is whitened. */
    float *weights; /* of the last run */
    double *template_power;
};

/* search_prepare_cuda.cu */
enum status search_prepare_create(search_cuda *s, err *err);
/* Transforms the particle's circle, or the rest of its box, cropped to the size `to`; uses s->scratch. */
enum status search_mask(search_cuda *s, bool inside, int to, float factor, float2 *out, err *err);
enum status search_prepare_run(search_cuda *s, const float *micrograph, const ctf_terms *ctf, uint64_t seed, err *err);

/* search_whiten_cuda.cu. map: the low-passed micrograph; s->image is weighted in place. */
enum status search_whiten_create(search_cuda *s, search_whiten **ret_whiten, err *err);
void search_whiten_destroy(search_whiten **whiten);
enum status search_whiten_run(search_cuda *s, const float *map, err *err);
/* Return the local mean [work²] of the weighted micrograph, and the weights [work/2+1]. */
const float *search_whiten_mean(const search_whiten *w);
const float *search_whiten_weights(const search_whiten *w);

/* search_templates_cuda.cu */
enum status search_templates_create(search_cuda *s, bool transposed, err *err);
enum status search_terms_create(search_cuda *s, err *err);
/* Computes terms[count][2], mean and power of the templates in the circle. ctf NULL: no CTF. */
enum status search_terms_run(search_cuda *s, const float *ctf, double *terms, err *err);

/* search_correlate_cuda.cu. Correlates template t in all rotations into s->best, and turns s->best into scores. */
enum status search_correlate_run(search_cuda *s, int t, err *err);
enum status search_score_run(search_cuda *s, int t, err *err);

/* search_fused_cuda.cu. *ret_fused is NULL if there are no fused transforms of this size. search_fused_run does what
 * search_correlate_run does. */
enum status search_fused_create(const search_cuda *s, search_fused **ret_fused, err *err);
void search_fused_destroy(search_fused **fused);
enum status search_fused_run(search_cuda *s, int t, err *err);

#ifdef __CUDACC__
/* Returns the sum over a warp in lane 0; other lanes get partial sums. */
static __device__ inline double search_warp_sum(double value) {
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(0xffffffffu, value, step);
    return value;
}

/* Packs a correlation and its rotation into one number that grows with the correlation; of equal correlations the
 * earlier rotation gives the larger number. 0 is less than all. */
static __device__ inline unsigned long long search_pack(float value, int rotation) {
    unsigned bits = __float_as_uint(value);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | (0xffffffffu - (unsigned)rotation);
}

static __device__ inline float search_value(unsigned long long packed) {
    unsigned bits = (unsigned)(packed >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

static __device__ inline int search_rotation(unsigned long long packed) {
    return (int)(0xffffffffu - (unsigned)packed);
}

/* Returns the value of a rotated template at a work frequency: the bilinear interpolation of
 * kernels/template_spectra. */
static __device__ inline float2 search_rotated(const search_templates &t, int item, double2 turn, int kx, int row) {
    if (kx > t.last[row]) return make_float2(0, 0);
    int ky = row <= t.work / 2 ? row : row - t.work, stride = t.reach + 2;
    float u = (float)(-turn.y * ky) + (float)kx * (float)turn.x, v = (float)(turn.x * ky) + (float)kx * (float)turn.y;
    float sign = u < 0 ? -1.0f : 1.0f;
    u *= sign;
    v *= sign;
    int x = (int)u, y = (int)(v + (float)t.reach);
    float fx = u - (float)x, fy = v + (float)t.reach - (float)y;
    const float2 *a = t.grid + ((size_t)item * (2 * t.reach + 1) + y) * stride + x;
    float2 a0 = a[0], a1 = a[1], b0 = a[stride], b1 = a[stride + 1];
    float re0 = a0.x + fx * (a1.x - a0.x), im0 = a0.y + fx * (a1.y - a0.y);
    float re1 = b0.x + fx * (b1.x - b0.x), im1 = b0.y + fx * (b1.y - b0.y);
    return make_float2(re0 + fy * (re1 - re0), sign * (im0 + fy * (im1 - im0)));
}
#endif
#endif
