/* Averaged periodogram on the CPU or a device. */
#include "kernels/periodogram/periodogram.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/periodogram/periodogram_private.h"

struct periodogram {
    struct periodogram_task task;
    struct periodogram_window window;
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
    mem_free(periodogram);
}

static enum status make_window(struct periodogram *p, struct err *err) {
    int box = p->task.box;
    double power = 0;
    TRY(mem_new((size_t)box, sizeof *p->window.values, "a window", &p->window.values, err));
    for (int x = 0; x < box; x++) {
        double s = sin(M_PI * (x + 0.5) / box);
        p->window.values[x] = (float)(s * s);
        power += s * s * s * s;
    }
    p->window.power = power * power;
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
    TRY(p->work->create(&p->task, &p->window, &p->state, err));
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
    return STATUS_OK;
}
