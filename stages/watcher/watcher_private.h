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

/* Data of an image from the CTF file, from .mdoc files or names, and from the notes beside a movie. */
struct metadata {
    bool is_tilt, has_angle; /* series are set and the image is a tilt; its series and angle were found */
    struct tilt_place tilt;
    struct ctf_match match;      /* the row in the CTF file */
    bool has_notes, lacks_notes; /* lacks: other movies have notes */
    struct movie_notes notes;
    struct err notes_problem; /* why the notes that are there cannot be used */
};

/* A whole image that waits for its CTF values, its tilt angle or the notes of a movie. */
struct held {
    char *path, *id, *relative;
    struct image_info image;
    double since, until; /* until: for how long it waits for an angle or for notes */
    bool failed;         /* set aside, since its CTF values did not come: it goes on if they come after all */
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
    double held_until; /* the earliest time at which a held image has waited long enough; INFINITY: none */
    size_t failed_count;
    double next_failed; /* of the next look whether somebody has asked for the failed ones again */
    size_t ctf_counted; /* rows of the CTF file at the last look */
    double ctf_grown;   /* when it last grew; NaN: it has not been read yet */
    double started, next_sweep, next_round, next_mdoc, next_left_out;
    double last_busy;            /* last round that handled a file */
    int64_t passed;              /* number of new items that were sent on */
    struct shift_groups *shifts; /* NULL: movies have no groups by beam shift */
    double next_notes;
    bool notes_seen; /* a movie had notes beside it: others will */
    bool was_busy, is_started, is_paused, pixel_size_differs, watches_ran_out, warned_of_pattern;
    int sweeps; /* that have come to their end */
};

/* Notes a file or folder that is not taken. */
void watcher_leave_out(struct watcher *watcher, const char *path, const char *reason);
/* Writes the list of what is left out, if it has changed. */
void watcher_write_left_out(struct watcher *watcher);

/* Handles a file that is whole, a duplicate or hopeless: sends its item on, holds the file, or sets the item aside. */
enum status watcher_handle(struct watcher *watcher, const struct folder_find *find, double now, struct err *err);
/* Sends an item of an image with all its metadata. */
enum status watcher_send_image(struct watcher *watcher, const char *id, const char *path,
                               const struct image_info *image, const struct metadata *metadata, struct err *err);
/* Sets an item aside as failed. */
enum status watcher_set_aside(struct watcher *watcher, const char *id, const char *path, const char *reason,
                              struct err *err);
/* Looks up an image in the .mdoc files, or names, in the CTF file, and beside it. */
enum status watcher_find_metadata(struct watcher *watcher, const char *path, const char *relative,
                                  const struct image_info *image, struct metadata *ret_metadata, struct err *err);
/* Returns whether nothing is missing that an image waits for. */
bool watcher_is_complete(const struct watcher *watcher, const struct metadata *metadata);

/* watcher_held.c: images that wait. Frees the texts of one. */
void held_clear(struct held *held);
/* Lets an image wait; wait: s for its angle or its notes. */
enum status held_add(struct watcher *watcher, const struct folder_find *find, double now, double wait, struct err *err);
/* Forgets the images with this id: another file has taken their place. */
void held_forget(struct watcher *watcher, const char *id);
/* Sends on the held images whose row or angle has come, and handles those that have waited long enough. The others keep
 * their order. ending: nothing new comes, so that angles and notes are not waited for. */
enum status held_release(struct watcher *watcher, double now, bool ending, struct err *err);
/* Returns how many images wait, without failed ones. */
size_t held_waiting(const struct watcher *watcher);
/* Notes at the start, and later, whether the CTF file has grown. */
void held_note_growth(struct watcher *watcher, double now);
/* Pauses intake while the disk is nearly full: items on their way need the rest. Intake resumes 5 % above the limit;
 * at the limit itself it would stop and go with every file. */
void watcher_check_disk_space(struct watcher *watcher);

#endif
