#include "stages/watcher/source_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/edges/ledger.h"
#include "common/files.h"
#include "common/memory.h"

static const double ROUND = 0.1; /* s between looks at what need not be looked at for every file */

static enum status ask_ledger(void *context, const char *id, enum watcher_past *ret_past, struct err *err) {
    struct source *source = context;
    bool known;
    int state = LEDGER_DONE;
    TRY(stage_lookup(source->stage, id, &known, &state, err));
    *ret_past = !known ? WATCHER_UNSEEN : state == LEDGER_FAILED ? WATCHER_FAILED_THEN : WATCHER_SETTLED;
    return STATUS_OK;
}

static void watch_folder(void *context, const char *path) {
    struct source *source = context;
    struct err problem;
    if (source->notices == NULL || notices_add(source->notices, path, &problem) != STATUS_UNSUPPORTED) return;
    if (!source->watches_ran_out) stage_log(source->stage, LOG_WARN, "no-notices", "%s", problem.message);
    source->watches_ran_out = true;
}

/* Maps that other stages write would be taken for micrographs. */
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

/* A table that was never good is a wrong setting. Once micrographs have gone through, it is one that is just being
 * written, or broken for a while: they wait for it as they wait for their rows. */
static enum status open_rows(struct source *source, struct err *err) {
    const char *path = source->params->ctf;
    struct err problem = {0};
    bool resumed = false;
    enum status status = stage_each_done(source->stage, stop_at_first, &resumed, &problem);
    if (!resumed) {
        FAIL_IF(status != STATUS_OK, err, status, "%s", problem.message);
        return ctf_rows_open(path, &source->rows, err);
    }
    TRY(ctf_rows_await(path, &source->rows, &problem, err));
    if (!ctf_rows_are_read(source->rows))
        stage_log(source->stage, LOG_WARN, "ctf-file", "%s; micrographs wait for it", problem.message);
    return STATUS_OK;
}

enum status source_create(struct stage *stage, struct source **ret_source, struct err *err) {
    _cleanup_(source_destroy) struct source *source = calloc(1, sizeof *source);
    FAIL_IF(source == NULL, err, STATUS_NO_MEMORY, "no memory for a watcher");
    const struct watcher_params *params = stage_params(stage);
    source->stage = stage;
    source->params = params;
    struct watcher_options options = {
        .directory = params->directory,
        .pattern = params->pattern,
        .skip = {stage_root(stage), stage_folder(stage)},
        .recursive = params->recursive,
        .order = (enum watcher_order)params->order,
        .settle = params->settle,
        .stall = isnan(params->stall) ? 6 * params->settle : params->stall,
        .poll = params->poll,
        .stacks_grow = params->series != NULL && params->series[0] != '\0',
        .context = source,
        .past = ask_ledger,
        .folder = watch_folder,
    };
    source->held_until = INFINITY;
    TRY(refuse_session_itself(stage, params->directory, err));
    TRY(watcher_create(&options, &source->watcher, err));
    if (params->ctf != NULL) TRY(open_rows(source, err));
    if (params->series != NULL && params->series[0] != '\0')
        TRY(tilt_names_create(params->series, params->directory, params->recursive, &source->tilts, err));
    struct err problem;
    if (params->notices && notices_open(&source->notices, &problem) != STATUS_OK)
        stage_log(stage, LOG_WARN, "no-notices", "%s; the folder is swept every %g s", problem.message, params->poll);
    *ret_source = source;
    source = NULL;
    return STATUS_OK;
}

void source_destroy(struct source **source) {
    if (source == NULL || *source == NULL) return;
    for (size_t i = 0; i < (*source)->held_count; i++)
        held_clear(&(*source)->held[i]);
    free((*source)->held);
    notices_close(&(*source)->notices);
    ctf_rows_close(&(*source)->rows);
    tilt_names_destroy(&(*source)->tilts);
    watcher_destroy(&(*source)->watcher);
    free(*source);
    *source = NULL;
}

void source_look_for_space(struct source *source) {
    const double limit = source->params->min_free, margin = 1.05;
    const char *root = stage_root(source->stage);
    struct statvfs disk;
    if (!(limit > 0) || statvfs(root, &disk) != 0) return;
    double available = 1e-9 * (double)disk.f_bavail * (double)disk.f_frsize;
    bool paused = available < limit * (source->is_paused ? margin : 1);
    if (paused) stage_note(source->stage, "paused: %.3g GB are free, min_free is %g GB", available, limit);
    if (paused == source->is_paused) return;
    source->is_paused = paused;
    if (paused)
        stage_log(source->stage, LOG_WARN, "disk-space",
                  "%s: %.3g GB are free, less than min_free (%g GB): nothing new is taken in until there is space",
                  root, available, limit);
    else
        stage_log(source->stage, LOG_WARN, "disk-space", "%s: %.3g GB are free: micrographs are taken in again", root,
                  available);
    if (!paused) source->held_until = -INFINITY;
}

