/* Stages that test the edges of a pipeline, without images:
 *   relay source …   emits `count` items, from number `first`
 *   relay relay …    passes items on with one more column
 *                    abort_at, abort_times: aborts inside process at this item, this many times
 *                    hang_at, hang_times: stays inside process for ever, this many times
 *                    reads: reads the file that the item names (a source with `reads` names one in inputs/)
 *   relay thinker …  takes items in, and computes by itself until FOLDER/enough is there */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/files.h"
#include "common/harness/stage.h"
#include "common/memory.h"

struct parameters {
    int count, first, abort_at, abort_times, hang_at, hang_times, fail_at, picks;
    double work;
    bool reads;
};

#define OFFSET(member) offsetof(struct parameters, member)
static const struct param table[] = {
    {"count", PARAM_INT, OFFSET(count), "", "10", 0, 100000, NULL, 0, false, "items of a source"},
    {"first", PARAM_INT, OFFSET(first), "", "0", 0, 100000, NULL, 0, false, "number of a source's first item"},
    {"abort_at", PARAM_INT, OFFSET(abort_at), "", "-1", 0, 0, NULL, 0, false, "number of the item that kills"},
    {"abort_times", PARAM_INT, OFFSET(abort_times), "", "1", 0, 100, NULL, 0, false, "how often it kills"},
    {"hang_at", PARAM_INT, OFFSET(hang_at), "", "-1", 0, 0, NULL, 0, false, "number of the item that never ends"},
    {"hang_times", PARAM_INT, OFFSET(hang_times), "", "1", 0, 100, NULL, 0, false, "how often it does not"},
    {"fail_at", PARAM_INT, OFFSET(fail_at), "", "-1", 0, 0, NULL, 0, false, "number of the item that fails"},
    {"picks", PARAM_INT, OFFSET(picks), "", "0", 0, 1000, NULL, 0, false, "picks that each item gets"},
    {"reads", PARAM_BOOL, OFFSET(reads), "", "false", 0, 0, NULL, 0, false,
     "whether items name a file each, to be read"},
    {"work", PARAM_FLOAT, OFFSET(work), "s", "0", 0, 3600, NULL, 0, false, "how long an item takes"},
};

static enum status produce(struct stage *stage, void *state, struct err *err) {
    (void)state;
    const struct parameters *parameters = stage_params(stage);
    for (int i = parameters->first; i < parameters->first + parameters->count && !stage_stopping(stage); i++) {
        char id[32], path[32] = "nowhere.mrc";
        struct item *item = NULL;
        bool is_new;
        snprintf(id, sizeof id, "grid/mic_%04d", i);
        if (parameters->reads) snprintf(path, sizeof path, "inputs/mic_%04d.mrc", i);
        TRY(item_create(id, "micrograph", &item, err));
        enum status status = item_set_string(item, "micrograph.path", path, err);
        if (status == STATUS_OK) status = item_set_number(item, "columns.number", i, err);
        if (status == STATUS_OK) status = stage_emit(stage, item, &is_new, err);
        item_destroy(&item);
        TRY(status);
    }
    return STATUS_OK;
}

/* Counts events in files beside the products, because nothing else survives the process. */
static bool is_due(struct stage *stage, const char *what, int times) {
    for (int i = 0; i < times; i++) {
        char path[PATH_SIZE + 32];
        snprintf(path, sizeof path, "%s/%s_%d", stage_folder(stage), what, i);
        int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (descriptor >= 0) {
            close(descriptor);
            return true;
        }
    }
    return false;
}

