/* Frames of a simulated movie on the CPU: a row of tiles at a time. */
#include <math.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/exposure/exposure_private.h"

enum { CHUNK = 256 };

struct exposure_cpu {
    struct exposure_task task;
    const float *weights, *canvas, *response;
    float *rows; /* [threads][EXPOSURE_TILE_MAX][nx] expectation */
};

static void destroy(void *state) {
    struct exposure_cpu *e = state;
    free(e->rows);
    free(e);
}

static enum status create(const struct exposure_task *task, const float *weights, void **ret_state, struct err *err) {
    struct exposure_cpu *e = NULL;
    TRY(mem_new(1, sizeof *e, "an exposure", &e, err));
    e->task = *task;
    e->weights = weights;
    enum status status = mem_new((size_t)task->threads * EXPOSURE_TILE_MAX * (size_t)task->nx, sizeof *e->rows,
                                 "rows of a frame", &e->rows, err);
    if (status == STATUS_OK)
        *ret_state = e;
    else
        destroy(e);
    return status;
}

static enum status take(void *state, const float *canvas, const float *response, struct err *err) {
    (void)err;
    struct exposure_cpu *e = state;
    e->canvas = canvas;
    e->response = response;
    return STATUS_OK;
}

/* Interpolates a tile of width × height px: along x into `across`, then along y. from: the canvas at the first tap. */
MULTIVERSION static void interpolate(const float *restrict from, size_t stride, int width, int height,
                                     const float *restrict wx, const float *restrict wy, float *restrict out,
                                     size_t out_stride) {
    float across[EXPOSURE_TILE_MAX + EXPOSURE_TAPS][EXPOSURE_TILE_MAX];
    for (int y = 0; y < height + EXPOSURE_TAPS - 1; y++) {
        const float *row = from + (size_t)y * stride;
        for (int x = 0; x < width; x++) {
            float sum = 0;
            for (int t = 0; t < EXPOSURE_TAPS; t++)
                sum += wx[t] * row[x + t];
            across[y][x] = sum;
        }
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float sum = 0;
            for (int t = 0; t < EXPOSURE_TAPS; t++)
                sum += wy[t] * across[y + t][x];
            out[(size_t)y * out_stride + (size_t)x] = sum;
        }
}

/* Draws a count above EXPOSURE_MANY from the normal distribution (Box & Muller 1958). */
static uint16_t draw_many(float mean, struct exposure_key key, uint32_t pixel) {
    uint32_t a = exposure_bits(key, pixel), b = exposure_scramble(a ^ 0x9e3779b9u);
    float u = ((float)(a >> 8) + 0.5f) * 0x1p-24f, angle = 6.2831853f * ((float)(b >> 8) * 0x1p-24f);
    float value = rintf(mean + sqrtf(mean) * sqrtf(-2 * logf(u)) * cosf(angle));
    return (uint16_t)fminf(fmaxf(value, 0), UINT16_MAX);
}

/* Draws the counts of up to CHUNK pixels: walks along the distribution until it passes the pixel's random number. mean:
 * expectation before the response. */
MULTIVERSION static void draw(const float *restrict mean, const float *restrict response, struct exposure_key key,
                              uint32_t first, int count, uint16_t *restrict out) {
    float expected[CHUNK], left[CHUNK], chance[CHUNK];
    int number[CHUNK], many = 0;
    for (int i = 0; i < count; i++) {
        float value = mean[i] * response[i];
        value = value > 0 ? value : 0;
        expected[i] = value;
        many += value > EXPOSURE_MANY;
        left[i] = (float)(exposure_bits(key, first + (uint32_t)i) >> 8) * 0x1p-24f;
        chance[i] = exposure_decay(value > EXPOSURE_MANY ? EXPOSURE_MANY : value);
        number[i] = 0;
    }
    int walking = 1;
    for (int k = 0; walking && k < 4 * (int)EXPOSURE_MANY; k++) {
        float next = 1.0f / (float)(k + 1);
        walking = 0;
        for (int i = 0; i < count; i++) {
            int goes =
                (number[i] == k) & (left[i] >= chance[i]) & ((chance[i] > EXPOSURE_TINY) | ((float)k < expected[i]));
            left[i] -= goes ? chance[i] : 0;
            chance[i] *= goes ? expected[i] * next : 1;
            number[i] += goes;
            walking |= goes;
        }
    }
    for (int i = 0; i < count; i++)
        out[i] = (uint16_t)number[i];
    for (int i = 0; many > 0 && i < count; i++)
        if (expected[i] > EXPOSURE_MANY) out[i] = draw_many(expected[i], key, first + (uint32_t)i);
}

static void expose_row(const struct exposure_cpu *e, const struct exposure_tiles *tiles, int row,
                       struct exposure_key key, float *mean, uint16_t *counts) {
    int nx = e->task.nx, ny = e->task.ny, side = tiles->side, top = row * side;
    int height = top + side > ny ? ny - top : side;
    size_t stride = (size_t)(nx + 2 * e->task.margin_x);
    for (int column = 0; column < tiles->columns; column++) {
        const struct exposure_place *p = &tiles->place[(size_t)row * (size_t)tiles->columns + (size_t)column];
        int left = column * side, width = left + side > nx ? nx - left : side;
        interpolate(e->canvas + (size_t)(p->y - EXPOSURE_BEFORE) * stride + (size_t)(p->x - EXPOSURE_BEFORE), stride,
                    width, height, e->weights + (size_t)p->phase_x * EXPOSURE_TAPS,
                    e->weights + (size_t)p->phase_y * EXPOSURE_TAPS, mean + left, (size_t)nx);
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < nx; x += CHUNK) {
            size_t pixel = (size_t)(top + y) * (size_t)nx + (size_t)x;
            draw(mean + (size_t)y * (size_t)nx + x, e->response + pixel, key, (uint32_t)pixel,
                 x + CHUNK > nx ? nx - x : CHUNK, counts + pixel);
        }
}

static enum status run(void *state, const struct exposure_tiles *tiles, struct exposure_key key, uint16_t *counts,
                       struct err *err) {
    (void)err;
    struct exposure_cpu *e = state;
    size_t buffer = (size_t)EXPOSURE_TILE_MAX * (size_t)e->task.nx;
#pragma omp parallel num_threads(e->task.threads)
    {
#ifdef _OPENMP
        float *mean = e->rows + buffer * (size_t)omp_get_thread_num();
#else
        float *mean = e->rows;
#endif
#pragma omp for schedule(dynamic)
        for (int row = 0; row < tiles->rows; row++)
            expose_row(e, tiles, row, key, mean, counts);
    }
    (void)buffer;
    return STATUS_OK;
}

const struct exposure_work exposure_cpu_work = {create, destroy, take, run};
