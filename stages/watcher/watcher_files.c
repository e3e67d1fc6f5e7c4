/* Decides about each file that the folder hands out: sends its item on, holds it until its CTF values or its tilt angle
 * come, or sets it aside as failed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "stages/watcher/watcher_private.h"

/* Data of an image from the CTF file, from .mdoc files or names, and from the notes beside a movie. */
struct metadata {
    bool is_tilt, has_angle; /* series are set and the image is a tilt; its series and angle were found */
    struct tilt_place tilt;
    struct ctf_match match;      /* the row in the CTF file */
    bool has_notes, lacks_notes; /* lacks: other movies have notes */
    struct movie_notes notes;
    struct err notes_problem; /* why the notes that are there cannot be used */
};

void held_clear(struct held *held) {
    free(held->path);
    free(held->id);
    free(held->relative);
}

/* Logs once that the session differs from what header or notes say: one wrong setting affects every micrograph. */
static void compare_pixel_size(struct watcher *watcher, const char *path, const char *what, double header) {
    double session = stage_session(watcher->stage)->pixel_size;
    if (watcher->pixel_size_differs || isnan(session) || !(header > 0) || optics_pixel_size_confirms(header, session))
        return;
    watcher->pixel_size_differs = true;
    stage_log(watcher->stage, LOG_WARN, "pixel-size",
              "%s: its %s says %g Å/px, the session %g: the session's value is used; check session.pixel_size", path,
              what, header, session);
}

void watcher_leave_out(struct watcher *watcher, const char *path, const char *reason) {
    struct err err;
    if (left_out_add(watcher->left_out, path, reason, &err) != STATUS_OK)
        stage_log(watcher->stage, LOG_INFO, "left-out", "%s", err.message);
}

/* A list that cannot be written now is written later: the heartbeat tells of a full disk. */
void watcher_write_left_out(struct watcher *watcher) {
    struct err err;
    if (left_out_write(watcher->left_out, &err) != STATUS_OK)
        stage_log(watcher->stage, LOG_INFO, "left-out", "%s", err.message);
}

static enum status set_aside(struct watcher *watcher, const char *id, const char *path, const char *reason,
                             struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(record_failed(id, path, stage_root(watcher->stage), watcher->options->movies, &item, err));
    int64_t revision = folder_revision(watcher->folder, id);
    if (revision > 0) TRY(item_set_revision(item, revision, err));
    return stage_set_aside(watcher->stage, item, LEDGER_FAILED, reason, err);
}

/* Returns whether an error concerns one file alone, so that the others go on. */
static bool is_of_one(enum status status) {
    return status_is_of_file(status) || status == STATUS_BAD_ARGUMENT;
}

static enum status emit(struct watcher *watcher, const char *id, const char *path, struct item *item, struct err *err) {
    bool is_new = false;
    int64_t revision = folder_revision(watcher->folder, id);
    if (revision > 0) TRY(item_set_revision(item, revision, err));
    struct err own = {0};
    enum status status = stage_emit(watcher->stage, item, &is_new, &own);
    if (status == STATUS_BAD_FORMAT) return set_aside(watcher, id, path, own.message, err);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    watcher->passed += is_new;
    left_out_remove(watcher->left_out, path);
    return STATUS_OK;
}

static enum status send_structure(struct watcher *watcher, const struct folder_find *find, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    struct err own = {0};
    enum status status = record_structure(find->id, find->path, stage_root(watcher->stage), &item, &own);
    if (is_of_one(status)) return set_aside(watcher, find->id, find->path, own.message, err);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    return emit(watcher, find->id, find->path, item, err);
}

/* Tells that a row is there twice, and which of its cells are no numbers. */
static void warn_of_row(struct watcher *watcher, const char *id, long row) {
    char broken[768];
    if (watcher->rows == NULL || row < 0) return;
    long earlier = ctf_rows_earlier(watcher->rows, row);
    if (earlier >= 0)
        stage_log(watcher->stage, LOG_WARN, "ctf-twice",
                  "%s has two rows of one name in %s, rows %ld and %ld: the later one counts", id,
                  watcher->options->ctf, earlier + 1, row + 1);
    bool of_ctf = ctf_rows_broken(watcher->rows, row, broken, sizeof broken);
    if (broken[0] != '\0')
        stage_log(watcher->stage, LOG_WARN, "ctf-cell", "%s: %s: a finite number is expected: %s goes on without %s",
                  watcher->options->ctf, broken, id, of_ctf ? "CTF values" : "this value");
}

/* Sends an image with all its metadata. An image that makes no item is set aside with the reason, be it the first or
 * not: no single file ends the stage. */
