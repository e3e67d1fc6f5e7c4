/* Items in the ledger: claims, finishes, sets aside and retries them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"
#include "common/memory.h"

static enum status print_item(const struct item *item, char **ret_text, struct err *err) {
    char *text = item_print(item);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory to write down the item %.200s", item_id(item));
    *ret_text = text;
    return STATUS_OK;
}

struct insertion {
    const struct item *item;
    const char *text; /* the item, printed */
    enum ledger_state state;
    const char *reason;
    int instance;
    const char *token;
};

static enum status insert_item(struct ledger *ledger, const struct insertion *what, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_INSERT_ITEM, &statement, err));
    ledger_bind_key(statement, item_key(what->item));
    sql_bind_int(statement, 3, (int)what->state);
    sql_bind_text(statement, 4, what->reason);
    sql_bind_int(statement, 5, what->instance);
    sql_bind_text(statement, 6, what->token);
    sql_bind_text(statement, 7, what->text);
    sql_bind_now(statement, 8);
    sql_bind_int(statement, 9, item_revision(what->item));
    return ledger_run(ledger, statement, err);
}

/* Puts a later revision of an item in the place of the earlier one. */
static enum status replace_item(struct ledger *ledger, int64_t number, const struct insertion *what, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_REPLACE_ITEM, &statement, err));
    sql_bind_int(statement, 1, number);
    sql_bind_int(statement, 2, (int)what->state);
    sql_bind_text(statement, 3, what->reason);
    sql_bind_text(statement, 4, what->text);
    sql_bind_int(statement, 5, item_revision(what->item));
    sql_bind_now(statement, 6);
    return ledger_run(ledger, statement, err);
}

enum { BATCH = 128 }; /* items that are looked for at once */

struct found {
    bool known, same_token;
    bool later_life; /* a later incarnation than the one that asks has it */
    enum ledger_state state;
    int instance;
    int64_t number, revision;
    char source[ITEM_SOURCE_SIZE];
};

void ledger_life_print(int64_t life, char text[LEDGER_LIFE_SIZE]) {
    snprintf(text, LEDGER_LIFE_SIZE, "L%013llx-", (unsigned long long)life & 0xfffffffffffff);
}

static bool has_life(const char *token) {
    return token[0] == 'L' && strlen(token) >= LEDGER_LIFE_SIZE - 1 && token[LEDGER_LIFE_SIZE - 2] == '-';
}

static bool is_later_life(const char *token, const char *than) {
    return has_life(token) && has_life(than) && strncmp(token, than, LEDGER_LIFE_SIZE - 1) > 0;
}

/* Takes what FIND_ITEM, or a look ahead, has found: number, state, instance, token, source, revision from `column`. */
static struct found take_found(struct sql_statement *statement, int column, const char *token) {
    struct found found = {.known = true};
    found.number = sql_int(statement, column);
    found.state = (enum ledger_state)sql_int(statement, column + 1);
    found.instance = (int)sql_int(statement, column + 2);
    const char *held = sql_text(statement, column + 3);
    found.same_token = held != NULL && token != NULL && strcmp(held, token) == 0;
    found.later_life = held != NULL && token != NULL && is_later_life(held, token);
    const char *source = sql_text(statement, column + 4);
    snprintf(found.source, sizeof found.source, "%s", source != NULL ? source : "");
    found.revision = sql_int(statement, column + 5);
    return found;
}

static enum status find(struct ledger *ledger, struct ledger_key key, const char *token, struct found *ret_found,
                        struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_FIND_ITEM, &statement, err));
    ledger_bind_key(statement, key);
    struct found found = {0};
    TRY(ledger_step(ledger, statement, &found.known, err));
    if (found.known) {
        found = take_found(statement, 0, token);
        sql_reset(statement);
    }
    *ret_found = found;
    return STATUS_OK;
}

/* ---- A look ahead: to ask a server for each item by itself takes longer than all the rest ---- */

/* Appends a text to an array of PostgreSQL, {"a","b"}. */
static void put_element(FILE *array, const char *text) {
    fputs(ftell(array) > 1 ? ",\"" : "\"", array);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', array);
        fputc(*text, array);
    }
    fputc('"', array);
}

