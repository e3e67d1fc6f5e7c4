/* Tilts that arrive one by one, by series. Any thread brings one in; all else is for one thread.
 *
 * A series is complete when it has as many tilts as were announced, when none has come for `quiet` seconds, or at the
 * end of the stream. A tilt that comes later opens it again: its tomogram is made anew, in the place of the one before.
 */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H

#include "series.h"

struct arrival {
    const char *series, *path;
    double angle;      /* ° */
    int number, taken; /* as struct tilt's */
    int nx, ny;
    double pixel_size, tilt_axis; /* NaN: unknown */
};

struct group {
    char *id;
    struct series series; /* as they came; never settled */
    double last;          /* when the last came, s */
    int previewed;        /* tilts in the last preview */
    int tried;            /* tilts of the last attempt to make its tomogram, for better or worse; 0: none */
};

struct groups;

enum status groups_create(struct groups **ret_groups, struct err *err);
void groups_destroy(struct groups **groups);

/* Any thread. */
enum status groups_submit(struct groups *groups, const struct arrival *arrival, struct err *err);
/* What has come since, into its groups; a tilt that is there already (by its path) is not added twice. One of another
 * size than those before it is left out, with *ret_odd (freed by the caller) saying so. */
enum status groups_take_in(struct groups *groups, double now, char **ret_odd, struct err *err);

/* A series of at least 2 tilts that has more than its last preview, and no tomogram yet: the one to which a tilt came
 * last. NULL: none. */
struct group *groups_to_preview(struct groups *groups);
/* A series that is complete, and of which no tomogram of all its tilts was tried. announced: 0: unknown. final: the
 * stream has ended. NULL: none. */
struct group *groups_complete(struct groups *groups, double now, int announced, double quiet, bool final);
int groups_count(const struct groups *groups);
/* Tilts of series that are not complete yet. */
int groups_waiting(const struct groups *groups);

/* A copy of its tilts as a series that can be settled and read: from their files, or of what is in memory of each. */
enum status group_series(const struct group *group, bool in_memory, struct series *ret_series, struct err *err);
/* The copies of images in memory, once they are not needed any more. */
void group_drop_pixels(struct group *group);

#endif
