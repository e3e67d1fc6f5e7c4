/* `icestream retry`: puts items that failed, and on request those whose products are lost, back to be done again. */
#include "pipelines/launcher/retry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/status.h"
#include "pipelines/launcher/tally.h"

/* Makes the item's sender send it again; a source finds it anew. */
static enum status send_again(const struct session *session, const json_t *planned, const char *stage,
                              struct ledger_key key, struct err *err) {
    char suffix[128];
    snprintf(suffix, sizeof suffix, ">%s", stage);
    size_t i;
    json_t *up;
    json_array_foreach(json_object_get(planned, "from"), i, up) {
        struct ledger *ledger = NULL;
        TRY(session_ledger(session, json_string_value(up), false, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_withdraw(ledger, suffix, key, err);
        ledger_close(&ledger);
        TRY(status);
    }
    return STATUS_OK;
}

/* Returns whether an item has failed, or was left in flight by a retry that was cut short, so that nobody sends it. */
static bool needs_retry(const struct tally_item *item, bool running) {
    bool stranded =
        !running && item->own && item->input != TALLY_NOBODY && !item->waiting && item->state == LEDGER_IN_FLIGHT;
    return item->state == LEDGER_FAILED || stranded;
}

/* Items whose products are gone. The keys own their texts: the id, with the source behind it. */
struct lost {
    const struct session *session;
    const char *stage;
    FILE *out;
    struct ledger_key *keys;
    size_t count;
};

/* Returns whether a file that the item names below the stage's own folder is missing. */
static bool names_missing(const struct lost *lost, json_t *value) {
    const char *key, *text = json_string_value(value);
    size_t i, length = strlen(lost->stage);
    json_t *inner;
    char path[PATH_SIZE];
    if (text != NULL && strncmp(text, lost->stage, length) == 0 && text[length] == '/')
        return path_join(lost->session->path, text, path, sizeof path, NULL) == STATUS_OK && !file_exists(path);
    json_object_foreach(value, key, inner) if (names_missing(lost, inner)) return true;
    json_array_foreach(value, i, inner) if (names_missing(lost, inner)) return true;
    return false;
}

static enum status note_lost(const struct ledger_row *row, void *context, struct err *err) {
    struct lost *lost = context;
    json_t *item = json_loads(row->item_text, 0, NULL);
    bool missing = item != NULL && names_missing(lost, item);
    json_decref(item);
    if (!missing) return STATUS_OK;
    struct ledger_key *keys = realloc(lost->keys, (lost->count + 1) * sizeof *keys);
    FAIL_IF(keys == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", lost->stage);
    lost->keys = keys;
    size_t length = strlen(row->id) + 1;
    char *id = malloc(length + strlen(row->source) + 1);
    FAIL_IF(id == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", lost->stage);
    memcpy(id, row->id, length);
    strcpy(id + length, row->source);
    lost->keys[lost->count++] = (struct ledger_key){.source = id + length, .id = id};
    return STATUS_OK;
}

static enum status redo(const struct lost *lost, struct ledger_key key, const struct tally_stage *stage,
                        const json_t *planned, struct ledger *ledger, int64_t *total, struct err *err) {
    bool redone = false, whole = stage->several && key.source[0] != '\0';
    TRY(ledger_redo(ledger, key, &redone, err));
    if (!redone) return STATUS_OK;
    TRY(send_again(lost->session, planned, lost->stage, key, err));
    fprintf(lost->out, "%s: %s%s%s goes through again, since its products are gone\n", lost->stage,
            whole ? key.source : "", whole ? "/" : "", key.id);
    ++*total;
    return STATUS_OK;
}

static enum status redo_lost(const struct tally_choice *chosen, const struct session *session, const json_t *planned,
                             const struct tally_stage *stage, struct ledger *ledger, FILE *out, int64_t *total,
                             struct err *err) {
    struct lost lost = {.session = session, .stage = stage->name, .out = out};
    enum status status = ledger_each(ledger, LEDGER_DONE, note_lost, &lost, err);
    for (size_t i = 0; i < lost.count; i++) {
        if (status == STATUS_OK && tally_is_chosen(chosen, lost.keys[i]))
            status = redo(&lost, lost.keys[i], stage, planned, ledger, total, err);
        free((char *)lost.keys[i].id);
    }
    free(lost.keys);
    return status;
}

static enum status retry_stage(const struct retry_request *request, const struct tally_choice *chosen,
                               const struct session *session, const json_t *planned, const struct tally_stage *stage,
                               bool running, int64_t *total, struct err *err) {
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, stage->name, false, &ledger, err));
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < stage->item_count; i++) {
        const struct tally_item *item = &stage->items[i];
        const struct ledger_key key = tally_key(item);
        if (!needs_retry(item, running) || !tally_is_chosen(chosen, key)) continue;
        /* The stage's own ledger comes first: an item that arrived while the ledger still says "failed" would be
         * acknowledged without being processed. */
        int64_t count = 0;
        if (ledger != NULL) status = ledger_retry(ledger, &key, &count, err);
        if (status == STATUS_OK) status = send_again(session, planned, stage->name, key, err);
        if (status == STATUS_OK) {
            fprintf(request->out, "%s: %s goes through again\n", stage->name, item->name);
            ++*total;
        }
    }
    if (status == STATUS_OK && request->lost && ledger != NULL)
        status = redo_lost(chosen, session, planned, stage, ledger, request->out, total, err);
    ledger_close(&ledger);
    return status;
}

enum status retry_items(const struct session *session, const struct retry_request *request,
                        struct retry_outcome *outcome, struct err *err) {
    json_t *plan = NULL;
    struct tally tally = {0};
    struct tally_choice chosen = {0};
    *outcome = (struct retry_outcome){0};
    outcome->running = session_is_running(session);
    FAIL_IF(outcome->running && request->lost, err, STATUS_BAD_STATE,
            "%s is running: end it (Ctrl-C) before its lost products are made again", session->path);
    TRY(session_read_plan(session, &plan, err));
    enum status status = tally_take(session, plan, TALLY_ITEMS, &tally, err);
    if (status == STATUS_OK && request->stage != NULL && tally_find(&tally, request->stage) == NULL)
        status =
            err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s has no stage %s", session->path, request->stage);
    /* A name that no item has is reported at the end, as one that has not failed. */
    if (status == STATUS_OK) status = tally_choose(&tally, request->names, request->name_count, &chosen, err);
    for (size_t i = 0; status == STATUS_OK && i < tally.count; i++)
        if (request->stage == NULL || strcmp(request->stage, tally.stages[i].name) == 0)
            status = retry_stage(request, &chosen, session, json_array_get(json_object_get(plan, "stages"), i),
                                 &tally.stages[i], outcome->running, &outcome->total, err);
    if (status == STATUS_OK) tally_reconciles(&tally, outcome->miscount, sizeof outcome->miscount);
    tally_choice_clear(&chosen);
    tally_clear(&tally);
    json_decref(plan);
    return status;
}

int command_retry(const struct options *options) {
    struct err err = {0};
    struct session session = {0};
    struct retry_outcome outcome = {0};
    const struct retry_request request = {.stage = options->stage,
                                          .names = options->words,
                                          .name_count = options->word_count,
                                          .lost = options->lost,
                                          .out = stdout};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = retry_items(&session, &request, &outcome, &err);
    if (status == STATUS_OK && outcome.total == 0 && outcome.miscount[0] != '\0') {
        status_miscount(&session, outcome.miscount, stderr);
        return EXIT_COUNTS;
    }
    if (status == STATUS_OK && options->word_count > (size_t)outcome.total)
        status = err_set(&err, STATUS_NOT_FOUND, __FILE__, __LINE__,
                         "%lld of the %zu items named have failed (status --json lists them by name)",
                         (long long)outcome.total, options->word_count);
    if (status == STATUS_OK && outcome.total == 0)
        puts(options->lost ? "nothing has failed, and nothing is lost" : "nothing has failed");
    else if (status == STATUS_OK && !outcome.running)
        puts("run the session again to send them through");
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