static enum status refresh_ctf(struct source *source, double now, struct err *err) {
    if (source->rows == NULL) return STATUS_OK;
    struct err problem;
    bool changed = false;
    bool was_read = ctf_rows_are_read(source->rows);
    enum status status = ctf_rows_refresh(source->rows, &changed, &problem);
    if (status_is_of_file(status))
        stage_log(source->stage, LOG_WARN, "ctf-file", "%s; %s", problem.message,
                  was_read ? "the rows read before stay in use" : "micrographs wait for it");
    if (changed && !was_read) stage_log(source->stage, LOG_INFO, "ctf-file", "%s can be read now", source->params->ctf);
    bool due = (changed || now >= source->held_until) && !source->is_paused;
    return due && source->held_count > 0 ? source_release_held(source, now, err) : STATUS_OK;
}

/* .mdoc files are few and small, but their folder may be large: as often as it is swept. */
static enum status refresh_tilts(struct source *source, double now, struct err *err) {
    if (source->tilts == NULL || !tilt_names_may_come(source->tilts)) return STATUS_OK;
    struct err problem;
    bool changed = false;
    if (now >= source->next_mdoc) {
        TRY(tilt_names_refresh(source->tilts, &changed, &problem, err));
        if (problem.status != STATUS_OK)
            stage_log(source->stage, LOG_WARN, "mdoc", "%s; its tilts wait", problem.message);
        source->next_mdoc = now + source->params->poll;
    }
    bool due = (changed || now >= source->held_until) && !source->is_paused;
    return due && source->held_count > 0 ? source_release_held(source, now, err) : STATUS_OK;
}

static enum status hear_notices(struct source *source, double now, struct err *err) {
    char path[PATH_SIZE];
    for (;;) {
        enum notice notice = source->notices != NULL ? notices_next(source->notices, path, sizeof path) : NOTICE_NONE;
        if (notice == NOTICE_NONE) return STATUS_OK;
        struct err problem = {0};
        enum status status = notice == NOTICE_LOST ? STATUS_IO : watcher_notice(source->watcher, path, now, &problem);
        /* What a sweep finds of a folder that is away it tells, and tries again. */
        if (status == STATUS_IO || status == STATUS_NOT_FOUND)
            source->next_sweep = now;
        else
            FAIL_IF(status != STATUS_OK, err, status, "%s", problem.message);
    }
}

static enum status sweep(struct source *source, double now, struct err *err) {
    struct err problem;
    bool first = !source->is_started;
    enum status status = watcher_sweep(source->watcher, now, &problem);
    source->next_sweep = now + source->params->poll;
    source->is_started = true;
    if (status == STATUS_OK) return STATUS_OK;
    /* A network file system that is away for a while comes back; one that was never there is a wrong setting. */
    bool away = !first && (status == STATUS_NOT_FOUND || status == STATUS_IO);
    FAIL_IF(!away, err, status, "%s", problem.message);
    stage_log(source->stage, LOG_WARN, "folder-away", "%s; tried again in %g s", problem.message, source->params->poll);
    return STATUS_OK;
}

static void tell_counts(struct source *source) {
    if (source->is_paused) return;
    stage_note(source->stage, "%" PRId64 " files, %zu pending", source->passed,
               watcher_pending(source->watcher) + source->held_count);
}

/* What need not be done for every file. */
static enum status look_around(struct source *source, double now, struct err *err) {
    if (now < source->next_round) return STATUS_OK;
    source->next_round = now + ROUND;
    source_look_for_space(source);
    TRY(refresh_ctf(source, now, err));
    TRY(refresh_tilts(source, now, err));
    tell_counts(source);
    return STATUS_OK;
}

enum status source_step(struct source *source, double now, bool *ret_more, struct err *err) {
    struct watcher_find find;
    bool found = false;
    if (!source->is_started) source->started = now;
    TRY(hear_notices(source, now, err));
    if (!source->is_started || now >= source->next_sweep) TRY(sweep(source, now, err));
    TRY(look_around(source, now, err));
    if (!source->is_paused && !stage_stopping(source->stage))
        TRY(watcher_next(source->watcher, now, &find, &found, err));
    if (found) {
        source->was_busy = true;
        TRY(source_handle(source, &find, now, err));
    }
    *ret_more = found;
    return STATUS_OK;
}

enum status source_idle(struct source *source, double now, double seconds, bool *ret_idle, struct err *err) {
    *ret_idle = false;
    /* Passing on may have waited long for room: the quiet begins after it. */
    if (source->was_busy) source->last_busy = now;
    source->was_busy = false;
    double last = fmax(fmax(watcher_last_change(source->watcher), source->last_busy), source->started);
    if (now - last < seconds || watcher_pending(source->watcher) > 0) return STATUS_OK;
    /* Where notices never come, something may lie there unseen. */
    TRY(sweep(source, now, err));
    if (watcher_pending(source->watcher) > 0 || (source->held_count > 0 && source->is_paused)) return STATUS_OK;
    if (source->held_count > 0 && source->rows != NULL && ctf_rows_may_grow(source->rows)) return STATUS_OK;
    for (size_t i = 0; i < source->held_count; i++)
        source->held[i].until = now;
    if (source->held_count > 0) TRY(source_release_held(source, now, err));
    FAIL_IF(
        source->held_count > 0 && !source_may_go_without(source) && !stage_stopping(source->stage), err,
        STATUS_BAD_FORMAT,
        "%zu micrographs wait for watcher.ctf %s, which alone tells their pixel size and cannot be read: mend it, or "
        "set session.pixel_size",
        source->held_count, source->params->ctf);
    tell_counts(source);
    *ret_idle = source->held_count == 0;
    return STATUS_OK;
}
