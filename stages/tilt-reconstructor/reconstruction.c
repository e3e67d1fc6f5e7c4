#include "stages/tilt-reconstructor/reconstruction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/tilt-reconstructor/coarse.h"

enum { COARSE_SIDE = 512 };        /* px of the images in which shifts are searched */
static const double WEAK_PEAK = 5; /* σ: a lower peak may be chance */

void reconstruction_clear(struct reconstruction *reconstruction) {
    series_clear(&reconstruction->series);
    projections_clear(&reconstruction->projections);
    mem_free(&reconstruction->angles);
    mem_free(&reconstruction->shifts);
    mem_free(&reconstruction->mask);
    mem_free(&reconstruction->residuals);
    device_host_free(&reconstruction->device, &reconstruction->volume);
    *reconstruction = (struct reconstruction){0};
}

void reconstruction_plan_clear(struct reconstruction_plan *plan) {
    tomography_destroy(&plan->plan);
    mem_free(&plan->angles);
    *plan = (struct reconstruction_plan){0};
}

static double axis_of(const struct reconstruction_settings *settings, const struct series *series) {
    if (!isnan(settings->tilt_axis)) return settings->tilt_axis;
    return settings->align == RECONSTRUCTION_ALIGN_COARSE && !isnan(series->tilt_axis) ? series->tilt_axis : 0;
}

static void destroy_coarse(struct coarse **coarse) {
    coarse_destroy(coarse);
}

/* Finds shifts in images binned to at most COARSE_SIDE px, and sets the transforms of the tilts. */
static enum status align(const struct reconstruction_settings *settings, struct reconstruction *reconstruction,
                         struct err *err) {
    struct series *series = &reconstruction->series;
    _cleanup_(destroy_coarse) struct coarse *coarse = NULL;
    _cleanup_(projections_clear) struct projections small = {0};
    _cleanup_(mem_free) double *found = NULL;
    int longest = series->nx > series->ny ? series->nx : series->ny, count = series->count;
    struct projections_options options = {.bin = (longest + COARSE_SIDE - 1) / COARSE_SIDE,
                                          .tilt_axis = axis_of(settings, series),
                                          .normalise = PROJECTIONS_AS_THEY_ARE,
                                          .threads = settings->tomography.threads};
    TRY(projections_read(series, &options, &small, err));
    TRY(coarse_create(small.nx, small.ny, options.threads, &coarse, err));
    TRY(mem_new(4 * (size_t)count, sizeof *found, "shifts", &found, err));
    double *dx = found, *dy = found + count, *peaks = dy + count, *angles = peaks + count;
    for (int i = 0; i < count; i++)
        angles[i] = series->tilts[i].angle;
    TRY(coarse_align(coarse, small.data, angles, count, dx, dy, peaks, err));
    int weakest = -1;
    double farthest = 0;
    for (int i = 0; i < count; i++) {
        struct tilt *tilt = &series->tilts[i];
        tilt->transform = projections_transform(tilt, options.tilt_axis);
        tilt->transform.dx = dx[i] * options.bin;
        tilt->transform.dy = dy[i] * options.bin;
        tilt->shifted = true;
        farthest = fmax(farthest, hypot(tilt->transform.dx, tilt->transform.dy));
        if (peaks[i] > 0 && (weakest < 0 || peaks[i] < peaks[weakest])) weakest = i;
    }
    snprintf(reconstruction->alignment, sizeof reconstruction->alignment,
             "aligned by cross-correlation: shifts of at most %.1f px, weakest peak %.1f σ at %.2f°%s", farthest,
             weakest >= 0 ? peaks[weakest] : 0, weakest >= 0 ? series->tilts[weakest].angle : 0,
             weakest >= 0 && peaks[weakest] < WEAK_PEAK ? ", which may be chance" : "");
    return STATUS_OK;
}

int reconstruction_depth(const struct reconstruction_settings *settings) {
    return (settings->thickness + settings->bin - 1) / settings->bin;
}

static enum status compare_mask(const struct reconstruction_settings *settings, const char *series, int nx, int ny,
                                int mask_nx, int mask_ny, int mask_nz, struct err *err) {
    int nz = reconstruction_depth(settings);
    FAIL_IF(mask_nx != nx || mask_ny != ny || mask_nz != nz, err, STATUS_BAD_ARGUMENT,
            "mask %s has %d × %d × %d voxels, the tomogram of %s %d × %d × %d: they must be the same", settings->mask,
            mask_nx, mask_ny, mask_nz, series, nx, ny, nz);
    return STATUS_OK;
}

