/* The watcher's rounds: notices, sweeps, CTF file, .mdoc files and disk space. */
#include "stages/watcher/watcher_private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/edges/ledger.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "common/text.h"

static const double SLICE = 0.5;        /* s of a sweep between two files, at the most */
static const double LEFT_OUT_EVERY = 1; /* s between writes of the list of what is left out */
static const double ROUND = 0.1;        /* s between looks at disk space, CTF file and .mdoc files */

static enum status ask_ledger(void *context, const char *id, enum folder_past *ret_past, struct err *err) {
    struct watcher *watcher = context;
    bool known;
    int state = LEDGER_DONE;
    TRY(stage_lookup(watcher->stage, id, &known, &state, err));
    *ret_past = !known ? FOLDER_UNSEEN : state == LEDGER_FAILED ? FOLDER_FAILED_THEN : FOLDER_SETTLED;
    return STATUS_OK;
}

/* Tells of which file an earlier run made an item. */
static enum status recall_origin(void *context, const char *id, char ret_path[PATH_SIZE], int64_t *ret_revision,
                                 struct err *err) {
    struct watcher *watcher = context;
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(stage_recall(watcher->stage, id, &item, err));
    if (item == NULL) return STATUS_OK;
    const char *path = item_string(item, "micrograph.path");
    if (path == NULL) path = item_string(item, "movie.path");
    *ret_revision = item_revision(item);
    return path != NULL ? path_join(stage_root(watcher->stage), path, ret_path, PATH_SIZE, err) : STATUS_OK;
}

static void watch_folder(void *context, const char *path) {
    struct watcher *watcher = context;
    struct err own;
    if (watcher->notices == NULL || notices_add(watcher->notices, path, &own) != STATUS_UNSUPPORTED) return;
    if (!watcher->watches_ran_out) stage_log(watcher->stage, LOG_WARN, "no-notices", "%s", own.message);
    watcher->watches_ran_out = true;
}

/* Logs once for each folder that a sweep does not enter. */
static void note_skipped(void *context, const char *path, const char *reason) {
    struct watcher *watcher = context;
    uint64_t hash = text_hash(path);
    for (size_t i = 0; i < watcher->skipped_count; i++)
        if (watcher->skipped[i] == hash) return;
    uint64_t *skipped = realloc(watcher->skipped, (watcher->skipped_count + 1) * sizeof *skipped);
    if (skipped == NULL) return; /* the next sweep logs it */
    watcher->skipped = skipped;
    watcher->skipped[watcher->skipped_count++] = hash;
    watcher_leave_out(watcher, path, reason);
    stage_log(watcher->stage, LOG_WARN, "skipped", "%s is not searched: %s", path, reason);
}

static void note_replaced(void *context, const char *path, bool another) {
    struct watcher *watcher = context;
    if (another)
        stage_log(watcher->stage, LOG_WARN, "replaced-since",
                  "%s has been replaced since it was taken: its item begins again with the new file", path);
    else
        stage_log(watcher->stage, LOG_WARN, "replaced-since",
                  "%s has a later date than when it was taken, and the same size: if its content has changed, copy it "
                  "there anew, and its item begins again",
                  path);
}

/* Refuses to watch the session folder itself, where the watcher would take maps of other stages for micrographs. */
static enum status refuse_session_itself(struct stage *stage, const char *directory, struct err *err) {
    char graph[PATH_SIZE];
    struct stat root, watched;
    TRY(path_join(stage_root(stage), "graph.yaml", graph, sizeof graph, err));
    bool same = stat(stage_root(stage), &root) == 0 && stat(directory, &watched) == 0 &&
                root.st_dev == watched.st_dev && root.st_ino == watched.st_ino;
    FAIL_IF(
        same && file_exists(graph), err, STATUS_BAD_ARGUMENT,
        "watcher.directory %s is the session folder itself: give the session a folder of its own (one inside is fine)",
        directory);
    return STATUS_OK;
}

