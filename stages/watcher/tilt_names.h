/* Finds which tilt of which series an image is, from the .mdoc files of the watched folder, which may still grow, or
 * from the names of images alone. */
#ifndef ICESTREAM_STAGES_WATCHER_TILT_NAMES_H
#define ICESTREAM_STAGES_WATCHER_TILT_NAMES_H

#include <stdbool.h>

#include "common/files.h"
#include "common/status.h"

struct tilt_place {
    char series[PATH_SIZE]; /* the path of the .mdoc below the folder, without endings; or the folder and {series} */
    double angle;           /* ° */
    int number;             /* of the view, from 1: ZValue + 1, or {order}; 0: unknown */
    int taken;              /* place in the .mdoc, or {order} */
    double time;            /* when the image was taken, s; NaN: unknown */
    double axis;            /* the tilt axis, ° from y, anticlockwise; NaN: unknown */
    double pixel_size;      /* PixelSpacing of the .mdoc, Å; NaN: unknown */
    double dose;            /* of the exposure, e⁻/Å²; NaN: unknown */
    double prior_dose;      /* of the series before this exposure, e⁻/Å²; NaN: unknown */
};

struct tilt_names;

/* Checks that a text says how tilts are found. */
enum status tilt_names_check(const char *how, struct err *err);
/* how: "mdoc", or a pattern of names such as "{series}_{order}_{angle}_*.mrc". {series} stands for any text, {angle}
 * for a number, maybe with a sign, {order} for digits, * for any text; all other characters stand for themselves.
 * {series} and {angle} appear once each, {order} at most once. */
enum status tilt_names_create(const char *how, const char *directory, bool recursive, struct tilt_names **ret_names,
                              struct err *err);
void tilt_names_destroy(struct tilt_names **names);
/* Returns whether .mdoc files name the series, so that an image may have to wait for its .mdoc. */
bool tilt_names_may_come(const struct tilt_names *names);

/* Reads the .mdoc files that are new or have changed. *ret_problem says why one cannot be read, once for each change;
 * else its status is OK. */
enum status tilt_names_refresh(struct tilt_names *names, bool *ret_changed, struct err *ret_problem, struct err *err);
/* Finds the place of an image; false: unknown. relative: its path below the folder. */
bool tilt_names_find(const struct tilt_names *names, const char *relative, struct tilt_place *ret_place);

/* Matches a name without folders against a pattern. */
bool tilt_pattern_match(const char *pattern, const char *name, struct tilt_place *ret_place);

#endif
