/* From a file to an item: what has to wait for its CTF values or its tilt angle, what goes on, what is set aside. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/memory.h"
#include "stages/watcher/source_private.h"

void held_clear(struct held *held) {
    free(held->path);
    free(held->id);
    free(held->relative);
}

static void drop_item(struct item **item) {
    if (*item != NULL) item_destroy(item);
}

/* Said once: one wrong setting touches every micrograph. */
static void compare_pixel_size(struct source *source, const char *path, double header) {
    double session = stage_session(source->stage)->pixel_size;
    if (source->pixel_size_differs || isnan(session) || !(header > 0) || fabs(header - session) <= 0.01 * session)
        return;
    source->pixel_size_differs = true;
    stage_log(source->stage, LOG_WARN, "pixel-size",
              "%s: its header says %g Å/px, the session %g: the session's value is used; check session.pixel_size",
              path, header, session);
}

static enum status set_aside(struct source *source, const char *id, const char *path, const char *reason,
                             struct err *err) {
    _cleanup_(drop_item) struct item *item = NULL;
    TRY(record_failed(id, path, stage_root(source->stage), &item, err));
    return stage_set_aside(source->stage, item, LEDGER_FAILED, reason, err);
}

static enum status pass_on(struct source *source, const char *id, const char *path, const struct image_info *image,
                           long row, const struct tilt_place *tilt, struct err *err) {
    _cleanup_(drop_item) struct item *item = NULL;
    struct record_source record = {
        path, id,   stage_root(source->stage), *image, stage_session(source->stage), source->rows,
        row,  tilt, !source->params->scaled};
    struct err problem;
    enum status status = record_make(&record, &item, &problem);
    if (status == STATUS_NOT_FOUND && source->has_pixel_size) return set_aside(source, id, path, problem.message, err);
    FAIL_IF(status != STATUS_OK, err, status, "%s", problem.message);
    source->has_pixel_size = true;
    compare_pixel_size(source, path, (double)image->pixel_size);
    bool is_new = false;
    TRY(stage_emit(source->stage, item, &is_new, err));
    source->passed += is_new;
    return STATUS_OK;
}

static enum status pass_on_structure(struct source *source, const struct watcher_find *find, struct err *err) {
    _cleanup_(drop_item) struct item *item = NULL;
    bool is_new = false;
    TRY(record_structure(find->id, find->path, stage_root(source->stage), &item, err));
    TRY(stage_emit(source->stage, item, &is_new, err));
    source->passed += is_new;
    return STATUS_OK;
}

static enum status hold(struct source *source, const struct watcher_find *find, double until, struct err *err) {
    if (source->held_count == source->held_capacity) {
        size_t capacity = source->held_capacity > 0 ? 2 * source->held_capacity : 16;
        struct held *held = realloc(source->held, capacity * sizeof *held);
        FAIL_IF(held == NULL, err, STATUS_NO_MEMORY, "no memory for %zu micrographs that wait for CTF values",
                capacity);
        source->held = held;
        source->held_capacity = capacity;
    }
    struct held held = {strdup(find->path), strdup(find->id), strdup(find->relative), find->image, until};
    if (held.path == NULL || held.id == NULL || held.relative == NULL) {
        held_clear(&held);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the name %s", find->path);
    }
    source->held[source->held_count++] = held;
    source->held_until = fmin(source->held_until, until);
    return STATUS_OK;
}

/* What an image may have to wait for. */
struct known_of {
    bool is_tilt, named; /* it is looked for in .mdoc files or names; it was found there */
    struct tilt_place tilt;
    long row; /* of the CTF file, or −1 */
    bool complete;
};

/* A stack of several images is a whole series: its angles lie beside it. */
static void look_up(const struct source *source, const char *path, const char *relative, const struct image_info *image,
                    struct known_of *ret_known) {
    struct known_of *known = ret_known;
    known->is_tilt = source->tilts != NULL && image->nz <= 1;
    known->named = known->is_tilt && tilt_names_find(source->tilts, relative, &known->tilt);
    known->row = source->rows != NULL ? ctf_rows_find(source->rows, path) : -1;
    known->complete = (!known->is_tilt || known->named) && (source->rows == NULL || known->row >= 0);
}

static enum status pass_on_known(struct source *source, const char *id, const char *path,
                                 const struct image_info *image, const struct known_of *known, struct err *err) {
    return pass_on(source, id, path, image, known->row, known->named ? &known->tilt : NULL, err);
}

static enum status pass_on_without(struct source *source, const struct held *held, const struct known_of *known,
                                   struct err *err) {
    if (known->is_tilt && !known->named)
        return set_aside(source, held->id, held->path,
                         "no .mdoc in the watched folder names it (SubFramePath), so that its series and its tilt "
                         "angle are unknown: put the .mdoc there and start again",
                         err);
    stage_log(source->stage, LOG_WARN, "no-ctf", "%s has no row in %s: it goes on without CTF values", held->id,
              source->params->ctf);
    return pass_on_known(source, held->id, held->path, &held->image, known, err);
}

bool source_may_go_without(const struct source *source) {
    return source->rows == NULL || ctf_rows_are_read(source->rows) || !isnan(stage_session(source->stage)->pixel_size);
}

enum status source_release_held(struct source *source, double now, struct err *err) {
    size_t kept = 0;
    enum status status = STATUS_OK;
    source->held_until = INFINITY;
    for (size_t i = 0; i < source->held_count; i++) {
        struct held *held = &source->held[i];
        bool go_on = status == STATUS_OK && !source->is_paused && !stage_stopping(source->stage);
        struct known_of known = {.row = -1};
        if (go_on) look_up(source, held->path, held->relative, &held->image, &known);
        if (go_on && known.complete)
            status = pass_on_known(source, held->id, held->path, &held->image, &known, err);
        else if (go_on && now >= held->until && source_may_go_without(source))
            status = pass_on_without(source, held, &known, err);
        else {
            source->held_until = fmin(source->held_until, held->until);
            source->held[kept++] = *held;
            continue;
        }
        held_clear(held);
        source_look_for_space(source);
    }
    source->held_count = kept;
    return status;
}

enum status source_handle(struct source *source, const struct watcher_find *find, double now, struct err *err) {
    if (find->verdict == WATCHER_DUPLICATE) {
        stage_log(source->stage, LOG_INFO, "duplicate", "%s: %s", find->relative, find->reason);
        return STATUS_OK;
    }
    if (find->verdict == WATCHER_FAILED) return set_aside(source, find->id, find->path, find->reason, err);
    if (find->failed_before)
        stage_log(source->stage, LOG_INFO, "whole-after-all", "%s is whole now and goes on", find->id);
    if (find->structure) return pass_on_structure(source, find, err);
    struct known_of known;
    look_up(source, find->path, find->relative, &find->image, &known);
    if (known.is_tilt && !known.named && !tilt_names_may_come(source->tilts))
        return set_aside(source, find->id, find->path,
                         "its name does not follow watcher.series, so that its tilt angle is unknown", err);
    if (known.is_tilt && !known.named) return hold(source, find, now + source->params->mdoc_wait, err);
    if (!known.complete) return hold(source, find, now + source->params->ctf_wait, err);
    return pass_on_known(source, find->id, find->path, &find->image, &known, err);
}
