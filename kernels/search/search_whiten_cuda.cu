/* Whitens the micrograph (kernels/whiten) from its low-passed map: power of tiles, their medians, weights, and the
 * weighted transform with its local mean. The arithmetic is that of the CPU; sums are in a fixed order. */
#include <stdlib.h>

#include "kernels/search/search_plan.cuh"
#include "kernels/whiten/whiten.h"

enum { THREADS = 256, WARPS = THREADS / 32, DIGIT = 8, BINS = 1 << DIGIT };

struct search_whiten {
    whiten_options o;
    int tile, columns, tiles, rings;
    float *real;    /* [tiles][tile²], windowed */
    float2 *half;   /* [tiles][tile][tile/2+1] */
    int *members;   /* coefficients of a tile's half plane, ring by ring */
    int *starts;    /* [rings+1]: where a ring's begin */
    float *power;   /* [rings][tiles] */
    float *medians; /* [rings] */
    float2 *means;  /* work half plane: the weighted micrograph with the background's mask */
    float *mu;      /* [work²] */
    float *weights; /* [work/2+1] */
    cufftHandle forward, inverse;
};

static __device__ float window(int i, int n) {
    return (float)(0.5 - 0.5 * cospi(2.0 * i / n));
}

/* One block per tile. */
static __global__ void cut_tiles(const float *map, whiten_options o, int tile, int columns, float *out) {
    __shared__ double parts[2][WARPS];
    __shared__ float mean;
    int x0 = o.x0 + (int)(blockIdx.x % columns) * (tile / 2), y0 = o.y0 + (int)(blockIdx.x / columns) * (tile / 2);
    const float *corner = map + (size_t)y0 * o.work + x0;
    double sum = 0, weights = 0;
    for (int i = threadIdx.x; i < tile * tile; i += THREADS) {
        int x = i % tile, y = i / tile;
        float weight = window(x, tile) * window(y, tile);
        sum += corner[(size_t)y * o.work + x] * weight;
        weights += weight;
    }
    sum = search_warp_sum(sum);
    weights = search_warp_sum(weights);
    if (threadIdx.x % 32 == 0) {
        parts[0][threadIdx.x / 32] = sum;
        parts[1][threadIdx.x / 32] = weights;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = weights = 0;
        for (int i = 0; i < WARPS; i++) {
            sum += parts[0][i];
            weights += parts[1][i];
        }
        mean = (float)(sum / weights);
    }
    __syncthreads();
    out += (size_t)blockIdx.x * tile * tile;
    for (int i = threadIdx.x; i < tile * tile; i += THREADS) {
        int x = i % tile, y = i / tile;
        out[i] = (corner[(size_t)y * o.work + x] - mean) * window(x, tile) * window(y, tile);
    }
}

/* Computes the mean power of the rings of a tile (blockIdx.x); a warp per ring. */
static __global__ void ring_power(const float2 *half, const int *members, const int *starts, int rings, int count,
                                  float *power) {
    half += (size_t)blockIdx.x * count;
    for (int ring = threadIdx.x / 32; ring < rings; ring += WARPS) {
        double sum = 0;
        for (int i = starts[ring] + threadIdx.x % 32; i < starts[ring + 1]; i += 32) {
            float2 f = half[members[i]];
            sum += (double)f.x * f.x + (double)f.y * f.y;
        }
        sum = search_warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            power[(size_t)ring * gridDim.x + blockIdx.x] = (float)(sum / (starts[ring + 1] - starts[ring]));
    }
}

/* Finds the value of rank tiles/2 of a ring (blockIdx.x), digit by digit from the top. Powers are not negative, so
 * their bits have the same order. */
static __global__ void find_medians(const float *power, int tiles, float *medians) {
    __shared__ int bins[BINS], found, rank;
    power += (size_t)blockIdx.x * tiles;
    unsigned prefix = 0, mask = 0;
    if (threadIdx.x == 0) rank = tiles / 2;
    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        for (int i = threadIdx.x; i < BINS; i += THREADS)
            bins[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < tiles; i += THREADS) {
            unsigned key = __float_as_uint(power[i]);
            if ((key & mask) == prefix) atomicAdd(&bins[key >> shift & (BINS - 1)], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int bin = 0, left = rank;
            while (bin < BINS - 1 && left >= bins[bin])
                left -= bins[bin++];
            found = bin;
            rank = left;
        }
        __syncthreads();
        prefix |= (unsigned)found << shift;
        mask |= (unsigned)(BINS - 1) << shift;
    }
    if (threadIdx.x == 0) medians[blockIdx.x] = __uint_as_float(prefix);
}

/* Computes the weights; a thread per ring of the micrograph. */
static __global__ void make_weights(const float *medians, whiten_options o, int tile, float *weights) {
    int r = blockIdx.x * THREADS + threadIdx.x;
    if (r > o.work / 2) return;
    weights[r] = whiten_weight(&o, medians, tile, r);
}