static enum status stop_at_first(const struct item *item, void *context, struct err *err) {
    (void)item;
    *(bool *)context = true;
    FAIL(err, STATUS_CANCELLED, "one is enough");
}

/* Tells which values of the optics table are no numbers. The session, the image's header or the defaults give them. */
static void warn_of_optics(struct watcher *watcher) {
    char broken[768];
    ctf_rows_broken_optics(watcher->rows, broken, sizeof broken);
    if (broken[0] != '\0')
        stage_log(watcher->stage, LOG_WARN, "ctf-cell",
                  "%s: %s: a finite number is expected: the session's value counts, else that of the image's header or "
                  "the default (300 kV, 2.7 mm, 0.1)",
                  watcher->options->ctf, broken);
}

/* Opens the CTF file. In a new session a file that is no table is a wrong setting and an error; one that is empty or not
 * there will come. Once micrographs have gone through, it is a file that is just being written or broken for a while:
 * micrographs wait for it as for their rows. */
static enum status open_rows(struct watcher *watcher, struct err *err) {
    const char *path = watcher->options->ctf;
    struct err own = {0};
    bool resumed = false;
    struct stat there;
    bool to_come = stat(path, &there) != 0 ? errno == ENOENT : there.st_size == 0;
    enum status status = stage_each_done(watcher->stage, stop_at_first, &resumed, &own);
    if (!resumed && !to_come) {
        FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
        TRY(ctf_rows_open(path, &watcher->rows, err));
        warn_of_optics(watcher);
        return STATUS_OK;
    }
    TRY(ctf_rows_await(path, &watcher->rows, &own, err));
    if (!ctf_rows_are_read(watcher->rows))
        stage_log(watcher->stage, LOG_WARN, "ctf-file", "%s; micrographs wait for it", own.message);
    else
        warn_of_optics(watcher);
    return STATUS_OK;
}

static enum status restore_shift(const struct item *item, void *context, struct err *err) {
    (void)err;
    double number = item_number(item, "movie.shift_group", 0);
    if (number >= 1 && number <= SHIFT_GROUPS_MAX)
        shift_groups_restore(context, (int)number, item_number(item, "movie.shift_x", NAN),
                             item_number(item, "movie.shift_y", NAN));
    return STATUS_OK;
}

/* Takes the groups of earlier runs, so that a session that goes on adds to them. */
static enum status open_shifts(struct watcher *watcher, struct err *err) {
    TRY(mem_new(1, sizeof *watcher->shifts, "the groups of beam shifts", &watcher->shifts, err));
    return stage_each_done(watcher->stage, restore_shift, watcher->shifts, err);
}

static enum status open_left_out(struct watcher *watcher, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(watcher->stage), "left_out.json", path, sizeof path, err));
    return left_out_open(path, &watcher->left_out, err);
}

/* Writes the default pattern: the endings of movies, or of micrographs and photographs. */
static void default_pattern(bool movies, char *out, size_t size) {
    static const unsigned passes[2][2] = {{IMAGE_AS_MICROGRAPH, IMAGE_AS_PHOTOGRAPH}, {IMAGE_AS_MOVIE, 0}};
    const char *ending;
    size_t used = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; (ending = image_ending(i, passes[movies][pass])) != NULL && used < size; i++)
            used += (size_t)snprintf(out + used, size - used, "%s*%s", used > 0 ? "," : "", ending);
}

