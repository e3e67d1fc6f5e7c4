/* Defines the watcher for watcher.c (rounds: folder, notices, CTF file, disk space) and watcher_files.c (decisions
 * about each file). Times are in s on the clock of watcher_step. */
#ifndef ICESTREAM_STAGES_WATCHER_WATCHER_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_WATCHER_PRIVATE_H

#include <stdint.h>

#include "common/harness/stage.h"
#include "stages/watcher/ctf_match.h"
#include "stages/watcher/ctf_rows.h"
#include "stages/watcher/folder.h"
#include "stages/watcher/left_out.h"
#include "stages/watcher/movie_notes.h"
#include "stages/watcher/notices.h"
#include "stages/watcher/record.h"
#include "stages/watcher/tilt_names.h"
#include "stages/watcher/watcher.h"

/* A whole image that waits for its CTF values or its tilt angle. */
struct held {
    char *path, *id, *relative;
    struct image_info image;
    double until; /* from then on it goes on without the values */
};

struct watcher {
    struct stage *stage;
    const struct watcher_options *options;
    struct folder *folder;
    struct notices *notices;   /* NULL: sweeps only */
    struct ctf_rows *rows;     /* NULL: no CTF file */
    struct tilt_names *tilts;  /* NULL: images are not tilts */
    struct left_out *left_out; /* what is not taken, and why */
    struct held *held;
    size_t held_count, held_capacity;
    uint64_t *skipped; /* [skipped_count] hashes of the folders whose skipping was logged */
    size_t skipped_count;
    double held_until; /* the earliest `until` of all held images; INFINITY: none */
    double started, next_sweep, next_round, next_mdoc, next_left_out;
    double last_busy;            /* last round that handled a file */
    int64_t passed;              /* number of new items that were sent on */
    struct shift_groups *shifts; /* NULL: movies have no groups by beam shift */
    double next_notes;
    bool notes_seen; /* a movie had notes beside it: others will */
    bool was_busy, is_started, is_paused, pixel_size_differs, watches_ran_out, warned_of_pattern;
    int sweeps; /* that have come to their end */
};

/* Frees the texts. */
void held_clear(struct held *held);

/* Notes a file or folder that is not taken. */
void watcher_leave_out(struct watcher *watcher, const char *path, const char *reason);
/* Writes the list of what is left out, if it has changed. */
void watcher_write_left_out(struct watcher *watcher);

/* Handles a file that is whole, a duplicate or hopeless: sends its item on, holds the file, or sets the item aside. */
enum status watcher_handle(struct watcher *watcher, const struct folder_find *find, double now, struct err *err);
/* Sends on the held images whose row or angle has come, and handles those that have waited long enough. The others keep
 * their order. */
enum status watcher_release_held(struct watcher *watcher, double now, struct err *err);
/* Returns whether images may go on without CTF values. They may not while the CTF file alone tells the pixel size and
 * cannot be read. */
bool watcher_may_go_without_ctf(const struct watcher *watcher);

/* Pauses intake while the disk is nearly full: items on their way need the rest. Intake resumes 5 % above the limit;
 * at the limit itself it would stop and go with every file. */
void watcher_check_disk_space(struct watcher *watcher);

#endif
