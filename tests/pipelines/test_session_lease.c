/* Tests what a launcher does not write when another has taken its session over meanwhile. Runs beside
 * private_postgresql.sh. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/run/run_private.h"
#include "tests/common/scratch.h"

/* A session without stages, which this process runs. */
static void begin(struct session *session, const char *id) {
    char folder[PATH_SIZE];
    struct err err = {0};
    struct graph graph = {0};
    *session = (struct session){.lock = -1, .run = 1};
    scratch_path(id, session->path);
    snprintf(session->id, sizeof session->id, "%s", id);
    snprintf(graph.ledger, sizeof graph.ledger, "%s", getenv("ICESTREAM_TEST_POSTGRESQL"));
    assert_ok(session_file(session, "ledger", "", "", folder, &err));
    assert_ok(file_make_folders(folder, 0777, &err));
    assert_ok(session_use_server(session, &graph, &err));
    assert_non_null(session->lease);
    assert_false(session_stands(session));
}

/* Another takes the session, as of another host, and says in the folder whether its ledgers stand. */
static void taken_over(struct session *session) {
    char text[256];
    PGconn *server = PQconnectdb(session->server);
    snprintf(text, sizeof text, "UPDATE \"icestream_%s\".leases SET token = 'another', host = 'elsewhere'",
             session->id);
    PGresult *result = PQexec(server, text);
    assert_string_equal(PQcmdTuples(result), "1");
    PQclear(result);
    PQfinish(server);
    while (!ledger_lease_lost(session->lease))
        usleep(1000);
}

static void who_runs_it_exports_it(void **state) {
    (void)state;
    struct session session;
    struct err err = {0};
    json_t *plan = json_pack("{s:[]}", "stages");
    begin(&session, "export");
    assert_ok(session_export(&session, plan, &err));
    assert_true(session_stands(&session));
    session_end(&session);
    json_decref(plan);
}

/* Orders of instances are the other's now. */
static void who_was_replaced_holds_no_lease(void **state) {
    (void)state;
    struct session session;
    const struct session without = {.lock = -1};
    begin(&session, "holds");
    assert_true(session_holds_lease(&session));
    taken_over(&session);
    assert_false(session_holds_lease(&session));
    assert_true(session_holds_lease(&without));
    session_end(&session);
}

/* The other runs it, so that its ledgers do not stand. */
static void who_was_replaced_does_not_say_that_ledgers_stand(void **state) {
    (void)state;
    struct session session;
    struct err err = {0};
    json_t *plan = json_pack("{s:[]}", "stages");
    begin(&session, "replaced");
    taken_over(&session);
    assert_int_equal(session_export(&session, plan, &err), STATUS_BAD_STATE);
    assert_non_null(strstr(err.message, "another icestream has taken this session over"));
    assert_false(session_stands(&session));
    session_end(&session);
    json_decref(plan);
}

/* The other has ended. What this one does late must not make others ask the server for what lies in files. */
static void who_was_replaced_changes_no_ledger(void **state) {
    (void)state;
    struct session session;
    struct ledger *ledger = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    json_t *plan = json_pack("{s:[]}", "stages");
    begin(&session, "late");
    assert_ok(session_ledger_path(&session, "picker", false, path, &err));
    assert_ok(ledger_open(path, "picker", false, &ledger, &err));
    assert_ok(ledger_own(ledger, "picker", session.id, &err));
    ledger_close(&ledger);
    assert_ok(session_export(&session, plan, &err));
    taken_over(&session);
    assert_int_equal(session_ledger(&session, "picker", false, &ledger, &err), STATUS_BAD_STATE);
    assert_null(ledger);
    assert_true(session_stands(&session));
    session_end(&session);
    json_decref(plan);
}

/* Half-written files go with the run, but not if it is another's by now. */
static void who_was_replaced_removes_no_partial_files(void **state) {
    (void)state;
    struct run run = {.orders = {.shared = true}};
    struct graph_stage stage = {.section = {.name = (char *)"picker"}};
    struct graph graph = {.stages = &stage, .stage_count = 1};
    struct err err = {0};
    char path[PATH_SIZE];
    run.graph = &graph;
    begin(&run.session, "partial");
    assert_ok(path_join(run.session.path, "picker/.a.star.host-0123abcd.partial", path, sizeof path, &err));
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(file_write_whole(path, "half", 4, &err));
    struct ledger_lease *lease = run.session.lease;
    taken_over(&run.session);
    run_share_end(&run);
    assert_true(file_exists(path));
    run.session.lease = NULL; /* as one that nobody has replaced */
    run_share_end(&run);
    assert_false(file_exists(path));
    run.session.lease = lease;
    session_end(&run.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_runs_it_exports_it),
        cmocka_unit_test(who_was_replaced_holds_no_lease),
        cmocka_unit_test(who_was_replaced_does_not_say_that_ledgers_stand),
        cmocka_unit_test(who_was_replaced_changes_no_ledger),
        cmocka_unit_test(who_was_replaced_removes_no_partial_files),
    };
    return scratch_run("session_lease", tests, sizeof tests / sizeof *tests);
}
