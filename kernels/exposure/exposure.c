/* Frames of a simulated movie on the CPU or a device. */
#include "kernels/exposure/exposure.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/exposure/exposure_private.h"

struct exposure {
    struct exposure_task task;
    float *weights;               /* [EXPOSURE_PHASES][EXPOSURE_TAPS] */
    struct exposure_place *place; /* room for tiles of 4 px */
    const struct exposure_work *work;
    void *state;
};

enum { LEAST_TILE = 4, ROUNDS = 3 };
static const double TOLERANCE = 0.02; /* px */
static const double KAISER = 4.54;    /* 50 dB */

void exposure_shift_at(const struct exposure_shift *shift, int nx, int ny, double x, double y, double ret_shift[2]) {
    double u = x / nx - 0.5, v = y / ny - 0.5;
    const double terms[EXPOSURE_TERMS] = {1, u, u * u, v, v * v, u * v};
    double d[2] = {shift->x, shift->y};
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < EXPOSURE_TERMS; i++)
            d[axis] += shift->local[axis][i] * terms[i];
    ret_shift[0] = d[0];
    ret_shift[1] = d[1];
}

/* Solves X = Y + d(X) by repetition: d changes by far less than a pixel from one pixel to the next. */
void exposure_place_at(const struct exposure_shift *shift, int nx, int ny, double x, double y, double ret_place[2]) {
    double d[2] = {0, 0};
    for (int round = 0; round < ROUNDS; round++)
        exposure_shift_at(shift, nx, ny, x + d[0], y + d[1], d);
    ret_place[0] = x + d[0];
    ret_place[1] = y + d[1];
}

int exposure_tile(const struct exposure_shift *shift, int nx, int ny) {
    double steepest = 0;
    for (int axis = 0; axis < 2; axis++) {
        const double *c = shift->local[axis];
        double along_x = (fabs(c[1]) + fabs(c[2]) + fabs(c[5]) / 2) / nx;
        double along_y = (fabs(c[3]) + fabs(c[4]) + fabs(c[5]) / 2) / ny;
        steepest = fmax(steepest, fmax(along_x, along_y));
    }
    int side = EXPOSURE_TILE_MAX;
    while (side > LEAST_TILE && steepest * side / 2 > TOLERANCE)
        side /= 2;
    return side;
}

/* Returns the modified Bessel function of order 0. */
static double bessel(double x) {
    double term = 1, sum = 1;
    for (int k = 1; k < 40; k++) {
        term *= x * x / (4.0 * k * k);
        sum += term;
    }
    return sum;
}

static void fill_weights(float *weights) {
    for (int phase = 0; phase < EXPOSURE_PHASES; phase++) {
        double values[EXPOSURE_TAPS], sum = 0;
        for (int tap = 0; tap < EXPOSURE_TAPS; tap++) {
            double t = tap - EXPOSURE_BEFORE - (double)phase / EXPOSURE_PHASES, part = 2 * t / EXPOSURE_TAPS;
            double sinc = fabs(t) < 1e-9 ? 1 : sin(M_PI * t) / (M_PI * t);
            values[tap] = sinc * bessel(KAISER * sqrt(fmax(0, 1 - part * part)));
            sum += values[tap];
        }
        for (int tap = 0; tap < EXPOSURE_TAPS; tap++)
            weights[phase * EXPOSURE_TAPS + tap] = (float)(values[tap] / sum);
    }
}

/* Returns NULL for a device that this build does not know. */
static const struct exposure_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &exposure_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &exposure_cuda_work;
#else
    return NULL;
#endif
}

void exposure_destroy(struct exposure **exposure) {
    if (exposure == NULL || *exposure == NULL) return;
    struct exposure *e = *exposure;
    if (e->state != NULL) e->work->destroy(e->state);
    free(e->weights);
    free(e->place);
    mem_free(exposure);
}

static size_t tiles_along(int pixels, int side) {
    return (size_t)((pixels + side - 1) / side);
}

