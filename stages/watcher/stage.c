/* The watcher as a stage: the callbacks that the harness runs, and the descriptor. */
#include <math.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/harness/micrograph_table.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/watcher/parameters.h"
#include "stages/watcher/record.h"
#include "stages/watcher/tilt_names.h"
#include "stages/watcher/watcher.h"

struct state {
    struct watcher *watcher;
};

static const double ROUND = 0.1; /* s between looks when nothing happens */

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct watcher_options *p = params;
    struct err err = {0};
    enum status status = p->series != NULL ? tilt_names_check(p->series, &err) : STATUS_OK;
    (void)stage_checks_result(checks, "series", status, &err);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    return watcher_create(stage, &((struct state *)state)->watcher, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    watcher_destroy(&((struct state *)state)->watcher);
}

static enum status produce(struct stage *stage, void *state, struct err *err) {
    struct watcher *watcher = ((struct state *)state)->watcher;
    const struct watcher_options *set = stage_params(stage);
    double until_idle = isnan(set->until_idle) ? stage_until_idle(stage) : set->until_idle;
    bool idle = false, more = false;
    while (!stage_stopping(stage)) {
        TRY(watcher_step(watcher, clock_monotonic(), &more, err));
        if (more) continue;
        TRY(watcher_idle(watcher, clock_monotonic(), until_idle, &idle, err));
        if (idle) break;
        stage_wait(stage, ROUND);
    }
    return STATUS_OK;
}

static enum status note(const struct item *item, void *context, struct err *err) {
    return micrograph_table_note(context, item, err);
}

static enum status add_row(const struct item *item, void *context, struct err *err) {
    return micrograph_table_add(context, item, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    (void)state;
    _cleanup_(micrograph_table_destroy) struct micrograph_table *table = NULL;
    char path[PATH_SIZE];
    bool movies = ((const struct watcher_options *)stage_params(stage))->movies;
    TRY(path_join(stage_folder(stage), movies ? "movies.star" : "micrographs.star", path, sizeof path, err));
    TRY(movies ? micrograph_table_create_movies(&table, err) : micrograph_table_create(&table, err));
    TRY(stage_each_done(stage, note, table, err));
    TRY(micrograph_table_begin(table, path, err));
    TRY(stage_each_done(stage, add_row, table, err));
    return micrograph_table_commit(table, err);
}

const struct stage_descriptor watcher_stage = {
    .name = "watcher",
    .summary = "Finds micrographs, movies or structures as they appear in a folder and sends each on once it is whole",
    .in = "",
    .out = "micrograph movie structure",
    .params = watcher_parameters,
    .param_count = WATCHER_PARAMETERS,
    .params_size = sizeof(struct watcher_options),
    .state_size = sizeof(struct state),
    .revisions = true,
    .lanes = 1,
    .cumulative = true,
    .columns = "", /* besides those of its table */
    .check = check,
    .init = init,
    .fini = fini,
    .produce = produce,
    .summarise = summarise,
};
