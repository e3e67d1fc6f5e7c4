#include "stages/ctf-estimator/ctf_estimator.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/memory.h"

struct ctf_estimator {
    struct ctf_estimator_task task;
    struct periodogram *periodogram; /* NULL: no micrograph is read */
    struct ctf_local *local;         /* NULL: as periodogram */
    struct ctf_fit *fit;
    int box;      /* px: side of the spectrum that is fitted */
    float *power; /* [box][box/2+1] that is fitted */
    float *tiles; /* of the micrograph's tiles, where a spectrum is fitted; NULL: not needed */
};

void ctf_estimator_destroy(struct ctf_estimator **estimator) {
    if (estimator == NULL || *estimator == NULL) return;
    periodogram_destroy(&(*estimator)->periodogram);
    ctf_local_destroy(&(*estimator)->local);
    ctf_fit_destroy(&(*estimator)->fit);
    free((*estimator)->power);
    free((*estimator)->tiles);
    mem_free(estimator);
}

int ctf_estimator_tile(const struct ctf_estimator_options *options, int nx, int ny, double pixel_size) {
    return options->box != INT_MIN ? options->box : ctf_fit_box(nx, ny, pixel_size);
}

static size_t plane_of(int box) {
    return (size_t)box * (size_t)(box / 2 + 1);
}

size_t ctf_estimator_bytes(const struct ctf_estimator_task *task) {
    size_t fitted = plane_of(task->side > 0 ? task->side : task->box), floats = 10 * fitted, local = 0;
    if (task->nx >= task->box && task->ny >= task->box && task->box >= 16) {
        size_t rows = (size_t)periodogram_tiles(task->ny, task->box);
        size_t tiles = rows * (size_t)periodogram_tiles(task->nx, task->box);
        /* A tile and its transform for each thread; a sum for each row of tiles; each tile's cells and their pixels. */
        floats += plane_of(task->box) * (4 * (size_t)(task->threads > 0 ? task->threads : 1) + rows + 1);
        floats += tiles * PERIODOGRAM_SECTORS * (size_t)(task->box / 2);
        local = ctf_local_bytes(task->nx, task->ny, task->box);
    }
    /* Beside these: power, spectrum, average and seven values of each pixel in the fit. */
    return floats * sizeof(float) + local;
}

static enum status make_tiles(struct ctf_estimator *e, struct err *err) {
    const struct ctf_estimator_task *t = &e->task;
    if (t->nx == 0) return STATUS_OK;
    FAIL_IF(
        t->box > t->nx || t->box > t->ny || t->box < 64 || t->box % 2 != 0, err, STATUS_BAD_ARGUMENT,
        "the micrograph has %d × %d px, a tile %d: an even box of 64 px or more, and a micrograph that holds it, are "
        "expected",
        t->nx, t->ny, t->box);
    struct periodogram_task tiles = {
        .nx = t->nx, .ny = t->ny, .box = t->box, .threads = t->threads, .device = t->device, .tiles = true};
    TRY(periodogram_create(&tiles, &e->periodogram, err));
    return ctf_local_create(t->nx, t->ny, t->box, t->threads, &e->local, err);
}

enum status ctf_estimator_create(const struct ctf_estimator_task *task, struct ctf_estimator **ret_estimator,
                                 struct err *err) {
    _cleanup_(ctf_estimator_destroy) struct ctf_estimator *e = NULL;
    TRY(mem_new(1, sizeof *e, "an estimator of CTFs", &e, err));
    e->task = *task;
    e->box = task->side > 0 ? task->side : task->box;
    TRY(make_tiles(e, err));
    TRY(ctf_fit_create(e->box, task->threads, &e->fit, err));
    TRY(mem_new(plane_of(e->box), sizeof *e->power, "a power spectrum", &e->power, err));
    if (task->side > 0 && task->nx > 0)
        TRY(mem_new(plane_of(task->box), sizeof *e->tiles, "a power spectrum", &e->tiles, err));
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

/* Fills power from a centred amplitude. A resampled amplitude may be a little below zero. */
static void take_spectrum(const float *amplitude, int side, float *power) {
    int columns = side / 2 + 1;
    for (int row = 0; row < side; row++)
        for (int kx = 0; kx < columns; kx++) {
            int y = (row + side / 2) % side, x = (kx + side / 2) % side; /* Nyquist stands at −side/2 only */
            float value = amplitude[(size_t)y * (size_t)side + (size_t)x];
            power[(size_t)row * (size_t)columns + (size_t)kx] = value > 0 ? value * value : 0;
        }
}

static struct ctf_fit_options options_of(const struct ctf_estimator *e, const struct ctf_estimator_input *input) {
    const struct ctf_estimator_options *o = e->task.options;
    bool phase = o->phase_shift.count == 2;
    return (struct ctf_fit_options){
        .pixel_size = e->task.side > 0 ? input->spectrum_pixel_size : input->pixel_size,
        .voltage = input->optics->voltage,
        .spherical_aberration = input->optics->spherical_aberration,
        .amplitude_contrast = input->optics->amplitude_contrast,
        .low = o->resolution.values[0],
        .high = o->resolution.values[1],
        .defocus_min = o->defocus.values[0],
        .defocus_max = o->defocus.values[1],
        .astigmatism_max = o->astigmatism,
        .find_phase = phase,
        .phase_min = phase ? o->phase_shift.values[0] : 0,
        .phase_max = phase ? o->phase_shift.values[1] : 0,
    };
}

enum status ctf_estimator_run(struct ctf_estimator *e, const struct ctf_estimator_input *input,
                              struct ctf_fit_result *ret_result, struct ctf_local_result *ret_local, struct err *err) {
    struct ctf_fit_options options = options_of(e, input);
    float *power = e->task.side > 0 ? e->tiles : e->power;
    *ret_local = (struct ctf_local_result){0};
    if (e->task.side > 0) take_spectrum(input->spectrum, e->task.side, e->power);
    if (e->periodogram != NULL) TRY(periodogram_run(e->periodogram, input->micrograph, input->on_device, power, err));
    TRY(ctf_fit_run(e->fit, e->power, &options, ret_result, err));
    if (e->periodogram == NULL || !(ret_result->resolution > 0)) return STATUS_OK;
    options.pixel_size = input->pixel_size;
    ctf_local_run(e->local, periodogram_cells(e->periodogram), &options, ret_result, ret_local);
    return STATUS_OK;
}
