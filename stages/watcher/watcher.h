/* Finds micrographs, movies or structures as they appear in a folder, and sends each on once its file is whole. */
#ifndef ICESTREAM_STAGES_WATCHER_WATCHER_H
#define ICESTREAM_STAGES_WATCHER_WATCHER_H

#include <stdbool.h>

#include "common/status.h"

struct stage;
struct stage_descriptor;

/* The fate of a micrograph without a row in the CTF file. */
enum ctf_missing { CTF_MISSING_FAILS, CTF_MISSING_GOES_ON };

/* Options that a user sets (parameters.c). */
struct watcher_options {
    char *directory, *pattern, *ctf, *series; /* pattern, ctf, series: NULL: not set */
    bool recursive, notices, scaled, movies;
    int frames;                                                  /* of a whole movie; 0: not known */
    int order;                                                   /* enum folder_order */
    int ctf_missing;                                             /* enum ctf_missing */
    double settle, stall, poll, ctf_wait, mdoc_wait, notes_wait; /* s; stall: NaN: not set */
    double until_idle;                                           /* s; NaN: not set */
    double shift_radius;                                         /* in EPU's unit */
    double min_free;                                             /* GB */
};

extern const struct stage_descriptor watcher_stage;

/* Joins a watched folder, the CTF file, the names of tilts and the pipeline. One thread. */
struct watcher;
/* Creates a watcher from the parameters of the stage. */
enum status watcher_create(struct stage *stage, struct watcher **ret_watcher, struct err *err);
void watcher_destroy(struct watcher **watcher);

/* Does one round at time `now` (s, on any steady clock): hears notices, sweeps the folder when a sweep is due, and
 * handles the next file that is ready. *ret_more: another file may be ready at once. Sending an item may wait long for
 * room, so the caller reads the clock anew for each round. Below min_free of disk space no file is sent on. */
enum status watcher_step(struct watcher *watcher, double now, bool *ret_more, struct err *err);

/* Tells whether nothing is pending and nothing has happened for `seconds`. Micrographs that wait for their CTF values are
 * pending until their time is over; tilts and movies that wait for notes are not. */
enum status watcher_idle(struct watcher *watcher, double now, double seconds, bool *ret_idle, struct err *err);

#endif