enum status exposure_create(const struct exposure_task *task, struct exposure **ret_exposure, struct err *err) {
    FAIL_IF(task->nx < 16 || task->ny < 16 || task->margin_x < EXPOSURE_REACH || task->margin_y < EXPOSURE_REACH, err,
            STATUS_BAD_ARGUMENT,
            "frames of %d × %d px with margins of %d and %d px: at least 16 px and margins of %d px are expected",
            task->nx, task->ny, task->margin_x, task->margin_y, EXPOSURE_REACH);
    _cleanup_(exposure_destroy) struct exposure *e = NULL;
    TRY(mem_new(1, sizeof *e, "an exposure", &e, err));
    e->task = *task;
    if (e->task.threads < 1) e->task.threads = 1;
    e->work = work_on(&task->device);
    FAIL_IF(e->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can expose frames");
    TRY(mem_new((size_t)EXPOSURE_PHASES * EXPOSURE_TAPS, sizeof *e->weights, "weights", &e->weights, err));
    fill_weights(e->weights);
    TRY(mem_new(tiles_along(task->nx, LEAST_TILE) * tiles_along(task->ny, LEAST_TILE), sizeof *e->place,
                "places of tiles", &e->place, err));
    TRY(e->work->create(&e->task, e->weights, &e->state, err));
    *ret_exposure = e;
    e = NULL;
    return STATUS_OK;
}

enum status exposure_take(struct exposure *e, const float *canvas, const float *response, struct err *err) {
    return e->work->take(e->state, canvas, response, err);
}

/* Splits a coordinate of the canvas into its pixel and the part of a pixel beyond it. */
static void split(double at, int *ret_pixel, int *ret_phase) {
    long phases = lround(at * EXPOSURE_PHASES);
    *ret_pixel = (int)(phases >= 0 ? phases / EXPOSURE_PHASES : -1);
    *ret_phase = (int)(phases % EXPOSURE_PHASES);
}

/* Places one row of tiles. Returns whether all their taps lie on the canvas. */
static bool place_row(const struct exposure *e, const struct exposure_shift *shift, const struct exposure_tiles *tiles,
                      int row) {
    const struct exposure_task *t = &e->task;
    int side = tiles->side, after = EXPOSURE_TAPS - EXPOSURE_BEFORE, top = row * side;
    int height = top + side > t->ny ? t->ny - top : side;
    double half = (side - 1) / 2.0;
    bool inside = true;
    for (int column = 0; column < tiles->columns; column++) {
        struct exposure_place *p = &e->place[(size_t)row * (size_t)tiles->columns + (size_t)column];
        int left = column * side, width = left + side > t->nx ? t->nx - left : side;
        double at[2];
        exposure_place_at(shift, t->nx, t->ny, left + half, top + half, at);
        split(at[0] - half + t->margin_x, &p->x, &p->phase_x);
        split(at[1] - half + t->margin_y, &p->y, &p->phase_y);
        inside = inside && p->x >= EXPOSURE_BEFORE && p->y >= EXPOSURE_BEFORE &&
                 p->x + width + after <= t->nx + 2 * t->margin_x && p->y + height + after <= t->ny + 2 * t->margin_y;
    }
    return inside;
}

static enum status place_tiles(const struct exposure *e, const struct exposure_shift *shift,
                               const struct exposure_tiles *tiles, struct err *err) {
    int outside = 0;
#pragma omp parallel for num_threads(e->task.threads) reduction(+ : outside)
    for (int row = 0; row < tiles->rows; row++)
        outside += !place_row(e, shift, tiles, row);
    FAIL_IF(outside > 0, err, STATUS_BAD_ARGUMENT,
            "a shift of (%.1f, %.1f) px leads out of the image, which has margins of %d and %d px", shift->x, shift->y,
            e->task.margin_x, e->task.margin_y);
    return STATUS_OK;
}

enum status exposure_run(struct exposure *e, const struct exposure_shift *shift, uint64_t key, uint16_t *counts,
                         struct err *err) {
    int side = exposure_tile(shift, e->task.nx, e->task.ny);
    struct exposure_tiles tiles = {.side = side,
                                   .columns = (int)tiles_along(e->task.nx, side),
                                   .rows = (int)tiles_along(e->task.ny, side),
                                   .place = e->place};
    TRY(place_tiles(e, shift, &tiles, err));
    struct exposure_key words = {(uint32_t)key, (uint32_t)(key >> 32)};
    return e->work->run(e->state, &tiles, words, counts, err);
}