static enum status load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct parameters *parameters = stage_params(stage);
    const char *name = NULL;
    char path[PATH_SIZE];
    _cleanup_(file_close) int descriptor = -1;
    if (!parameters->reads) return STATUS_OK;
    TRY(item_need_string(lane->item, "micrograph.path", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    return file_open_read(path, &descriptor, NULL, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct parameters *parameters = stage_params(stage);
    int number = (int)item_number(lane->item, "columns.number", -2);
    if (number == parameters->abort_at && is_due(stage, "aborted", parameters->abort_times)) abort();
    if (number == parameters->hang_at && is_due(stage, "hung", parameters->hang_times))
        for (;;)
            pause();
    const struct timespec work = {(time_t)parameters->work, (long)(1e9 * fmod(parameters->work, 1))};
    if (parameters->work > 0) nanosleep(&work, NULL);
    FAIL_IF(number == parameters->fail_at, err, STATUS_BAD_FORMAT, "item %d is broken", number);
    if (parameters->picks > 0) TRY(item_set_number(lane->item, "picks.count", parameters->picks, err));
    char column[128];
    snprintf(column, sizeof column, "columns.%s", stage_name(stage));
    return item_set_number(lane->item, column, number, err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(stage_product(stage, lane->item, ".txt", relative, absolute, err));
    return file_write_whole(absolute, relative, strlen(relative), err);
}

static enum status count_one(const struct item *item, void *context, struct err *err) {
    (void)item, (void)err;
    ++*(int *)context;
    return STATUS_OK;
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    (void)state;
    int count = 0;
    char path[PATH_SIZE + 32], text[32];
    TRY(stage_each_done(stage, count_one, &count, err));
    snprintf(path, sizeof path, "%s/summary.txt", stage_folder(stage));
    int length = snprintf(text, sizeof text, "%d\n", count);
    return file_write_whole(path, text, (size_t)length, err);
}

static const struct stage_descriptor source = {
    .name = "source",
    .summary = "emits items",
    .in = "",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .produce = produce,
    .summarise = summarise,
};

static const struct stage_descriptor relay = {
    .name = "relay",
    .summary = "passes items on",
    .in = "micrograph",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .load = load,
    .process = process,
    .store = store,
    .summarise = summarise,
};

/* ---- A stage that has work of its own ---- */

static bool is_enough(const struct stage *stage) {
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/enough", stage_folder(stage));
    return file_exists(path);
}

static void think(struct stage *stage) {
    const struct timespec slice = {0, 20000000};
    stage_doing(stage, "computing iteration %d", 17);
    stage_note(stage,
               "iteration %d, %d particles, %.1f Å, and a note that no line of 80 columns has room for, 123456.789", 16,
               1234, 8.4);
    stage_resolution(stage, 8.4);
    nanosleep(&slice, NULL);
}

static enum status think_idly(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    (void)state, (void)err;
    *ret_work = is_enough(stage) ? STAGE_WORK_NONE : STAGE_WORK_MORE;
    if (*ret_work == STAGE_WORK_MORE) think(stage);
    return STATUS_OK;
}

static enum status think_at_the_end(struct stage *stage, void *state, struct err *err) {
    (void)state;
    while (!is_enough(stage)) {
        FAIL_IF(stage_stopping(stage), err, STATUS_CANCELLED, "stopped before it was enough");
        think(stage);
    }
    static const char *const files[] = {"enough", "missing", NULL};
    stage_result(stage, files, "%d thoughts", 42);
    return STATUS_OK;
}

static enum status remember_nothing(struct stage *stage, void *state, const struct item *item, struct err *err) {
    (void)stage, (void)state, (void)item, (void)err;
    return STATUS_OK;
}

static const struct stage_descriptor thinker = {
    .name = "thinker",
    .summary = "computes by itself",
    .in = "micrograph",
    .out = "",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .cumulative = true,
    .resume = remember_nothing,
    .idle = think_idly,
    .flush = think_at_the_end,
};

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: relay source|relay|thinker OPTIONS\n", stderr);
        return 2;
    }
    const struct stage_descriptor *const stages[] = {&source, &relay, &thinker};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (strcmp(argv[1], stages[i]->name) == 0) return stage_main(stages[i], argc - 1, argv + 1);
    fprintf(stderr, "relay: there is no stage %s\n", argv[1]);
    return 2;
}
