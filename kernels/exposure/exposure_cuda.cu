/* Frames of a simulated movie on a CUDA device: a thread for each pixel. */
#include <stdlib.h>

#include "common/device_cuda.h"
#include "kernels/exposure/exposure_private.h"

enum { ACROSS = 32, DOWN = 8 };

struct exposure_cuda {
    struct exposure_task task;
    cudaStream_t stream;
    float *weights, *canvas, *response;
    struct exposure_place *place; /* room for `places` tiles */
    size_t places;
    uint16_t *counts;
};

/* Returns the expectation of pixel (x, y) before its response: taps along x first, as on the CPU. */
static __device__ float interpolate(const float *canvas, int stride, const float *weights,
                                    const struct exposure_place *place, int x, int y) {
    const float *wx = weights + place->phase_x * EXPOSURE_TAPS, *wy = weights + place->phase_y * EXPOSURE_TAPS;
    const float *from = canvas + (size_t)(place->y - EXPOSURE_BEFORE + y) * stride + (place->x - EXPOSURE_BEFORE + x);
    float sum = 0;
    for (int i = 0; i < EXPOSURE_TAPS; i++, from += stride) {
        float across = 0;
        for (int k = 0; k < EXPOSURE_TAPS; k++)
            across += __ldg(wx + k) * __ldg(from + k);
        sum += __ldg(wy + i) * across;
    }
    return sum;
}

/* The CPU's draw() and draw_many() for one pixel. */
static __device__ uint16_t draw(float expected, struct exposure_key key, uint32_t pixel) {
    uint32_t bits = exposure_bits(key, pixel);
    if (expected > EXPOSURE_MANY) {
        uint32_t more = exposure_scramble(bits ^ 0x9e3779b9u);
        float u = ((float)(bits >> 8) + 0.5f) * 0x1p-24f, angle = 6.2831853f * ((float)(more >> 8) * 0x1p-24f);
        float value = rintf(expected + sqrtf(expected) * sqrtf(-2 * logf(u)) * cosf(angle));
        return (uint16_t)fminf(fmaxf(value, 0), UINT16_MAX);
    }
    float left = (float)(bits >> 8) * 0x1p-24f, chance = exposure_decay(expected);
    int k = 0;
    while (k < 4 * (int)EXPOSURE_MANY && left >= chance && (chance > EXPOSURE_TINY || (float)k < expected)) {
        left -= chance;
        k++;
        chance *= expected * (1.0f / (float)k);
    }
    return (uint16_t)k;
}

static __global__ void expose(const float *canvas, int stride, const float *response, const float *weights,
                              const struct exposure_place *place, int side, int columns, int nx, int ny,
                              struct exposure_key key, uint16_t *counts) {
    int x = blockIdx.x * ACROSS + threadIdx.x, y = blockIdx.y * DOWN + threadIdx.y;
    if (x >= nx || y >= ny) return;
    const struct exposure_place at = place[(size_t)(y / side) * columns + x / side];
    size_t pixel = (size_t)y * nx + x;
    float mean = interpolate(canvas, stride, weights, &at, x % side, y % side);
    counts[pixel] = draw(fmaxf(mean * response[pixel], 0), key, (uint32_t)pixel);
}

