/* Preparation of particle images on a CUDA device: what kernels/prepare, kernels/ctf and the refiner's priors come to on
 * the CPU, for a batch.
 *
 * The masked and the unmasked image are one complex image, so that one transform gives both: of a spectrum Z,
 * X = (Z(k) + conj Z(−k))/2 and Y = (Z(k) − conj Z(−k))/2i. Images are worked through as many at a time as stay in the
 * cache of the device between the passes over them. */
#include <cufft.h>
#include <math.h>
#include <stdlib.h>

#include "common/device_cuda.h"
#include "kernels/alignment/alignment_cuda.h"
#include "kernels/fourier/pixels.h"

#define CUFFT_TRY(call, err, what)                                                                                     \
    do {                                                                                                               \
        cufftResult cufft_result_ = (call);                                                                            \
        if (cufft_result_ != CUFFT_SUCCESS) (void)cudaGetLastError();                                                  \
        FAIL_IF(cufft_result_ != CUFFT_SUCCESS, err,                                                                   \
                cufft_result_ == CUFFT_ALLOC_FAILED ? STATUS_NO_MEMORY : STATUS_DEVICE,                                \
                "the CUDA device failed at %s: cuFFT error %d", what, (int)cufft_result_);                             \
    } while (0)

struct prepare_cuda {
    int box, shells, batch; /* images that are transformed together */
    int members;            /* pixels of the half plane, all shells */
    cufftHandle plan;       /* 0: none */
    size_t work;            /* bytes that the plan wants */
    void *constants;        /* what the pointers below point into */
    int *shell_begin;       /* [shells + 1] */
    short *kx, *ky;         /* [members], in order of shell: any shorter list is the beginning of this one */
    float *outside;         /* [box²]: how much of a pixel is background, for mask_radius */
    float *host_outside;
    double mask_radius, outside_sum;
};

namespace {

const double MASK_EDGE = 5; /* px */
enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, SUM_PIXELS = 4096, CACHED = 32 << 20 };

unsigned blocks_for(size_t count, unsigned each) {
    return (unsigned)((count + each - 1) / each);
}

size_t aligned(size_t bytes) {
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

__device__ inline double warp_sum(double value) {
    for (int step = WARP / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

/* A pixel of the shifted and scaled image: nothing comes in over the edges. */
__device__ inline float shifted(const float *image, int box, const prepare_particle_cuda &p, int at) {
    int y = at / box, from_y = y - p.shift_y, from_x = at - y * box - p.shift_x;
    if (from_x < 0 || from_x >= box || from_y < 0 || from_y >= box) return 0;
    return p.scale * image[(size_t)from_y * box + from_x];
}

/* ret_sums[image][blocks]: of the background, SUM_PIXELS at a time. */
__global__ void sum_background(int box, const float *images, const prepare_particle_cuda *which, const float *outside,
                               double *ret_sums) {
    __shared__ double sums[WARPS];
    size_t image = blockIdx.y, pixels = (size_t)box * box;
    const prepare_particle_cuda p = which[image];
    double sum = 0;
    for (int i = 0; i < SUM_PIXELS / THREADS; i++) {
        size_t at = (size_t)blockIdx.x * SUM_PIXELS + (size_t)i * THREADS + threadIdx.x;
        float weight = at < pixels ? outside[at] : 0;
        if (weight > 0) sum += (double)weight * (double)shifted(images + image * pixels, box, p, (int)at);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < WARPS; i++)
        sum += sums[i];
    ret_sums[image * gridDim.x + blockIdx.x] = sum;
}

/* ret_pairs[image][box²]: masked, unmasked. */
__global__ void mask_images(int box, const float *images, const prepare_particle_cuda *which, const float *outside,
                            const double *sums, int sum_count, double outside_sum, float2 *ret_pairs) {
    __shared__ float mean;
    size_t image = blockIdx.y, pixels = (size_t)box * box;
    const prepare_particle_cuda p = which[image];
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < sum_count; i++)
            sum += sums[image * sum_count + i];
        /* A mask that covers the whole box leaves no background to take a mean of. */
        mean = outside_sum > 0 ? (float)(sum / outside_sum) : 0;
    }
    __syncthreads();
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= pixels) return;
    float value = shifted(images + image * pixels, box, p, (int)at);
    ret_pairs[image * pixels + at] = make_float2(value + outside[at] * (mean - value), value);
}

/* Contrast transfer at a pixel, as ctf_value: phases reach hundreds of radians, of which single precision would leave
 * too little; what is beyond whole half turns is small, and single precision does for it. */
