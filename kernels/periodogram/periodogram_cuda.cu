/* Averaged periodogram on a CUDA device: a row of tiles at a time. */
#include <stdlib.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/periodogram/periodogram_private.h"

enum { THREADS = 256, WARP = 32 };

struct periodogram_cuda {
    struct periodogram_task task;
    int columns, rows; /* tiles along x and y */
    cudaStream_t stream;
    cufftHandle plan;
    bool has_plan;
    float *micrograph; /* NULL: the caller's copy is on the device */
    float *window, *tiles;
    float2 *spectra;
    int *starts;                           /* [columns] first pixel of each tile along x */
    float2 *means;                         /* of each tile: its mean, and 1 if it varies */
    float *power;                          /* sum over tiles */
    int *used;                             /* tiles in it */
    const struct periodogram_cells *cells; /* the caller's */
    int *first, *pixel;                    /* the pixels of cell c are pixel[first[c]] to pixel[first[c + 1] - 1] */
    float *sums;                           /* [tiles][cells] */
};

/* One block for each tile: its mean, and whether its pixels differ. */
static __global__ void measure_tiles(const float *first, int nx, int box, const int *starts, float2 *means) {
    const float *tile = first + starts[blockIdx.x];
    const float base = tile[0];
    double sum = 0, differ = 0;
    for (int i = threadIdx.x; i < box * box; i += blockDim.x) {
        float value = tile[(size_t)(i / box) * nx + i % box];
        sum += (double)(value - base);
        differ += value != base;
    }
    sum = block_sum(sum);
    differ = block_sum(differ);
    if (threadIdx.x == 0)
        means[blockIdx.x] = make_float2((float)((double)base + sum / ((double)box * box)), differ > 0 ? 1.0f : 0.0f);
}

/* Copies the tiles, without their means, under the window. */
static __global__ void take_tiles(const float *first, int nx, int box, const int *starts, const float2 *means,
                                  const float *window, float *tiles) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= box * box) return;
    int y = i / box, x = i % box;
    float value = first[(size_t)y * nx + starts[blockIdx.y] + x] - means[blockIdx.y].x;
    tiles[(size_t)blockIdx.y * box * box + i] = value * window[y] * window[x];
}

/* Adds the power of the tiles that vary, always in the same order. */
static __global__ void add_power(const float2 *spectra, size_t count, int tiles, const float2 *means, float *power,
                                 int *used) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    int number = 0;
    for (int t = 0; t < tiles; t++) {
        if (means[t].y == 0) continue;
        float2 value = spectra[(size_t)t * count + i];
        sum += value.x * value.x + value.y * value.y;
        number++;
    }
    power[i] += sum;
    if (i == 0) *used += number;
}

/* One warp for each cell and tile: sums the power of its pixels, always in the same order. */
static __global__ void sum_cells(const float2 *spectra, size_t half, int cells, const int *first, const int *pixel,
                                 const float2 *means, float *sums) {
    int cell = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (cell >= cells) return;
    float sum = 0;
    if (means[blockIdx.y].y != 0)
        for (int i = first[cell] + lane; i < first[cell + 1]; i += WARP) {
            float2 value = spectra[(size_t)blockIdx.y * half + pixel[i]];
            sum += value.x * value.x + value.y * value.y;
        }
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) sums[(size_t)blockIdx.y * cells + cell] = sum;
}

static enum status build_cells(struct periodogram_cuda *p, struct err *err) {
    const struct periodogram_cells *c = p->cells;
    size_t count = (size_t)c->count, pixels = count > 0 ? (size_t)c->first[count] : 0;
    if (count == 0) return STATUS_OK;
    CUDA_TRY(cudaMalloc(&p->first, (count + 1) * sizeof(int)), err, "making room for cells");
    CUDA_TRY(cudaMalloc(&p->pixel, pixels * sizeof(int)), err, "making room for cells");
    CUDA_TRY(cudaMalloc(&p->sums, (size_t)p->columns * p->rows * count * sizeof(float)), err, "making room for cells");
    CUDA_TRY(cuda_copy(p->first, c->first, (count + 1) * sizeof(int)), err, "taking the list of cells there");
    CUDA_TRY(cuda_copy(p->pixel, c->pixel, pixels * sizeof(int)), err, "taking the list of cells there");
    return STATUS_OK;
}

