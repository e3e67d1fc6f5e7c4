/* Runs a stage in process, for tests: without sockets, signals or sleeps. */
#include <stdlib.h>
#include <string.h>

#include "common/harness/stage_private.h"
#include "common/memory.h"

void stage_items_free(struct item **items, size_t count) {
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
    free(items);
}

void stage_results_clear(struct stage_results *results) {
    stage_items_free(results->emitted, results->emitted_count);
    for (size_t i = 0; i < results->outcome_count; i++) {
        free(results->outcomes[i].source);
        free(results->outcomes[i].id);
        free(results->outcomes[i].reason);
    }
    free(results->outcomes);
    *results = (struct stage_results){0};
}

/* Passes copies of the items through the stage: tests keep theirs. */
static enum status run_copies(struct stage *stage, struct item *const *items, size_t count, struct err *err) {
    struct item **copies = NULL;
    enum status status = mem_new(count + 1, sizeof *copies, "items", &copies, err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = item_clone(items[i], &copies[i], err);
    if (status == STATUS_OK) status = stage_run_items(stage, copies, count, err);
    if (copies != NULL) stage_items_free(copies, count);
    return status;
}

static enum status run(struct stage *stage, const char *folder, const char *ledger_path, const char *const *key_values,
                       struct item *const *items, size_t item_count, struct err *err) {
    char place[PATH_SIZE];
    TRY(path_join(folder, stage->name, place, sizeof place, err));
    TRY(stage_place(stage, place, err));
    for (size_t i = 0; key_values != NULL && key_values[i] != NULL; i += 2) {
        FAIL_IF(key_values[i + 1] == NULL, err, STATUS_BAD_ARGUMENT, "the parameter %s has no value", key_values[i]);
        TRY(stage_set(stage, key_values[i], key_values[i + 1], "parameters", err));
    }
    TRY(stage_configure(stage, "parameters", err));
    TRY(log_open(NULL, stage->name, LOG_WARN, &stage->log, err));
    TRY(ledger_open(ledger_path, stage->name, false, &stage->ledger, err));
    TRY(stage_begin(stage, err));
    return run_copies(stage, items, item_count, err);
}

enum status stage_run_results(const struct stage_descriptor *descriptor, const char *folder, const char *ledger_path,
                              const char *const *key_values, struct item *const *items, size_t item_count,
                              struct stage_results *ret_results, struct err *err) {
    struct stage *stage = NULL;
    TRY(stage_create(descriptor, &stage, err));
    struct stage_results results = {0};
    stage->mode = STAGE_IN_PROCESS;
    stage->results = &results;
    enum status status = run(stage, folder, ledger_path, key_values, items, item_count, err);
    stage_destroy(&stage);
    if (status != STATUS_OK) {
        stage_results_clear(&results);
        return status;
    }
    *ret_results = results;
    return STATUS_OK;
}

enum status stage_run_in_process(const struct stage_descriptor *descriptor, const char *folder,
                                 const char *const *key_values, struct item *const *items, size_t item_count,
                                 struct item ***ret_items, size_t *ret_count, struct err *err) {
    struct stage_results results = {0};
    TRY(stage_run_results(descriptor, folder, ":memory:", key_values, items, item_count, &results, err));
    *ret_items = results.emitted;
    *ret_count = results.emitted_count;
    results.emitted = NULL;
    results.emitted_count = 0;
    stage_results_clear(&results);
    return STATUS_OK;
}
