/* The spectrum of a movie on a CUDA device: tiles as in kernels/periodogram, each of the sum of a few frames, a number
 * of tiles at a time. */
#include "kernels/motion/motion_spectrum_cuda.cuh"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernels/motion/motion_places.h"
#include "kernels/periodogram/periodogram.h"

enum { THREADS = 256, PIXELS = 16 * THREADS, BATCH_BYTES = 64 << 20 };

/* A part of a tile: the sum of its pixels, and the smallest and the largest of them. */
struct tile_part {
    double sum;
    float least, most;
};

struct tile_job {
    int first, end; /* frames of its group */
    int places;     /* entry in `places` of its tile */
};

struct motion_spectrum_cuda {
    int nx, ny, frames, box;
    int columns, rows; /* of tiles */
    int batch, parts;  /* tiles at a time; parts of a tile */
    double window_power;
    cufftHandle plan;
    float *window;           /* [box] */
    float *tiles;            /* [batch][box][box] */
    float2 *spectra;         /* [batch][box][box/2 + 1] */
    struct tile_part *found; /* [batch][parts] */
    float2 *means;           /* [batch] mean, and 1 if the tile varies */
    float *power;            /* [box][box/2 + 1] */
    int *used;
    int2 *places; /* [rows · columns][frames] */
    struct tile_job *jobs;
    int (*host_places)[2];
    struct tile_job *host_jobs; /* [rows · columns · frames] */
};

