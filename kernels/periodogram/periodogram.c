/* Averaged periodogram on the CPU or a device. */
#include "kernels/periodogram/periodogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/periodogram/periodogram_private.h"

struct periodogram {
    struct periodogram_task task;
    struct periodogram_window window;
    struct periodogram_cells cells;
    float *shares; /* [cells.count] 1 over the number of pixels and the window's power */
    const struct periodogram_work *work;
    void *state;
};

int periodogram_tiles(int side, int box) {
    int step = box / 2;
    return (side - box + step - 1) / step + 1;
}

int periodogram_tile_start(int side, int box, int index) {
    int tiles = periodogram_tiles(side, box);
    return tiles == 1 ? 0 : (int)((long long)index * (side - box) / (tiles - 1));
}

/* Returns NULL for a device that this build does not know. */
static const struct periodogram_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &periodogram_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &periodogram_cuda_work;
#else
    return NULL;
#endif
}

void periodogram_destroy(struct periodogram **periodogram) {
    if (periodogram == NULL || *periodogram == NULL) return;
    struct periodogram *p = *periodogram;
    if (p->state != NULL) p->work->destroy(p->state);
    free(p->window.values);
    free(p->cells.first);
    free(p->cells.pixel);
    free(p->cells.sums);
    free(p->shares);
    mem_free(periodogram);
}

double periodogram_window(int box, float *ret_window) {
    double power = 0;
    for (int x = 0; x < box; x++) {
        double s = sin(M_PI * (x + 0.5) / box);
        ret_window[x] = (float)(s * s);
        power += s * s * s * s;
    }
    return power * power;
}

static enum status make_window(struct periodogram *p, struct err *err) {
    TRY(mem_new((size_t)p->task.box, sizeof *p->window.values, "a window", &p->window.values, err));
    p->window.power = periodogram_window(p->task.box, p->window.values);
    return STATUS_OK;
}

int periodogram_cell(int box, int kx, int ky) {
    double radius = hypot(kx, ky);
    if (kx < 2 || abs(ky) < 2 || radius >= box / 2) return -1;
    int sector = (int)((atan2(ky, kx) / M_PI + 0.5) * PERIODOGRAM_SECTORS);
    return sector * (box / 2) + (int)radius;
}

const float *periodogram_cells(const struct periodogram *periodogram) {
    return periodogram->cells.sums;
}

static size_t tile_count(const struct periodogram *p) {
    return (size_t)periodogram_tiles(p->task.nx, p->task.box) * (size_t)periodogram_tiles(p->task.ny, p->task.box);
}

/* Sorts the pixels by their cells: counts them, then puts each where its cell begins. */
static void list_pixels(struct periodogram_cells *c, int box) {
    int columns = box / 2 + 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int row = 0; row < box; row++)
            for (int kx = 0; kx < columns; kx++) {
                int cell = periodogram_cell(box, kx, row <= box / 2 ? row : row - box);
                if (cell < 0) continue;
                if (pass == 0)
                    c->first[cell + 1]++;
                else
                    c->pixel[c->first[cell]++] = row * columns + kx;
            }
        for (int i = 0; pass == 0 && i < c->count; i++)
            c->first[i + 1] += c->first[i];
    }
    memmove(c->first + 1, c->first, (size_t)c->count * sizeof *c->first);
    c->first[0] = 0;
}

static enum status make_cells(struct periodogram *p, struct err *err) {
    struct periodogram_cells *c = &p->cells;
    int box = p->task.box, columns = box / 2 + 1;
    if (!p->task.tiles) return STATUS_OK;
    c->count = PERIODOGRAM_SECTORS * (box / 2);
    TRY(mem_new((size_t)c->count + 1, sizeof *c->first, "cells of a spectrum", &c->first, err));
    TRY(mem_new((size_t)box * (size_t)columns, sizeof *c->pixel, "cells of a spectrum", &c->pixel, err));
    TRY(mem_new((size_t)c->count * tile_count(p), sizeof *c->sums, "spectra of tiles", &c->sums, err));
    TRY(mem_new((size_t)c->count, sizeof *p->shares, "cells of a spectrum", &p->shares, err));
    list_pixels(c, box);
    for (int i = 0; i < c->count; i++) {
        int pixels = c->first[i + 1] - c->first[i];
        p->shares[i] = pixels > 0 ? (float)(1 / (pixels * p->window.power)) : 0;
    }
    return STATUS_OK;
}

enum status periodogram_create(const struct periodogram_task *task, struct periodogram **ret_periodogram,
                               struct err *err) {
    int box = task->box, least = task->nx < task->ny ? task->nx : task->ny;
    FAIL_IF(box < 16 || box % 2 != 0 || box > least, err, STATUS_BAD_ARGUMENT,
            "a periodogram of tiles of %d px from %d × %d px: an even number from 16 to the shorter side is expected",
            box, task->nx, task->ny);
    _cleanup_(periodogram_destroy) struct periodogram *p = NULL;
    TRY(mem_new(1, sizeof *p, "a periodogram", &p, err));
    p->task = *task;
    if (p->task.threads < 1) p->task.threads = 1;
    p->work = work_on(&task->device);
    FAIL_IF(p->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can average spectra");
    TRY(make_window(p, err));
    TRY(make_cells(p, err));
    TRY(p->work->create(&p->task, &p->window, &p->cells, &p->state, err));
    *ret_periodogram = p;
    p = NULL;
    return STATUS_OK;
}

enum status periodogram_run(struct periodogram *p, const float *micrograph, const void *on_device, float *power,
                            struct err *err) {
    int used = 0;
    TRY(p->work->run(p->state, micrograph, on_device, power, &used, err));
    FAIL_IF(used == 0, err, STATUS_BAD_FORMAT, "the micrograph has no variance: no part of it is an image");
    size_t count = (size_t)p->task.box * (size_t)(p->task.box / 2 + 1);
    float scale = (float)(1 / (p->window.power * used));
    for (size_t i = 0; i < count; i++)
        power[i] *= scale;
    for (size_t tile = 0; p->task.tiles && tile < tile_count(p); tile++)
        for (size_t i = 0; i < (size_t)p->cells.count; i++)
            p->cells.sums[tile * (size_t)p->cells.count + i] *= p->shares[i];
    return STATUS_OK;
}
