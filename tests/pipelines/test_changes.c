/* Tests that the history of a session's changes stays whole when hosts add to it at the same time, on a file system
 * whose locks keep nobody out. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"
#include "tests/common/scratch.h"

enum { HOSTS = 4, EACH = 20 };

/* Adds changes without the lock. Returns what the process is to exit with. */
static int add_changes(const struct session *session, int host) {
    struct err err = {0};
    for (int i = 0; i < EACH; i++) {
        int number = 0;
        json_t *change = json_pack("{s:s, s:i, s:i}", "by", "test", "of", host, "which", i);
        enum status status = changes_write(session, change, &number, &err);
        json_decref(change);
        if (status != STATUS_OK || number < 1) return 1;
    }
    return 0;
}

static void nothing_is_lost_between_hosts(void **state) {
    (void)state;
    struct err err = {0};
    struct session session = {.lock = -1};
    char path[PATH_SIZE];
    pid_t hosts[HOSTS];
    scratch_path("session", session.path);
    scratch_path("session/changes", path);
    assert_ok(file_make_folders(path, 0777, &err));
    for (int i = 0; i < HOSTS; i++) {
        hosts[i] = fork();
        assert_true(hosts[i] >= 0);
        if (hosts[i] == 0) _exit(add_changes(&session, i));
    }
    for (int i = 0; i < HOSTS; i++) {
        int wait_status = 0;
        assert_int_equal(waitpid(hosts[i], &wait_status, 0), hosts[i]);
        assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    }
    bool seen[HOSTS][EACH] = {{false}};
    int last[HOSTS] = {-1, -1, -1, -1};
    for (int number = 1; number <= HOSTS * EACH; number++) {
        json_t *change = NULL;
        int host = -1, which = -1;
        assert_ok(changes_one(&session, number, &change, &err));
        assert_non_null(change);
        assert_int_equal(json_unpack(change, "{s:i, s:i}", "of", &host, "which", &which), 0);
        json_decref(change);
        assert_in_range(host, 0, HOSTS - 1);
        assert_in_range(which, 0, EACH - 1);
        assert_false(seen[host][which]);
        assert_true(which > last[host]); /* in the order of their author */
        seen[host][which] = true;
        last[host] = which;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_between_hosts)};
    return scratch_run("changes", tests, sizeof tests / sizeof *tests);
}