/* Returns what a look ahead has found of an item; NULL: it must be asked for. That is so for an item that stands twice in
 * a batch, when its turn comes again. */
static const struct found *found_ahead(const struct found *ahead, const struct item *const *items, size_t index) {
    for (size_t i = 0; ahead != NULL && i < index; i++)
        if (strcmp(item_id(items[i]), item_id(items[index])) == 0) return NULL;
    return ahead != NULL ? &ahead[index] : NULL;
}

static enum status take_ahead(struct ledger *ledger, const char *sources, const char *ids, const char *token,
                              struct found *founds, size_t count, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_FIND_ITEMS, &statement, err));
    sql_bind_text(statement, 1, sources);
    sql_bind_text(statement, 2, ids);
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        int64_t place = sql_int(statement, 0);
        if (place >= 1 && (size_t)place <= count) founds[place - 1] = take_found(statement, 1, token);
    }
}

/* Finds all items of a batch at once. *ret_founds: NULL where each is better asked for by itself; the caller frees
 * it. */
static enum status look_ahead(struct ledger *ledger, const struct item *const *items, size_t count, const char *token,
                              struct found **ret_founds, struct err *err) {
    char *texts[2] = {NULL, NULL};
    size_t length;
    *ret_founds = NULL;
    if (ledger->server == NULL || count < 2) return STATUS_OK;
    struct found *founds = calloc(count, sizeof *founds);
    FILE *arrays[2] = {open_memstream(&texts[0], &length), open_memstream(&texts[1], &length)};
    bool well = founds != NULL && arrays[0] != NULL && arrays[1] != NULL;
    for (int k = 0; k < 2; k++) {
        if (arrays[k] == NULL) continue;
        fputc('{', arrays[k]);
        for (size_t i = 0; i < count; i++)
            put_element(arrays[k], k == 0 ? item_source(items[i]) : item_id(items[i]));
        fputc('}', arrays[k]);
        well = !ferror(arrays[k]) && well;
        well = fclose(arrays[k]) == 0 && well;
    }
    enum status status = STATUS_NO_MEMORY;
    if (well)
        status = take_ahead(ledger, texts[0], texts[1], token, founds, count, err);
    else
        err_set(err, status, __FILE__, __LINE__, "no memory to look for items");
    free(texts[0]);
    free(texts[1]);
    if (status == STATUS_OK)
        *ret_founds = founds;
    else
        free(founds);
    return status;
}

/* An item of an earlier version of the ledger has no source until its sender tells it. A sender that does not know the
 * source takes that of the ledger. */
static enum status settle_source(struct ledger *ledger, struct ledger_arrival *arrival, const struct found *found,
                                 struct err *err) {
    const char *told = item_source(arrival->item);
    snprintf(arrival->source, sizeof arrival->source, "%s", *told != '\0' ? told : found->source);
    if (!found->known || strcmp(arrival->source, found->source) == 0) return STATUS_OK;
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_NAME_SOURCE, &statement, err));
    sql_bind_int(statement, 1, found->number);
    sql_bind_text(statement, 2, arrival->source);
    return ledger_run(ledger, statement, err);
}

