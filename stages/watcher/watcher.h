/* Which files of a folder are micrographs that are whole and have not been taken yet.
 *
 * Files become known by a sweep of the folder or by a notice about one path; each is opened only when its turn comes.
 * Ready means that the content says so: an MRC as long as its header tells, a TIFF whose strips lie inside the file, a
 * picture with its end marker, a PDB file with its END. A file that stops growing before that is reported, and taken after all should it become
 * whole. Every file is handed out once; a second name for the same file (a link) or for the same id (another ending) is
 * a duplicate. Costs per file are constant or logarithmic.
 *
 * Time is what the caller says it is: `now` in seconds on any clock that does not go backwards. One thread. */
#ifndef ICESTREAM_STAGES_WATCHER_WATCHER_H
#define ICESTREAM_STAGES_WATCHER_WATCHER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/image.h"
#include "common/status.h"

enum watcher_order { WATCHER_OLDEST, WATCHER_NEWEST };
/* What an earlier run left of an id: nothing; it is settled; it failed then, and goes on should it be whole now. */
enum watcher_past { WATCHER_UNSEEN, WATCHER_SETTLED, WATCHER_FAILED_THEN };

struct watcher_options {
    const char *directory;
    const char *pattern; /* "*.mrc,*.tif": globs, case does not matter; with a slash, of the path below directory */
    const char *skip[2]; /* folders below directory that are not entered (the session, the stage's own), or NULL */
    bool recursive;
    enum watcher_order order; /* by time of change, then by name, among what waits */
    double settle;            /* s without change until content that cannot tell counts as whole, or as hopeless */
    double stall;             /* s without change until an incomplete file is reported */
    double poll;              /* s between looks at what was reported */
    bool stacks_grow;         /* image by image, with a header that is right every time: whole after `settle` */

    void *context;
    /* What is known of this id. Asked once a file, before it is opened. May be NULL. */
    enum status (*past)(void *context, const char *id, enum watcher_past *ret_past, struct err *err);
    /* A folder (absolute) is about to be listed: watched from this moment, nothing in it is missed. May be NULL. */
    void (*folder)(void *context, const char *path);
};

enum watcher_verdict {
    WATCHER_READY,
    WATCHER_DUPLICATE, /* of something taken before; said once */
    WATCHER_FAILED,    /* incomplete for too long, or cannot become an image; said once */
};

struct watcher_find {
    enum watcher_verdict verdict;
    const char *path;        /* absolute; this and the next two are valid until the next call */
    const char *relative;    /* below directory */
    const char *id;          /* relative without its ending; where a name cannot be an id, its odd bytes are replaced
                                and a hash follows */
    bool structure;          /* it is of atoms, and no image */
    struct image_info image; /* when READY */
    double time;             /* of its last change, s since 1970 */
    bool failed_before;      /* READY after it was reported */
    char reason[512];        /* when not READY */
};

struct watcher;
enum status watcher_create(const struct watcher_options *options, struct watcher **ret_watcher, struct err *err);
void watcher_destroy(struct watcher **watcher);

/* Lists the directory and, if recursive, what is below. STATUS_NOT_FOUND or STATUS_IO when the directory itself cannot
 * be listed; folders below that vanish or refuse are left for the next sweep. */
enum status watcher_sweep(struct watcher *watcher, double now, struct err *err);
/* Something happened at this absolute path: a file is looked at soon, a folder is swept, anything else is ignored. */
enum status watcher_notice(struct watcher *watcher, const char *path, double now, struct err *err);
/* The next thing to say, if there is one now. */
enum status watcher_next(struct watcher *watcher, double now, struct watcher_find *ret_find, bool *ret_found,
                         struct err *err);

/* Files that may still become ready by themselves: new and incomplete ones, not those that were reported. */
size_t watcher_pending(const struct watcher *watcher);
/* When a file last appeared, grew or was handed out. */
double watcher_last_change(const struct watcher *watcher);

#endif