namespace {

struct gathering {
    device_frames frames;
    int box, parts;
    const tile_job *jobs;
    const int2 *places;
    float *tiles;
    tile_part *found;
};

__device__ float warp_least(float value) {
    for (int step = 16; step > 0; step /= 2)
        value = fminf(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

/* Sums the frames of a group in one part of a tile. */
template <typename PIXEL> __global__ void __launch_bounds__(THREADS) gather(gathering g) {
    __shared__ float least_of[THREADS / 32], most_of[THREADS / 32];
    const tile_job job = g.jobs[blockIdx.y];
    const int pixels = g.box * g.box, last = min((int)(blockIdx.x + 1) * PIXELS, pixels);
    const size_t frame_pixels = (size_t)g.frames.nx * g.frames.ny;
    float *tile = g.tiles + (size_t)blockIdx.y * pixels;
    float least = INFINITY, most = -INFINITY;
    double sum = 0;
    for (int i = blockIdx.x * PIXELS + threadIdx.x; i < last; i += THREADS) {
        const int y = i / g.box, x = i - y * g.box;
        float value = 0;
        for (int j = job.first; j < job.end; j++) {
            const int2 place = g.places[job.places + j];
            const size_t at = (size_t)(place.y + y) * g.frames.nx + place.x + x;
            const float pixel = (float)((const PIXEL *)g.frames.pixels)[j * frame_pixels + at];
            value += g.frames.gain ? pixel * g.frames.gain[at] : pixel;
        }
        tile[i] = value;
        sum += (double)value;
        least = fminf(least, value), most = fmaxf(most, value);
    }
    sum = block_sum(sum);
    least = warp_least(least), most = -warp_least(-most);
    if (threadIdx.x % 32 == 0) least_of[threadIdx.x / 32] = least, most_of[threadIdx.x / 32] = most;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < THREADS / 32; i++)
        least = fminf(least, least_of[i]), most = fmaxf(most, most_of[i]);
    g.found[(size_t)blockIdx.y * g.parts + blockIdx.x] = {sum, least, most};
}

/* Finds the mean of each tile, and whether its pixels differ; one warp for each tile. */
__global__ void find_means(const tile_part *found, int parts, int pixels, float2 *means) {
    double sum = 0;
    float least = INFINITY, most = -INFINITY;
    for (int i = threadIdx.x; i < parts; i += 32) {
        const tile_part part = found[(size_t)blockIdx.x * parts + i];
        sum += part.sum;
        least = fminf(least, part.least), most = fmaxf(most, part.most);
    }
    sum = warp_sum(sum);
    least = warp_least(least), most = -warp_least(-most);
    if (threadIdx.x == 0) means[blockIdx.x] = make_float2((float)(sum / pixels), least < most ? 1.0f : 0.0f);
}

__global__ void apply_window(float *tiles, int box, const float *window, const float2 *means) {
    const int i = blockIdx.x * THREADS + threadIdx.x, pixels = box * box;
    if (i >= pixels) return;
    float *value = tiles + (size_t)blockIdx.y * pixels + i;
    *value = (*value - means[blockIdx.y].x) * window[i / box] * window[i % box];
}

/* Adds the power of the tiles that vary, always in the same order. */
__global__ void add_power(const float2 *spectra, int count, int tiles, const float2 *means, float *power, int *used) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    int number = 0;
    for (int t = 0; t < tiles; t++) {
        if (means[t].y == 0) continue;
        const float2 value = spectra[(size_t)t * count + i];
        sum += value.x * value.x + value.y * value.y;
        number++;
    }
    power[i] += sum;
    if (i == 0) *used += number;
}

template <typename PIXEL> void launch(const gathering &g, int tiles, cudaStream_t stream) {
    gather<PIXEL><<<dim3(g.parts, tiles), THREADS, 0, stream>>>(g);
}

enum status put_window(motion_spectrum_cuda *s, err *err) {
    float *window = (float *)malloc(s->box * sizeof *window);
    FAIL_IF(window == NULL, err, STATUS_NO_MEMORY, "no memory for a window");
    s->window_power = periodogram_window(s->box, window);
    cudaError_t result = cuda_copy(s->window, window, s->box * sizeof *window);
    free(window);
    CUDA_TRY(result, err, "taking a window there");
    return STATUS_OK;
}

enum status build(motion_cuda *m, motion_spectrum_cuda *s, int box, err *err) {
    size_t pixels = (size_t)box * box, half = (size_t)box * (box / 2 + 1), tiles, batch;
    int shape[2] = {box, box};
    s->nx = m->task.nx, s->ny = m->task.ny, s->frames = m->task.frames, s->box = box;
    s->columns = periodogram_tiles(s->nx, box), s->rows = periodogram_tiles(s->ny, box);
    s->parts = (int)blocks_for(pixels, PIXELS);
    batch = BATCH_BYTES / (pixels * sizeof(float)), tiles = (size_t)s->columns * s->rows;
    s->batch = batch < 1 ? 1 : batch > tiles ? (int)tiles : (int)batch;
    CUDA_TRY(cudaMalloc(&s->window, box * sizeof(float)), err, "making room for a window");
    CUDA_TRY(cudaMalloc(&s->tiles, s->batch * pixels * sizeof(float)), err, "making room for tiles");
    CUDA_TRY(cudaMemset(s->tiles, 0, s->batch * pixels * sizeof(float)), err, "clearing tiles");
    CUDA_TRY(cudaMalloc(&s->spectra, s->batch * half * sizeof(float2)), err, "making room for the spectra of tiles");
    CUDA_TRY(cudaMalloc(&s->found, (size_t)s->batch * s->parts * sizeof *s->found), err, "making room for tiles");
    CUDA_TRY(cudaMalloc(&s->means, s->batch * sizeof *s->means), err, "making room for the means of tiles");
    CUDA_TRY(cudaMalloc(&s->power, half * sizeof(float)), err, "making room for a spectrum");
    CUDA_TRY(cudaMalloc(&s->used, sizeof *s->used), err, "making room for a count");
    CUDA_TRY(cudaMalloc(&s->places, tiles * s->frames * sizeof *s->places), err, "making room for places of tiles");
    CUDA_TRY(cudaMalloc(&s->jobs, tiles * s->frames * sizeof *s->jobs), err, "making room for places of tiles");
    TRY(motion_host_new(tiles * s->frames, sizeof *s->host_places, "places of tiles", &s->host_places, err));
    TRY(motion_host_new(tiles * s->frames, sizeof *s->host_jobs, "places of tiles", &s->host_jobs, err));
    CUFFT_TRY(cufftPlanMany(&s->plan, 2, shape, NULL, 1, 0, NULL, 1, 0, CUFFT_R2C, s->batch), err,
              "planning the transforms of tiles");
    CUFFT_TRY(cufftSetStream(s->plan, m->stream), err, "planning the transforms of tiles");
    return put_window(s, err);
}

/* Takes the places of all frames in all tiles there. Returns the number of jobs: one for each tile and group. */
enum status put_places(motion_cuda *m, motion_spectrum_cuda *s, const motion_model *model, int group, int *ret_jobs,
                       err *err) {
    int groups = motion_places_groups(s->frames, group), tiles = s->columns * s->rows, jobs = 0;
    for (int tile = 0; tile < tiles; tile++) {
        int start[2] = {periodogram_tile_start(s->nx, s->box, tile % s->columns),
                        periodogram_tile_start(s->ny, s->box, tile / s->columns)};
        for (int g = 0; g < groups; g++) {
            struct tile_job job = {motion_places_group_start(s->frames, groups, g),
                                   motion_places_group_start(s->frames, groups, g + 1), tile * s->frames};
            motion_places_fill(model, job.first, job.end, start, s->box, s->host_places + job.places);
            s->host_jobs[jobs++] = job;
        }
    }
    CUDA_TRY(cudaMemcpyAsync(s->places, s->host_places, (size_t)tiles * s->frames * sizeof *s->places,
                             cudaMemcpyDefault, m->stream),
             err, "taking the places of tiles there");
    CUDA_TRY(cudaMemcpyAsync(s->jobs, s->host_jobs, jobs * sizeof *s->jobs, cudaMemcpyDefault, m->stream), err,
             "taking the places of tiles there");
    *ret_jobs = jobs;
    return STATUS_OK;
}

/* Adds the power of one batch of tiles. The transforms of a batch that is not full read old tiles beyond its end. */
enum status add_batch(motion_cuda *m, motion_spectrum_cuda *s, int first, int tiles, err *err) {
    int half = s->box * (s->box / 2 + 1), pixels = s->box * s->box;
    const gathering g = {m->frames, s->box, s->parts, s->jobs + first, s->places, s->tiles, s->found};
    MOTION_TYPED(m->frames.type, launch, g, tiles, m->stream);
    find_means<<<tiles, 32, 0, m->stream>>>(s->found, s->parts, pixels, s->means);
    apply_window<<<dim3(blocks_for(pixels, THREADS), tiles), THREADS, 0, m->stream>>>(s->tiles, s->box, s->window,
                                                                                      s->means);
    CUDA_TRY(cudaGetLastError(), err, "summing tiles");
    CUFFT_TRY(cufftExecR2C(s->plan, s->tiles, s->spectra), err, "transforming tiles");
    add_power<<<blocks_for(half, THREADS), THREADS, 0, m->stream>>>(s->spectra, half, tiles, s->means, s->power,
                                                                    s->used);
    CUDA_TRY(cudaGetLastError(), err, "averaging tiles");
    return STATUS_OK;
}

enum status find_spectrum(motion_cuda *m, motion_spectrum_cuda *s, const motion_model *model, int group, float *power,
                          err *err) {
    size_t half = (size_t)s->box * (s->box / 2 + 1);
    int jobs = 0, used = 0;
    TRY(put_places(m, s, model, group, &jobs, err));
    CUDA_TRY(cudaMemsetAsync(s->power, 0, half * sizeof(float), m->stream), err, "clearing a spectrum");
    CUDA_TRY(cudaMemsetAsync(s->used, 0, sizeof(int), m->stream), err, "clearing a count");
    for (int first = 0; first < jobs; first += s->batch)
        TRY(add_batch(m, s, first, jobs - first < s->batch ? jobs - first : s->batch, err));
    CUDA_TRY(cudaMemcpyAsync(power, s->power, half * sizeof(float), cudaMemcpyDefault, m->stream), err,
             "fetching a spectrum");
    CUDA_TRY(cudaMemcpyAsync(&used, s->used, sizeof used, cudaMemcpyDefault, m->stream), err, "fetching a count");
    CUDA_TRY(cudaStreamSynchronize(m->stream), err, "averaging tiles");
    FAIL_IF(used == 0, err, STATUS_BAD_FORMAT, "the movie has no variance: no part of it is an image");
    const float scale = (float)(1 / (s->window_power * used));
    for (size_t i = 0; i < half; i++)
        power[i] *= scale;
    return STATUS_OK;
}

} // namespace

void motion_spectrum_cuda_destroy(struct motion_spectrum_cuda *s) {
    if (s == NULL) return;
    if (s->plan) (void)cufftDestroy(s->plan);
    void *buffers[] = {s->window, s->tiles, s->spectra, s->found, s->means, s->power, s->used, s->places, s->jobs};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    free(s->host_places);
    free(s->host_jobs);
    free(s);
}

enum status motion_spectrum_cuda_run(struct motion_cuda *m, struct motion_spectrum_cuda **spectrum,
                                     const struct motion_model *model, const struct motion_sum_options *options,
                                     float *power, struct err *err) {
    if (*spectrum != NULL && (*spectrum)->box != options->spectrum_box) {
        motion_spectrum_cuda_destroy(*spectrum);
        *spectrum = NULL;
    }
    if (*spectrum == NULL) {
        struct motion_spectrum_cuda *made = NULL;
        TRY(motion_host_new(1, sizeof *made, "the spectrum of a movie", &made, err));
        enum status status = build(m, made, options->spectrum_box, err);
        if (status != STATUS_OK) {
            motion_spectrum_cuda_destroy(made);
            return status;
        }
        *spectrum = made;
    }
    return find_spectrum(m, *spectrum, model, options->spectrum_group, power, err);
}
