#include "common/edges/ledger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_private.h"
#include "common/memory.h"

const char *ledger_state_name(enum ledger_state state) {
    static const char *const names[] = {"in_flight", "done", "rejected", "failed"};
    return state <= LEDGER_FAILED ? names[state] : "unknown";
}

void ledger_hold(struct ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    ledger->depth++;
}

void ledger_let_go(struct ledger *ledger) {
    ledger->depth--;
    pthread_mutex_unlock(&ledger->lock);
}

int ledger_leave(struct ledger *ledger) {
    int depth = ledger->depth;
    for (int i = 0; i < depth; i++)
        ledger_let_go(ledger);
    return depth;
}

void ledger_come_back(struct ledger *ledger, int depth) {
    for (int i = 0; i < depth; i++)
        ledger_hold(ledger);
}

void ledger_on_wait(struct ledger *ledger, ledger_waits *waits, void *context) {
    ledger_hold(ledger);
    ledger->waits = waits;
    ledger->waits_context = context;
    ledger_let_go(ledger);
}

enum status ledger_exists(const char *path, bool *ret_exists, struct err *err) {
    if (ledger_is_address(path)) return ledger_server_exists(path, ret_exists, err);
    *ret_exists = file_exists(path);
    return STATUS_OK;
}

pid_t ledger_writer(const char *path) {
    return ledger_is_address(path) ? ledger_server_writer(path) : ledger_sqlite_writer(path);
}

enum status ledger_open_patient(const char *path, const char *stage, bool read_only, double patience,
                                struct ledger **ret_ledger, struct err *err) {
    struct ledger *ledger = calloc(1, sizeof *ledger);
    FAIL_IF(ledger == NULL, err, STATUS_NO_MEMORY, "no memory for a ledger");
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&ledger->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    ledger->path = strdup(path);
    ledger->read_only = read_only;
    ledger->copy.descriptor = -1;
    ledger->patience = patience;
    enum status status = STATUS_OK;
    if (ledger->path == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a ledger");
    else
        status = ledger_is_address(path) ? ledger_server_open(ledger, err) : ledger_sqlite_open(ledger, stage, err);
    if (status != STATUS_OK) {
        ledger_close(&ledger);
        return status;
    }
    *ret_ledger = ledger;
    return STATUS_OK;
}

enum status ledger_open(const char *path, const char *stage, bool read_only, struct ledger **ret_ledger,
                        struct err *err) {
    return ledger_open_patient(path, stage, read_only, LEDGER_PATIENCE, ret_ledger, err);
}

struct ledger *ledger_reading(struct ledger *ledger) {
    struct ledger *reader = atomic_load(&ledger->reader);
    if (ledger->server != NULL) return ledger;
    if (reader != NULL || ledger->read_only || strcmp(ledger->path, ":memory:") == 0) return reader ? reader : ledger;
    ledger_hold(ledger);
    reader = atomic_load(&ledger->reader);
    if (reader == NULL && ledger_open_patient(ledger->path, NULL, true, ledger->patience, &reader, NULL) == STATUS_OK)
        atomic_store(&ledger->reader, reader);
    ledger_let_go(ledger);
    return reader != NULL ? reader : ledger;
}

void ledger_close(struct ledger **ledger) {
    if (*ledger == NULL) return;
    struct ledger *reader = atomic_load(&(*ledger)->reader);
    ledger_close(&reader);
    for (int i = 0; i < SQL_COUNT; i++)
        sql_finalize((*ledger)->statements[i]);
    if ((*ledger)->driver != NULL) (*ledger)->driver->close(*ledger);
    ledger_copy_close(*ledger);
    pthread_mutex_destroy(&(*ledger)->lock);
    free((*ledger)->path);
    mem_free(ledger);
}

static enum status count_all(struct ledger *ledger, struct ledger_counts *counts, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_COUNTS, &statement, err));
    bool row;
    for (;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) break;
        int64_t count = sql_int(statement, 1);
        switch ((int)sql_int(statement, 0)) {
        case LEDGER_IN_FLIGHT:
            counts->in_flight = count;
            break;
        case LEDGER_DONE:
            counts->done = count;
            break;
        case LEDGER_REJECTED:
            counts->rejected = count;
            break;
        case LEDGER_FAILED:
            counts->failed = count;
            break;
        default:
            break;
        }
        counts->seen += count;
    }
    TRY(ledger_prepare(ledger, SQL_OUTBOX_COUNTS, &statement, err));
    TRY(ledger_step(ledger, statement, &row, err));
    counts->outbox = sql_int(statement, 0);
    counts->outbox_unacknowledged = sql_int(statement, 1);
    sql_reset(statement);
    return STATUS_OK;
}

enum status ledger_counts(struct ledger *ledger, struct ledger_counts *ret_counts, struct err *err) {
    struct ledger_counts counts = {0};
    ledger_hold(ledger);
    enum status status = count_all(ledger, &counts, err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_counts = counts;
    return status;
}
