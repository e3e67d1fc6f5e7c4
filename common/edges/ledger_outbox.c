/* Keeps what a stage sends until it is acknowledged, and which of its inputs have ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"
#include "common/memory.h"

static enum status post(struct ledger *ledger, const struct ledger_send *send, const char *text, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_POST, &statement, err));
    sql_bind_text(statement, 1, send->edge);
    sql_bind_text(statement, 2, item_source(send->item));
    sql_bind_text(statement, 3, item_id(send->item));
    sql_bind_text(statement, 4, text);
    sql_bind_now(statement, 5);
    return ledger_run(ledger, statement, err);
}

enum status ledger_post(struct ledger *ledger, const struct ledger_send *sends, size_t count,
                        const struct item *printed, const char *text, struct err *err) {
    _cleanup_(mem_free) char *own = NULL;
    for (size_t i = 0; i < count; i++) {
        if (sends[i].item != printed || text == NULL) {
            mem_free(&own);
            text = own = item_print(sends[i].item);
            printed = sends[i].item;
        }
        FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory to send the item %.200s", item_id(sends[i].item));
        TRY(post(ledger, &sends[i], text, err));
    }
    return STATUS_OK;
}

void ledger_parcel_clear(struct ledger_parcel *parcel) {
    mem_free(&parcel->id);
    mem_free(&parcel->item_text);
}

static enum status next_parcel(struct ledger *ledger, const char *edge, int64_t after, struct ledger_parcel *parcel,
                               bool *found, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_NEXT_PARCEL, &statement, err));
    sql_bind_text(statement, 1, edge);
    sql_bind_int(statement, 2, after);
    TRY(ledger_step(ledger, statement, found, err));
    if (!*found) return STATUS_OK;
    parcel->seq = sql_int(statement, 0);
    parcel->id = strdup(sql_text(statement, 1));
    parcel->item_text = strdup(sql_text(statement, 2));
    sql_reset(statement);
    FAIL_IF(parcel->id == NULL || parcel->item_text == NULL, err, STATUS_NO_MEMORY, "no memory for a parcel");
    return STATUS_OK;
}

enum status ledger_next_parcel(struct ledger *ledger, const char *edge, int64_t after, struct ledger_parcel *ret_parcel,
                               bool *ret_found, struct err *err) {
    struct ledger_parcel parcel = {0};
    bool found = false;
    ledger_hold(ledger);
    enum status status = next_parcel(ledger, edge, after, &parcel, &found, err);
    ledger_let_go(ledger);
    if (status != STATUS_OK) {
        ledger_parcel_clear(&parcel);
        return status;
    }
    *ret_parcel = parcel;
    *ret_found = found;
    return STATUS_OK;
}

struct waiting_walk {
    const char *edge;
    int64_t after;
    ledger_waiting_visit *visit;
    void *context;
};

/* Visits what the statement gives. ret_more: the visitor has not had enough, and there may be more. */
static enum status visit_waiting(struct ledger *ledger, struct sql_statement *statement, struct waiting_walk *walk,
                                 bool *ret_more, struct err *err) {
    bool row, stop = false;
    int rows = 0;
    sql_bind_text(statement, 1, walk->edge);
    sql_bind_int(statement, 2, walk->after);
    *ret_more = false;
    while (!stop) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) break;
        const struct ledger_waiting parcel = {sql_int(statement, 0), sql_text(statement, 2)};
        FAIL_IF(parcel.item_text == NULL, err, STATUS_NO_MEMORY, "no memory for a parcel");
        walk->after = parcel.seq;
        rows++;
        TRY(walk->visit(&parcel, walk->context, &stop, err));
    }
    *ret_more = !stop && ledger->server != NULL && rows == LEDGER_WAITING_ROWS;
    return STATUS_OK;
}

static enum status walk_waiting(struct ledger *ledger, struct waiting_walk *walk, struct err *err) {
    for (bool more = true; more;) {
        struct sql_statement *statement = NULL;
        TRY(ledger_prepare(ledger, SQL_EACH_WAITING, &statement, err));
        enum status status = visit_waiting(ledger, statement, walk, &more, err);
        sql_reset(statement);
        TRY(status);
    }
    return STATUS_OK;
}

enum status ledger_each_waiting(struct ledger *ledger, const char *edge, int64_t after, ledger_waiting_visit *visit,
                                void *context, struct err *err) {
    struct waiting_walk walk = {edge, after, visit, context};
    ledger_hold(ledger);
    enum status status = walk_waiting(ledger, &walk, err);
    ledger_let_go(ledger);
    return status;
}

/* Ends, like acknowledgements, need not survive a power cut: an item that is then not struck off is sent again and
 * acknowledged again, and each run announces its ends anew. */
