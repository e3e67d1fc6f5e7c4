/* Images that wait for their CTF values, their tilt angle or the notes beside a movie, and those that failed for want of
 * CTF values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "stages/watcher/watcher_private.h"

void held_clear(struct held *held) {
    free(held->path);
    free(held->id);
    free(held->relative);
}

size_t held_waiting(const struct watcher *watcher) {
    return watcher->held_count - watcher->failed_count;
}

/* A file that was there before counts from its date; what comes later counts from now: it may be a copy that keeps its
 * date. */
void held_note_growth(struct watcher *watcher, double now) {
    if (watcher->rows == NULL || !ctf_rows_are_read(watcher->rows)) return;
    size_t count = ctf_rows_count(watcher->rows);
    if (!watcher->is_started)
        watcher->ctf_grown = now - fmax(0, clock_realtime() - ctf_rows_time(watcher->rows));
    else if (count > watcher->ctf_counted || isnan(watcher->ctf_grown))
        watcher->ctf_grown = now;
    watcher->ctf_counted = count;
}

/* Returns whether images may go on without CTF values. They may not while the CTF file alone tells the pixel size and
 * cannot be read. */
static bool may_go_without_ctf(const struct watcher *watcher) {
    return watcher->rows == NULL || ctf_rows_are_read(watcher->rows) ||
           !isnan(stage_session(watcher->stage)->pixel_size);
}

bool watcher_is_complete(const struct watcher *watcher, const struct metadata *metadata) {
    const struct ctf_match *match = &metadata->match;
    /* As long as the first sweep is on its way, a file that fits the row better may be unknown. */
    bool has_row = match->row >= 0 && (match->whole || folder_is_swept(watcher->folder));
    return (!metadata->is_tilt || metadata->has_angle) && (watcher->rows == NULL || has_row) && !metadata->lacks_notes;
}

/* Returns when an image has waited long enough. For CTF values the time counts from when the file last grew; a file that
 * has not come yet is waited for, unless micrographs may go on without. */
static double due(const struct watcher *watcher, const struct held *held, bool ending) {
    const struct watcher_options *options = watcher->options;
    double until = ending ? held->since : held->until;
    if (watcher->rows == NULL) return until;
    double from = watcher->ctf_grown;
    if (isnan(from)) from = ending || options->ctf_missing == CTF_MISSING_GOES_ON ? watcher->started : INFINITY;
    return fmax(until, fmax(held->since, from) + options->ctf_wait);
}

enum status held_add(struct watcher *watcher, const struct folder_find *find, double now, double wait,
                     struct err *err) {
    if (watcher->held_count == watcher->held_capacity) {
        size_t capacity = watcher->held_capacity > 0 ? 2 * watcher->held_capacity : 16;
        struct held *held = realloc(watcher->held, capacity * sizeof *held);
        FAIL_IF(held == NULL, err, STATUS_NO_MEMORY, "no memory for %zu micrographs that wait for CTF values",
                capacity);
        watcher->held = held;
        watcher->held_capacity = capacity;
    }
    struct held held = {
        strdup(find->path), strdup(find->id), strdup(find->relative), find->image, now, now + wait, false};
    if (held.path == NULL || held.id == NULL || held.relative == NULL) {
        held_clear(&held);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the name %s", find->path);
    }
    watcher->held[watcher->held_count++] = held;
    watcher->held_until = fmin(watcher->held_until, due(watcher, &held, false));
    return STATUS_OK;
}

void held_forget(struct watcher *watcher, const char *id) {
    size_t kept = 0;
    for (size_t i = 0; i < watcher->held_count; i++)
        if (strcmp(watcher->held[i].id, id) == 0) {
            watcher->failed_count -= watcher->held[i].failed;
            held_clear(&watcher->held[i]);
        } else
            watcher->held[kept++] = watcher->held[i];
    watcher->held_count = kept;
}

/* Sets an image aside for want of its row. It stays here: it goes on if the row comes after all. */
static enum status fail(struct watcher *watcher, struct held *held, const struct ctf_match *match, struct err *err) {
    char reason[sizeof match->why + 256];
    bool read = ctf_rows_are_read(watcher->rows);
    snprintf(reason, sizeof reason,
             "%s, which has not grown for %g s (ctf_wait): it goes on once its row is there; `ctf_missing: without` "
             "lets micrographs go on without CTF values",
             read ? match->why : "it has no CTF values: the file of watcher.ctf has not come",
             watcher->options->ctf_wait);
    held->failed = true;
    watcher->failed_count++;
    return watcher_set_aside(watcher, held->id, held->path, reason, err);
}