static enum status build(struct exposure_cuda *e, const float *weights, struct err *err) {
    const struct exposure_task *t = &e->task;
    size_t pixels = (size_t)t->nx * t->ny, table = (size_t)EXPOSURE_PHASES * EXPOSURE_TAPS * sizeof(float);
    size_t canvas = (size_t)(t->nx + 2 * t->margin_x) * (t->ny + 2 * t->margin_y);
    CUDA_TRY(cudaSetDevice(t->device.index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaMalloc(&e->weights, table), err, "making room for weights");
    CUDA_TRY(cudaMalloc(&e->canvas, canvas * sizeof(float)), err, "making room for a specimen");
    CUDA_TRY(cudaMalloc(&e->response, pixels * sizeof(float)), err, "making room for a camera's response");
    CUDA_TRY(cudaMalloc(&e->counts, pixels * sizeof(uint16_t)), err, "making room for a frame");
    CUDA_TRY(cuda_copy(e->weights, weights, table), err, "taking weights there");
    return STATUS_OK;
}

static void destroy(void *state) {
    struct exposure_cuda *e = (struct exposure_cuda *)state;
    (void)cudaSetDevice(e->task.device.index);
    if (e->stream) (void)cudaStreamSynchronize(e->stream);
    void *buffers[] = {e->weights, e->canvas, e->response, e->place, e->counts};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    if (e->stream) (void)cudaStreamDestroy(e->stream);
    free(e);
}

static enum status create(const struct exposure_task *task, const float *weights, void **ret_state, struct err *err) {
    struct exposure_cuda *e = (struct exposure_cuda *)calloc(1, sizeof *e);
    FAIL_IF(e == NULL, err, STATUS_NO_MEMORY, "no memory for an exposure");
    e->task = *task;
    enum status status = build(e, weights, err);
    if (status == STATUS_OK)
        *ret_state = e;
    else
        destroy(e);
    return status;
}

static enum status take(void *state, const float *canvas, const float *response, struct err *err) {
    struct exposure_cuda *e = (struct exposure_cuda *)state;
    const struct exposure_task *t = &e->task;
    size_t count = (size_t)(t->nx + 2 * t->margin_x) * (t->ny + 2 * t->margin_y);
    CUDA_TRY(cudaSetDevice(t->device.index), err, "choosing it");
    CUDA_TRY(cuda_copy(e->canvas, canvas, count * sizeof(float)), err, "taking a specimen there");
    CUDA_TRY(cuda_copy(e->response, response, (size_t)t->nx * t->ny * sizeof(float)), err,
             "taking a camera's response there");
    return STATUS_OK;
}

/* Takes the tiles of a frame to the device; there may be more than in the frame before. */
static enum status take_places(struct exposure_cuda *e, const struct exposure_tiles *tiles, struct err *err) {
    size_t count = (size_t)tiles->columns * tiles->rows;
    if (count > e->places) {
        CUDA_TRY(cudaFree(e->place), err, "making room for tiles");
        e->place = NULL;
        e->places = 0;
        CUDA_TRY(cudaMalloc(&e->place, count * sizeof *e->place), err, "making room for tiles");
        e->places = count;
    }
    CUDA_TRY(cuda_copy(e->place, tiles->place, count * sizeof *e->place), err, "taking tiles there");
    return STATUS_OK;
}

static enum status run(void *state, const struct exposure_tiles *tiles, struct exposure_key key, uint16_t *counts,
                       struct err *err) {
    struct exposure_cuda *e = (struct exposure_cuda *)state;
    const struct exposure_task *t = &e->task;
    CUDA_TRY(cudaSetDevice(t->device.index), err, "choosing it");
    TRY(take_places(e, tiles, err));
    dim3 threads(ACROSS, DOWN), blocks((t->nx + ACROSS - 1) / ACROSS, (t->ny + DOWN - 1) / DOWN);
    expose<<<blocks, threads, 0, e->stream>>>(e->canvas, t->nx + 2 * t->margin_x, e->response, e->weights, e->place,
                                              tiles->side, tiles->columns, t->nx, t->ny, key, e->counts);
    CUDA_TRY(cudaGetLastError(), err, "exposing a frame");
    CUDA_TRY(cudaMemcpyAsync(counts, e->counts, (size_t)t->nx * t->ny * sizeof *counts, cudaMemcpyDefault, e->stream),
             err, "fetching a frame");
    CUDA_TRY(cudaStreamSynchronize(e->stream), err, "exposing a frame");
    return STATUS_OK;
}

const struct exposure_work exposure_cuda_work = {create, destroy, take, run};
