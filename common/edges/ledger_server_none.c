/* Stands for the ledger in PostgreSQL where libpq was not found. */
#include "common/edges/ledger_address.h"
#include "common/edges/ledger_lease.h"
#include "common/edges/ledger_private.h"

static enum status refuse(const char *where, struct err *err) {
    FAIL(err, STATUS_UNSUPPORTED,
         "%s: this icestream was built without libpq, and cannot keep ledgers in PostgreSQL: build it with libpq-dev",
         where);
}

bool ledger_server_built(void) {
    return false;
}

enum status ledger_server_open(struct ledger *ledger, struct err *err) {
    return refuse(ledger->path, err);
}

pid_t ledger_server_writer(const char *path) {
    (void)path;
    return 0;
}

enum status ledger_server_exists(const char *path, bool *ret_exists, struct err *err) {
    (void)ret_exists;
    return refuse(path, err);
}

enum status ledger_server_try(const char *url, struct err *err) {
    return refuse(url, err);
}

enum status ledger_server_owner(const char *url, const char *session, struct ledger_server_owner *ret_owner,
                                struct err *err) {
    (void)session;
    (void)ret_owner;
    return refuse(url, err);
}

enum status ledger_server_make(const char *url, const char *session, struct err *err) {
    (void)session;
    return refuse(url, err);
}

enum status ledger_server_take(const char *url, const char *session, const char *folder, const char *mark,
                               struct err *err) {
    (void)session;
    (void)folder;
    (void)mark;
    return refuse(url, err);
}

enum status ledger_server_forget(const char *url, const char *session, struct err *err) {
    (void)session;
    return refuse(url, err);
}

const struct ledger_lease_terms ledger_lease_usual = {8, 6, 2};

enum status ledger_lease_take(const struct ledger_lease_wish *wish, struct ledger_lease **ret_lease, struct err *err) {
    (void)ret_lease;
    return refuse(wish->path, err);
}

enum status ledger_lease_look(const char *path, const char *name, struct ledger_lease_holder *ret_holder,
                              struct err *err) {
    (void)name;
    (void)ret_holder;
    return refuse(path, err);
}

enum status ledger_lease_void(const char *path, const char *name, const struct ledger_lease *by, struct err *err) {
    (void)name;
    (void)by;
    return refuse(path, err);
}

/* ---- There is no lease ---- */

bool ledger_lease_holds(struct ledger_lease *lease) {
    (void)lease;
    return false;
}

bool ledger_lease_lost(struct ledger_lease *lease) {
    (void)lease;
    return true;
}

enum status ledger_lease_check(struct ledger_lease *lease, struct err *err) {
    (void)lease;
    return refuse("a lease", err);
}

int64_t ledger_lease_number(const struct ledger_lease *lease) {
    (void)lease;
    return 0;
}

int64_t ledger_lease_before(const struct ledger_lease *lease) {
    (void)lease;
    return 0;
}

enum status ledger_lease_count(struct ledger_lease *lease, struct err *err) {
    (void)lease;
    return refuse("a lease", err);
}

enum status ledger_lease_counts(struct ledger_lease *lease, int64_t *ret_number, struct err *err) {
    (void)lease;
    (void)ret_number;
    return refuse("a lease", err);
}

void ledger_lease_give_back(struct ledger_lease **lease) {
    *lease = NULL;
}

void ledger_fence(struct ledger *ledger, const struct ledger_lease *lease) {
    (void)ledger;
    (void)lease;
}
