/* Definitions shared by the two ways to prepare particles, prepare.cu and prepare_fused.cu. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_PREPARE_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_PREPARE_CUH

#include <math.h>

#include "kernels/alignment/cuda/alignment.h"
#include "kernels/fourier/cufft.cuh"

/* Transforms of the length of a box in the shared memory of a block, if its factors allow that. */
enum { FUSED_PASSES = 6 };
struct fused_fft {
    int n, passes, radix[FUSED_PASSES]; /* passes 0: no such transform for this length */
    const float2 *roots;                /* [n]: exp(2πi k / n) */
    const short *places;                /* [n]: place of frequency k after the passes */
};

struct prepare_cuda {
    int box, shells, batch; /* images processed together */
    int members;            /* pixels of the half plane, all shells */
    bool fused;             /* one block processes an image; otherwise cuFFT */
    cufftHandle plan;       /* 0: no plan */
    size_t work;            /* bytes that the plan needs */
    void *constants;        /* memory of the pointers below */
    int *shell_begin;       /* [shells + 1] */
    short *kx, *ky, *shell; /* [members], in order of shell: any shorter list is the beginning of this one */
    float *outside;         /* [box²]: background fraction of each pixel, for mask_radius */
    /* [box²]: transform of outside, real because the mask is even; phase origin at the centre, 1/box² norm */
    float *spread;
    struct fused_fft fft;
    float *host_outside, *host_spread; /* one block */
    double mask_radius, outside_sum;
};

/* A batch in preparation. */
struct spectra {
    int box, shells, count; /* pixels requested */
    size_t stride;
    const short *kx, *ky, *shell;
    const int *shell_begin;
    const float *images, *outside;
    double outside_sum;
    float2 *pairs; /* [image][box²]: masked and unmasked image, or their transform */
    const struct prepare_particle_cuda *which;
    double step; /* 1/(box · pixel size) */
    const float *sigma2;
    float *masked, *unmasked, *ctf, *weight;
    double *sums; /* [image][shells]: Σ |X|² of the masked image */
    /* Masked in two bands: last shell of the lower one, its number of pixels; 0: one band */
    int shared_shell, low_count;
    const float *spread;
    /* [image][1 + low_count]: lower band of the unmasked image; at the origin minus the mean of its background */
    float2 *low;
    float2 *cut; /* [image][box²]: what masking adds to the lower band, or its transform; only with cuFFT */
};

/* Checks whether one block can transform an image: sets p->fft (the caller makes its tables) and p->fused. */
enum status prepare_fused_choose(struct prepare_cuda *p, struct err *err);
/* Fills the tables of a fused transform, in host memory. */
void prepare_fused_tables(const struct fused_fft *fft, float2 *ret_roots, short *ret_places);
/* Queues the masking and the transform of `count` images, one block each. */
enum status prepare_fused_run(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                              struct err *err);

static __device__ inline const float *image_of(const spectra &s, size_t image) {
    const float *own = s.which[image].image;
    return own != NULL ? own : s.images + image * (size_t)s.box * s.box;
}

static __device__ inline int around(int i, int box) {
    i %= box;
    return i < 0 ? i + box : i;
}

/* Returns a pixel of the shifted and scaled image: beyond the edges 0, or the pixels from the opposite edge. */
static __device__ inline float shifted(const spectra &s, const float *image, const prepare_particle_cuda &p, int x,
                                       int y) {
    int box = s.box, from_y = y - p.shift_y, from_x = x - p.shift_x;
    if (s.shared_shell > 0)
        from_x = around(from_x, box), from_y = around(from_y, box);
    else if (from_x < 0 || from_x >= box || from_y < 0 || from_y >= box)
        return 0;
    return p.scale * image[(size_t)from_y * box + from_x];
}

/* Returns Σ c[i] x^(d−i) y^i. */
static __device__ inline double form(const double *c, int d, double x, double y) {
    double sum = c[0], power = 1;
    for (int i = 1; i <= d; i++) {
        power *= y;
        sum = sum * x + c[i] * power;
    }
    return sum;
}

/* Returns the CTF at a pixel, like ctf_value. terms: those of struct ctf_terms before fourth[], higher: all from there
 * on. Phases reach hundreds of radians, for which single precision is not
 * accurate enough; the rest after whole half turns is small, and single precision suffices for it. */
static __device__ inline float contrast(const double *terms, const double *higher, int kx, int ky, double step) {
    double x = kx * step, y = ky * step, u2 = x * x + y * y;
    double phase = terms[0] * x * x + 2 * terms[1] * x * y + terms[2] * y * y - terms[3] * u2 * u2 + terms[4];
    if (terms[8] != 0) phase += form(higher, 4, x, y) + form(higher + 5, 6, x, y) + form(higher + 12, 8, x, y);
    /* In a sum with this number, the last bits are the nearest integer. */
    const double ROUND = 6755399441055744.0;
    double turns = phase * 0.31830988618379067154, whole = turns + ROUND;
    float value = sinpif((float)(turns - (whole - ROUND))) * (float)terms[6];
    if (__double2loint(whole) & 1) value = -value;
    value *= expf((float)(-terms[5] * u2));
    if (u2 > terms[7]) value = 0;
    return fabsf(value) < 1e-8f ? (value < 0 ? -1e-8f : 1e-8f) : value;
}

