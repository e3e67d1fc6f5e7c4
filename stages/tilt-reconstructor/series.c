#include "stages/tilt-reconstructor/series.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mdoc.h"
#include "common/formats/optics.h"
#include "common/memory.h"

/* °: angles closer than this belong to one tilt; no series has such small steps. */
static const double SAME_ANGLE = 0.1;
/* A step this many times wider than the usual one means that a tilt is missing. */
static const double WIDE_STEP = 1.6;

void series_clear(struct series *series) {
    for (int i = 0; i < series->count; i++)
        free(series->tilts[i].path);
    free(series->tilts);
    free(series->name);
    json_decref(series->notes);
    *series = (struct series){0};
}

enum status series_add(struct series *series, const struct tilt *tilt, const char *path, struct err *err) {
    if (series->count == series->capacity) {
        int capacity = series->capacity > 0 ? 2 * series->capacity : 64;
        struct tilt *tilts = realloc(series->tilts, (size_t)capacity * sizeof *tilts);
        FAIL_IF(tilts == NULL, err, STATUS_NO_MEMORY, "no memory for %d tilts", capacity);
        series->tilts = tilts;
        series->capacity = capacity;
    }
    struct tilt copy = *tilt;
    copy.path = strdup(path);
    FAIL_IF(copy.path == NULL, err, STATUS_NO_MEMORY, "no memory for the name %s", path);
    series->tilts[series->count++] = copy;
    return STATUS_OK;
}

enum status series_note(struct series *series, struct err *err, const char *format, ...) {
    char text[512];
    if (series->notes == NULL) series->notes = json_array();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *note = json_string(text); /* NULL if the text is not UTF-8 */
    if (note == NULL) note = json_string("a note on the series holds a name that is no UTF-8");
    FAIL_IF(json_array_append_new(series->notes, note) != 0, err, STATUS_NO_MEMORY,
            "no memory for the notes on a series");
    return STATUS_OK;
}

static enum status leave_out(struct series *series, const bool *exclude, int greatest, bool whole, struct err *err) {
    int last = 0, kept = 0;
    for (int i = 0; i < series->count; i++)
        last = series->tilts[i].number > last ? series->tilts[i].number : last;
    FAIL_IF(whole && exclude != NULL && greatest > last, err, STATUS_BAD_ARGUMENT,
            "%s: exclude names view %d, but the last of the series is %d (the first image is view 1)", series->name,
            greatest, last);
    if (exclude == NULL) return STATUS_OK;
    for (int i = 0; i < series->count; i++) {
        if (series_excludes(exclude, series->tilts[i].number))
            free(series->tilts[i].path);
        else
            series->tilts[kept++] = series->tilts[i];
    }
    int left_out = series->count - kept;
    series->count = kept;
    FAIL_IF(whole && kept < 2, err, STATUS_BAD_ARGUMENT,
            "%s: exclude leaves %d of %d tilts: two or more are needed for a tomogram", series->name, kept,
            kept + left_out);
    return left_out > 0
               ? series_note(series, err, "%d of %d tilts are left out, as exclude says", left_out, kept + left_out)
               : STATUS_OK;
}

static int by_angle(const void *a, const void *b) {
    const struct tilt *s = a, *t = b;
    if (s->angle < t->angle || s->angle > t->angle) return s->angle < t->angle ? -1 : 1;
    return s->taken != t->taken ? (s->taken < t->taken ? -1 : 1) : (s->number > t->number) - (s->number < t->number);
}