enum status reconstruction_check_mask(const struct reconstruction_settings *settings, const struct series *series,
                                      struct err *err) {
    const struct projections_options options = {.bin = settings->bin, .tilt_axis = axis_of(settings, series)};
    int nx, ny;
    if (settings->mask == NULL) return STATUS_OK;
    projections_size(series, &options, &nx, &ny);
    return compare_mask(settings, series->name, nx, ny, settings->mask_nx, settings->mask_ny,
                        reconstruction_depth(settings), err);
}

/* Reads the mask and compares its size again: the file may have changed. */
static enum status read_mask(const struct reconstruction_settings *settings, struct reconstruction *reconstruction,
                             struct err *err) {
    mem_free(&reconstruction->mask);
    if (settings->mask == NULL) return STATUS_OK;
    struct image image = {0};
    const struct projections *p = &reconstruction->projections;
    size_t count = (size_t)reconstruction->nz * (size_t)p->ny * (size_t)p->nx;
    enum status status = mrc_read(settings->mask, &image, err);
    if (status == STATUS_OK)
        status = compare_mask(settings, reconstruction->series.name, p->nx, p->ny, image.nx, image.ny, image.nz, err);
    if (status == STATUS_OK) status = mem_new_unset(count, 1, "the mask", &reconstruction->mask, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        reconstruction->mask[i] = image.data[i] >= 0.5f;
    image_destroy(&image);
    return status;
}

/* Sets angles and shifts for the kernel. */
static enum status set_geometry(struct reconstruction *reconstruction, struct err *err) {
    mem_free(&reconstruction->angles);
    mem_free(&reconstruction->shifts);
    size_t count = (size_t)reconstruction->series.count;
    TRY(mem_new(count, sizeof *reconstruction->angles, "tilt angles", &reconstruction->angles, err));
    TRY(mem_new(count, sizeof *reconstruction->shifts, "tilt shifts", &reconstruction->shifts, err));
    for (size_t i = 0; i < count; i++) {
        reconstruction->angles[i] = reconstruction->series.tilts[i].angle;
        reconstruction->shifts[i] = reconstruction->projections.shift;
    }
    return STATUS_OK;
}

enum status reconstruction_read(const struct reconstruction_settings *settings, struct series *series, bool whole,
                                struct reconstruction *reconstruction, struct err *err) {
    series_clear(&reconstruction->series);
    reconstruction->series = *series;
    reconstruction->alignment[0] = '\0';
    *series = (struct series){0};
    TRY(series_settle(&reconstruction->series, settings->exclude, settings->exclude_greatest, whole, err));
    reconstruction->tilt_axis = axis_of(settings, &reconstruction->series);
    TRY(reconstruction_check_mask(settings, &reconstruction->series, err));
    if (settings->align == RECONSTRUCTION_ALIGN_COARSE) TRY(align(settings, reconstruction, err));
    struct projections_options options = {.bin = settings->bin,
                                          .tilt_axis = reconstruction->tilt_axis,
                                          .normalise = settings->normalise,
                                          .positive = settings->tomography.method == TOMOGRAPHY_SIRT &&
                                                      settings->tomography.non_negative,
                                          .threads = settings->tomography.threads};
    if (reconstruction->projections.data == NULL) reconstruction->projections.device = settings->tomography.devices[0];
    TRY(projections_read(&reconstruction->series, &options, &reconstruction->projections, err));
    reconstruction->nz = reconstruction_depth(settings);
    TRY(set_geometry(reconstruction, err));
    return read_mask(settings, reconstruction, err);
}

/* Returns whether the plan of the last series fits this one. Measured angles differ by thousandths of a degree from one
 * series to the next, so only series with nominal angles share a plan. A new plan takes 1 to 4 ms on a CUDA device and
 * at most 2 % of 25 iterations on the CPU: not worth code that changes an old one. */
static bool plan_fits(const struct reconstruction_plan *plan, const struct tomography_options *options) {
    const struct tomography_geometry *had = &plan->options.geometry, *wanted = &options->geometry;
    if (plan->plan == NULL || options->mask != NULL || plan->masked) return false;
    if (plan->options.method != options->method || had->tilts != wanted->tilts || had->nx != wanted->nx ||
        had->ny != wanted->ny || had->nz != wanted->nz || fabs(plan->shift - wanted->shifts[0]) > 0)
        return false;
    return memcmp(plan->angles, wanted->angles, (size_t)wanted->tilts * sizeof *plan->angles) == 0;
}

static enum status take_plan(struct reconstruction_plan *plan, const struct tomography_options *options,
                             struct err *err) {
    if (plan_fits(plan, options)) return STATUS_OK;
    size_t count = (size_t)options->geometry.tilts;
    reconstruction_plan_clear(plan);
    TRY(mem_new(count, sizeof *plan->angles, "tilt angles", &plan->angles, err));
    memcpy(plan->angles, options->geometry.angles, count * sizeof *plan->angles);
    plan->options = *options;
    plan->shift = options->geometry.shifts[0];
    plan->masked = options->mask != NULL;
    return tomography_create(options, &plan->plan, err);
}

static enum status need_volume(struct reconstruction *reconstruction, const struct device *device, struct err *err) {
    size_t needed =
        (size_t)reconstruction->nz * (size_t)reconstruction->projections.ny * (size_t)reconstruction->projections.nx;
    if (needed <= reconstruction->volume_capacity) return STATUS_OK;
    device_host_free(&reconstruction->device, &reconstruction->volume);
    reconstruction->volume_capacity = 0;
    reconstruction->device = *device;
    TRY(device_host_new(device, needed, sizeof *reconstruction->volume, "the tomogram", &reconstruction->volume, err));
    reconstruction->volume_capacity = needed;
    return STATUS_OK;
}

enum status reconstruction_make(const struct reconstruction_settings *settings, struct reconstruction_plan *plan,
                                struct reconstruction *reconstruction, struct err *err) {
    struct tomography_options options = settings->tomography;
    struct tomography_report report = {0};
    options.geometry = (struct tomography_geometry){.tilts = reconstruction->projections.count,
                                                    .angles = reconstruction->angles,
                                                    .shifts = reconstruction->shifts,
                                                    .nx = reconstruction->projections.nx,
                                                    .ny = reconstruction->projections.ny,
                                                    .nz = reconstruction->nz};
    options.mask = reconstruction->mask;
    double begun = clock_monotonic();
    enum status status = take_plan(plan, &options, err); /* first checks that memory suffices */
    if (status == STATUS_OK) status = need_volume(reconstruction, &options.devices[0], err);
    if (status == STATUS_OK)
        status = tomography_run(plan->plan, reconstruction->projections.data, reconstruction->volume, &report, err);
    if (status != STATUS_OK) {
        reconstruction_plan_clear(plan);
        return err_context(err, status, "%s", reconstruction->series.name);
    }
    reconstruction->seconds = clock_monotonic() - begun;
    reconstruction->iterations = report.iterations;
    reconstruction->slabs = report.slabs;
    reconstruction->matrix = report.matrix;
    mem_free(&reconstruction->residuals);
    TRY(mem_new((size_t)report.iterations + 1, sizeof *reconstruction->residuals, "residuals",
                &reconstruction->residuals, err));
    if (report.iterations > 0)
        memcpy(reconstruction->residuals, report.residuals,
               (size_t)report.iterations * sizeof *reconstruction->residuals);
    return STATUS_OK;
}

static uint64_t hash_number(uint64_t hash, double value) {
    return text_fnv(hash, &value, sizeof value);
}

uint64_t reconstruction_fingerprint(const struct reconstruction_settings *settings, const struct series *series) {
    const struct tomography_options *t = &settings->tomography;
    uint64_t hash = TEXT_FNV_BEGIN;
    double numbers[] = {settings->align,
                        isnan(settings->tilt_axis) ? 1e9 : settings->tilt_axis,
                        settings->bin,
                        settings->thickness,
                        settings->normalise,
                        settings->mode,
                        t->method,
                        t->basis,
                        t->start,
                        t->iterations,
                        t->relaxation,
                        t->limit,
                        t->non_negative,
                        t->roll_off,
                        t->cutoff};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = hash_number(hash, numbers[i]);
    if (settings->mask != NULL) hash = text_fnv(hash, settings->mask, strlen(settings->mask));
    for (int i = 0; i < series->count; i++) {
        const struct tilt *tilt = &series->tilts[i];
        if (series_excludes(settings->exclude, tilt->number)) continue;
        uint64_t one = text_fnv(TEXT_FNV_BEGIN, path_name(tilt->path), strlen(path_name(tilt->path)));
        one = hash_number(hash_number(one, tilt->angle), tilt->slice);
        hash += text_fnv(one, &one, sizeof one); /* a sum, so that the order of arrival does not matter */
    }
    return hash;
}