__device__ inline float contrast(const double *terms, int kx, int ky, double step) {
    double x = kx * step, y = ky * step, u2 = x * x + y * y;
    double phase = terms[0] * x * x + 2 * terms[1] * x * y + terms[2] * y * y - terms[3] * u2 * u2 + terms[4];
    double turns = phase * 0.31830988618379067154, whole = rint(turns);
    float value = sinpif((float)(turns - whole)) * (float)terms[6];
    if ((long long)whole & 1) value = -value;
    value *= expf((float)(-terms[5] * u2));
    return fabsf(value) < 1e-8f ? (value < 0 ? -1e-8f : 1e-8f) : value;
}

struct spectra {
    int box, shells, count; /* pixels that are wanted */
    size_t stride;
    const short *kx, *ky;
    const int *shell_begin;
    const float2 *pairs; /* [image][box²]: transforms */
    const prepare_particle_cuda *which;
    double step; /* 1/(box · pixel size) */
    const float *sigma2;
    float *masked, *unmasked, *ctf, *weight, *power;
    double *constants; /* [image][shells] */
};

/* The pair of spectra at a pixel, phase origin at the centre. */
__device__ inline float4 separate(const spectra &s, const float2 *z, int kx, int ky) {
    int row = ky < 0 ? ky + s.box : ky, mirrored_row = ky > 0 ? s.box - ky : -ky;
    int mirrored = kx > 0 ? s.box - kx : 0;
    float2 a = z[(size_t)row * s.box + kx], b = z[(size_t)mirrored_row * s.box + mirrored];
    float factor = ((kx + ky) & 1 ? -0.5f : 0.5f) / ((float)s.box * (float)s.box);
    return make_float4(factor * (a.x + b.x), factor * (a.y - b.y), factor * (a.y + b.y), factor * (b.x - a.x));
}

/* A warp for each shell of an image. */
__global__ void gather(spectra s) {
    int shell = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    if (shell >= s.shells) return;
    size_t image = blockIdx.y;
    const float2 *z = s.pairs + image * (size_t)s.box * s.box;
    const prepare_particle_cuda *p = s.which + image;
    int begin = s.shell_begin[shell], end = s.shell_begin[shell + 1];
    float sigma2 = s.sigma2[(size_t)p->optics * s.shells + shell], weight = 1 / sigma2;
    bool wanted = end <= s.count, has_ctf = p->has_ctf != 0;
    double terms[7], sum = 0;
    for (int i = 0; i < 7; i++)
        terms[i] = p->ctf[i];
    for (int m = begin + lane; m < end; m += WARP) {
        int kx = s.kx[m], ky = s.ky[m];
        float4 pair = separate(s, z, kx, ky);
        sum += (double)pair.x * pair.x + (double)pair.y * pair.y;
        if (!wanted) continue;
        size_t at = image * s.stride + m;
        ((float2 *)s.masked)[at] = make_float2(pair.x, pair.y);
        ((float2 *)s.unmasked)[at] = make_float2(pair.z, pair.w);
        s.ctf[at] = has_ctf ? contrast(terms, kx, ky, s.step) : 1;
        s.weight[at] = weight;
    }
    sum = warp_sum(sum);
    if (lane > 0) return;
    int members = end - begin;
    if (shell == 0) { /* the origin, which no list holds */
        float4 pair = separate(s, z, 0, 0);
        sum = (double)pair.x * pair.x + (double)pair.y * pair.y;
        members = 1;
    }
    s.power[image * s.shells + shell] = members > 0 ? (float)(sum / (2.0 * members)) : 0;
    s.constants[image * s.shells + shell] =
        wanted && shell > 0 ? 0.5 * weight * sum + members * log(2 * M_PI * (double)sigma2) : 0;
}

/* What is left: a warp for each image. */
__global__ void finish(int count, int shells, const double *constants, const prepare_particle_cuda *which,
                       const float *shifts, int shift_count, double sigma_offset, double *ret_constants,
                       float *ret_priors) {
    int image = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    if (image >= count) return;
    double sum = 0;
    for (int shell = lane; shell < shells; shell += WARP)
        sum += constants[(size_t)image * shells + shell];
    sum = warp_sum(sum);
    if (lane == 0) ret_constants[image] = sum;
    for (int t = lane; t < shift_count; t += WARP) {
        double x = which[image].shift_x + (double)shifts[2 * t], y = which[image].shift_y + (double)shifts[2 * t + 1];
        ret_priors[(size_t)image * shift_count + t] = (float)(-(x * x + y * y) / (2 * sigma_offset * sigma_offset));
    }
}

/* What the caller's scratch is cut into. */
struct scratch {
    size_t pairs, work, sums, constants, end;
};