/* ahead: what was found; NULL: asks. */
static enum status claim(struct ledger *ledger, struct ledger_arrival *arrival, const struct found *ahead, int instance,
                         const char *token, struct err *err) {
    struct found found = {0};
    if (ahead != NULL)
        found = *ahead;
    else
        TRY(find(ledger, item_key(arrival->item), token, &found, err));
    TRY(settle_source(ledger, arrival, &found, err));
    const int64_t revision = item_revision(arrival->item);
    const bool later = found.known && revision > found.revision, earlier = found.known && revision < found.revision;
    arrival->state = found.known ? found.state : LEDGER_IN_FLIGHT;
    if (earlier || (arrival->state != LEDGER_IN_FLIGHT && !later)) {
        if (arrival->state == LEDGER_IN_FLIGHT) arrival->state = LEDGER_DONE;
        arrival->claim = CLAIM_FINISHED;
        return STATUS_OK;
    }
    /* If the claim is of an earlier incarnation of this instance, that incarnation is dead, or its host is lost;
     * otherwise this one would not live. */
    bool abandoned = found.instance < 0 || (found.instance == instance && !found.same_token && !found.later_life);
    if (found.known && arrival->state == LEDGER_IN_FLIGHT && !abandoned) {
        /* A later revision waits until the earlier one is finished: two at once would write the same products. */
        arrival->claim = found.instance == instance && found.same_token && !later ? CLAIM_HERE : CLAIM_ELSEWHERE;
        return STATUS_OK;
    }
    arrival->claim = found.known ? CLAIM_AGAIN : CLAIM_NEW;
    arrival->replaces = later && (arrival->state == LEDGER_DONE || found.instance == LEDGER_TOGETHER);
    _cleanup_(mem_free) char *text = NULL;
    TRY(print_item(arrival->item, &text, err));
    const struct insertion first = {arrival->item, text, LEDGER_IN_FLIGHT, NULL, instance, token};
    if (!found.known) return insert_item(ledger, &first, err);
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_CLAIM_ITEM, &statement, err));
    sql_bind_int(statement, 1, found.number);
    sql_bind_int(statement, 2, instance);
    sql_bind_text(statement, 3, token);
    sql_bind_text(statement, 4, text);
    sql_bind_now(statement, 5);
    sql_bind_text(statement, 6, arrival->source);
    sql_bind_int(statement, 7, revision);
    return ledger_run(ledger, statement, err);
}

static enum status claim_all(struct ledger *ledger, struct ledger_arrival *arrivals, size_t count, int instance,
                             const char *token, struct err *err) {
    _cleanup_(mem_free) struct found *ahead = NULL;
    const struct item *items[BATCH];
    for (size_t at = 0; at < count; at += BATCH) {
        size_t some = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < some; i++)
            items[i] = arrivals[at + i].item;
        TRY(look_ahead(ledger, items, some, token, &ahead, err));
        for (size_t i = 0; i < some; i++)
            TRY(claim(ledger, &arrivals[at + i], found_ahead(ahead, items, i), instance, token, err));
        mem_free(&ahead);
    }
    return STATUS_OK;
}

enum status ledger_claim_items(struct ledger *ledger, struct ledger_arrival *arrivals, size_t count, int instance,
                               const char *run_token, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK)
        status = ledger_end(ledger, claim_all(ledger, arrivals, count, instance, run_token, err), err);
    ledger_let_go(ledger);
    return status;
}

enum status ledger_claim_item(struct ledger *ledger, const struct item *item, int instance, const char *run_token,
                              enum ledger_claim *ret_claim, struct err *err) {
    struct ledger_arrival arrival = {.item = item};
    TRY(ledger_claim_items(ledger, &arrival, 1, instance, run_token, err));
    *ret_claim = arrival.claim;
    return STATUS_OK;
}

/* life: what the tokens of the claims come before; NULL: all. */
static enum status release(struct ledger *ledger, int instance, const char *life, struct err *err) {
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    enum status status = ledger_begin(ledger, ledger->durable, err);
    if (status == STATUS_OK) {
        status = ledger_prepare(ledger, life != NULL ? SQL_RELEASE_EARLIER : SQL_RELEASE, &statement, err);
        if (status == STATUS_OK) sql_bind_int(statement, 1, instance);
        if (status == STATUS_OK && life != NULL) sql_bind_text(statement, 2, life);
        if (status == STATUS_OK) status = ledger_run(ledger, statement, err);
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    return status;
}

enum status ledger_release_instance(struct ledger *ledger, int instance, struct err *err) {
    return release(ledger, instance, NULL, err);
}

enum status ledger_release_earlier(struct ledger *ledger, int instance, int64_t life, struct err *err) {
    char text[LEDGER_LIFE_SIZE];
    ledger_life_print(life, text);
    return release(ledger, instance, text, err);
}

/* changes: 1 when the claim was still held; the caller settles it. */
static enum status mark_finished(struct ledger *ledger, const struct ledger_finish *what, const char *text,
                                 int64_t *ret_changes, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_FINISH_ITEM, &statement, err));
    ledger_bind_key(statement, what->key);
    sql_bind_int(statement, 3, (int)what->state);
    sql_bind_text(statement, 4, what->reason);
    sql_bind_text(statement, 5, text);
    sql_bind_now(statement, 6);
    sql_bind_int(statement, 7, what->instance);
    sql_bind_text(statement, 8, what->run_token);
    /* An instance that seemed to hang may hold the claim of a later revision while it still works on the earlier
     * one. */
    sql_bind_int(statement, 9, what->revision);
    return ledger->driver->run_counted(ledger, statement, ret_changes, err);
}

