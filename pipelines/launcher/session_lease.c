/* The holder of the lease in PostgreSQL runs the session whose ledgers are there. The lock in log/lock keeps others of
 * this machine away; a lock that another host has left says nothing, and the lease does. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger_lease.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/warnings.h"

static const char launcher[] = ""; /* the name of its lease */

/* The lease belongs to the whole session; the address of any ledger leads to it. */
static enum status address(const struct session *session, char path[PATH_SIZE], struct err *err) {
    return ledger_address_print(session->server, session->id, WARNINGS_LAUNCHER, path, PATH_SIZE, err);
}

static enum status look(const struct session *session, struct ledger_lease_holder *ret_holder, struct err *err) {
    char path[PATH_SIZE];
    TRY(address(session, path, err));
    return ledger_lease_look(path, launcher, ret_holder, err);
}

bool session_leased_elsewhere(const struct session *session) {
    char host[sizeof((struct ledger_lease_holder *)NULL)->host] = "";
    struct ledger_lease_holder holder = {0};
    if (session->server[0] == '\0' || session->id[0] == '\0' || look(session, &holder, NULL) != STATUS_OK) return false;
    return holder.number > 0 && gethostname(host, sizeof host - 1) == 0 && strcmp(holder.host, host) != 0;
}

bool session_is_leased(const struct session *session) {
    struct ledger_lease_holder holder = {0};
    if (session->server[0] == '\0' || session->id[0] == '\0' || session_stands(session)) return false;
    return look(session, &holder, NULL) == STATUS_OK && holder.alive;
}

enum status session_take_lease(struct session *session, struct err *err) {
    char path[PATH_SIZE];
    struct err own = {0};
    const struct ledger_lease_wish wish = {.path = path, .name = launcher, .run = session->run};
    if (session->server[0] == '\0' || session->id[0] == '\0' || session->lease != NULL) return STATUS_OK;
    TRY(address(session, path, err));
    TRY(ledger_server_make(session->server, session->id, err));
    enum status status = ledger_lease_take(&wish, &session->lease, &own);
    FAIL_IF(status != STATUS_OK, err, status, "%s: %s", session->path, own.message);
    return STATUS_OK;
}

enum status session_check_lease(const struct session *session, struct err *err) {
    struct ledger_lease_holder holder = {.host = "another host"};
    if (session->lease == NULL || !ledger_lease_lost(session->lease)) return STATUS_OK;
    (void)look(session, &holder, NULL);
    FAIL(err, STATUS_BAD_STATE,
         "%s: another icestream has taken this session over: process %lld on %s; this one could not tell the server of "
         "the ledgers that it lives, and ends",
         session->path, (long long)holder.pid, holder.host);
}

bool session_holds_lease(const struct session *session) {
    return session->lease == NULL || ledger_lease_holds(session->lease);
}

enum status session_await_lease(const struct session *session, struct err *err) {
    double until = clock_monotonic() + LEDGER_PATIENCE;
    struct ledger_lease *lease = session->lease;
    while (lease != NULL && !ledger_lease_holds(lease) && !ledger_lease_lost(lease) && clock_monotonic() < until)
        clock_pause(0.05);
    return session_check_lease(session, err);
}

enum status session_void_lease(const struct session *session, const char *stage, struct err *err) {
    char path[PATH_SIZE];
    if (session->server[0] == '\0') return STATUS_OK;
    TRY(session_ledger_path(session, stage, false, path, err));
    return ledger_is_address(path) ? ledger_lease_void(path, stage, session->lease, err) : STATUS_OK;
}