scratch cut_scratch(const prepare_cuda *p) {
    size_t pixels = (size_t)p->box * p->box, batch = (size_t)p->batch;
    scratch s;
    s.pairs = 0;
    s.work = aligned(batch * pixels * sizeof(float2));
    s.sums = s.work + aligned(p->work);
    s.constants = s.sums + aligned(batch * blocks_for(pixels, SUM_PIXELS) * sizeof(double));
    s.end = s.constants + aligned(batch * (size_t)p->shells * sizeof(double));
    return s;
}

enum status make_plan(prepare_cuda *p, struct err *err) {
    int shape[] = {p->box, p->box};
    CUFFT_TRY(cufftCreate(&p->plan), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetAutoAllocation(p->plan, 0), err, "making a Fourier plan");
    CUFFT_TRY(cufftMakePlanMany(p->plan, 2, shape, NULL, 1, 0, NULL, 1, 0, CUFFT_C2C, p->batch, &p->work), err,
              "making a Fourier plan");
    return STATUS_OK;
}

enum status make_constants(prepare_cuda *p, const struct fourier_pixels *pixels, struct err *err) {
    size_t shells = (size_t)p->shells, members = (size_t)p->members, area = (size_t)p->box * p->box;
    size_t begin = aligned((shells + 1) * sizeof(int)), list = aligned(members * sizeof(short));
    char *at;
    CUDA_TRY(cudaMalloc(&p->constants, begin + 2 * list + area * sizeof(float)), err, "making room for pixel lists");
    at = (char *)p->constants;
    p->shell_begin = (int *)at;
    p->kx = (short *)(at + begin);
    p->ky = (short *)(at + begin + list);
    p->outside = (float *)(at + begin + 2 * list);
    CUDA_TRY(cudaMemcpy(p->shell_begin, pixels->shell_begin, (shells + 1) * sizeof(int), cudaMemcpyHostToDevice), err,
             "copying pixel lists");
    CUDA_TRY(cudaMemcpy(p->kx, pixels->kx, members * sizeof(short), cudaMemcpyHostToDevice), err, "copying pixel lists");
    CUDA_TRY(cudaMemcpy(p->ky, pixels->ky, members * sizeof(short), cudaMemcpyHostToDevice), err, "copying pixel lists");
    p->host_outside = (float *)malloc(area * sizeof(float));
    FAIL_IF(p->host_outside == NULL, err, STATUS_NO_MEMORY, "no memory for the mask of particles");
    return STATUS_OK;
}

/* The mask of kernels/prepare. It changes between runs, not between batches. */
enum status set_mask(prepare_cuda *p, double radius, cudaStream_t stream, struct err *err) {
    if (radius == p->mask_radius) return STATUS_OK;
    p->mask_radius = -1;
    p->outside_sum = 0;
    for (int y = 0; y < p->box; y++)
        for (int x = 0; x < p->box; x++) {
            double dx = x - p->box / 2, dy = y - p->box / 2, r = sqrt(dx * dx + dy * dy), w = 0;
            if (r >= radius + MASK_EDGE)
                w = 1;
            else if (r >= radius)
                w = 0.5 + 0.5 * cos(M_PI * (radius + MASK_EDGE - r) / MASK_EDGE);
            p->host_outside[y * p->box + x] = (float)w;
            p->outside_sum += w;
        }
    size_t bytes = (size_t)p->box * p->box * sizeof(float);
    CUDA_TRY(cudaMemcpyAsync(p->outside, p->host_outside, bytes, cudaMemcpyHostToDevice, stream), err, "copying a mask");
    /* The next mask must not be written over it. */
    CUDA_TRY(cudaStreamSynchronize(stream), err, "copying a mask");
    p->mask_radius = radius;
    return STATUS_OK;
}

/* Images `first` .. `first + count − 1`; all that the plan takes in is transformed, used or not. */
enum status run_part(prepare_cuda *p, spectra s, const float *images, const prepare_particle_cuda *which, int count,
                     char *memory, const scratch &at, cudaStream_t stream, struct err *err) {
    size_t pixels = (size_t)p->box * p->box;
    unsigned sums = blocks_for(pixels, SUM_PIXELS);
    float2 *pairs = (float2 *)(memory + at.pairs);
    sum_background<<<dim3(sums, (unsigned)count), THREADS, 0, stream>>>(p->box, images, which, p->outside,
                                                                       (double *)(memory + at.sums));
    mask_images<<<dim3(blocks_for(pixels, THREADS), (unsigned)count), THREADS, 0, stream>>>(
        p->box, images, which, p->outside, (double *)(memory + at.sums), (int)sums, p->outside_sum, pairs);
    CUDA_TRY(cudaGetLastError(), err, "masking particles");
    CUFFT_TRY(cufftExecC2C(p->plan, pairs, pairs, CUFFT_FORWARD), err, "transforming particles");
    s.pairs = pairs;
    s.which = which;
    gather<<<dim3(blocks_for((size_t)p->shells, WARPS), (unsigned)count), THREADS, 0, stream>>>(s);
    CUDA_TRY(cudaGetLastError(), err, "gathering spectra");
    return STATUS_OK;
}

} // namespace