/* Handles an image whose time to wait is over: a tilt without an angle fails, an image without CTF values goes on. */
static enum status stop_waiting(struct watcher *watcher, const struct held *held, const struct metadata *metadata,
                                struct err *err) {
    if (metadata->is_tilt && !metadata->has_angle)
        return watcher_set_aside(
            watcher, held->id, held->path,
            "no .mdoc in the watched folder names it (SubFramePath), so that its series and its tilt "
            "angle are unknown: put the .mdoc there and start again",
            err);
    if (watcher->rows != NULL && metadata->match.row < 0)
        stage_log(watcher->stage, LOG_WARN, "no-ctf", "%s %s: it goes on without CTF values", held->id,
                  metadata->match.why);
    if (metadata->lacks_notes && metadata->notes_problem.status == STATUS_OK)
        stage_log(watcher->stage, LOG_WARN, "notes",
                  "%s has no .mdoc or .xml beside it, as other movies have: it goes on "
                  "without",
                  held->id);
    return watcher_send_image(watcher, held->id, held->path, &held->image, metadata, err);
}

/* Returns whether somebody has asked for a failed image again (`icestream retry`): the ledger has forgotten it. */
static enum status is_asked_for(struct watcher *watcher, const struct held *held, bool *ret_is, struct err *err) {
    bool known = true;
    int state;
    TRY(stage_lookup(watcher->stage, held->id, &known, &state, err));
    *ret_is = !known;
    return STATUS_OK;
}

/* Decides about one held image. *ret_keep: it waits on. */
static enum status decide(struct watcher *watcher, struct held *held, double now, bool ending, bool *ret_keep,
                          struct err *err) {
    struct metadata metadata;
    bool again = false;
    *ret_keep = true;
    TRY(watcher_find_metadata(watcher, held->path, held->relative, &held->image, &metadata, err));
    if (watcher_is_complete(watcher, &metadata)) {
        *ret_keep = false;
        return watcher_send_image(watcher, held->id, held->path, &held->image, &metadata, err);
    }
    if (held->failed) {
        if (now >= watcher->next_failed) TRY(is_asked_for(watcher, held, &again, err));
        if (!again) return STATUS_OK;
        held->failed = false;
        held->since = now;
        watcher->failed_count--;
    }
    bool known = metadata.match.row < 0 || folder_is_swept(watcher->folder);
    if (now < due(watcher, held, ending) || !known) return STATUS_OK;
    bool lacks_row = watcher->rows != NULL && metadata.match.row < 0 && (!metadata.is_tilt || metadata.has_angle);
    if (lacks_row && watcher->options->ctf_missing == CTF_MISSING_FAILS)
        return fail(watcher, held, &metadata.match, err);
    bool must_wait = lacks_row && !may_go_without_ctf(watcher);
    FAIL_IF(
        must_wait && ending, err, STATUS_BAD_FORMAT,
        "%zu micrographs wait for watcher.ctf %s, which alone tells their pixel size and cannot be read: mend it, or "
        "set session.pixel_size",
        held_waiting(watcher), watcher->options->ctf);
    if (must_wait) return STATUS_OK;
    *ret_keep = false;
    return stop_waiting(watcher, held, &metadata, err);
}

enum status held_release(struct watcher *watcher, double now, bool ending, struct err *err) {
    size_t kept = 0;
    enum status status = STATUS_OK;
    watcher->held_until = INFINITY;
    for (size_t i = 0; i < watcher->held_count; i++) {
        struct held held = watcher->held[i];
        bool keep = true;
        if (status == STATUS_OK && !watcher->is_paused && !stage_stopping(watcher->stage)) {
            status = decide(watcher, &held, now, ending, &keep, err);
            watcher_check_disk_space(watcher);
        }
        if (keep) {
            if (!held.failed) watcher->held_until = fmin(watcher->held_until, due(watcher, &held, false));
            watcher->held[kept++] = held;
            continue;
        }
        watcher->failed_count -= held.failed;
        held_clear(&held);
    }
    watcher->held_count = kept;
    if (now >= watcher->next_failed) watcher->next_failed = now + watcher->options->poll;
    return status;
}
