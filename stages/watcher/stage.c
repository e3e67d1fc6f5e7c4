#include "stages/watcher/stage.h"

#include <math.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "stages/watcher/record.h"
#include "stages/watcher/source.h"

#define AT(member) offsetof(struct watcher_params, member)

static const struct param params[] = {
    {"directory", PARAM_PATH, AT(directory), "", NULL, .required = true,
     .help = "Folder in which micrographs, or structures, appear"},
    {"pattern", PARAM_STRING, AT(pattern), "", "*.mrc,*.tif,*.tiff,*.png,*.jpg,*.jpeg",
     .help = "Globs of the names to take, separated by commas, as *.pdb for structures; case does not matter"},
    {"recursive", PARAM_BOOL, AT(recursive), "", "true", .help = "Folders inside the folder as well"},
    {"ctf", PARAM_PATH, AT(ctf), "", NULL, .help = "STAR file with defocus per micrograph; it may still be growing"},
    {"settle", PARAM_FLOAT, AT(settle), "s", "10", 0, 86400,
     .help = "Time without change after which content that cannot tell counts as whole, or as not an image"},
    {"stall", PARAM_FLOAT, AT(stall), "s", NULL, 0, 864000,
     .help = "Time without change after which an incomplete file is reported as failed; default: 6 × settle"},
    {"poll", PARAM_FLOAT, AT(poll), "s", "5", 0.05, 86400,
     .help = "From one sweep of the folder to the next, for file systems that send no notices"},
    {"notices", PARAM_BOOL, AT(notices), "", "true",
     .help = "Let the system tell of new files (inotify) between sweeps"},
    {"order", PARAM_CHOICE, AT(order), "", "oldest", .choices = "oldest|newest",
     .help = "Which of the waiting files goes first, by time of change"},
    {"ctf_wait", PARAM_FLOAT, AT(ctf_wait), "s", "60", 0, 864000,
     .help = "How long a micrograph waits for its row in the CTF file before it goes on without"},
    {"series", PARAM_STRING, AT(series), "", NULL,
     .help = "Images are tilts of series: mdoc (SerialEM's .mdoc files in the folder name them) or a pattern of names, "
             "as {series}_{order}_{angle}_*.mrc"},
    {"mdoc_wait", PARAM_FLOAT, AT(mdoc_wait), "s", "600", 0, 864000,
     .help = "How long a tilt waits for an .mdoc to name it before it is set aside as failed"},
    {"min_free", PARAM_FLOAT, AT(min_free), "GB", "1", 0, 1e9,
     .help = "Free space of the session's file system below which nothing new is taken in; 0: it does not matter"},
    {"scaled", PARAM_BOOL, AT(scaled), "", "true",
     .help =
         "Each image must have a pixel size; false where all that follow count in pixels, as a graph sets by itself"},
    {"until_idle", PARAM_FLOAT, AT(until_idle), "s", NULL, 0, 864000,
     .help = "End when nothing new has come for so long; default: as the run says, else never"},
};

struct watcher_state {
    struct source *source;
};

static const double ROUND = 0.1; /* s between looks when nothing happens */

static enum status init(struct stage *stage, void *state, struct err *err) {
    return source_create(stage, &((struct watcher_state *)state)->source, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    source_destroy(&((struct watcher_state *)state)->source);
}

static enum status produce(struct stage *stage, void *state, struct err *err) {
    struct source *source = ((struct watcher_state *)state)->source;
    const struct watcher_params *set = stage_params(stage);
    double until_idle = isnan(set->until_idle) ? stage_until_idle(stage) : set->until_idle;
    bool idle = false, more = false;
    while (!stage_stopping(stage)) {
        TRY(source_step(source, clock_monotonic(), &more, err));
        if (more) continue;
        TRY(source_idle(source, clock_monotonic(), until_idle, &idle, err));
        if (idle) break;
        stage_wait(stage, ROUND);
    }
    return STATUS_OK;
}

static enum status note(const struct item *item, void *context, struct err *err) {
    return record_table_note(context, item, err);
}

static enum status add_row(const struct item *item, void *context, struct err *err) {
    return record_table_add(context, item, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    (void)state;
    _cleanup_(record_table_destroy) struct record_table *table = NULL;
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), "micrographs.star", path, sizeof path, err));
    TRY(record_table_create(&table, err));
    TRY(stage_each_done(stage, note, table, err));
    TRY(record_table_begin(table, path, err));
    TRY(stage_each_done(stage, add_row, table, err));
    return record_table_commit(table, err);
}

const struct stage_descriptor watcher_stage = {
    .name = "watcher",
    .summary = "finds micrographs, or structures, as they appear in a folder and sends each on once it is whole",
    .in = "",
    .out = "micrograph structure",
    .params = params,
    .param_count = sizeof params / sizeof *params,
    .params_size = sizeof(struct watcher_params),
    .state_size = sizeof(struct watcher_state),
    .lanes = 1,
    .cumulative = true,
    .init = init,
    .fini = fini,
    .produce = produce,
    .summarise = summarise,
};