/* Returns the mask's transform; k may lie up to one box length beyond the box. */
static __device__ inline float spread_at(const spectra &s, int kx, int ky) {
    int x = kx < 0 ? kx + s.box : kx, y = ky < 0 ? ky + s.box : ky;
    if (x >= s.box) x -= s.box;
    if (y >= s.box) y -= s.box;
    return s.spread[(size_t)y * s.box + x];
}

/* Returns Y of a pixel: see put_pixel. */
static __device__ inline float2 unmasked_at(int box, int kx, int ky, float2 a, float2 b) {
    float norm = 0.5f / ((float)box * (float)box), factor = (kx + ky) & 1 ? -norm : norm;
    return make_float2(factor * (a.y + b.y), factor * (b.x - a.x));
}

/* Fills s.low of an image. at(kx, ky), with k of either sign, is the transform of masked + i unmasked. All threads of
 * the block call this. */
template <class At> __device__ inline void put_low(const spectra &s, size_t image, At at) {
    float2 *low = s.low + image * (size_t)(1 + s.low_count);
    double sum = 0;
    for (int j = (int)threadIdx.x; j < s.low_count; j += (int)blockDim.x) {
        int kx = s.kx[j], ky = s.ky[j];
        float2 y = unmasked_at(s.box, kx, ky, at(kx, ky), at(-kx, -ky));
        low[1 + j] = y;
        sum += 2.0 * (double)y.x * (double)spread_at(s, kx, ky);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        double origin = (double)at(0, 0).y / ((double)s.box * s.box), outside = spread_at(s, 0, 0);
        /* The mean of the background is Σ Y(q) O(q) / O(0) over the whole plane. */
        low[0] = make_float2(s.outside_sum > 0 ? (float)-(sum / outside) : (float)origin, 0);
    }
    __syncthreads();
}

/* Returns what masking adds to the lower band at k: the band's mean background b O(k) minus Σ Y(q) O(k − q) over all
 * its q, each together with −q. O is the mask's transform, which is even. */
static __device__ inline float2 masked_low(const spectra &s, size_t image, int kx, int ky) {
    const float2 *low = s.low + image * (size_t)(1 + s.low_count);
    float re = low[0].x * spread_at(s, kx, ky), im = 0;
    for (int j = 0; j < s.low_count; j++) {
        float2 y = low[1 + j];
        float minus = spread_at(s, kx - s.kx[j], ky - s.ky[j]), plus = spread_at(s, kx + s.kx[j], ky + s.ky[j]);
        re += y.x * (minus + plus);
        im += y.y * (minus - plus);
    }
    return make_float2(-re, -im);
}

/* Separates the transform Z of masked + i unmasked, from its values at k (a) and −k (b): X = (Z(k) + conj Z(−k))/2, Y =
 * (Z(k) − conj Z(−k))/2i, phase origin at the centre. With two bands, X is the masked transform of the lower band up to
 * the shared shell, and the rest of X beyond it; added: what masking adds to the lower band. Returns |X|². */
static __device__ inline float put_pixel(const spectra &s, size_t image, int index, int kx, int ky, float2 a, float2 b,
                                         float2 added, bool has_ctf, const double *terms, const double *higher,
                                         float weight) {
    float norm = 0.5f / ((float)s.box * (float)s.box), factor = (kx + ky) & 1 ? -norm : norm;
    float re = factor * (a.x + b.x), im = factor * (a.y - b.y);
    if (s.shared_shell > 0) {
        float2 y = unmasked_at(s.box, kx, ky, a, b);
        bool low = s.shell[index] <= s.shared_shell;
        re = low ? y.x + added.x : re - added.x, im = low ? y.y + added.y : im - added.y;
    }
    if (index < s.count) {
        size_t to = image * s.stride + index;
        ((float2 *)s.masked)[to] = make_float2(re, im);
        ((float2 *)s.unmasked)[to] = make_float2(factor * (a.y + b.y), factor * (b.x - a.x));
        s.ctf[to] = has_ctf ? contrast(terms, higher, kx, ky, s.step) : 1;
        s.weight[to] = weight;
    }
    return re * re + im * im;
}

/* Returns |X|² at the origin, which no list holds. */
static __device__ inline double origin_power(const spectra &s, float2 a) {
    /* With two bands, the lower band keeps its mean: what the mask removes outside is put back as background. */
    double value = (double)(s.shared_shell > 0 ? a.y : a.x) / ((double)s.box * s.box);
    return value * value;
}

#endif
