/* The session's random id, by which its ledgers know it. It lies in log/plan.json, and in each ledger. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "pipelines/launcher/session.h"

static enum status make_id(char id[SESSION_ID_SIZE], struct err *err) {
    unsigned char bytes[(SESSION_ID_SIZE - 1) / 2];
    FAIL_IF(getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes, err, STATUS_IO, "no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

void session_take_id(struct session *session, const json_t *plan) {
    const char *id = json_string_value(json_object_get(plan, "id"));
    if (id != NULL && strlen(id) < sizeof session->id) memcpy(session->id, id, strlen(id) + 1);
}

/* The plan may have been lost, or be of a version without ids: the ledgers may know the id. A ledger that cannot be
 * read now is for its stage to report. */
static enum status ask_ledgers(struct session *session, const struct graph *graph, struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct ledger *ledger = NULL;
        struct err own = {0};
        enum status status = session_ledger(session, graph->stages[i].section.name, true, &ledger, &own);
        FAIL_IF(status == STATUS_BAD_ARGUMENT, err, status, "%s", own.message);
        if (status != STATUS_OK || ledger == NULL) continue;
        const struct ledger_owner owner = ledger_owner(ledger);
        if (session->id[0] == '\0' && strlen(owner.session) < sizeof session->id)
            memcpy(session->id, owner.session, strlen(owner.session) + 1);
        ledger_close(&ledger);
    }
    return STATUS_OK;
}

enum status session_need_id(struct session *session, const struct graph *graph, struct err *err) {
    TRY(ask_ledgers(session, graph, err));
    return session->id[0] != '\0' ? STATUS_OK : make_id(session->id, err);
}
