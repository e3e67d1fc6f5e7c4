/* Which tilt of which series an image is: from the .mdoc files of the watched folder, which may still grow, or from
 * names of images alone. */
#ifndef ICESTREAM_STAGES_WATCHER_TILT_NAMES_H
#define ICESTREAM_STAGES_WATCHER_TILT_NAMES_H

#include <stdbool.h>

#include "common/files.h"
#include "common/status.h"

struct tilt_place {
    char series[PATH_SIZE]; /* the .mdoc's path below the folder, without its endings; or {series} with the folder */
    double angle;           /* ° */
    int number;             /* the view's, from 1: ZValue + 1, or {order}; 0: unknown */
    int taken;              /* place in the .mdoc, or {order} */
    double time;            /* when it was taken, s; NaN: unknown */
    double axis;            /* the tilt axis, ° from y, anticlockwise; NaN: unknown */
    double pixel_size;      /* the .mdoc's, Å; NaN: unknown */
};

struct tilt_names;

/* how: "mdoc", or a pattern of names: {series} (any text), {angle} (a number, maybe with a sign), {order} (digits), *
 * (any text), all else as it stands; {series} and {angle} once each, {order} once at most. As
 * "{series}_{order}_{angle}_*.mrc". */
enum status tilt_names_create(const char *how, const char *directory, bool recursive, struct tilt_names **ret_names,
                              struct err *err);
void tilt_names_destroy(struct tilt_names **names);
/* Whether series are told by .mdoc files, so that an image may have to wait for its own. */
bool tilt_names_may_come(const struct tilt_names *names);

/* Reads the .mdoc files that are new or have changed. *ret_problem is set (else its status is OK) where one cannot be
 * read, once for each change. */
enum status tilt_names_refresh(struct tilt_names *names, bool *ret_changed, struct err *ret_problem, struct err *err);
/* relative: the image's path below the folder. */
bool tilt_names_find(const struct tilt_names *names, const char *relative, struct tilt_place *ret_place);

/* The pattern alone. name: without folders. */
bool tilt_pattern_match(const char *pattern, const char *name, struct tilt_place *ret_place);

#endif
