/* Prepares a micrograph for the correlations: z-scores, their transform at the work size, the power of the noise, the
 * local mean and deviation, and the product that all rotations have in common. Steps and arithmetic are those of
 * kernels/normalise, fourier, local_stats and ctf. */
#include "kernels/normalise/normalise.h"
#include "kernels/search/search_plan.cuh"

enum { THREADS = 256, SUM_BLOCKS = 1056 };

/* Returns the sum over the block in thread 0. */
static __device__ double block_sum(double value, double *shared) {
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0)
        for (unsigned i = 0; i < blockDim.x / 32; i++)
            sum += shared[i];
    __syncthreads();
    return sum;
}

/* Sums pixels within `reach` of the scale's centre into parts[gridDim.x][3]: Σ d, Σ d² and their number, d relative to
 * the first pixel. */
static __global__ void sum_pixels(const float *in, size_t count, const search_scale *scale, double *parts) {
    __shared__ double shared[THREADS / 32];
    if (scale->settled) return;
    float centre = scale->centre, reach = scale->reach;
    double origin = normalise_origin(in, count), s = 0, q = 0, used = 0;
#pragma unroll 4
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        float value = in[i];
        /* NaN and infinity fail the comparison. */
        bool good = fabsf(value - centre) <= reach;
        double d = good ? value - origin : 0;
        s += d;
        q += d * d;
        used += good;
    }
    double sums[] = {s, q, used};
    for (int k = 0; k < 3; k++) {
        double total = block_sum(sums[k], shared);
        if (threadIdx.x == 0) parts[3 * blockIdx.x + k] = total;
    }
}

static __global__ void begin_scale(search_scale *scale) {
    *scale = {0, 0, 0, 0, 3e38f, -1, false};
}

/* Settled: the next pass over the pixels would find the same scale. */
static __global__ void make_scale(const float *in, size_t pixels, const double *parts, int count, double clip,
                                  search_scale *scale) {
    __shared__ double shared[THREADS / 32];
    if (scale->settled) return;
    double sums[3] = {0, 0, 0};
    for (int i = threadIdx.x; i < count; i += THREADS)
        for (int k = 0; k < 3; k++)
            sums[k] += parts[3 * i + k];
    for (int k = 0; k < 3; k++)
        sums[k] = block_sum(sums[k], shared);
    if (threadIdx.x != 0) return;
    double used = sums[2], mean = used > 0 ? sums[0] / used : 0;
    double variance = used > 0 ? sums[1] / used - mean * mean : 0;
    mean += normalise_origin(in, pixels);
    /* A constant image leaves rounding errors of this size, relative to its own values. */
    bool varies = variance > 1e-14 * mean * mean && isfinite(variance);
    double deviation = varies ? sqrt(variance) : 0;
    scale->mean = scale->centre = (float)mean;
    scale->factor = varies ? (float)(1 / deviation) : 0;
    scale->deviation = varies ? 1 / scale->factor : 0;
    scale->reach = (float)(clip * deviation);
    scale->settled = !varies || used == scale->used;
    scale->used = used;
}