enum status watcher_create(struct stage *stage, struct watcher **ret_watcher, struct err *err) {
    _cleanup_(watcher_destroy) struct watcher *watcher = calloc(1, sizeof *watcher);
    FAIL_IF(watcher == NULL, err, STATUS_NO_MEMORY, "no memory for a watcher");
    const struct watcher_options *set = stage_params(stage);
    watcher->stage = stage;
    watcher->options = set;
    char pattern[256];
    default_pattern(set->movies, pattern, sizeof pattern);
    struct folder_options options = {
        .directory = set->directory,
        .pattern = set->pattern != NULL ? set->pattern : pattern,
        .skip = {stage_root(stage), stage_folder(stage)},
        .recursive = set->recursive,
        .order = (enum folder_order)set->order,
        .settle = set->settle,
        .stall = isnan(set->stall) ? 6 * set->settle : set->stall,
        .poll = set->poll,
        .stacks_grow = set->series != NULL && set->series[0] != '\0',
        .movies = set->movies,
        .frames = set->frames,
        .context = watcher,
        .past = ask_ledger,
        .made_of = recall_origin,
        .before_listing = watch_folder,
        .skipped = note_skipped,
        .replaced = note_replaced,
    };
    watcher->held_until = INFINITY;
    watcher->ctf_grown = NAN;
    TRY(refuse_session_itself(stage, set->directory, err));
    TRY(folder_create(&options, &watcher->folder, err));
    TRY(open_left_out(watcher, err));
    if (set->ctf != NULL) TRY(open_rows(watcher, err));
    if (set->series != NULL && set->series[0] != '\0')
        TRY(tilt_names_create(set->series, set->directory, set->recursive, &watcher->tilts, err));
    if (set->movies && set->shift_radius > 0) TRY(open_shifts(watcher, err));
    struct err own;
    if (set->notices && notices_open(&watcher->notices, &own) != STATUS_OK)
        stage_log(stage, LOG_WARN, "no-notices", "%s; the folder is swept every %g s", own.message, set->poll);
    *ret_watcher = watcher;
    watcher = NULL;
    return STATUS_OK;
}

void watcher_destroy(struct watcher **watcher) {
    if (watcher == NULL || *watcher == NULL) return;
    for (size_t i = 0; i < (*watcher)->held_count; i++)
        held_clear(&(*watcher)->held[i]);
    if ((*watcher)->left_out != NULL) watcher_write_left_out(*watcher);
    left_out_close(&(*watcher)->left_out);
    free((*watcher)->held);
    free((*watcher)->skipped);
    free((*watcher)->shifts);
    notices_close(&(*watcher)->notices);
    ctf_rows_close(&(*watcher)->rows);
    tilt_names_destroy(&(*watcher)->tilts);
    folder_destroy(&(*watcher)->folder);
    free(*watcher);
    *watcher = NULL;
}

void watcher_check_disk_space(struct watcher *watcher) {
    const double limit = watcher->options->min_free, margin = 1.05;
    const char *root = stage_root(watcher->stage);
    struct statvfs disk;
    if (!(limit > 0) || statvfs(root, &disk) != 0) return;
    double available = 1e-9 * (double)disk.f_bavail * (double)disk.f_frsize;
    bool paused = available < limit * (watcher->is_paused ? margin : 1);
    if (paused) stage_note(watcher->stage, "paused: %.3g GB are free, min_free is %g GB", available, limit);
    if (paused == watcher->is_paused) return;
    watcher->is_paused = paused;
    if (paused)
        stage_log(watcher->stage, LOG_WARN, "disk-space",
                  "%s: %.3g GB are free, less than min_free (%g GB): nothing new is taken in until there is space",
                  root, available, limit);
    else
        stage_log(watcher->stage, LOG_WARN, "disk-space", "%s: %.3g GB are free: micrographs are taken in again", root,
                  available);
    if (!paused) watcher->held_until = -INFINITY;
}