static enum status send_image(struct watcher *watcher, const char *id, const char *path, const struct image_info *image,
                              const struct metadata *metadata, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    const struct movie_notes *notes = &metadata->notes;
    bool shifted = watcher->shifts != NULL && !isnan(notes->shift_x) && !isnan(notes->shift_y);
    struct record_source record = {
        path,
        id,
        stage_root(watcher->stage),
        *image,
        stage_session(watcher->stage),
        watcher->rows,
        metadata->match.row,
        metadata->has_angle ? &metadata->tilt : NULL,
        !watcher->options->scaled,
        watcher->options->movies,
        *notes,
        shifted ? shift_groups_find(watcher->shifts, watcher->options->shift_radius, notes->shift_x, notes->shift_y)
                : 0};
    struct err own = {0};
    enum status status = record_make(&record, &item, &own);
    if (is_of_one(status)) return set_aside(watcher, id, path, own.message, err);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    warn_of_row(watcher, id, metadata->match.row);
    compare_pixel_size(watcher, path, "header", (double)image->pixel_size);
    /* In super-resolution EPU names the pixel of the detector, twice that of the movie. */
    if (!optics_pixel_size_confirms(notes->pixel_size / 2, stage_session(watcher->stage)->pixel_size))
        compare_pixel_size(watcher, path, "XML or .mdoc", notes->pixel_size);
    if (metadata->notes_problem.status != STATUS_OK)
        stage_log(watcher->stage, LOG_WARN, "notes", "%s; %s goes on without", metadata->notes_problem.message, id);
    return emit(watcher, id, path, item, err);
}