/* The items are marked first, all of them, so that a server answers once for all. count: at most BATCH. */
static enum status finish_some(struct ledger *ledger, const struct ledger_finish *what, size_t count, char **texts,
                               bool *ret_late, struct err *err) {
    int64_t changes[BATCH];
    for (size_t i = 0; i < count; i++) {
        if (what[i].item != NULL) TRY(print_item(what[i].item, &texts[i], err));
        TRY(mark_finished(ledger, &what[i], texts[i], &changes[i], err));
    }
    TRY(ledger->driver->settle(ledger, err));
    for (size_t i = 0; i < count; i++) {
        ret_late[i] = changes[i] != 1;
        if (ret_late[i]) continue;
        TRY(ledger_put_files(ledger, what[i].key, what[i].revision, what[i].files, what[i].file_count, err));
        TRY(ledger_post(ledger, what[i].sends, what[i].send_count, what[i].item, texts[i], err));
    }
    return STATUS_OK;
}

/* In a file each item is finished before the next one: its second copy then has what an item sends right behind the
 * item, without the item's text again, and where it was cut off, one item at most lacks what it sends. */
static enum status finish_all(struct ledger *ledger, const struct ledger_finish *what, size_t count, bool *ret_late,
                              struct err *err) {
    enum status status = STATUS_OK;
    const size_t most = ledger->server != NULL ? BATCH : 1;
    for (size_t at = 0; at < count && status == STATUS_OK; at += most) {
        char *texts[BATCH] = {NULL};
        size_t some = count - at < most ? count - at : most;
        status = finish_some(ledger, what + at, some, texts, ret_late + at, err);
        for (size_t i = 0; i < some; i++)
            free(texts[i]);
    }
    return status;
}

enum status ledger_finish_items(struct ledger *ledger, const struct ledger_finish *what, size_t count, bool *ret_late,
                                struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, finish_all(ledger, what, count, ret_late, err), err);
    ledger_let_go(ledger);
    return status;
}

/* Finds out whether this revision or a later one was sent before. */
static enum status posted(struct ledger *ledger, struct ledger_key key, int64_t revision, bool *ret_posted,
                          struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_POSTED, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_int(statement, 3, revision);
    TRY(ledger_step(ledger, statement, ret_posted, err));
    sql_reset(statement);
    return STATUS_OK;
}

static enum status forget(struct ledger *ledger, struct ledger_key key, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_RETRY_FORGET, &statement, err));
    ledger_bind_key(statement, key);
    return ledger_run(ledger, statement, err);
}

static enum status originate(struct ledger *ledger, const struct ledger_origin *what, const struct found *ahead,
                             bool *is_new, struct err *err) {
    struct found found = {0};
    if (ahead != NULL)
        found = *ahead;
    else
        TRY(find(ledger, item_key(what->item), NULL, &found, err));
    bool tried_again = found.known && found.instance == INSTANCE_ORIGIN && found.state == LEDGER_FAILED &&
                       what->state != LEDGER_FAILED;
    bool replaced = found.known && found.instance == INSTANCE_ORIGIN && item_revision(what->item) > found.revision;
    *is_new = !found.known || tried_again || replaced;
    if (!*is_new) return STATUS_OK;
    if (tried_again && !replaced) TRY(forget(ledger, item_key(what->item), err));
    _cleanup_(mem_free) char *text = NULL;
    TRY(print_item(what->item, &text, err));
    const struct insertion own = {what->item, text, what->state, what->reason, INSTANCE_ORIGIN, NULL};
    TRY(replaced ? replace_item(ledger, found.number, &own, err) : insert_item(ledger, &own, err));
    return ledger_post(ledger, what->sends, what->send_count, what->item, text, err);
}