static enum status refresh_ctf(struct watcher *watcher, double now, struct err *err) {
    if (watcher->rows == NULL) return STATUS_OK;
    struct err own;
    bool changed = false;
    bool was_read = ctf_rows_are_read(watcher->rows);
    enum status status = ctf_rows_refresh(watcher->rows, &changed, &own);
    if (status_is_of_file(status))
        stage_log(watcher->stage, LOG_WARN, "ctf-file", "%s; %s", own.message,
                  was_read ? "the rows read before stay in use" : "micrographs wait for it");
    if (changed && !was_read) warn_of_optics(watcher);
    if (changed && !was_read)
        stage_log(watcher->stage, LOG_INFO, "ctf-file", "%s can be read now", watcher->options->ctf);
    if (changed) held_note_growth(watcher, now);
    bool asked = watcher->failed_count > 0 && now >= watcher->next_failed;
    bool due = (changed || asked || now >= watcher->held_until) && !watcher->is_paused;
    return due && watcher->held_count > 0 ? held_release(watcher, now, false, err) : STATUS_OK;
}

/* Reads new and changed .mdoc files as often as the folder is swept: the files are few and small, the folder may be
 * large. */
static enum status refresh_tilts(struct watcher *watcher, double now, struct err *err) {
    if (watcher->tilts == NULL || !tilt_names_may_come(watcher->tilts)) return STATUS_OK;
    struct err own;
    bool changed = false;
    if (now >= watcher->next_mdoc) {
        TRY(tilt_names_refresh(watcher->tilts, &changed, &own, err));
        if (own.status != STATUS_OK) stage_log(watcher->stage, LOG_WARN, "mdoc", "%s; its tilts wait", own.message);
        watcher->next_mdoc = now + watcher->options->poll;
    }
    bool due = (changed || now >= watcher->held_until) && !watcher->is_paused;
    return due && watcher->held_count > 0 ? held_release(watcher, now, false, err) : STATUS_OK;
}

/* Looks once a second whether the notes of movies that wait have come. */
static enum status refresh_notes(struct watcher *watcher, double now, struct err *err) {
    bool due = watcher->notes_seen && now >= watcher->next_notes && watcher->held_count > 0 && !watcher->is_paused;
    if (!due) return STATUS_OK;
    watcher->next_notes = now + 1;
    return held_release(watcher, now, false, err);
}

static enum status hear_notices(struct watcher *watcher, double now, struct err *err) {
    char path[PATH_SIZE];
    for (;;) {
        enum notice notice = watcher->notices != NULL ? notices_next(watcher->notices, path, sizeof path) : NOTICE_NONE;
        if (notice == NOTICE_NONE) return STATUS_OK;
        struct err own = {0};
        enum status status = notice == NOTICE_LOST ? STATUS_IO : folder_notice(watcher->folder, path, now, &own);
        /* The sweep reports a folder that is away, and tries again. */
        if (status == STATUS_IO || status == STATUS_NOT_FOUND)
            watcher->next_sweep = now;
        else
            FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    }
}

/* Begins a sweep, or goes on with one, for SLICE at most: a large folder must not hold up files and signals. */
static enum status sweep(struct watcher *watcher, double now, struct err *err) {
    struct err own;
    bool first = !watcher->is_started, was_swept = folder_is_swept(watcher->folder), done = false;
    enum status status = folder_sweep_for(watcher->folder, now, SLICE, &done, &own);
    watcher->next_sweep = now + watcher->options->poll;
    watcher->is_started = true;
    watcher->sweeps += done;
    /* All files are known now: rows that waited for a better fit can be taken. */
    if (!was_swept && folder_is_swept(watcher->folder)) watcher->held_until = -INFINITY;
    if (status == STATUS_OK) return STATUS_OK;
    /* A network file system may be away for a while. A folder that was never there is a wrong setting. */
    bool away = !first && (status == STATUS_NOT_FOUND || status == STATUS_IO);
    FAIL_IF(!away, err, status, "%s", own.message);
    stage_log(watcher->stage, LOG_WARN, "folder-away", "%s; trying again in %g s", own.message, watcher->options->poll);
    return STATUS_OK;
}

/* Logs once that the watcher waits in vain, as with a misspelt pattern. The first files of a session may lie there while
 * a gain reference does already, so the watcher looks at a few sweeps first. */
