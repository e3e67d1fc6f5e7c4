/* Stages that do nothing. They load edges, ledgers and the launcher with many items:
 *   null-source   emits `count` items as fast as the edges accept them, or one every `pause` s. First it emits others,
 *                 until `meet` replicas of the stage "wide" have had one
 *   null-stage    passes items on, each after `work` s
 * Both programs are this file; the program's name selects one. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/harness/stage_private.h"

struct parameters {
    int count, meet;
    double pause, work;
};

#define OFFSET(member) offsetof(struct parameters, member)
static const struct param table[] = {
    {"count", PARAM_INT, OFFSET(count), "", "1000", 0, 10000000, NULL, 0, false, "items of a source"},
    {"pause", PARAM_FLOAT, OFFSET(pause), "s", "0", 0, 60, NULL, 0, false, "of a source, between two items"},
    {"meet", PARAM_INT, OFFSET(meet), "", "0", 0, 1000, NULL, 0, false,
     "replicas that have work before a source counts"},
    {"work", PARAM_FLOAT, OFFSET(work), "s", "0", 0, 60, NULL, 0, false, "of a stage, on each item"},
};

/* Makes an item as large as in a real session: a micrograph with its optics and CTF values. */
static enum status fill(struct item *item, int number, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, "grid1/Micrographs/mic_%07d.mrc", number);
    TRY(item_set_string(item, "micrograph.path", path, err));
    TRY(item_set_number(item, "micrograph.nx", 4096, err));
    TRY(item_set_number(item, "micrograph.ny", 4096, err));
    TRY(item_set_string(item, "optics.group", "opticsGroup1", err));
    TRY(item_set_number(item, "optics.pixel_size", 1.62, err));
    TRY(item_set_number(item, "optics.voltage", 300, err));
    TRY(item_set_number(item, "columns.rlnDefocusU", 12345.6 + number, err));
    return item_set_number(item, "columns.number", number, err);
}

static enum status emit(struct stage *stage, int number, struct err *err) {
    char id[32];
    struct item *item = NULL;
    snprintf(id, sizeof id, "grid1/mic_%07d", number);
    TRY(item_create(id, "micrograph", &item, err));
    enum status status = fill(item, number, err);
    if (status == STATUS_OK) status = stage_emit(stage, item, NULL, err);
    item_destroy(&item);
    return status;
}

static void had_path(const struct stage *stage, const char *name, int instance, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.4000s/../%s/had_%d", stage_folder(stage), name, instance);
}

/* Returns whether `meet` replicas have had an item. */
static bool have_met(const struct stage *stage, int count) {
    char path[PATH_SIZE];
    for (int i = 0; i < count; i++) {
        had_path(stage, "wide", i, path);
        if (!file_exists(path)) return false;
    }
    return true;
}

static enum status produce(struct stage *stage, void *state, struct err *err) {
    (void)state;
    const struct parameters *parameters = stage_params(stage);
    int before = 0;
    for (int i = 0; i < before + parameters->count && !stage_stopping(stage); i++) {
        if (i == before && !have_met(stage, parameters->meet)) before++;
        TRY(emit(stage, i, err));
        /* Acknowledgements also wake the stage, so wait for the rest of the pause. */
        for (double end = clock_monotonic() + parameters->pause, now; (now = clock_monotonic()) < end;)
            stage_wait(stage, end - now);
    }
    return STATUS_OK;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state, (void)lane;
    const struct parameters *parameters = stage_params(stage);
    char path[PATH_SIZE];
    had_path(stage, "wide", stage->instance, path);
    if (parameters->meet > 0 && !file_exists(path)) TRY(file_write_whole(path, "", 0, err));
    const struct timespec time = {(time_t)parameters->work, (long)(1e9 * fmod(parameters->work, 1))};
    if (parameters->work > 0) nanosleep(&time, NULL);
    return STATUS_OK;
}

static const struct stage_descriptor source = {
    .name = "null-source",
    .summary = "emits items of nothing",
    .in = "",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .produce = produce,
};

static const struct stage_descriptor null = {
    .name = "null-stage",
    .summary = "passes items on",
    .in = "micrograph",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .process = process,
};

int main(int argc, char **argv) {
    bool is_source = strstr(path_name(argv[0]), "source") != NULL;
    return stage_main(is_source ? &source : &null, argc, argv);
}
