/* Decides about each file that the folder hands out: sends its item on, holds it until its CTF values or its tilt angle
 * come, or sets it aside as failed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "stages/watcher/watcher_private.h"

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

/* Writes a path as the item gets it: in the session by its real name, which becomes relative, else as the user gave the
 * watched folder. */
static const char *for_item(const struct watcher *watcher, const char *path, char given[PATH_SIZE]) {
    if (path_is_below(path, stage_root(watcher->stage), NULL)) return path;
    folder_as_given(watcher->folder, path, given);
    return given;
}

enum status watcher_set_aside(struct watcher *watcher, const char *id, const char *path, const char *reason,
                              struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    char given[PATH_SIZE];
    TRY(record_failed(id, for_item(watcher, path, given), stage_root(watcher->stage), watcher->options->movies, &item,
                      err));
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
    if (status == STATUS_BAD_FORMAT) return watcher_set_aside(watcher, id, path, own.message, err);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    watcher->passed += is_new;
    left_out_remove(watcher->left_out, path);
    return STATUS_OK;
}

static enum status send_structure(struct watcher *watcher, const struct folder_find *find, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    struct err own = {0};
    char given[PATH_SIZE];
    const char *path = for_item(watcher, find->path, given);
    enum status status = record_structure(find->id, path, stage_root(watcher->stage), &item, &own);
    if (is_of_one(status)) return watcher_set_aside(watcher, find->id, find->path, own.message, err);
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
enum status watcher_send_image(struct watcher *watcher, const char *id, const char *path,
                               const struct image_info *image, const struct metadata *metadata, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    const struct movie_notes *notes = &metadata->notes;
    bool shifted = watcher->shifts != NULL && !isnan(notes->shift_x) && !isnan(notes->shift_y);
    char given[PATH_SIZE];
    struct record_source record = {
        for_item(watcher, path, given),
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
    if (is_of_one(status)) return watcher_set_aside(watcher, id, path, own.message, err);
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

/* Looks up an image in the .mdoc files, or names, and in the CTF file. A stack of several images is a whole series, whose
 * angles lie beside it, unless it is a movie. */
enum status watcher_find_metadata(struct watcher *watcher, const char *path, const char *relative,
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
    if (find->verdict == FOLDER_FAILED) return watcher_set_aside(watcher, find->id, find->path, find->reason, err);
    if (find->failed_before)
        stage_log(watcher->stage, LOG_INFO, "whole-after-all", "%s is complete now and goes on", find->id);
    if (find->instead_of != NULL) TRY(replace_picture(watcher, find, err));
    if (find->structure) return send_structure(watcher, find, err);
    if (folder_revision(watcher->folder, find->id) > 0) held_forget(watcher, find->id);
    struct metadata metadata;
    TRY(watcher_find_metadata(watcher, find->path, find->relative, &find->image, &metadata, err));
    bool nameless = metadata.is_tilt && !metadata.has_angle;
    if (nameless && !tilt_names_may_come(watcher->tilts))
        return watcher_set_aside(watcher, find->id, find->path,
                                 "its name does not follow watcher.series, so that its tilt angle is unknown", err);
    double wait = nameless ? options->mdoc_wait : metadata.lacks_notes ? options->notes_wait : 0;
    if (nameless || !watcher_is_complete(watcher, &metadata)) return held_add(watcher, find, now, wait, err);
    return watcher_send_image(watcher, find->id, find->path, &find->image, &metadata, err);
}
