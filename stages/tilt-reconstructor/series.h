/* A tilt series: which image was taken at which angle, wherever that is written. The order in files is never trusted:
 * series_settle sorts by angle.
 *
 * Views have IMOD's numbers: view n is image n of the stack, from 1. Of single files it is ZValue + 1 of the .mdoc, or
 * what stands for {order} in the names. `exclude` goes by these numbers. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SERIES_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SERIES_H

#include <jansson.h>
#include <stdbool.h>

#include "common/formats/tilts.h"
#include "common/status.h"

struct tilt {
    int number;    /* the view's */
    double angle;  /* ° */
    int slice;     /* of its file, from 0 */
    char *path;    /* the series' own */
    float *pixels; /* [ny][nx] of it in memory, someone else's; NULL: in the file */
    int taken;    /* place in the file, or in the order of names: of two with one angle the later counts where `retaken`
                     holds */
    double time;  /* when it was taken, s; NaN: unknown, `taken` tells */
    bool shifted; /* the transform is known */
    struct tilt_transform transform; /* px of the image as it is in the file */
};

struct series {
    char *name;        /* for messages: the stack's or the .mdoc's path, or the series' id */
    int nx, ny;        /* of the images */
    double pixel_size; /* Å; NaN: unknown. What images have in their headers comes before `spacing` */
    double spacing;    /* the .mdoc's PixelSpacing, Å, of the images as the microscope wrote them; NaN: unknown */
    double tilt_axis;  /* from y, anticlockwise, °; NaN: unknown */
    bool retaken;      /* two tilts with one angle are one taken again, as SerialEM does it, not two that were wanted */
    int count, capacity;
    struct tilt *tilts;
    json_t *notes; /* what a person should know: missing tilts, duplicates; array of strings; NULL: none so far */
};

/* What is given with a stack. NULL: looked for beside it (transforms: none). */
struct series_files {
    const char *tilts;      /* .tlt, .rawtlt, .mdoc */
    const char *transforms; /* .xf, a line for each image of the stack */
    const char *images;     /* folder of the files that an .mdoc names; NULL: its own */
    const bool *exclude;    /* TILTS_MAX + 1 entries: views that need neither image nor angle; NULL: none */
};

/* Whether a view is to be left out. exclude: TILTS_MAX + 1 entries, or NULL. */
static inline bool series_excludes(const bool *exclude, int number) {
    return exclude != NULL && number >= 1 && number <= TILTS_MAX && exclude[number];
}

/* input: a stack (MRC), or an .mdoc that names single images or a stack. An image that is not there is a note, as long
 * as others are. What is excluded is in *ret_series, maybe without angle or file, until series_settle leaves it out. */
enum status series_read(const char *input, const struct series_files *files, struct series *ret_series,
                        struct err *err);
void series_clear(struct series *series);

/* One more; the path is copied. */
enum status series_add(struct series *series, const struct tilt *tilt, const char *path, struct err *err);

/* One more note. */
enum status series_note(struct series *series, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Leaves out the listed views, sorts by angle, drops what was taken again, and looks: fewer than 2 tilts, or all at one
 * angle, are errors. exclude: TILTS_MAX + 1 entries, or NULL. `greatest` of them must be a view of the series where
 * `whole` (a series that still grows may not have it yet). */
enum status series_settle(struct series *series, const bool *exclude, int greatest, bool whole, struct err *err);

#endif