/* Handles an image whose time to wait is over: a tilt without an angle fails, an image without CTF values goes on. */
static enum status stop_waiting(struct watcher *watcher, const struct held *held, const struct metadata *metadata,
                                struct err *err) {
    if (metadata->is_tilt && !metadata->has_angle)
        return set_aside(watcher, held->id, held->path,
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
    return send_image(watcher, held->id, held->path, &held->image, metadata, err);
}

static enum status hold(struct watcher *watcher, const struct folder_find *find, double until, struct err *err) {
    if (watcher->held_count == watcher->held_capacity) {
        size_t capacity = watcher->held_capacity > 0 ? 2 * watcher->held_capacity : 16;
        struct held *held = realloc(watcher->held, capacity * sizeof *held);
        FAIL_IF(held == NULL, err, STATUS_NO_MEMORY, "no memory for %zu micrographs that wait for CTF values",
                capacity);
        watcher->held = held;
        watcher->held_capacity = capacity;
    }
    struct held held = {strdup(find->path), strdup(find->id), strdup(find->relative), find->image, until};
    if (held.path == NULL || held.id == NULL || held.relative == NULL) {
        held_clear(&held);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the name %s", find->path);
    }
    watcher->held[watcher->held_count++] = held;
    watcher->held_until = fmin(watcher->held_until, until);
    return STATUS_OK;
}

/* Looks up an image in the .mdoc files, or names, and in the CTF file. A stack of several images is a whole series, whose
 * angles lie beside it, unless it is a movie. */
static enum status find_metadata(struct watcher *watcher, const char *path, const char *relative,
                                 const struct image_info *image, struct metadata *ret_metadata, struct err *err) {
    bool is_tilt = watcher->tilts != NULL && (watcher->options->movies || image->nz <= 1);
    struct metadata metadata = {.is_tilt = is_tilt, .notes = movie_notes_unknown()};
    metadata.has_angle = metadata.is_tilt && tilt_names_find(watcher->tilts, relative, &metadata.tilt);
    metadata.match.row = -1;
    if (watcher->rows != NULL) ctf_match_find(watcher->rows, watcher->folder, path, relative, &metadata.match);
    if (watcher->options->movies)
        TRY(movie_notes_read(path, &metadata.notes, &metadata.has_notes, &metadata.notes_problem, err));
    watcher->notes_seen = watcher->notes_seen || metadata.has_notes || metadata.notes_problem.status != STATUS_OK;
    metadata.lacks_notes = watcher->options->movies && watcher->notes_seen && !metadata.has_notes;
    *ret_metadata = metadata;
    return STATUS_OK;
}

static bool is_complete(const struct watcher *watcher, const struct metadata *metadata) {
    const struct ctf_match *match = &metadata->match;
    /* As long as the first sweep is on its way, a file that fits the row better may be unknown. */
    bool has_row = match->row >= 0 && (match->whole || folder_is_swept(watcher->folder));
    return (!metadata->is_tilt || metadata->has_angle) && (watcher->rows == NULL || has_row) && !metadata->lacks_notes;
}

bool watcher_may_go_without_ctf(const struct watcher *watcher) {
    return watcher->rows == NULL || ctf_rows_are_read(watcher->rows) ||
           !isnan(stage_session(watcher->stage)->pixel_size);
}

enum status watcher_release_held(struct watcher *watcher, double now, struct err *err) {
    size_t kept = 0;
    enum status status = STATUS_OK;
    watcher->held_until = INFINITY;
    for (size_t i = 0; i < watcher->held_count; i++) {
        struct held *held = &watcher->held[i];
        bool go_on = status == STATUS_OK && !watcher->is_paused && !stage_stopping(watcher->stage);
        struct metadata metadata = {.match = {.row = -1}};
        if (go_on) status = find_metadata(watcher, held->path, held->relative, &held->image, &metadata, err);
        go_on = go_on && status == STATUS_OK;
        if (go_on && is_complete(watcher, &metadata))
            status = send_image(watcher, held->id, held->path, &held->image, &metadata, err);
        else if (go_on && now >= held->until && watcher_may_go_without_ctf(watcher) &&
                 (metadata.match.row < 0 || folder_is_swept(watcher->folder)))
            status = stop_waiting(watcher, held, &metadata, err);
        else {
            watcher->held_until = fmin(watcher->held_until, held->until);
            watcher->held[kept++] = *held;
            continue;
        }
        held_clear(held);
        watcher_check_disk_space(watcher);
    }
    watcher->held_count = kept;
    return status;
}

/* Forgets a file that waits under the id of another one, which has taken its place. */
static void forget_held(struct watcher *watcher, const char *id) {
    size_t kept = 0;
    for (size_t i = 0; i < watcher->held_count; i++)
        if (strcmp(watcher->held[i].id, id) == 0)
            held_clear(&watcher->held[i]);
        else
            watcher->held[kept++] = watcher->held[i];
    watcher->held_count = kept;
}

/* Leaves out the picture that was taken before its micrograph came. */
static enum status replace_picture(struct watcher *watcher, const struct folder_find *find, struct err *err) {
    char path[PATH_SIZE];
    TRY(folder_path(watcher->folder, find->instead_of, path, err));
    stage_log(watcher->stage, LOG_INFO, "picture-replaced",
              "%s was taken as %s before %s came: the micrograph takes its place", path, find->id, find->relative);
    watcher_leave_out(watcher, path, "it is a picture of the micrograph that came after it and took its place");
    return STATUS_OK;
}

enum status watcher_handle(struct watcher *watcher, const struct folder_find *find, double now, struct err *err) {
    const struct watcher_options *options = watcher->options;
    if (find->verdict == FOLDER_DUPLICATE) {
        stage_log(watcher->stage, LOG_INFO, "duplicate", "%s: %s", find->relative, find->reason);
        watcher_leave_out(watcher, find->path, find->reason);
        return STATUS_OK;
    }
    if (find->verdict == FOLDER_NO_MOVIE) {
        stage_log(watcher->stage, LOG_INFO, "no-movie", "%s is left out: %s", find->relative, find->reason);
        watcher_leave_out(watcher, find->path, find->reason);
        return STATUS_OK;
    }
    if (find->verdict == FOLDER_FAILED) return set_aside(watcher, find->id, find->path, find->reason, err);
    if (find->failed_before)
        stage_log(watcher->stage, LOG_INFO, "whole-after-all", "%s is complete now and goes on", find->id);
    if (find->instead_of != NULL) TRY(replace_picture(watcher, find, err));
    if (find->structure) return send_structure(watcher, find, err);
    if (folder_revision(watcher->folder, find->id) > 0) forget_held(watcher, find->id);
    struct metadata metadata;
    TRY(find_metadata(watcher, find->path, find->relative, &find->image, &metadata, err));
    bool nameless = metadata.is_tilt && !metadata.has_angle;
    if (nameless && !tilt_names_may_come(watcher->tilts))
        return set_aside(watcher, find->id, find->path,
                         "its name does not follow watcher.series, so that its tilt angle is unknown", err);
    if (nameless) return hold(watcher, find, now + options->mdoc_wait, err);
    double wait = fmax(metadata.lacks_notes ? options->notes_wait : 0, watcher->rows != NULL ? options->ctf_wait : 0);
    if (!is_complete(watcher, &metadata)) return hold(watcher, find, now + wait, err);
    return send_image(watcher, find->id, find->path, &find->image, &metadata, err);
}