static enum status originate_all(struct ledger *ledger, const struct ledger_origin *what, size_t count, bool *ret_new,
                                 struct err *err) {
    _cleanup_(mem_free) struct found *ahead = NULL;
    const struct item *items[BATCH];
    for (size_t at = 0; at < count; at += BATCH) {
        size_t some = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < some; i++)
            items[i] = what[at + i].item;
        TRY(look_ahead(ledger, items, some, NULL, &ahead, err));
        for (size_t i = 0; i < some; i++)
            TRY(originate(ledger, &what[at + i], found_ahead(ahead, items, i), &ret_new[at + i], err));
        mem_free(&ahead);
    }
    return STATUS_OK;
}

enum status ledger_originate_items(struct ledger *ledger, const struct ledger_origin *what, size_t count, bool *ret_new,
                                   struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, originate_all(ledger, what, count, ret_new, err), err);
    ledger_let_go(ledger);
    return status;
}

enum status ledger_originate(struct ledger *ledger, const struct item *item, enum ledger_state state,
                             const char *reason, const struct ledger_send *sends, size_t send_count, bool *ret_new,
                             struct err *err) {
    const struct ledger_origin what = {item, state, reason, sends, send_count};
    bool is_new = false;
    TRY(ledger_originate_items(ledger, &what, 1, &is_new, err));
    *ret_new = is_new;
    return STATUS_OK;
}

enum status ledger_send_only(struct ledger *ledger, struct ledger_key key, const struct ledger_send *sends,
                             size_t send_count, bool *ret_new, struct err *err) {
    ledger_hold(ledger);
    bool known = false;
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) {
        status = posted(ledger, key, send_count > 0 ? item_revision(sends[0].item) : 0, &known, err);
        if (status == STATUS_OK && !known) status = ledger_post(ledger, sends, send_count, NULL, NULL, err);
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_new = !known;
    return status;
}

enum status ledger_lookup(struct ledger *ledger, struct ledger_key key, bool *ret_known, enum ledger_state *ret_state,
                          struct err *err) {
    struct found found;
    ledger = ledger_reading(ledger);
    ledger_hold(ledger);
    enum status status = find(ledger, key, NULL, &found, err);
    ledger_let_go(ledger);
    TRY(status);
    *ret_known = found.known;
    if (found.known && ret_state != NULL) *ret_state = found.state;
    return STATUS_OK;
}

/* The reading connection is held. */
static enum status copy_text(struct ledger *ledger, struct ledger_key key, char **ret_text, struct err *err) {
    struct sql_statement *statement;
    bool known = false;
    TRY(ledger_prepare(ledger, SQL_ITEM_TEXT, &statement, err));
    ledger_bind_key(statement, key);
    TRY(ledger_step(ledger, statement, &known, err));
    const char *text = known ? sql_text(statement, 0) : NULL;
    *ret_text = text != NULL ? strdup(text) : NULL;
    bool failed = text != NULL && *ret_text == NULL;
    sql_reset(statement);
    FAIL_IF(failed, err, STATUS_NO_MEMORY, "no memory for the item %s", key.id);
    return STATUS_OK;
}

enum status ledger_item_text(struct ledger *ledger, struct ledger_key key, char **ret_text, struct err *err) {
    *ret_text = NULL;
    ledger = ledger_reading(ledger);
    ledger_hold(ledger);
    enum status status = copy_text(ledger, key, ret_text, err);
    ledger_let_go(ledger);
    return status;
}

enum status ledger_revision(struct ledger *ledger, struct ledger_key key, bool *ret_known, int64_t *ret_revision,
                            struct err *err) {
    struct found found;
    ledger = ledger_reading(ledger);
    ledger_hold(ledger);
    enum status status = find(ledger, key, NULL, &found, err);
    ledger_let_go(ledger);
    TRY(status);
    *ret_known = found.known;
    if (found.known) *ret_revision = found.revision;
    return STATUS_OK;
}