static enum status build(struct periodogram_cuda *p, const float *window, struct err *err) {
    int box = p->task.box, shape[2] = {box, box};
    size_t pixels = (size_t)box * box, half = (size_t)box * (box / 2 + 1), tiles = (size_t)p->columns;
    CUDA_TRY(cudaSetDevice(p->task.device.index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaMalloc(&p->window, box * sizeof(float)), err, "making room for a window");
    CUDA_TRY(cudaMalloc(&p->tiles, tiles * pixels * sizeof(float)), err, "making room for tiles");
    CUDA_TRY(cudaMalloc(&p->spectra, tiles * half * sizeof(float2)), err, "making room for the spectra of tiles");
    CUDA_TRY(cudaMalloc(&p->means, tiles * sizeof(float2)), err, "making room for the means of tiles");
    CUDA_TRY(cudaMalloc(&p->starts, tiles * sizeof(int)), err, "making room for the places of tiles");
    CUDA_TRY(cudaMalloc(&p->power, half * sizeof(float)), err, "making room for a spectrum");
    CUDA_TRY(cudaMalloc(&p->used, sizeof(int)), err, "making room for a count");
    for (int i = 0; i < p->columns; i++) {
        int start = periodogram_tile_start(p->task.nx, box, i);
        CUDA_TRY(cuda_copy(p->starts + i, &start, sizeof start), err, "taking the places of tiles there");
    }
    CUDA_TRY(cuda_copy(p->window, window, box * sizeof(float)), err, "taking a window there");
    CUFFT_TRY(cufftPlanMany(&p->plan, 2, shape, NULL, 1, 0, NULL, 1, 0, CUFFT_R2C, p->columns), err,
              "planning the transforms of tiles");
    p->has_plan = true;
    CUFFT_TRY(cufftSetStream(p->plan, p->stream), err, "planning the transforms of tiles");
    return build_cells(p, err);
}

static void destroy(void *state) {
    struct periodogram_cuda *p = (struct periodogram_cuda *)state;
    (void)cudaSetDevice(p->task.device.index);
    if (p->stream) (void)cudaStreamSynchronize(p->stream);
    if (p->has_plan) (void)cufftDestroy(p->plan);
    void *buffers[] = {p->micrograph, p->window, p->tiles, p->spectra, p->starts, p->means,
                       p->power,      p->used,   p->first, p->pixel,   p->sums};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    if (p->stream) (void)cudaStreamDestroy(p->stream);
    free(p);
}

static enum status create(const struct periodogram_task *task, const struct periodogram_window *window,
                          const struct periodogram_cells *cells, void **ret_state, struct err *err) {
    struct periodogram_cuda *p = (struct periodogram_cuda *)calloc(1, sizeof *p);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for a periodogram");
    p->task = *task;
    p->cells = cells;
    p->columns = periodogram_tiles(task->nx, task->box);
    p->rows = periodogram_tiles(task->ny, task->box);
    enum status status = build(p, window->values, err);
    if (status == STATUS_OK)
        *ret_state = p;
    else
        destroy(p);
    return status;
}

/* Queues one row of tiles. */
static enum status add_row(struct periodogram_cuda *p, const float *micrograph, int row, struct err *err) {
    int box = p->task.box, nx = p->task.nx;
    size_t half = (size_t)box * (box / 2 + 1);
    const float *first = micrograph + (size_t)periodogram_tile_start(p->task.ny, box, row) * nx;
    dim3 pixels(blocks_for((size_t)box * box, THREADS), p->columns);
    measure_tiles<<<p->columns, THREADS, 0, p->stream>>>(first, nx, box, p->starts, p->means);
    take_tiles<<<pixels, THREADS, 0, p->stream>>>(first, nx, box, p->starts, p->means, p->window, p->tiles);
    CUFFT_TRY(cufftExecR2C(p->plan, p->tiles, p->spectra), err, "transforming tiles");
    add_power<<<blocks_for(half, THREADS), THREADS, 0, p->stream>>>(p->spectra, half, p->columns, p->means, p->power,
                                                                    p->used);
    int cells = p->cells->count;
    if (cells > 0)
        sum_cells<<<dim3(blocks_for((size_t)cells * WARP, THREADS), p->columns), THREADS, 0, p->stream>>>(
            p->spectra, half, cells, p->first, p->pixel, p->means, p->sums + (size_t)row * p->columns * cells);
    CUDA_TRY(cudaGetLastError(), err, "averaging tiles");
    return STATUS_OK;
}

static enum status run(void *state, const float *micrograph, const void *on_device, float *power, int *ret_used,
                       struct err *err) {
    struct periodogram_cuda *p = (struct periodogram_cuda *)state;
    size_t pixels = (size_t)p->task.nx * p->task.ny, half = (size_t)p->task.box * (p->task.box / 2 + 1);
    CUDA_TRY(cudaSetDevice(p->task.device.index), err, "choosing it");
    if (on_device == NULL) {
        if (p->micrograph == NULL)
            CUDA_TRY(cudaMalloc(&p->micrograph, pixels * sizeof(float)), err, "making room for a micrograph");
        CUDA_TRY(cuda_copy(p->micrograph, micrograph, pixels * sizeof(float)), err, "taking a micrograph there");
        on_device = p->micrograph;
    }
    CUDA_TRY(cudaMemsetAsync(p->power, 0, half * sizeof(float), p->stream), err, "clearing a spectrum");
    CUDA_TRY(cudaMemsetAsync(p->used, 0, sizeof(int), p->stream), err, "clearing a count");
    for (int row = 0; row < p->rows; row++)
        TRY(add_row(p, (const float *)on_device, row, err));
    CUDA_TRY(cudaMemcpyAsync(power, p->power, half * sizeof(float), cudaMemcpyDefault, p->stream), err,
             "fetching a spectrum");
    CUDA_TRY(cudaMemcpyAsync(ret_used, p->used, sizeof *ret_used, cudaMemcpyDefault, p->stream), err,
             "fetching a count");
    size_t sums = (size_t)p->rows * p->columns * p->cells->count;
    if (sums > 0)
        CUDA_TRY(cudaMemcpyAsync(p->cells->sums, p->sums, sums * sizeof(float), cudaMemcpyDefault, p->stream), err,
                 "fetching the spectra of tiles");
    CUDA_TRY(cudaStreamSynchronize(p->stream), err, "averaging tiles");
    return STATUS_OK;
}

const struct periodogram_work periodogram_cuda_work = {create, destroy, run};
