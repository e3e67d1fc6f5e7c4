#include "stages/ctf-estimator/ctf_estimator.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/memory.h"

struct ctf_estimator {
    struct ctf_estimator_task task;
    struct periodogram *periodogram;
    struct ctf_fit *fit;
    int box;
    float *power; /* [box][box/2+1] */
};

void ctf_estimator_destroy(struct ctf_estimator **estimator) {
    if (estimator == NULL || *estimator == NULL) return;
    periodogram_destroy(&(*estimator)->periodogram);
    ctf_fit_destroy(&(*estimator)->fit);
    free((*estimator)->power);
    mem_free(estimator);
}

size_t ctf_estimator_bytes(int ny, int box, int threads) {
    size_t plane = (size_t)box * (size_t)(box / 2 + 1) * sizeof(float);
    size_t rows = box > 0 && ny >= box ? (size_t)periodogram_tiles(ny, box) : 1;
    /* A tile and its transform for each thread; a sum for each row of tiles; power, spectrum, average and seven values
     * of each pixel in the fit. */
    return plane * (4 * (size_t)(threads > 0 ? threads : 1) + rows + 10);
}

enum status ctf_estimator_create(const struct ctf_estimator_task *task, struct ctf_estimator **ret_estimator,
                                 struct err *err) {
    _cleanup_(ctf_estimator_destroy) struct ctf_estimator *e = NULL;
    TRY(mem_new(1, sizeof *e, "an estimator of CTFs", &e, err));
    int box = task->options->box;
    e->task = *task;
    e->box = box != INT_MIN ? box : ctf_fit_box(task->nx, task->ny, task->pixel_size);
    FAIL_IF(
        e->box > task->nx || e->box > task->ny || e->box < 64 || e->box % 2 != 0, err, STATUS_BAD_ARGUMENT,
        "the micrograph has %d × %d px, a tile %d: an even box of 64 px or more, and a micrograph that holds it, are "
        "expected",
        task->nx, task->ny, e->box);
    struct periodogram_task tiles = {
        .nx = task->nx, .ny = task->ny, .box = e->box, .threads = task->threads, .device = task->device};
    TRY(periodogram_create(&tiles, &e->periodogram, err));
    TRY(ctf_fit_create(e->box, task->threads, &e->fit, err));
    TRY(mem_new((size_t)e->box * (size_t)(e->box / 2 + 1), sizeof *e->power, "a power spectrum", &e->power, err));
    *ret_estimator = e;
    e = NULL;
    return STATUS_OK;
}

const struct ctf_fit *ctf_estimator_fit(const struct ctf_estimator *estimator) {
    return estimator->fit;
}

int ctf_estimator_box(const struct ctf_estimator *estimator) {
    return estimator->box;
}

enum status ctf_estimator_run(struct ctf_estimator *e, const float *micrograph, const void *on_device,
                              const struct optics *optics, struct ctf_fit_result *ret_result, struct err *err) {
    const struct ctf_estimator_options *o = e->task.options;
    bool phase = o->phase_shift.count == 2;
    struct ctf_fit_options options = {
        .pixel_size = e->task.pixel_size,
        .voltage = optics->voltage,
        .spherical_aberration = optics->spherical_aberration,
        .amplitude_contrast = optics->amplitude_contrast,
        .low = o->resolution.values[0],
        .high = o->resolution.values[1],
        .defocus_min = o->defocus.values[0],
        .defocus_max = o->defocus.values[1],
        .astigmatism_max = o->astigmatism,
        .find_phase = phase,
        .phase_min = phase ? o->phase_shift.values[0] : 0,
        .phase_max = phase ? o->phase_shift.values[1] : 0,
    };
    TRY(periodogram_run(e->periodogram, micrograph, on_device, e->power, err));
    return ctf_fit_run(e->fit, e->power, &options, ret_result, err);
}
