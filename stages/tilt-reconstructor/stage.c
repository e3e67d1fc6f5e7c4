/* The tilt-reconstructor as a stage. A stack or an .mdoc is a whole series, read, reconstructed and written like any
 * item. A single tilt joins its series: idle makes previews and tomograms, flush those that are left at the end of the
 * stream. */
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/tilt-reconstructor/parameters.h"
#include "stages/tilt-reconstructor/tables.h"
#include "stages/tilt-reconstructor/tilt_reconstructor.h"

static bool go_on(void *context, int iteration, double residual) {
    struct stage *stage = context;
    if (isnan(residual))
        stage_note(stage, "some of the rows, iteration %d", iteration);
    else
        stage_note(stage, "iteration %d, residual %.4g", iteration, residual);
    return !stage_stopping(stage);
}

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    settings_check(params, checks);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct tilt_reconstructor *reconstructor = state;
    TRY(settings_create(stage, &reconstructor->settings, err));
    reconstructor->settings->reconstruction.tomography.go_on = go_on;
    reconstructor->settings->reconstruction.tomography.context = stage;
    return live_create(stage, reconstructor->settings, &reconstructor->plan, &reconstructor->live, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct tilt_reconstructor *reconstructor = state;
    live_destroy(&reconstructor->live);
    reconstruction_plan_clear(&reconstructor->plan);
    settings_destroy(&reconstructor->settings);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct tilt_reconstructor_lane *lane = stage_lane->state;
    reconstruction_clear(&lane->reconstruction);
    projections_source_clear(&lane->source);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    return tilt_reconstructor_load(stage, state, stage_lane->state, stage_lane->item, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)stage;
    struct tilt_reconstructor *reconstructor = state;
    struct tilt_reconstructor_lane *lane = stage_lane->state;
    return lane->single ? STATUS_OK
                        : reconstruction_make(&reconstructor->settings->reconstruction, &reconstructor->plan,
                                              &lane->reconstruction, err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct tilt_reconstructor *reconstructor = state;
    struct tilt_reconstructor_lane *lane = stage_lane->state;
    struct product_paths paths;
    if (lane->single) {
        char mark[ITEM_MARK_SIZE];
        item_mark(item_key(stage_lane->item), mark);
        lane->arrival.item = mark;
        enum status status = live_submit(reconstructor->live, &lane->arrival, err);
        lane->arrival.item = NULL;
        return status;
    }
    TRY(product_paths_of(stage, lane->id, false, &paths, err));
    TRY(products_write(&reconstructor->settings->reconstruction, &lane->reconstruction, &paths.products,
                       lane->fingerprint, err));
    live_tell(stage, lane->id, &lane->reconstruction);
    return live_announce(reconstructor->live, lane->id, lane->reconstruction.series.count,
                         lane->reconstruction.series.pixel_size * reconstructor->settings->reconstruction.bin, err);
}

static enum status resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    return tilt_reconstructor_rejoin(stage, state, item, false, err);
}

static enum status resume_failed(struct stage *stage, void *state, const struct item *item, struct err *err) {
    return tilt_reconstructor_rejoin(stage, state, item, true, err);
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    (void)stage;
    return live_step(((struct tilt_reconstructor *)state)->live, false, ret_work, err);
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct tilt_reconstructor *reconstructor = state;
    enum stage_work work;
    do
        TRY(live_step(reconstructor->live, true, &work, err));
    while (work == STAGE_WORK_MORE && !stage_stopping(stage));
    return STATUS_OK;
}

struct table_context {
    struct stage *stage;
    const struct tilt_reconstructor *reconstructor;
    struct tomogram_table *table;
};

static enum status add_row(const struct item *item, void *context, struct err *err) {
    const struct table_context *c = context;
    struct arrival arrival;
    struct product_paths paths;
    bool single;
    char id[PATH_SIZE];
    if (strcmp(item_kind(item), "tomogram") == 0) return STATUS_OK;
    TRY(tilt_reconstructor_find(c->reconstructor->settings, item, &arrival, id, &single, err));
    TRY(product_paths_of(c->stage, id, false, &paths, err));
    return tomogram_table_add(c->table, id, paths.record, paths.relative, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    static const char *const files[] = {"tomograms.star", NULL};
    stage_result(stage, files, "%s", "");
    _cleanup_(tomogram_table_destroy) struct tomogram_table *table = NULL;
    char path[PATH_SIZE];
    TRY(tomogram_table_create(&table, err));
    struct table_context context = {stage, state, table};
    TRY(stage_each_done(stage, add_row, &context, err));
    TRY(path_join(stage_folder(stage), "tomograms.star", path, sizeof path, err));
    return tomogram_table_write(table, path, err);
}

const struct stage_descriptor tilt_reconstructor_stage = {
    .name = "tilt-reconstructor",
    .summary = "Reconstructs tomograms from tilt series (SIRT or weighted back-projection), with previews while tilts "
               "are collected",
    .in = "micrograph",
    .out = "tomogram",
    .params = tilt_reconstructor_parameters,
    .param_count = TILT_RECONSTRUCTOR_PARAMETERS,
    .params_size = sizeof(struct tilt_reconstructor_options),
    .state_size = sizeof(struct tilt_reconstructor),
    .lane_size = sizeof(struct tilt_reconstructor_lane),
    .revisions = true,
    .lanes = 2,
    .load_threads = 1,
    .store_threads = 1,
    .cuda = true,
    .takes =
        "a stack (.st, .mrc; several with commas), an .mdoc that names a stack or single images, a folder of stacks,\n"
        "             or with --tilts TS.mdoc one of single images",
    .cumulative = true,
    .columns = "",
    .check = check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .resume_failed = resume_failed,
    .load = load,
    .process = process,
    .store = store,
    .idle = idle,
    .flush = flush,
    .summarise = summarise,
};
