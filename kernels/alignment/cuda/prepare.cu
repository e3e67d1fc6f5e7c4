/* Prepares a batch of particle images on a CUDA device: the same results as kernels/prepare, kernels/ctf and the priors
 * of shifts on the CPU.
 *
 * The masked and the unmasked image form one complex image, so that one transform gives both. Images that fit into the
 * shared memory of a block are read once and their spectra written once (prepare_fused.cu). Larger ones, and those with
 * awkward sizes, go through cuFFT, as many at a time as stay in the device's cache between the passes. */
#include <stdlib.h>
#include <string.h>

#include "kernels/alignment/cuda/prepare.cuh"
#include "kernels/fourier/pixels.h"
#include "kernels/prepare/mask.h"

namespace {

enum { THREADS = 256, WARPS = THREADS / 32, SUM_PIXELS = 4096, CACHED = 24 << 20 };

/* Sums the background, SUM_PIXELS at a time: ret_sums[image][blocks]. */
__global__ void sum_background(spectra s, double *ret_sums) {
    size_t image = blockIdx.y, pixels = (size_t)s.box * s.box;
    const prepare_particle_cuda p = s.which[image];
    const float *from = image_of(s, image);
    double sum = 0;
#pragma unroll 4
    for (int i = 0; i < SUM_PIXELS / THREADS; i++) {
        size_t at = (size_t)blockIdx.x * SUM_PIXELS + (size_t)i * THREADS + threadIdx.x;
        float weight = at < pixels ? s.outside[at] : 0;
        int y = (int)(at / s.box), x = (int)(at % s.box);
        if (weight > 0) sum += (double)weight * (double)shifted(s, from, p, x, y);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) ret_sums[image * gridDim.x + blockIdx.x] = sum;
}

__global__ void mask_images(spectra s, const double *sums, int sum_count) {
    __shared__ float mean;
    size_t image = blockIdx.y, pixels = (size_t)s.box * s.box;
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < sum_count; i++)
            sum += sums[image * sum_count + i];
        /* A mask that covers the whole box leaves no background to average. */
        mean = s.outside_sum > 0 ? (float)(sum / s.outside_sum) : 0;
    }
    __syncthreads();
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= pixels) return;
    float value = shifted(s, image_of(s, image), s.which[image], (int)(at % s.box), (int)(at / s.box));
    s.pairs[image * pixels + at] = make_float2(value + s.outside[at] * (mean - value), value);
}

/* Gathers the lower band of one image per block. */
__global__ void gather_low(spectra s) {
    int n = s.box;
    const float2 *z = s.pairs + (size_t)blockIdx.x * n * n;
    put_low(s, blockIdx.x,
            [&](int kx, int ky) { return z[(size_t)(ky < 0 ? ky + n : ky) * n + (kx < 0 ? kx + n : kx)]; });
}

/* Puts the lower band, less the mean of its background, into a whole transform, which is 0 elsewhere. One block per
 * image. */
__global__ void place_low(spectra s) {
    int n = s.box;
    const float2 *low = s.low + (size_t)blockIdx.x * (1 + s.low_count);
    float2 *to = s.cut + (size_t)blockIdx.x * n * n;
    if (threadIdx.x == 0) to[0] = low[0];
    for (int j = (int)threadIdx.x; j < s.low_count; j += (int)blockDim.x) {
        int kx = s.kx[j], ky = s.ky[j];
        float sign = (kx + ky) & 1 ? -1.0f : 1.0f;
        float2 y = make_float2(sign * low[1 + j].x, sign * low[1 + j].y);
        to[(size_t)(ky < 0 ? ky + n : ky) * n + kx] = y;
        to[(size_t)(ky > 0 ? n - ky : -ky) * n + (kx > 0 ? n - kx : 0)] = make_float2(y.x, -y.y);
    }
}

/* Leaves of the lower band's image what masking adds to it. */
__global__ void cut_low(spectra s) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, pixels = (size_t)s.box * s.box;
    if (at >= pixels) return;
    float2 *image = s.cut + blockIdx.y * pixels;
    image[at] = make_float2(-s.outside[at] * image[at].x, 0);
}

