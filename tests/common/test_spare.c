/* Tests what a program does first, and what it asks for before libraries that would end it: standard streams, files too
 * large, descriptors, threads. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/spare.h"
#include "common/standard.h"

static void too_few_descriptors_are_named(void **state) {
    (void)state;
    struct err err = {0};
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(spare_descriptors(10, &err), STATUS_OK);
    few = before;
    few.rlim_cur = (rlim_t)next + 4;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(spare_descriptors(4, &err), STATUS_OK);
    assert_int_equal(spare_descriptors(5, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "ulimit -n"));
    assert_non_null(strstr(err.message, "only 4"));
    /* Nothing is kept. */
    assert_int_equal(spare_descriptors(4, &err), STATUS_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void threads_are_tried(void **state) {
    (void)state;
    struct err err = {0};
    assert_int_equal(spare_threads(3, &err), STATUS_OK);
}

/* Runs in a child process, which loses its streams. Returns 0 when all is as promised. */
static int begin_without_streams(void) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    standard_begin();
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0) return 1;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next <= STDERR_FILENO) return 2;
    const struct rlimit none = {0, 0};
    char path[] = "/tmp/icestream-spare-XXXXXX";
    int file = mkstemp(path);
    if (file < 0) return 3;
    unlink(path);
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 4;
    return write(file, "x", 1) < 0 && errno == EFBIG ? 0 : 5;
}

static void a_program_begins_in_order(void **state) {
    (void)state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(begin_without_streams());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_few_descriptors_are_named),
        cmocka_unit_test(threads_are_tried),
        cmocka_unit_test(a_program_begins_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
