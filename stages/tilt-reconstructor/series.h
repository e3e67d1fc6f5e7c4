/* A tilt series: which image was taken at which angle, from any file that says so. No code trusts the order in files:
 * series_settle sorts by angle.
 *
 * Views are numbered as in IMOD: view n is image n of the stack, from 1. For single files the number is ZValue + 1 of
 * the .mdoc, or {order} in the names. `exclude` uses these numbers. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SERIES_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SERIES_H

#include <jansson.h>
#include <stdbool.h>

#include "common/formats/tilts.h"
#include "common/status.h"

struct tilt {
    int number;    /* of the view */
    double angle;  /* ° */
    int slice;     /* in the file, from 0 */
    char *path;    /* owned by the series */
    float *pixels; /* [ny][nx] in memory, not owned; NULL: in the file */
    /* Place in the file or in the order of names. If `retaken`, the later of two tilts at one angle counts. */
    int taken;
    double time;                     /* when the image was taken, s; NaN: unknown, `taken` decides */
    bool shifted;                    /* the transform is known */
    struct tilt_transform transform; /* px of the image in the file */
};

struct series {
    char *name;        /* for messages: path of the stack or .mdoc, or id of the series */
    int nx, ny;        /* of the images */
    double pixel_size; /* Å; NaN: unknown. From the headers of the images, else `spacing` */
    double spacing;    /* PixelSpacing of the .mdoc, Å, for images as the microscope wrote them; NaN: unknown */
    double tilt_axis;  /* from y, anticlockwise, °; NaN: unknown */
    bool retaken;      /* of two tilts at one angle the first was taken again, as SerialEM does; else both are wanted */
    int count, capacity;
    struct tilt *tilts;
    json_t *notes; /* for the user: missing tilts, duplicates; array of strings; NULL: none so far */
};

/* Files that a user gives with a stack. NULL: look beside the stack (transforms: none). */
struct series_files {
    const char *tilts;      /* .tlt, .rawtlt, .mdoc */
    const char *transforms; /* .xf, a line for each image of the stack */
    const char *images;     /* folder of the files that an .mdoc names; NULL: the folder of the .mdoc */
    const bool *exclude;    /* [TILTS_MAX + 1]: views that need neither image nor angle; NULL: none */
};

/* Returns whether to leave out a view. exclude: TILTS_MAX + 1 entries, or NULL. */
static inline bool series_excludes(const bool *exclude, int number) {
    return exclude != NULL && number >= 1 && number <= TILTS_MAX && exclude[number];
}

/* Reads a series. input: a stack (MRC), or an .mdoc that names single images or a stack. A missing image becomes a
 * note, if other images are there. Excluded views stay in *ret_series, maybe without angle or file, until series_settle
 * removes them. */
enum status series_read(const char *input, const struct series_files *files, struct series *ret_series,
                        struct err *err);
void series_clear(struct series *series);

/* Adds a tilt; copies the path. */
enum status series_add(struct series *series, const struct tilt *tilt, const char *path, struct err *err);

/* Adds a note. */
enum status series_note(struct series *series, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Removes the excluded views, sorts by angle, drops tilts that were taken again, and checks the rest: fewer than 2
 * tilts, or all at one angle, are errors. exclude: TILTS_MAX + 1 entries, or NULL. If `whole`, the greatest excluded
 * number must be a view of the series (a series that still grows may not have it yet). */
enum status series_settle(struct series *series, const bool *exclude, int greatest, bool whole, struct err *err);

#endif