/* Keeps, among tilts at one angle, the one taken last if they were taken again; else keeps all. */
static enum status drop_duplicates(struct series *series, struct err *err) {
    int kept = 0;
    for (int i = 0; i < series->count; i++) {
        struct tilt *tilt = &series->tilts[i];
        struct tilt *before = kept > 0 ? &series->tilts[kept - 1] : NULL;
        if (before == NULL || tilt->angle - before->angle >= SAME_ANGLE) {
            series->tilts[kept++] = *tilt;
            continue;
        }
        if (!series->retaken) {
            TRY(series_note(series, err, "views %d and %d are both at %.2f°: both are used", before->number,
                            tilt->number, tilt->angle));
            series->tilts[kept++] = *tilt;
            continue;
        }
        bool later = mdoc_is_later(before->time, tilt->time, tilt->taken > before->taken);
        struct tilt out = later ? *before : *tilt;
        if (later) *before = *tilt;
        enum status status = series_note(series, err, "view %d at %.2f° was taken again as view %d, which is used",
                                         out.number, out.angle, before->number);
        free(out.path);
        /* After a failure series_clear must not free a path twice. */
        if (status != STATUS_OK) {
            memmove(&series->tilts[kept], &series->tilts[i + 1], (size_t)(series->count - i - 1) * sizeof *tilt);
            series->count += kept - i - 1;
            return status;
        }
    }
    series->count = kept;
    return STATUS_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum status look_for_gaps(struct series *series, struct err *err) {
    int steps = 0;
    _cleanup_(mem_free) double *sorted = NULL;
    if (series->count < 4) return STATUS_OK;
    TRY(mem_new((size_t)series->count, sizeof *sorted, "steps between tilts", &sorted, err));
    for (int i = 1; i < series->count; i++) {
        double step = series->tilts[i].angle - series->tilts[i - 1].angle;
        if (step >= SAME_ANGLE) sorted[steps++] = step;
    }
    if (steps < 3) return STATUS_OK;
    qsort(sorted, (size_t)steps, sizeof *sorted, by_value);
    double usual = sorted[steps / 2];
    for (int i = 1; i < series->count; i++) {
        double from = series->tilts[i - 1].angle, to = series->tilts[i].angle;
        if (to - from > WIDE_STEP * usual)
            TRY(series_note(series, err, "there is no tilt between %.2f° and %.2f°, where steps are %.2f° elsewhere",
                            from, to, usual));
    }
    return STATUS_OK;
}

/* Notes that pixel sizes differ: images that were binned later still have the .mdoc of the microscope. */
static enum status compare_pixel_sizes(struct series *series, struct err *err) {
    double size = series->pixel_size, spacing = series->spacing;
    if (!(size > 0 && spacing > 0) || optics_pixel_size_confirms(size, spacing)) return STATUS_OK;
    return series_note(series, err, "the pixel size is taken as %.4g Å, where PixelSpacing of the .mdoc is %.4g Å",
                       size, spacing);
}

enum status series_settle(struct series *series, const bool *exclude, int greatest, bool whole, struct err *err) {
    if (series->notes == NULL) series->notes = json_array();
    FAIL_IF(series->notes == NULL, err, STATUS_NO_MEMORY, "no memory for the notes on a series");
    TRY(leave_out(series, exclude, greatest, whole, err));
    for (int i = 0; i < series->count; i++) {
        const struct tilt *tilt = &series->tilts[i];
        FAIL_IF(!isfinite(tilt->angle), err, STATUS_BAD_FORMAT, "%s: view %d has no angle", series->name, tilt->number);
        FAIL_IF(fabs(tilt->angle) > TILT_ANGLE_MAX, err, STATUS_BAD_FORMAT,
                "%s: view %d: a tilt of %g° lies beyond ±90°", series->name, tilt->number, tilt->angle);
    }
    if (series->count > 0) qsort(series->tilts, (size_t)series->count, sizeof *series->tilts, by_angle);
    FAIL_IF(series->count < 2, err, STATUS_BAD_FORMAT, "%s: %d tilt%s: two or more are needed for a tomogram",
            series->name, series->count, series->count == 1 ? "" : "s");
    double spread = series->tilts[series->count - 1].angle - series->tilts[0].angle;
    FAIL_IF(spread < SAME_ANGLE, err, STATUS_BAD_FORMAT,
            "%s: all %d tilts are at %.2f°: angles that differ are needed for a tomogram; check the file of the angles",
            series->name, series->count, series->tilts[0].angle);
    TRY(drop_duplicates(series, err));
    TRY(compare_pixel_sizes(series, err));
    return look_for_gaps(series, err);
}
