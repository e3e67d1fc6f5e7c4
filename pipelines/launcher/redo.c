/* `icestream redo`: makes items again with the present parameters. Their sender sends them in a later revision, which
 * replaces the earlier one in the stage and in all stages behind it. In a session that runs, new items go first: redo
 * waits until nothing is on its way to the stage, and then sends a few. */
#include "pipelines/launcher/redo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/status.h"
#include "pipelines/launcher/tally.h"

static const double look_pause = 0.2, CHANGE_PATIENCE = 120; /* s */

struct redo {
    const struct session *session;
    const struct redo_request *request;
    const json_t *plan;
    int again; /* as in ledger_send_revised */
    struct redo_outcome outcome;
};

static json_t *planned_of(const json_t *plan, const char *name) {
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        if (strcmp(json_string_value(json_object_get(stage, "name")), name) == 0) return stage;
    }
    return NULL;
}

/* The plan of an earlier version says nothing of revisions. icestream's own stages take them. */
static bool takes_revisions(const json_t *planned) {
    const json_t *said = json_object_get(planned, "revisions");
    return said != NULL ? json_is_true(said) : session_keeps_ledger(planned);
}

/* Later than any revision of the item that some stage has seen, or will see. */
static enum status next_revision(const struct redo *redo, struct ledger_key key, int64_t *ret_revision,
                                 struct err *err) {
    size_t i;
    json_t *stage;
    int64_t latest = 0;
    json_array_foreach(json_object_get(redo->plan, "stages"), i, stage) {
        struct ledger *ledger = NULL;
        int64_t revision = 0;
        TRY(session_ledger(redo->session, json_string_value(json_object_get(stage, "name")), true, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_latest_revision(ledger, key, &revision, err);
        ledger_close(&ledger);
        TRY(status);
        if (revision > latest) latest = revision;
    }
    *ret_revision = latest + 1;
    return STATUS_OK;
}

/* Counts what the senders of a stage have not had an answer to. */
static enum status count_waiting(const struct redo *redo, const json_t *planned, const char *suffix, int64_t *ret_count,
                                 struct err *err) {
    size_t i;
    json_t *from;
    *ret_count = 0;
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        struct ledger *ledger = NULL;
        int64_t count = 0;
        TRY(session_ledger(redo->session, json_string_value(from), true, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_waiting_for(ledger, suffix, &count, err);
        ledger_close(&ledger);
        TRY(status);
        *ret_count += count;
    }
    return STATUS_OK;
}

static enum status await_idle(const struct redo *redo, const json_t *planned, const char *suffix, struct err *err) {
    for (;;) {
        int64_t waiting = 0;
        if (!session_is_running(redo->session)) return STATUS_OK;
        TRY(count_waiting(redo, planned, suffix, &waiting, err));
        if (waiting == 0) return STATUS_OK;
        clock_pause(look_pause);
    }
}

/* Looks whether an item is on its way to a stage, or to one before it. Sent again now, the parcel of before would get the
 * later revision, and the stage would drop what is on its way as the earlier one. */
static enum status find_on_the_way(const struct redo *redo, const json_t *planned, struct ledger_key key,
                                   bool *ret_found, struct err *err) {
    size_t i;
    json_t *from;
    char suffix[128];
    snprintf(suffix, sizeof suffix, ">%s", json_string_value(json_object_get(planned, "name")));
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        struct ledger *ledger = NULL;
        const json_t *before = planned_of(redo->plan, json_string_value(from));
        TRY(session_ledger(redo->session, json_string_value(from), true, &ledger, err));
        if (ledger != NULL) {
            enum status status = ledger_awaits(ledger, suffix, key, ret_found, err);
            ledger_close(&ledger);
            TRY(status);
        }
        if (!*ret_found && before != NULL) TRY(find_on_the_way(redo, before, key, ret_found, err));
        if (*ret_found) return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status send_again(struct redo *redo, const json_t *planned, const char *suffix, struct ledger_key key,
                              bool *sent, struct err *err) {
    size_t i;
    json_t *from;
    int64_t revision = 0;
    TRY(next_revision(redo, key, &revision, err));
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        struct ledger *ledger = NULL;
        bool own = false;
        TRY(session_ledger(redo->session, json_string_value(from), false, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_send_revised(ledger, suffix, key, revision, redo->again, &own, err);
        ledger_close(&ledger);
        TRY(status);
        *sent = *sent || own;
    }
    return STATUS_OK;
}

/* Two redo at once would give an item the same revision in two stages, and one of them would be dropped. */
static enum status send_once(struct redo *redo, const json_t *planned, const char *suffix, struct ledger_key key,
                             bool *sent, struct err *err) {
    int lock = -1;
    bool on_the_way = false;
    TRY(changes_hold(redo->session, &lock, err));
    enum status status = find_on_the_way(redo, planned, key, &on_the_way, err);
    if (status == STATUS_OK && !on_the_way) status = send_again(redo, planned, suffix, key, sent, err);
    close(lock);
    return status;
}

/* A value that was set a moment ago may still be on its way to the stages. */
static enum status await_changes(const struct redo *redo, struct err *err) {
    double until = clock_monotonic() + (redo->request->wait ? CHANGE_PATIENCE : 0);
    for (;;) {
        json_t *changes = status_changes_json(redo->session, redo->plan), *change;
        int late = 0;
        size_t i;
        json_array_foreach(changes, i, change) {
            if (json_is_false(json_object_get(change, "in_force"))) late = (int)i + 1;
        }
        json_decref(changes);
        if (late == 0 || !session_is_running(redo->session)) return STATUS_OK;
        FAIL_IF(clock_monotonic() >= until, err, STATUS_BAD_STATE,
                "change %d is not in force yet (`icestream status --session %s` shows it); end the run, or try again "
                "later",
                late, redo->session->path);
        clock_pause(look_pause);
    }
}

/* Returns why the items of a stage cannot be made again, or NULL. */
static const char *obstacle(const struct redo *redo, const json_t *planned) {
    size_t i;
    json_t *from;
    if (json_array_size(json_object_get(planned, "from")) == 0)
        return "is a source: it takes a file that changes again by itself; name a stage behind it";
    if (json_is_true(json_object_get(planned, "left_out"))) return "is left out of this session";
    if (!takes_revisions(planned))
        return "does not take later revisions of items (its --describe does not say \"revisions\": true), so they "
               "cannot be made again";
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        if (!session_keeps_ledger(planned_of(redo->plan, json_string_value(from))))
            return "is fed by a program that keeps no ledger of icestream's, which cannot send items again";
    }
    return NULL;
}

/* Says which stages behind this one keep what they have. */
static void say_kept(const struct redo *redo, const char *name) {
    size_t i, k;
    json_t *stage, *from;
    json_array_foreach(json_object_get(redo->plan, "stages"), i, stage) {
        const char *behind = json_string_value(json_object_get(stage, "name"));
        json_array_foreach(json_object_get(stage, "from"), k, from) {
            if (strcmp(json_string_value(from), name) != 0) continue;
            if (!takes_revisions(stage))
                fprintf(redo->request->warnings,
                        "icestream: warning: %s does not take later revisions of items: it keeps what it has made of "
                        "the earlier ones\n",
                        behind);
            else
                say_kept(redo, behind);
        }
    }
}

static enum status redo_stage(struct redo *redo, const struct tally_stage *stage, const struct tally_choice *chosen,
                              struct err *err) {
    const json_t *planned = planned_of(redo->plan, stage->name);
    const char *why = obstacle(redo, planned);
    char suffix[128];
    int64_t total = 0;
    FAIL_IF(why != NULL, err, STATUS_BAD_ARGUMENT, "%s %s", stage->name, why);
    TRY(await_changes(redo, err));
    say_kept(redo, stage->name);
    snprintf(suffix, sizeof suffix, ">%s", stage->name);
    for (size_t i = 0; i < stage->item_count; i++) {
        const struct tally_item *item = &stage->items[i];
        bool sent = false;
        if (!tally_is_chosen(chosen, tally_key(item))) continue;
        if (item->state == LEDGER_FAILED) {
            redo->outcome.failed++;
            continue;
        }
        if (redo->request->wait && total % REDO_AT_ONCE == 0) TRY(await_idle(redo, planned, suffix, err));
        TRY(send_once(redo, planned, suffix, tally_key(item), &sent, err));
        total += sent;
        redo->outcome.on_their_way += !sent;
    }
    fprintf(redo->request->out, "%s: %lld item%s go%s through again\n", stage->name, (long long)total,
            total == 1 ? "" : "s", total == 1 ? "es" : "");
    redo->outcome.total += total;
    return STATUS_OK;
}

/* Returns whether a stage receives from sources alone. */
static bool is_first(const struct redo *redo, const char *name) {
    const json_t *planned = planned_of(redo->plan, name);
    size_t i;
    json_t *from;
    bool first =
        json_array_size(json_object_get(planned, "from")) > 0 && !json_is_true(json_object_get(planned, "left_out"));
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        const json_t *up = planned_of(redo->plan, json_string_value(from));
        first = first && json_array_size(json_object_get(up, "from")) == 0;
    }
    return first;
}

enum status redo_one(const struct session *session, const json_t *plan, const char *stage, struct ledger_key key,
                     int again, bool *ret_sent, struct err *err) {
    struct redo redo = {.session = session, .plan = plan, .again = again};
    char suffix[128];
    snprintf(suffix, sizeof suffix, ">%s", stage);
    *ret_sent = false;
    return send_once(&redo, planned_of(plan, stage), suffix, key, ret_sent, err);
}

bool redo_is_possible(const json_t *plan, const char *stage) {
    const struct redo redo = {.plan = plan};
    const json_t *planned = planned_of(plan, stage);
    return planned != NULL && obstacle(&redo, planned) == NULL;
}

enum status redo_waiting(const struct session *session, const json_t *plan, const char *stage, int64_t *ret_count,
                         struct err *err) {
    const struct redo redo = {.session = session, .plan = plan};
    char suffix[128];
    snprintf(suffix, sizeof suffix, ">%s", stage);
    return count_waiting(&redo, planned_of(plan, stage), suffix, ret_count, err);
}

static enum status redo_all(struct redo *redo, struct err *err) {
    const struct redo_request *request = redo->request;
    json_t *plan = NULL;
    struct tally tally = {0};
    struct tally_choice chosen = {0};
    FAIL_IF(
        !request->wait && (request->name_count == 0 || request->name_count > REDO_AT_ONCE), err, STATUS_BAD_ARGUMENT,
        "%zu items: here 1 to %d are made again at a time; `icestream redo --session %s` makes any number, and waits "
        "for idle moments of the stage",
        request->name_count, REDO_AT_ONCE, redo->session->path);
    TRY(session_read_plan(redo->session, &plan, err));
    redo->plan = plan;
    enum status status = tally_take(redo->session, redo->plan, TALLY_ITEMS, &tally, err);
    if (status == STATUS_OK && request->stage != NULL && tally_find(&tally, request->stage) == NULL)
        status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s has no stage %s", redo->session->path,
                         request->stage);
    if (status == STATUS_OK) status = tally_choose(&tally, request->names, request->name_count, &chosen, err);
    for (size_t i = 0; status == STATUS_OK && i < chosen.count; i++)
        if (chosen.items[i] == NULL)
            status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s: no stage of %s has seen such an item",
                             request->names[i], redo->session->path);
    for (size_t i = 0; status == STATUS_OK && i < tally.count; i++)
        if (request->stage != NULL ? strcmp(request->stage, tally.stages[i].name) == 0
                                   : is_first(redo, tally.stages[i].name))
            status = redo_stage(redo, &tally.stages[i], &chosen, err);
    tally_choice_clear(&chosen);
    tally_clear(&tally);
    json_decref(plan);
    return status;
}

enum status redo_items(const struct session *session, const struct redo_request *request,
                       struct redo_outcome *ret_outcome, struct err *err) {
    struct redo redo = {.session = session, .request = request};
    enum status status = redo_all(&redo, err);
    if (status == STATUS_OK) *ret_outcome = redo.outcome;
    return status;
}

/* In a session that does not run, what is on its way is made with the present parameters by the next run. */
static void report(const struct session *session, const struct redo_outcome *redo) {
    bool running = session_is_running(session), one = redo->on_their_way == 1;
    if (redo->on_their_way > 0)
        printf("%lld %s on %s way to the stage already%s\n", (long long)redo->on_their_way, one ? "is" : "are",
               one ? "its" : "their",
               !running ? ""
               : one    ? ": name it again once it is done"
                        : ": name them again once they are done");
    if (redo->failed > 0)
        printf("%lld failed, and `icestream retry --session %s` sends %s through again\n", (long long)redo->failed,
               session->path, redo->failed == 1 ? "it" : "them");
    if (redo->total + redo->on_their_way > 0 && !running) puts("run the session again to make them");
}

int command_redo(const struct options *options) {
    struct err err = {0};
    struct session session = {0};
    struct redo_outcome outcome = {0};
    const struct redo_request request = {.stage = options->stage,
                                         .names = options->words,
                                         .name_count = options->word_count,
                                         .wait = true,
                                         .out = stdout,
                                         .warnings = stderr};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = redo_items(&session, &request, &outcome, &err);
    if (status == STATUS_OK) report(&session, &outcome);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