static enum status end_edge(struct ledger *ledger, const char *edge, int run, struct err *err) {
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) {
        status = ledger_prepare(ledger, SQL_END_INPUT, &statement, err);
        if (status == STATUS_OK) {
            sql_bind_text(statement, 1, edge);
            sql_bind_int(statement, 2, run);
            status = ledger_run(ledger, statement, err);
        }
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    return status;
}

static enum status strike_off(struct ledger *ledger, const char *edge, const struct ledger_verdict *verdict,
                              struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_ACKNOWLEDGE, &statement, err));
    sql_bind_text(statement, 1, edge);
    sql_bind_int(statement, 2, verdict->seq);
    sql_bind_now(statement, 3);
    sql_bind_text(statement, 4, verdict->verdict);
    return ledger_run(ledger, statement, err);
}

enum status ledger_acknowledge_all(struct ledger *ledger, const char *edge, const struct ledger_verdict *verdicts,
                                   size_t count, int64_t *ret_first, struct err *err) {
    int64_t first = 0;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) {
        int64_t before = ledger_total_changes(ledger);
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = strike_off(ledger, edge, &verdicts[i], err);
        first = ledger_total_changes(ledger) - before;
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_first = first;
    return status;
}

enum status ledger_is_acknowledged(struct ledger *ledger, const char *edge, int64_t seq, bool *ret_is,
                                   struct err *err) {
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    bool is = false;
    enum status status = ledger_prepare(ledger, SQL_ACKNOWLEDGED, &statement, err);
    if (status == STATUS_OK) {
        sql_bind_text(statement, 1, edge);
        sql_bind_int(statement, 2, seq);
        status = ledger_step(ledger, statement, &is, err);
        sql_reset(statement);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_is = is;
    return status;
}

static enum status count(struct ledger *ledger, struct sql_statement *statement, int64_t *ret_count, struct err *err) {
    bool row;
    TRY(ledger_step(ledger, statement, &row, err));
    *ret_count = sql_int(statement, 0);
    sql_reset(statement);
    return STATUS_OK;
}

enum status ledger_unacknowledged(struct ledger *ledger, const char *edge, int64_t *ret_count, struct err *err) {
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    enum status status = ledger_prepare(ledger, SQL_UNACKNOWLEDGED, &statement, err);
    if (status == STATUS_OK) {
        sql_bind_text(statement, 1, edge);
        status = count(ledger, statement, ret_count, err);
    }
    ledger_let_go(ledger);
    return status;
}

/* The new rows have consecutive numbers: the connection that writes is the only one that does. */
static enum status withdraw(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_POST_AGAIN, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, edge_suffix);
    sql_bind_now(statement, 4);
    TRY(ledger_run(ledger, statement, err));
    int64_t last_before = ledger_last_number(ledger) - ledger_changes(ledger);
    if (ledger_changes(ledger) == 0) return STATUS_OK;
    TRY(ledger_prepare(ledger, SQL_WITHDRAW, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, edge_suffix);
    sql_bind_int(statement, 4, last_before);
    return ledger_run(ledger, statement, err);
}

enum status ledger_withdraw(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, withdraw(ledger, edge_suffix, key, err), err);
    ledger_let_go(ledger);
    return status;
}

enum status ledger_end_input(struct ledger *ledger, const char *edge, int run, struct err *err) {
    return end_edge(ledger, edge, run, err);
}

enum status ledger_ended_inputs(struct ledger *ledger, int run, int *ret_count, struct err *err) {
    int64_t ended = 0;
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    enum status status = ledger_prepare(ledger, SQL_ENDED_INPUTS, &statement, err);
    if (status == STATUS_OK) {
        sql_bind_int(statement, 1, run);
        status = count(ledger, statement, &ended, err);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_count = (int)ended;
    return status;
}

enum status ledger_end_output(struct ledger *ledger, int instance, int run, struct err *err) {
    char name[32];
    snprintf(name, sizeof name, "out %d", instance);
    return end_edge(ledger, name, run, err);
}

enum status ledger_output_ended(struct ledger *ledger, int instance, int run, bool *ret_ended, struct err *err) {
    char name[32];
    snprintf(name, sizeof name, "out %d", instance);
    bool ended = false;
    ledger_hold(ledger);
    struct sql_statement *statement = NULL;
    enum status status = ledger_prepare(ledger, SQL_OUTPUT_ENDED, &statement, err);
    if (status == STATUS_OK) {
        sql_bind_text(statement, 1, name);
        sql_bind_int(statement, 2, run);
        status = ledger_step(ledger, statement, &ended, err);
        sql_reset(statement);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_ended = ended;
    return status;
}