static __device__ unsigned long long mix(unsigned long long x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static __device__ float noise(unsigned long long seed, unsigned long long index) {
    unsigned long long bits = mix(seed ^ mix(index));
    float u = ((float)(unsigned)(bits >> 40) + 0.5f) * 0x1p-24f;
    float v = (float)((unsigned)(bits & 0xffffff) + 1) * 0x1p-24f;
    return sqrtf(-2 * logf(u)) * cosf((float)(2 * 3.14159265358979323846) * v);
}

struct frame {
    int nx, ny, size, x0, y0;
    float clip;
    unsigned long long seed;
};

/* out: [size][size+2], the place of a transform. */
static __global__ void normalise(const float *in, const search_scale *scale, frame f, bool squared, float *out) {
    int x = blockIdx.x * THREADS + threadIdx.x, y = blockIdx.y;
    if (x >= f.size) return;
    bool inside = x >= f.x0 && x < f.x0 + f.nx && y >= f.y0 && y < f.y0 + f.ny;
    float z;
    if (inside) {
        z = (in[(size_t)(y - f.y0) * f.nx + x - f.x0] - scale->mean) * scale->factor;
        z = fabsf(z) <= f.clip ? z : 0;
    } else {
        z = noise(f.seed, (unsigned long long)y * f.size + x);
    }
    out[(size_t)y * (f.size + 2) + x] = squared ? z * z : z;
}

static __global__ void crop(const float2 *in, int from, int to, float factor, float2 *out) {
    int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (kx > to / 2) return;
    int source = row <= to / 2 ? row : row - to + from;
    float2 value = in[(size_t)source * (from / 2 + 1) + kx];
    out[(size_t)row * (to / 2 + 1) + kx] = make_float2(value.x * factor, value.y * factor);
}

/* Sums |F|² of each ring; one row of the half plane a block. */
static __global__ void ring_power(const float2 *half, int size, int end, int rings, double *power) {
    __shared__ double sums[SEARCH_RINGS];
    for (int i = threadIdx.x; i < SEARCH_RINGS; i += THREADS)
        sums[i] = 0;
    __syncthreads();
    int ky = (int)blockIdx.x - end + 1;
    float density = (float)rings / (float)end;
    const float2 *line = half + (size_t)(ky < 0 ? ky + size : ky) * (size / 2 + 1);
    for (int base = 0; base < end; base += THREADS) {
        int kx = base + threadIdx.x, ring = rings;
        double value = 0;
        if (kx < end) {
            ring = (int)(sqrtf((float)kx * (float)kx + (float)ky * (float)ky) * density);
            float2 f = line[kx];
            value = (double)f.x * f.x + (double)f.y * f.y;
        }
        /* Rings grow along a row, so that a warp sees few of them. */
        int first = __shfl_sync(0xffffffffu, ring, 0), last = __shfl_sync(0xffffffffu, ring, 31);
        for (int r = first; r <= last && r < rings; r++) {
            double sum = ring == r ? value : 0;
            for (int step = 16; step > 0; step /= 2)
                sum += __shfl_down_sync(0xffffffffu, sum, step);
            if (threadIdx.x % 32 == 0) atomicAdd(&sums[r], sum);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rings; i += THREADS)
        if (sums[i] != 0) atomicAdd(&power[i], sums[i]);
}

/* Marks the pixels of the box inside or outside the circle with 1; its centre lies at the origin of a square in the
 * place of a transform. */
static __global__ void mark_box(int size, int box, double radius, bool inside, float *out) {
    int x = blockIdx.x * THREADS + threadIdx.x;
    if (x >= box) return;
    int i = x - box / 2, j = (int)blockIdx.y - box / 2;
    out[(size_t)((j + size) % size) * (size + 2) + (i + size) % size] = (i * i + j * j < radius * radius) == inside;
}

/* products: image · conj(mask), square · conj(mask), and image itself. */
static __global__ void statistics_products(const float2 *image, const float2 *square, const float2 *mask, size_t count,
                                           float2 *products) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float2 a = image[i], q = square[i], m = mask[i];
    products[i] = make_float2(a.x * m.x + a.y * m.y, a.y * m.x - a.x * m.y);
    products[count + i] = make_float2(q.x * m.x + q.y * m.y, q.y * m.x - q.x * m.y);
    products[2 * count + i] = a;
}

static __global__ void deviation(const float *mu, float *sigma, size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float variance = sigma[i] - mu[i] * mu[i];
    sigma[i] = variance > 1e-10f ? sqrtf(variance) : 1;
}

/* kernels/ctf: ctf_value */
static __global__ void ctf_plane(ctf_terms terms, int work, double step, float *out) {
    int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (kx > work / 2) return;
    double x = kx * step, y = (row <= work / 2 ? row : row - work) * step, u2 = x * x + y * y;
    double phase = terms.xx * x * x + 2 * terms.xy * x * y + terms.yy * y * y - terms.quartic * u2 * u2;
    double value = terms.scale * sin(phase + terms.offset) * exp(-terms.decay * u2);
    if (fabs(value) < 1e-8) value = value < 0 ? -1e-8 : 1e-8;
    out[(size_t)row * (work / 2 + 1) + kx] = (float)value;
}

/* out: [row][kx], or [kx][row] where transposed. */
static __global__ void prepare_product(const float2 *image, const float *ctf, int work, float factor, bool transposed,
                                       float2 *out) {
    int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (kx > work / 2) return;
    size_t i = (size_t)row * (work / 2 + 1) + kx;
    float scale = ctf ? ctf[i] * factor : factor;
    out[transposed ? (size_t)kx * work + row : i] = make_float2(image[i].x * scale, image[i].y * scale);
}

static enum status transform(search_cuda *s, err *err) {
    CUFFT_TRY(cufftExecR2C(s->forward, (cufftReal *)s->scratch, (cufftComplex *)s->scratch), err,
              "a micrograph's transform");
    return STATUS_OK;
}

static enum status crop_scratch(search_cuda *s, int to, float factor, float2 *out, err *err) {
    dim3 blocks(blocks_for(to / 2 + 1, THREADS), to);
    crop<<<blocks, THREADS, 0, s->stream>>>((const float2 *)s->scratch, s->o.size, to, factor, out);
    LAUNCH_TRY(err, "cutting a transform");
    return STATUS_OK;
}

enum status search_mask(search_cuda *s, bool inside, int to, float factor, float2 *out, err *err) {
    const struct search_options *o = &s->o;
    size_t bytes = (size_t)o->size * (o->size + 2) * sizeof(float);
    CUDA_TRY(cudaMemsetAsync(s->scratch, 0, bytes, s->stream), err, "a mask");
    dim3 blocks(blocks_for(o->box, THREADS), o->box);
    mark_box<<<blocks, THREADS, 0, s->stream>>>(o->size, o->box, o->radius, inside, (float *)s->scratch);
    LAUNCH_TRY(err, "a mask");
    TRY(transform(s, err));
    return crop_scratch(s, to, factor, out, err);
}

enum status search_prepare_create(search_cuda *s, err *err) {
    CUDA_TRY(cudaMalloc(&s->parts, 3 * SUM_BLOCKS * sizeof *s->parts), err, "making room for sums");
    return search_mask(s, false, s->o.work, 1.0f / (float)s->setup.background, s->mask, err);
}

static enum status transforms(search_cuda *s, const float *micrograph, uint64_t seed, err *err) {
    const struct search_options *o = &s->o;
    begin_scale<<<1, 1, 0, s->stream>>>(s->scale);
    for (int pass = 0; pass < NORMALISE_PASSES; pass++) {
        sum_pixels<<<SUM_BLOCKS, THREADS, 0, s->stream>>>(micrograph, (size_t)o->nx * o->ny, s->scale, s->parts);
        make_scale<<<1, THREADS, 0, s->stream>>>(micrograph, (size_t)o->nx * o->ny, s->parts, SUM_BLOCKS, o->clip,
                                                 s->scale);
    }
    LAUNCH_TRY(err, "the sums of a micrograph");
    frame f = {o->nx,          o->ny, o->size, normalise_offset(o->size, o->nx), normalise_offset(o->size, o->ny),
               (float)o->clip, seed};
    dim3 blocks(blocks_for(o->size, THREADS), o->size);
    float factor = 1.0f / ((float)((size_t)o->size * o->size));
    for (int squared = 0; squared < 2; squared++) {
        normalise<<<blocks, THREADS, 0, s->stream>>>(micrograph, s->scale, f, squared, (float *)s->scratch);
        LAUNCH_TRY(err, "normalisation");
        TRY(transform(s, err));
        TRY(crop_scratch(s, o->work, factor, squared ? s->square : s->image, err));
        if (squared) break;
        CUDA_TRY(cudaMemsetAsync(s->power, 0, SEARCH_RINGS * sizeof *s->power, s->stream), err, "the noise's power");
        ring_power<<<2 * search_rings_end(o) - 1, THREADS, 0, s->stream>>>(
            (const float2 *)s->scratch, o->size, search_rings_end(o), search_rings(o), s->power);
        LAUNCH_TRY(err, "the noise's power");
    }
    return STATUS_OK;
}

enum status search_prepare_run(search_cuda *s, const float *micrograph, const ctf_terms *ctf, uint64_t seed, err *err) {
    const struct search_options *o = &s->o;
    TRY(transforms(s, micrograph, seed, err));
    statistics_products<<<blocks_for(s->half, THREADS), THREADS, 0, s->stream>>>(s->image, s->square, s->mask, s->half,
                                                                                 (float2 *)s->scratch);
    LAUNCH_TRY(err, "local statistics");
    CUFFT_TRY(cufftExecC2R(s->inverse, (cufftComplex *)s->scratch, s->statistics), err, "local statistics");
    deviation<<<blocks_for(s->pixels, THREADS), THREADS, 0, s->stream>>>(s->statistics, s->statistics + s->pixels,
                                                                         s->pixels);
    LAUNCH_TRY(err, "local statistics");
    if (s->whiten) TRY(search_whiten_run(s, s->statistics + 2 * s->pixels, err));
    dim3 blocks(blocks_for(o->work / 2 + 1, THREADS), o->work);
    if (ctf) {
        ctf_plane<<<blocks, THREADS, 0, s->stream>>>(*ctf, o->work, 1 / (o->size * o->pixel_size), s->ctf);
        LAUNCH_TRY(err, "the CTF");
    }
    prepare_product<<<blocks, THREADS, 0, s->stream>>>(s->image, ctf ? s->ctf : NULL, o->work,
                                                       1.0f / (float)s->setup.circle, s->fused != NULL, s->prepared);
    LAUNCH_TRY(err, "the CTF");
    return STATUS_OK;
}
