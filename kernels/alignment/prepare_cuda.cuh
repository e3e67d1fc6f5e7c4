/* What the ways to prepare particles share (prepare_cuda.cu, prepare_fused_cuda.cu). */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_PREPARE_CUDA_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_PREPARE_CUDA_CUH

#include <math.h>

#include "kernels/alignment/alignment_cuda.h"
#include "kernels/fourier/cufft.cuh"

/* Transforms of the length of a box in the shared memory of a block, where its factors allow. */
enum { FUSED_PASSES = 6 };
struct fused_fft {
    int n, passes, radix[FUSED_PASSES]; /* passes 0: none for this length */
    const float2 *roots;                /* [n]: exp(2πi k / n) */
    const short *places;                /* [n]: where frequency k stands after the passes */
};

/* Which way: the whole image in shared memory; rows, then columns; or cuFFT. */
enum prepare_way { PREPARE_WHOLE, PREPARE_PARTS, PREPARE_CUFFT };

struct prepare_cuda {
    int box, shells, batch; /* images that are worked through together */
    int members;            /* pixels of the half plane, all shells */
    int parts;              /* of an image, whose sums are put together at last */
    enum prepare_way way;
    cufftHandle plan; /* 0: none */
    size_t work;      /* bytes that the plan wants */
    void *constants;  /* what the pointers below point into */
    int *shell_begin; /* [shells + 1] */
    short *kx, *ky;   /* [members], in order of shell: any shorter list is the beginning of this one */
    int *starts;      /* [parts][shells + 1]: where each shell of a part begins in `sorted` */
    uint2 *sorted;    /* [members]: pixels by part, then in the order of the list (fused_pixel) */
    float *outside;   /* [box²]: how much of a pixel is background, for mask_radius */
    struct fused_fft fft;
    float *host_outside;
    double mask_radius, outside_sum;
};

/* A batch on its way. */
struct spectra {
    int box, shells, count; /* pixels that are wanted */
    int parts;
    size_t stride;
    const short *kx, *ky;
    const int *shell_begin, *starts;
    const uint2 *sorted;
    const float *images, *outside;
    double outside_sum;
    const double *background; /* [image][background_count]: sums of it */
    int background_count;
    float2 *pairs; /* [image][box²]: masked and unmasked image, or their transform */
    const struct prepare_particle_cuda *which;
    double step; /* 1/(box · pixel size) */
    const float *sigma2;
    float *masked, *unmasked, *ctf, *weight;
    double *sums; /* [image][parts][shells]: Σ |X|² of the masked image */
};

/* Fused ways. Fills in p->fft (its tables are made by the caller), p->way and p->parts; leaves PREPARE_CUFFT where
 * neither does. */
enum { FUSED_COLUMNS = 8, FUSED_KY = 1024 };
/* Index in the list, and kx, ky, shell. Boxes below 2 FUSED_KY. */
static inline uint2 fused_pixel(int index, int kx, int ky, int shell) {
    return make_uint2((unsigned)index, (unsigned)kx | (unsigned)(ky + FUSED_KY) << 11 | (unsigned)shell << 22);
}
enum status prepare_fused_choose(struct prepare_cuda *p, struct err *err);
void prepare_fused_tables(const struct fused_fft *fft, float2 *ret_roots, short *ret_places);
enum status prepare_fused_whole(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                                struct err *err);
enum status prepare_fused_parts(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                                struct err *err);

/* A pixel of the shifted and scaled image: nothing comes in over the edges. */
static __device__ inline float shifted(const float *image, int box, const prepare_particle_cuda &p, int x, int y) {
    int from_y = y - p.shift_y, from_x = x - p.shift_x;
    if (from_x < 0 || from_x >= box || from_y < 0 || from_y >= box) return 0;
    return p.scale * image[(size_t)from_y * box + from_x];
}

/* What the background is filled with, from sums over pieces of it. */
static __device__ inline float background_mean(const spectra &s, size_t image) {
    double sum = 0;
    for (int i = 0; i < s.background_count; i++)
        sum += s.background[image * s.background_count + i];
    /* A mask that covers the whole box leaves no background to take a mean of. */
    return s.outside_sum > 0 ? (float)(sum / s.outside_sum) : 0;
}

/* Contrast transfer at a pixel, as ctf_value: phases reach hundreds of radians, of which single precision would leave
 * too little; what is beyond whole half turns is small, and single precision does for it. */
static __device__ inline float contrast(const double *terms, int kx, int ky, double step) {
    double x = kx * step, y = ky * step, u2 = x * x + y * y;
    double phase = terms[0] * x * x + 2 * terms[1] * x * y + terms[2] * y * y - terms[3] * u2 * u2 + terms[4];
    /* Added to this number, the last bits are the nearest integer. */
    const double ROUND = 6755399441055744.0;
    double turns = phase * 0.31830988618379067154, whole = turns + ROUND;
    float value = sinpif((float)(turns - (whole - ROUND))) * (float)terms[6];
    if (__double2loint(whole) & 1) value = -value;
    value *= expf((float)(-terms[5] * u2));
    return fabsf(value) < 1e-8f ? (value < 0 ? -1e-8f : 1e-8f) : value;
}

/* What becomes of the transform of masked + i unmasked at k (a) and −k (b): X = (Z(k) + conj Z(−k))/2,
 * Y = (Z(k) − conj Z(−k))/2i, phase origin at the centre. Returns |X|². */
static __device__ inline float put_pixel(const spectra &s, size_t image, int index, int kx, int ky, float2 a, float2 b,
                                         bool has_ctf, const double *terms, float weight) {
    float norm = 0.5f / ((float)s.box * (float)s.box), factor = (kx + ky) & 1 ? -norm : norm;
    float re = factor * (a.x + b.x), im = factor * (a.y - b.y);
    if (index < s.count) {
        size_t to = image * s.stride + index;
        ((float2 *)s.masked)[to] = make_float2(re, im);
        ((float2 *)s.unmasked)[to] = make_float2(factor * (a.y + b.y), factor * (b.x - a.x));
        s.ctf[to] = has_ctf ? contrast(terms, kx, ky, s.step) : 1;
        s.weight[to] = weight;
    }
    return re * re + im * im;
}

/* |X|² at the origin, which no list holds. */
static __device__ inline double origin_power(const spectra &s, float2 a) {
    double value = (double)a.x / ((double)s.box * s.box);
    return value * value;
}

#endif
