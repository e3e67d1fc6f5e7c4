/* Tilts that arrive one by one, by series. Any thread brings one in; all else is for one thread.
 *
 * A series is complete when it has as many tilts as were announced, when none has come for `quiet` seconds, or at the
 * end of the stream. A tilt that comes later opens it again: its tomogram is made anew, in the place of the one before.
 * Where no tomogram could be made its tilts count as failed; it is tried again when one more comes, or one of them for
 * the second time (a retry). */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_GROUPS_H

#include "stages/tilt-reconstructor/series.h"

struct arrival {
    const char *series, *path;
    const char *item;  /* the id of its item */
    bool failed;       /* with its series, before a restart */
    bool gone;         /* its file, when it was looked for then */
    double angle;      /* ° */
    int number, taken; /* as struct tilt's */
    double time;
    int nx, ny;
    double pixel_size, spacing, tilt_axis; /* as struct series'; NaN: unknown */
};

/* A tilt as an item. */
struct member {
    char *item;
    bool failed; /* with its series */
    bool gone;   /* its file */
    bool made;   /* into a tomogram that is there */
};

struct group {
    char *id;
    struct series series;   /* as they came; never settled */
    struct member *members; /* [series.count] */
    int capacity;           /* of members */
    double last;            /* when the last came, s */
    int previewed;          /* tilts in the last preview */
    bool open;              /* something has come since the last attempt to make its tomogram */
    bool made;              /* there is one, of all its tilts but those that came since */
};

struct groups;

enum status groups_create(struct groups **ret_groups, struct err *err);
void groups_destroy(struct groups **groups);

/* Any thread. */
enum status groups_submit(struct groups *groups, const struct arrival *arrival, struct err *err);
/* A tilt that cannot be one of its series. */
struct odd_tilt {
    char *item, *reason; /* NULL: there is none */
};
void odd_tilt_clear(struct odd_tilt *odd);
/* What has come since, into its groups, up to one that has another size than those before it: that is *ret_odd. A tilt
 * that is there already (by its path) is not added twice. */
enum status groups_take_in(struct groups *groups, double now, struct odd_tilt *ret_odd, struct err *err);

/* For a series whose tomogram is to be made (anew): a tilt whose file is gone leaves it, and is *ret_odd, but where it
 * has failed already. None does where fewer would be left than are in the tomogram that is there: that one is better.
 */
enum status group_turn_out(struct group *group, struct odd_tilt *ret_odd, struct err *err);

/* A series of at least 2 tilts that has more than its last preview, and no tomogram yet: the one to which a tilt came
 * last. NULL: none. */
struct group *groups_to_preview(struct groups *groups);
/* A series that is open and complete. announced: 0: unknown. final: the stream has ended. NULL: none. */
struct group *groups_complete(struct groups *groups, double now, int announced, double quiet, bool final);
int groups_count(const struct groups *groups);
/* Tilts of series that are not complete yet. */
int groups_waiting(const struct groups *groups);

/* After an attempt: its tomogram is there, or could not be made. ret_items[series.count], the group's own: of the tilts
 * for which that is new: they failed before, or are in no tomogram. */
void group_settle(struct group *group, bool made, const char **ret_items, size_t *ret_count);

/* A copy of its tilts as a series that can be settled and read: from their files, or of what is in memory of each. */
enum status group_series(const struct group *group, bool in_memory, struct series *ret_series, struct err *err);
/* The copies of images in memory, once they are not needed any more. */
void group_drop_pixels(struct group *group);

#endif