/* Gathers one shell of an image per warp. */
__global__ void gather(spectra s) {
    int shell = (int)(blockIdx.x * WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32, n = s.box;
    if (shell >= s.shells) return;
    size_t image = blockIdx.y;
    const float2 *z = s.pairs + image * (size_t)n * n;
    const prepare_particle_cuda *p = s.which + image;
    float weight = 1 / s.sigma2[(size_t)p->optics * s.shells + shell];
    double terms[CTF_TERMS_PLAIN], sum = 0;
    for (int i = 0; i < CTF_TERMS_PLAIN; i++)
        terms[i] = p->ctf[i];
    for (int m = s.shell_begin[shell] + lane; m < s.shell_begin[shell + 1]; m += 32) {
        int kx = s.kx[m], ky = s.ky[m], row = ky < 0 ? ky + n : ky;
        float2 a = z[(size_t)row * n + kx], b = z[(size_t)(row > 0 ? n - row : 0) * n + (kx > 0 ? n - kx : 0)];
        float2 added = make_float2(0, 0);
        if (s.shared_shell > 0) {
            float factor = ((kx + ky) & 1 ? -1.0f : 1.0f) / ((float)n * (float)n);
            added = s.cut[image * (size_t)n * n + (size_t)row * n + kx];
            added = make_float2(factor * added.x, factor * added.y);
        }
        sum += put_pixel(s, image, m, kx, ky, a, b, added, p->has_ctf != 0, terms, p->ctf + CTF_TERMS_PLAIN, weight);
    }
    sum = shell == 0 ? origin_power(s, z[0]) : warp_sum(sum);
    if (lane == 0) s.sums[image * s.shells + shell] = sum;
}

struct results {
    float *power, *priors;
    double *constants;
    const float *shifts;
    int shift_count;
    double sigma_offset;
};

/* Computes the remaining results, one image per warp. */
__global__ void finish(spectra s, int count, results r) {
    size_t image = blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    if (image >= (size_t)count) return;
    const prepare_particle_cuda *p = s.which + image;
    double constant = 0;
    for (int shell = lane; shell < s.shells; shell += 32) {
        int end = s.shell_begin[shell + 1], members = shell == 0 ? 1 : end - s.shell_begin[shell];
        double sum = s.sums[image * s.shells + shell];
        r.power[image * s.shells + shell] = members > 0 ? (float)(sum / (2.0 * members)) : 0;
        if (shell == 0 || end > s.count) continue;
        float sigma2 = s.sigma2[(size_t)p->optics * s.shells + shell], weight = 1 / sigma2;
        constant += 0.5 * weight * sum + members * log(2 * M_PI * (double)sigma2);
    }
    constant = warp_sum(constant);
    if (lane == 0) r.constants[image] = constant;
    for (int t = lane; t < r.shift_count; t += 32) {
        double x = p->shift_x + (double)r.shifts[2 * t], y = p->shift_y + (double)r.shifts[2 * t + 1];
        r.priors[image * r.shift_count + t] = (float)(-(x * x + y * y) / (2 * r.sigma_offset * r.sigma_offset));
    }
}

/* Offsets of the arrays in the caller's scratch. */
struct scratch {
    size_t pairs, work, background, sums, low, cut, end;
};

/* Counts the pixels of the half plane in shells 1 .. last. */
int pixels_within(int box, int last) {
    int count = 0;
    for (int kx = 0; kx <= last && kx <= box / 2; kx++)
        for (int ky = kx == 0 ? 1 : -last; ky <= last; ky++) {
            double r = sqrt((double)kx * kx + (double)ky * ky);
            count += (int)floor(r + 0.5) <= last;
        }
    return count;
}

scratch cut_scratch(const prepare_cuda *p, int count, int shared_shell) {
    /* A plan always transforms as many images as it was made for. */
    size_t pixels = (size_t)p->box * p->box;
    size_t batch = (size_t)(count < p->batch && p->fused ? count : p->batch);
    scratch s;
    s.pairs = 0;
    s.work = p->fused ? 0 : aligned(batch * pixels * sizeof(float2));
    s.background = s.work + aligned(p->work + 1);
    s.sums = s.background + aligned(batch * blocks_for(pixels, SUM_PIXELS) * sizeof(double));
    s.low = s.sums + aligned(batch * (size_t)p->shells * sizeof(double));
    size_t low = shared_shell > 0 ? 1 + (size_t)pixels_within(p->box, shared_shell) : 0;
    s.cut = s.low + aligned(batch * low * sizeof(float2));
    s.end = s.cut + (shared_shell > 0 && !p->fused ? aligned(batch * pixels * sizeof(float2)) : 0);
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

/* Fills one block of memory on the host, and copies it. */
enum status make_constants(prepare_cuda *p, const struct fourier_pixels *pixels, struct err *err) {
    size_t members = (size_t)p->members, area = (size_t)p->box * p->box, n = (size_t)p->box,
           row = (size_t)p->shells + 1;
    const size_t sizes[] = {row * sizeof(int),       members * sizeof(short), members * sizeof(short),
                            members * sizeof(short), n * sizeof(float2),      n * sizeof(short)};
    enum { PIECES = sizeof sizes / sizeof *sizes };
    size_t at[PIECES + 1] = {0};
    for (int i = 0; i < PIECES; i++)
        at[i + 1] = at[i] + aligned(sizes[i]);
    char *host = (char *)calloc(1, at[PIECES]);
    p->host_outside = (float *)malloc(2 * area * sizeof(float));
    p->host_spread = p->host_outside + area;
    if (host == NULL || p->host_outside == NULL) {
        free(host);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the preparation of particles");
    }
    memcpy(host, pixels->shell_begin, sizes[0]);
    memcpy(host + at[1], pixels->kx, sizes[1]);
    memcpy(host + at[2], pixels->ky, sizes[2]);
    memcpy(host + at[3], pixels->shell, sizes[3]);
    if (p->fused) prepare_fused_tables(&p->fft, (float2 *)(host + at[4]), (short *)(host + at[5]));
    cudaError_t made = cudaMalloc(&p->constants, at[PIECES] + 2 * area * sizeof(float));
    if (made == cudaSuccess) made = cuda_copy(p->constants, host, at[PIECES]);
    free(host);
    CUDA_TRY(made, err, "making pixel lists");
    char *base = (char *)p->constants;
    p->shell_begin = (int *)base;
    p->kx = (short *)(base + at[1]), p->ky = (short *)(base + at[2]), p->shell = (short *)(base + at[3]);
    p->fft.roots = (const float2 *)(base + at[4]), p->fft.places = (const short *)(base + at[5]);
    p->outside = (float *)(base + at[PIECES]);
    p->spread = p->outside + area;
    return STATUS_OK;
}

/* Sets the mask of kernels/prepare. It changes between runs, not between batches. */
enum status set_mask(prepare_cuda *p, double radius, cudaStream_t stream, struct err *err) {
    if (radius == p->mask_radius) return STATUS_OK;
    p->mask_radius = -1;
    p->outside_sum = prepare_mask_outside(p->box, radius, p->host_outside);
    size_t bytes = (size_t)p->box * p->box * sizeof(float);
    TRY(prepare_spread(p->box, p->host_outside, p->host_spread, err));
    CUDA_TRY(cudaMemcpyAsync(p->spread, p->host_spread, bytes, cudaMemcpyHostToDevice, stream), err, "copying a mask");
    CUDA_TRY(cudaMemcpyAsync(p->outside, p->host_outside, bytes, cudaMemcpyHostToDevice, stream), err,
             "copying a mask");
    /* The copy must end before the next mask overwrites it. */
    CUDA_TRY(cudaStreamSynchronize(stream), err, "copying a mask");
    p->mask_radius = radius;
    return STATUS_OK;
}

/* Computes the transform of what masking adds to the lower band of each image. */
enum status mask_low(const prepare_cuda *p, spectra *s, int count, cudaStream_t stream, struct err *err) {
    size_t pixels = (size_t)p->box * p->box;
    CUDA_TRY(cudaMemsetAsync(s->cut, 0, (size_t)count * pixels * sizeof *s->cut, stream), err, "masking particles");
    place_low<<<(unsigned)count, THREADS, 0, stream>>>(*s);
    CUDA_TRY(cudaGetLastError(), err, "masking particles");
    CUFFT_TRY(cufftExecC2C(p->plan, s->cut, s->cut, CUFFT_INVERSE), err, "transforming particles");
    cut_low<<<dim3(blocks_for(pixels, THREADS), (unsigned)count), THREADS, 0, stream>>>(*s);
    CUDA_TRY(cudaGetLastError(), err, "masking particles");
    CUFFT_TRY(cufftExecC2C(p->plan, s->cut, s->cut, CUFFT_FORWARD), err, "transforming particles");
    return STATUS_OK;
}

/* Computes the spectra of `count` images. */
enum status run_part(const prepare_cuda *p, spectra *s, int count, char *memory, const scratch &at, cudaStream_t stream,
                     struct err *err) {
    size_t pixels = (size_t)p->box * p->box;
    if (p->fused) return prepare_fused_run(p, s, count, stream, err);
    unsigned sums = blocks_for(pixels, SUM_PIXELS);
    double *background = (double *)(memory + at.background);
    s->pairs = (float2 *)(memory + at.pairs);
    sum_background<<<dim3(sums, (unsigned)count), THREADS, 0, stream>>>(*s, background);
    CUDA_TRY(cudaGetLastError(), err, "masking particles");
    mask_images<<<dim3(blocks_for(pixels, THREADS), (unsigned)count), THREADS, 0, stream>>>(*s, background, (int)sums);
    CUDA_TRY(cudaGetLastError(), err, "masking particles");
    /* The plan transforms its whole input, used or not. */
    CUFFT_TRY(cufftExecC2C(p->plan, s->pairs, s->pairs, CUFFT_FORWARD), err, "transforming particles");
    if (s->shared_shell > 0) {
        gather_low<<<(unsigned)count, THREADS, 0, stream>>>(*s);
        CUDA_TRY(cudaGetLastError(), err, "gathering spectra");
        TRY(mask_low(p, s, count, stream, err));
    }
    gather<<<dim3(blocks_for((size_t)p->shells, WARPS), (unsigned)count), THREADS, 0, stream>>>(*s);
    CUDA_TRY(cudaGetLastError(), err, "gathering spectra");
    return STATUS_OK;
}

enum status build(prepare_cuda *p, const struct fourier_pixels *pixels, int most, struct err *err) {
    TRY(prepare_fused_choose(p, err));
    size_t cached = CACHED / ((size_t)p->box * p->box * sizeof(float2));
    /* The second dimension of a launch is at most 65,535. */
    if (p->fused || cached > 65535) cached = 65535;
    p->batch = cached < 1 ? 1 : cached < (size_t)most ? (int)cached : most;
    if (!p->fused) TRY(make_plan(p, err));
    return make_constants(p, pixels, err);
}

} // namespace

extern "C" enum status prepare_cuda_create(int box, int most, struct prepare_cuda **ret_prepare, struct err *err) {
    struct fourier_pixels pixels;
    FAIL_IF(most < 1, err, STATUS_BAD_ARGUMENT, "%d particles cannot be prepared at a time", most);
    TRY(fourier_pixels_create(box, box, &pixels, err));
    struct prepare_cuda *p = (struct prepare_cuda *)calloc(1, sizeof *p);
    enum status status = STATUS_NO_MEMORY;
    if (p) {
        p->box = box;
        p->shells = box / 2 + 1;
        p->members = pixels.count;
        p->mask_radius = -1;
        status = build(p, &pixels, most, err);
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

extern "C" size_t prepare_cuda_scratch(const struct prepare_cuda *prepare, int count, int shared_shell) {
    return cut_scratch(prepare, count, shared_shell).end;
}

extern "C" enum status prepare_cuda_run(struct prepare_cuda *p, const struct references_cuda *references,
                                        const struct sampling_cuda *sampling, const float *images,
                                        const struct prepare_particle_cuda *which, double pixel_size,
                                        double mask_radius, int shared_shell, const float *sigma2, double sigma_offset,
                                        void *memory, struct particles_cuda *particles, void *stream, struct err *err) {
    int n = references->pixels.count, count = particles->count;
    FAIL_IF(shared_shell < 0 || shared_shell >= p->box / 2, err, STATUS_BAD_ARGUMENT,
            "shells up to %d of images of %d px cannot be masked separately", shared_shell, p->box);
    FAIL_IF(references->pixels.box != p->box || n > p->members || (size_t)n > particles->stride, err,
            STATUS_BAD_ARGUMENT, "%d Fourier pixels of a box of %d px cannot be taken from particles of %d px", n,
            references->pixels.box, p->box);
    scratch at = cut_scratch(p, count, shared_shell);
    TRY(set_mask(p, mask_radius, (cudaStream_t)stream, err));
    if (p->plan) {
        CUFFT_TRY(cufftSetStream(p->plan, (cudaStream_t)stream), err, "choosing a stream");
        CUFFT_TRY(cufftSetWorkArea(p->plan, (char *)memory + at.work), err, "giving memory to a Fourier plan");
    }
    for (int first = 0; first < count; first += p->batch) {
        int part = count - first < p->batch ? count - first : p->batch;
        size_t begin = (size_t)first * particles->stride;
        spectra s = {};
        s.box = p->box, s.shells = p->shells, s.count = n, s.stride = particles->stride;
        s.shell_begin = p->shell_begin, s.kx = p->kx, s.ky = p->ky, s.shell = p->shell;
        s.images = images + (size_t)first * p->box * p->box, s.which = which + first;
        s.outside = p->outside, s.outside_sum = p->outside_sum;
        s.step = 1 / (p->box * pixel_size), s.sigma2 = sigma2;
        s.masked = particles->masked + 2 * begin, s.unmasked = particles->unmasked + 2 * begin;
        s.ctf = particles->ctf + begin, s.weight = particles->weight + begin;
        s.sums = (double *)((char *)memory + at.sums);
        s.shared_shell = shared_shell, s.low_count = shared_shell > 0 ? pixels_within(p->box, shared_shell) : 0;
        s.spread = p->spread, s.low = (float2 *)((char *)memory + at.low);
        s.cut = (float2 *)((char *)memory + at.cut);
        TRY(run_part(p, &s, part, (char *)memory, at, (cudaStream_t)stream, err));
        results r = {particles->power + (size_t)first * p->shells,
                     particles->shift_log_prior + (size_t)first * sampling->shift_count,
                     particles->constant + first,
                     sampling->shifts,
                     sampling->shift_count,
                     sigma_offset};
        finish<<<blocks_for((size_t)part, WARPS), THREADS, 0, (cudaStream_t)stream>>>(s, part, r);
        CUDA_TRY(cudaGetLastError(), err, "priors of shifts");
    }
    return STATUS_OK;
}