extern "C" enum status prepare_cuda_create(int box, int most, struct prepare_cuda **ret_prepare, struct err *err) {
    struct fourier_pixels pixels;
    FAIL_IF(most < 1, err, STATUS_BAD_ARGUMENT, "%d particles cannot be prepared at a time", most);
    TRY(fourier_pixels_create(box, box, &pixels, err));
    struct prepare_cuda *p = (struct prepare_cuda *)calloc(1, sizeof *p);
    enum status status = STATUS_NO_MEMORY;
    if (p) {
        size_t cached = CACHED / ((size_t)box * box * sizeof(float2));
        p->box = box;
        p->shells = box / 2 + 1;
        p->members = pixels.count;
        p->mask_radius = -1;
        /* The second dimension of a launch ends at 65,535. */
        p->batch = cached < 1 ? 1 : (int)(cached < 65535 ? cached : 65535);
        if (p->batch > most) p->batch = most;
        status = make_plan(p, err);
        if (status == STATUS_OK) status = make_constants(p, &pixels, err);
    }
    fourier_pixels_destroy(&pixels);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for the preparation of particles");
    if (status != STATUS_OK) {
        prepare_cuda_destroy(&p);
        return status;
    }
    *ret_prepare = p;
    return STATUS_OK;
}

extern "C" void prepare_cuda_destroy(struct prepare_cuda **prepare) {
    struct prepare_cuda *p = *prepare;
    if (p == NULL) return;
    if (p->plan) (void)cufftDestroy(p->plan);
    (void)cudaFree(p->constants);
    free(p->host_outside);
    free(p);
    *prepare = NULL;
}

extern "C" size_t prepare_cuda_scratch(const struct prepare_cuda *prepare, int count) {
    (void)count; /* the plan takes as many images as it was made for */
    return cut_scratch(prepare).end;
}

extern "C" enum status prepare_cuda_run(struct prepare_cuda *p, const struct references_cuda *references,
                                        const struct sampling_cuda *sampling, const float *images,
                                        const struct prepare_particle_cuda *which, double pixel_size,
                                        double mask_radius, const float *sigma2, double sigma_offset, void *memory,
                                        struct particles_cuda *particles, void *stream, struct err *err) {
    int n = references->pixels.count, count = particles->count;
    FAIL_IF(references->pixels.box != p->box || n > p->members || (size_t)n > particles->stride, err,
            STATUS_BAD_ARGUMENT, "%d Fourier pixels of a box of %d px cannot be taken from particles of %d px", n,
            references->pixels.box, p->box);
    scratch at = cut_scratch(p);
    TRY(set_mask(p, mask_radius, (cudaStream_t)stream, err));
    CUFFT_TRY(cufftSetStream(p->plan, (cudaStream_t)stream), err, "choosing a stream");
    CUFFT_TRY(cufftSetWorkArea(p->plan, (char *)memory + at.work), err, "giving memory to a Fourier plan");
    for (int first = 0; first < count; first += p->batch) {
        int part = count - first < p->batch ? count - first : p->batch;
        size_t begin = (size_t)first * particles->stride, shells = (size_t)first * p->shells;
        double *constants = (double *)((char *)memory + at.constants);
        spectra s = {};
        s.box = p->box, s.shells = p->shells, s.count = n, s.stride = particles->stride;
        s.kx = p->kx, s.ky = p->ky, s.shell_begin = p->shell_begin;
        s.step = 1 / (p->box * pixel_size), s.sigma2 = sigma2;
        s.masked = particles->masked + 2 * begin, s.unmasked = particles->unmasked + 2 * begin;
        s.ctf = particles->ctf + begin, s.weight = particles->weight + begin;
        s.power = particles->power + shells, s.constants = constants;
        TRY(run_part(p, s, images + (size_t)first * p->box * p->box, which + first, part, (char *)memory, at,
                     (cudaStream_t)stream, err));
        finish<<<blocks_for((size_t)part, WARPS), THREADS, 0, (cudaStream_t)stream>>>(
            part, p->shells, constants, which + first, sampling->shifts, sampling->shift_count, sigma_offset,
            particles->constant + first, particles->shift_log_prior + (size_t)first * sampling->shift_count);
        CUDA_TRY(cudaGetLastError(), err, "priors of shifts");
    }
    return STATUS_OK;
}
