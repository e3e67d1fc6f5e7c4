/* Groups tilts that arrive one by one into series. Any thread may submit a tilt; all other functions are for one
 * thread.
 *
 * A series is complete when it has the announced number of tilts, when none has come for `quiet` seconds, or at the end
 * of the stream. A tilt that comes later opens the series again: its tomogram is made anew and replaces the old one. If
 * no tomogram could be made, the tilts of the series count as failed. The next attempt follows when another tilt comes,
 * or when one of these tilts comes a second time (a retry). */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H

#include "stages/tilt-reconstructor/series.h"

struct arrival {
    const char *series, *path;
    const char *item;  /* the mark of the item: source and id */
    bool failed;       /* the tilt failed with its series, before a restart */
    bool gone;         /* the file was gone when the stage looked for it at the restart */
    double angle;      /* ° */
    int number, taken; /* as in struct tilt */
    double time;
    int nx, ny;
    double pixel_size, spacing, tilt_axis; /* as in struct series; NaN: unknown */
};

/* A tilt as an item. */
struct member {
    char *item;
    bool failed; /* the tilt failed with its series */
    bool gone;   /* the file is gone */
    bool made;   /* the tilt is in a tomogram that exists */
};

struct group {
    char *id;
    struct series series;   /* tilts in order of arrival; never settled */
    struct member *members; /* [series.count] */
    int capacity;           /* of members */
    double last;            /* when the last tilt came, s */
    int previewed;          /* tilts in the last preview */
    bool open;              /* a tilt has come since the last attempt to make the tomogram */
    bool made;              /* the tomogram exists, made of all tilts but those that came since */
};

struct groups;

/* Creates an empty list of series. */
enum status groups_create(struct groups **ret_groups, struct err *err);
void groups_destroy(struct groups **groups);

/* Submits a tilt for the next groups_take_in. Any thread. */
enum status groups_submit(struct groups *groups, const struct arrival *arrival, struct err *err);
/* A tilt that cannot be part of its series. */
struct odd_tilt {
    char *item, *reason; /* owned; NULL: there is no such tilt */
};
void odd_tilt_clear(struct odd_tilt *odd);
/* Moves submitted tilts into their groups. Stops at a tilt whose size differs from those before it, and returns it as
 * *ret_odd. A tilt that is there already (by its path) is not added twice. */
enum status groups_take_in(struct groups *groups, double now, struct odd_tilt *ret_odd, struct err *err);

/* Removes tilts whose files are gone from a series whose tomogram is about to be made. Returns after the first one that
 * has not failed yet, as *ret_odd; call again until there is none. Keeps all tilts if the new tomogram would have fewer
 * than the existing one, which is then better. */
enum status group_turn_out(struct group *group, struct odd_tilt *ret_odd, struct err *err);

/* Returns the series to preview: it has at least 2 tilts, more than in its last preview, and no tomogram yet. Among
 * several the one with the latest tilt; NULL: none. */
struct group *groups_to_preview(struct groups *groups);
/* Returns a series that is open and complete, or NULL. announced: tilts of a series, 0: unknown. final: the stream has
 * ended. */
struct group *groups_complete(struct groups *groups, double now, int announced, double quiet, bool final);
/* For tests: returns the number of series. */
int groups_count(const struct groups *groups);
/* For tests: returns the number of tilts in series that are not complete yet. */
int groups_waiting(const struct groups *groups);

/* Records the outcome of an attempt: the tomogram was made, or could not be made. ret_items[series.count] gets the
 * items of the tilts whose state changes (they failed before, or are in no tomogram); the texts stay the group's. */
void group_settle(struct group *group, bool made, const char **ret_items, size_t *ret_count);

/* Copies the tilts into a series that can be settled and read: from files, or in_memory from the pixels in memory. */
enum status group_series(const struct group *group, bool in_memory, struct series *ret_series, struct err *err);
/* Frees the pixels in memory. */
void group_drop_pixels(struct group *group);

#endif