static const int SWEEPS_IN_VAIN = 3;

static void warn_of_pattern(struct watcher *watcher, bool at_end) {
    const char *example = folder_unfitting(watcher->folder), *pattern = watcher->options->pattern;
    bool due = at_end || watcher->sweeps >= SWEEPS_IN_VAIN;
    if (example == NULL || pattern == NULL || !due || watcher->warned_of_pattern) return;
    watcher->warned_of_pattern = true;
    stage_log(watcher->stage, LOG_WARN, "pattern",
              "%s: no file fits the pattern '%s', but there are images, such as %s: correct watcher.pattern, or leave "
              "it out",
              watcher->options->directory, pattern, example);
}

static void note_counts(struct watcher *watcher) {
    if (watcher->is_paused) return;
    stage_note(watcher->stage, "%" PRId64 " files, %zu pending", watcher->passed,
               folder_pending(watcher->folder) + held_waiting(watcher));
}

/* Does what need not be done for every file, at most once a ROUND. */
static enum status refresh(struct watcher *watcher, double now, struct err *err) {
    if (now < watcher->next_round) return STATUS_OK;
    watcher->next_round = now + ROUND;
    watcher_check_disk_space(watcher);
    TRY(refresh_ctf(watcher, now, err));
    TRY(refresh_tilts(watcher, now, err));
    TRY(refresh_notes(watcher, now, err));
    if (now >= watcher->next_left_out) {
        watcher->next_left_out = now + LEFT_OUT_EVERY;
        watcher_write_left_out(watcher);
    }
    warn_of_pattern(watcher, false);
    note_counts(watcher);
    return STATUS_OK;
}

enum status watcher_step(struct watcher *watcher, double now, bool *ret_more, struct err *err) {
    struct folder_find find;
    bool found = false;
    if (!watcher->is_started) {
        watcher->started = now;
        held_note_growth(watcher, now);
    }
    TRY(hear_notices(watcher, now, err));
    if (!watcher->is_started || now >= watcher->next_sweep || folder_wants_sweep(watcher->folder))
        TRY(sweep(watcher, now, err));
    TRY(refresh(watcher, now, err));
    if (!watcher->is_paused && !stage_stopping(watcher->stage))
        TRY(folder_next(watcher->folder, now, &find, &found, err));
    if (found) {
        watcher->was_busy = true;
        TRY(watcher_handle(watcher, &find, now, err));
    }
    *ret_more = found || folder_wants_sweep(watcher->folder);
    return STATUS_OK;
}

enum status watcher_idle(struct watcher *watcher, double now, double seconds, bool *ret_idle, struct err *err) {
    *ret_idle = false;
    /* Sending an item may have waited long for room: the idle time begins after it. */
    if (watcher->was_busy) watcher->last_busy = now;
    watcher->was_busy = false;
    double last = fmax(fmax(folder_last_change(watcher->folder), watcher->last_busy), watcher->started);
    if (now - last < seconds || folder_pending(watcher->folder) > 0) return STATUS_OK;
    /* If the system sends no notices, new files may lie there unseen. */
    do
        TRY(sweep(watcher, now, err));
    while (folder_wants_sweep(watcher->folder) && !stage_stopping(watcher->stage));
    if (folder_wants_sweep(watcher->folder)) return STATUS_OK;
    if (folder_pending(watcher->folder) > 0 || (held_waiting(watcher) > 0 && watcher->is_paused)) return STATUS_OK;
    if (held_waiting(watcher) > 0 && watcher->rows != NULL && ctf_rows_may_grow(watcher->rows)) return STATUS_OK;
    if (held_waiting(watcher) > 0) TRY(held_release(watcher, now, true, err));
    warn_of_pattern(watcher, true);
    note_counts(watcher);
    *ret_idle = held_waiting(watcher) == 0;
    return STATUS_OK;
}