static enum status crashed(struct ledger *ledger, struct ledger_key key, int limit, const char *reason, bool *aside,
                           struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_CRASH_ITEM, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_now(statement, 3);
    TRY(ledger_run(ledger, statement, err));
    TRY(ledger_prepare(ledger, SQL_SET_ASIDE, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, reason);
    sql_bind_now(statement, 4);
    sql_bind_int(statement, 5, limit);
    TRY(ledger_run(ledger, statement, err));
    *aside = ledger_changes(ledger) > 0;
    return STATUS_OK;
}

enum status ledger_crashed(struct ledger *ledger, struct ledger_key key, int limit, const char *reason,
                           bool *ret_set_aside, struct err *err) {
    bool aside = false;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, crashed(ledger, key, limit, reason, &aside, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_set_aside = aside;
    return status;
}

static enum status retry(struct ledger *ledger, struct ledger_key key, int64_t *count, struct err *err) {
    static const enum ledger_statement steps[] = {SQL_RETRY_FORGET, SQL_RETRY_ITEMS};
    for (int i = 0; i < 2; i++) {
        struct sql_statement *statement = NULL;
        TRY(ledger_prepare(ledger, steps[i], &statement, err));
        ledger_bind_key(statement, key);
        if (steps[i] == SQL_RETRY_ITEMS) sql_bind_now(statement, 3);
        TRY(ledger_run(ledger, statement, err));
        *count += ledger_changes(ledger);
    }
    return STATUS_OK;
}

enum status ledger_retry(struct ledger *ledger, const struct ledger_key *key_or_null, int64_t *ret_count,
                         struct err *err) {
    int64_t count = 0;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK)
        status = ledger_end(
            ledger, retry(ledger, key_or_null != NULL ? *key_or_null : (struct ledger_key){0}, &count, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_count = count;
    return status;
}

/* A row with copies of its texts, so that no lock is held while the visitor looks at it. */
struct row_copy {
    int64_t number;
    struct ledger_row row;
    char *source, *id, *reason, *item_text;
};

static void row_clear(struct row_copy *copy) {
    free(copy->source);
    free(copy->id);
    free(copy->reason);
    free(copy->item_text);
    *copy = (struct row_copy){0};
}

static char *column_copy(struct sql_statement *statement, int column) {
    const char *text = sql_text(statement, column);
    return text != NULL ? strdup(text) : NULL;
}

static enum status next_row(struct ledger *ledger, int64_t after, int state, struct row_copy *copy, bool *found,
                            struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, state < 0 ? SQL_NEXT_ROW : SQL_NEXT_IN_STATE, &statement, err));
    sql_bind_int(statement, 1, after);
    if (state >= 0) sql_bind_int(statement, 2, state);
    TRY(ledger_step(ledger, statement, found, err));
    if (!*found) return STATUS_OK;
    copy->number = sql_int(statement, 0);
    copy->source = column_copy(statement, 1);
    copy->id = column_copy(statement, 2);
    copy->reason = column_copy(statement, 4);
    copy->item_text = column_copy(statement, 5);
    copy->row = (struct ledger_row){.source = copy->source,
                                    .id = copy->id,
                                    .revision = sql_int(statement, 3),
                                    .reason = copy->reason,
                                    .item_text = copy->item_text,
                                    .state = (enum ledger_state)sql_int(statement, 6),
                                    .attempts = (int)sql_int(statement, 7),
                                    .instance = (int)sql_int(statement, 8),
                                    .time_seen = sql_double(statement, 9),
                                    .time_changed = sql_double(statement, 10)};
    sql_reset(statement);
    FAIL_IF(copy->source == NULL || copy->id == NULL || copy->item_text == NULL, err, STATUS_NO_MEMORY,
            "no memory for a row of the ledger");
    return STATUS_OK;
}

enum status ledger_each(struct ledger *ledger, int state_or_minus_1, ledger_visit *visit, void *context,
                        struct err *err) {
    ledger = ledger_reading(ledger);
    for (int64_t after = 0;;) {
        struct row_copy copy = {0};
        bool found = false;
        ledger_hold(ledger);
        enum status status = next_row(ledger, after, state_or_minus_1, &copy, &found, err);
        ledger_let_go(ledger);
        after = copy.number;
        if (status == STATUS_OK && found) status = visit(&copy.row, context, err);
        row_clear(&copy);
        if (status != STATUS_OK || !found) return status;
    }
}