/* Multiplies image[row][kx] by the weights in place; means: the product with the conjugate of the background's mask. */
static __global__ void weigh(const float *weights, const float2 *mask, int work, float2 *image, float2 *means) {
    int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y, reach = work / 2;
    if (kx > reach) return;
    int ring = whiten_ring(kx, row <= reach ? row : row - work);
    size_t i = (size_t)row * (reach + 1) + kx;
    float weight = ring <= reach ? weights[ring] : 0;
    float2 a = make_float2(image[i].x * weight, image[i].y * weight), b = mask[i];
    image[i] = a;
    means[i] = make_float2(a.x * b.x + a.y * b.y, a.y * b.x - a.x * b.y);
}

static enum status plan_tiles(search_cuda *s, search_whiten *w, err *err) {
    int tile[] = {w->tile, w->tile}, map[] = {s->o.work, s->o.work};
    CUFFT_TRY(cufftPlanMany(&w->forward, 2, tile, NULL, 1, 0, NULL, 1, 0, CUFFT_R2C, w->tiles), err,
              "making a Fourier plan");
    CUFFT_TRY(cufftPlanMany(&w->inverse, 2, map, NULL, 1, 0, NULL, 1, 0, CUFFT_C2R, 1), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetStream(w->forward, s->stream), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetStream(w->inverse, s->stream), err, "making a Fourier plan");
    return STATUS_OK;
}

template <class T> static enum status room(T **pointer, size_t count, err *err) {
    CUDA_TRY(cudaMalloc(pointer, count * sizeof(T)), err, "making room for whitening");
    return STATUS_OK;
}

static enum status build(search_cuda *s, search_whiten *w, err *err) {
    const struct search_options *o = &s->o;
    size_t n = w->tile, tiles = w->tiles, coefficients = n * (n / 2 + 1);
    TRY(room(&w->real, tiles * n * n, err));
    TRY(room(&w->half, tiles * coefficients, err));
    TRY(room(&w->members, coefficients, err));
    TRY(room(&w->starts, w->rings + 1, err));
    TRY(room(&w->power, w->rings * tiles, err));
    TRY(room(&w->medians, w->rings, err));
    TRY(room(&w->mu, s->pixels, err));
    TRY(room(&w->weights, o->work / 2 + 1, err));
    TRY(room(&w->means, s->half, err));
    CUDA_TRY(cuda_copy(w->members, s->setup.ring_members, s->setup.ring_starts[w->rings] * sizeof(int)), err,
             "the rings of a tile");
    CUDA_TRY(cuda_copy(w->starts, s->setup.ring_starts, (w->rings + 1) * sizeof(int)), err, "the rings of a tile");
    return plan_tiles(s, w, err);
}

enum status search_whiten_create(search_cuda *s, search_whiten **ret_whiten, err *err) {
    search_whiten *w = (search_whiten *)calloc(1, sizeof *w);
    FAIL_IF(w == NULL, err, STATUS_NO_MEMORY, "no memory for whitening");
    w->o = s->setup.whiten;
    w->tile = s->setup.tile;
    w->columns = whiten_tiles(w->tile, w->o.x1 - w->o.x0);
    w->tiles = w->columns * whiten_tiles(w->tile, w->o.y1 - w->o.y0);
    w->rings = w->tile / 2 + 1;
    enum status status = build(s, w, err);
    if (status != STATUS_OK) {
        search_whiten_destroy(&w);
        return status;
    }
    *ret_whiten = w;
    return STATUS_OK;
}

void search_whiten_destroy(search_whiten **whiten) {
    search_whiten *w = *whiten;
    if (w == NULL) return;
    *whiten = NULL;
    if (w->forward) (void)cufftDestroy(w->forward);
    if (w->inverse) (void)cufftDestroy(w->inverse);
    void *memory[] = {w->real, w->half, w->members, w->starts, w->power, w->medians, w->mu, w->weights, w->means};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        (void)cudaFree(memory[i]);
    free(w);
}

enum status search_whiten_run(search_cuda *s, const float *map, err *err) {
    search_whiten *w = s->whiten;
    int count = w->tile * (w->tile / 2 + 1), rings = s->o.work / 2 + 1;
    cut_tiles<<<w->tiles, THREADS, 0, s->stream>>>(map, w->o, w->tile, w->columns, w->real);
    LAUNCH_TRY(err, "whitening");
    CUFFT_TRY(cufftExecR2C(w->forward, w->real, (cufftComplex *)w->half), err, "whitening");
    ring_power<<<w->tiles, THREADS, 0, s->stream>>>(w->half, w->members, w->starts, w->rings, count, w->power);
    LAUNCH_TRY(err, "whitening");
    find_medians<<<w->rings, THREADS, 0, s->stream>>>(w->power, w->tiles, w->medians);
    LAUNCH_TRY(err, "whitening");
    make_weights<<<blocks_for(rings, THREADS), THREADS, 0, s->stream>>>(w->medians, w->o, w->tile, w->weights);
    LAUNCH_TRY(err, "whitening");
    weigh<<<dim3(blocks_for(rings, THREADS), s->o.work), THREADS, 0, s->stream>>>(w->weights, s->mask, s->o.work,
                                                                                  s->image, w->means);
    LAUNCH_TRY(err, "whitening");
    CUFFT_TRY(cufftExecC2R(w->inverse, (cufftComplex *)w->means, w->mu), err, "whitening");
    return STATUS_OK;
}

const float *search_whiten_mean(const search_whiten *w) {
    return w->mu;
}

const float *search_whiten_weights(const search_whiten *w) {
    return w->weights;
}
