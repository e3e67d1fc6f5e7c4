/* Tests the program that is told of alarms: what it gets, how often it is tried, and that one that hangs is ended. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"

#include "pipelines/launcher/alarms/notify.h"
#include "tests/common/scratch.h"

static const double LIMIT = 120; /* s to wait for anything */

static void write_program(const char *name, const char *body, char path[PATH_SIZE]) {
    char text[4096];
    struct err err = {0};
    scratch_path(name, path);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    assert_ok(file_write_whole(path, text, strlen(text), &err));
    assert_int_equal(chmod(path, 0700), 0);
}

static struct notify *begin(const char *program, double limit) {
    struct notify *notify;
    struct err err = {0};
    char folder[PATH_SIZE], output[PATH_SIZE];
    scratch_path("", folder);
    scratch_path("output", output);
    struct notify_options options = {.program = program, .folder = folder, .output = output};
    notify_defaults(&options);
    assert_true(options.limit == 20 && options.tries == 3);
    options.limit = limit;
    options.pause = 0.01;
    assert_ok(notify_new(&options, &notify, &err));
    return notify;
}

static void add(struct notify *notify, const char *text) {
    struct err err = {0};
    char *copy = strdup(text);
    assert_non_null(copy);
    assert_ok(notify_add(notify, copy, &err));
}

static void finish(struct notify *notify) {
    const double until = clock_monotonic() + LIMIT;
    while (notify_busy(notify)) {
        notify_tick(notify, clock_monotonic());
        clock_pause(0.005);
        if (clock_monotonic() > until) fail_msg("the program has not ended within %g s", LIMIT);
    }
}

static void assert_content(const char *name, const char *expected) {
    char path[PATH_SIZE], *text;
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_read_whole(path, 1 << 24, &text, NULL, &err));
    assert_string_equal(text, expected);
    free(text);
}

static void the_program_reads_all_texts_in_order(void **state) {
    (void)state;
    char program[PATH_SIZE];
    write_program("collect", "cat >>got; echo >>got; echo said", program);
    struct notify *notify = begin(program, 60);
    for (int i = 0; i < 16; i++)
        add(notify, i == 0 ? "{\"a\": \"\xc3\x85\"}" : "x");
    struct err err = {0};
    char *more = strdup("one too many");
    assert_int_equal(notify_add(notify, more, &err), STATUS_BAD_STATE);
    free(more);
    finish(notify);
    assert_int_equal(notify_state(notify).sent, 16);
    assert_string_equal(notify_state(notify).message, "");
    assert_content("got", "{\"a\": \"\xc3\x85\"}\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n");
    notify_free(&notify);
    assert_null(notify);
}

/* More than a pipe holds, to a program that does not read it. */
static void a_long_text_needs_no_reader(void **state) {
    (void)state;
    char program[PATH_SIZE];
    write_program("deaf", "exit 0", program);
    struct notify *notify = begin(program, 60);
    char *text = malloc((1 << 20) + 1);
    struct err err = {0};
    assert_non_null(text);
    memset(text, 'x', 1 << 20);
    text[1 << 20] = '\0';
    assert_ok(notify_add(notify, text, &err));
    finish(notify);
    assert_int_equal(notify_state(notify).sent, 1);
    notify_free(&notify);
}

static void a_program_is_tried_three_times(void **state) {
    (void)state;
    char program[PATH_SIZE];
    write_program("second", "echo x >>tries; [ $(wc -l <tries) -ge 2 ]", program);
    struct notify *notify = begin(program, 60);
    add(notify, "{}");
    finish(notify);
    assert_content("tries", "x\nx\n");
    assert_int_equal(notify_state(notify).sent, 1);
    notify_free(&notify);

    write_program("never", "echo y >>refusals; exit 7", program);
    notify = begin(program, 60);
    add(notify, "{}");
    add(notify, "{}");
    finish(notify);
    assert_content("refusals", "y\ny\ny\ny\ny\ny\n");
    assert_int_equal(notify_state(notify).sent, 0);
    assert_int_equal(notify_state(notify).failed, 2);
    assert_non_null(strstr(notify_state(notify).message, "exit code 7"));
    notify_free(&notify);

    scratch_path("missing", program);
    notify = begin(program, 60);
    add(notify, "{}");
    finish(notify);
    assert_int_equal(notify_state(notify).failed, 1);
    assert_non_null(strstr(notify_state(notify).message, "missing"));
    notify_free(&notify);
}

/* Returns whether the process whose number a file holds is gone, or becomes so. */
static void assert_gone(const char *name) {
    char path[PATH_SIZE], *text;
    struct err err = {0};
    const double until = clock_monotonic() + LIMIT;
    scratch_path(name, path);
    assert_ok(file_read_whole(path, 64, &text, NULL, &err));
    const pid_t pid = (pid_t)atoi(text);
    free(text);
    assert_true(pid > 1);
    while (kill(pid, 0) == 0) {
        char stat[PATH_SIZE];
        snprintf(stat, sizeof stat, "/proc/%d/stat", (int)pid);
        if (file_read_whole(stat, 4096, &text, NULL, &err) != STATUS_OK) return;
        const bool zombie = strstr(text, ") Z") != NULL; /* nobody has asked for it yet */
        free(text);
        if (zombie) return;
        clock_pause(0.01);
        if (clock_monotonic() > until) fail_msg("process %d still runs", (int)pid);
    }
}

static void a_program_that_hangs_is_ended_with_its_children(void **state) {
    (void)state;
    char program[PATH_SIZE];
    write_program("hangs", "trap '' TERM\nsleep 1000 & echo $! >child; echo $$ >parent; wait", program);
    struct notify *notify = begin(program, 0.5);
    add(notify, "{}");
    finish(notify);
    assert_int_equal(notify_state(notify).failed, 1);
    assert_non_null(strstr(notify_state(notify).message, "did not end"));
    assert_gone("child");
    assert_gone("parent");
    notify_free(&notify);
}

static void the_end_waits_for_nobody(void **state) {
    (void)state;
    char program[PATH_SIZE];
    write_program("endless", "echo $$ >endless.pid.new; mv endless.pid.new endless.pid; exec sleep 1000", program);
    struct notify *notify = begin(program, 1000);
    add(notify, "{}");
    char path[PATH_SIZE];
    const double until = clock_monotonic() + LIMIT;
    scratch_path("endless.pid", path);
    while (!file_exists(path) && clock_monotonic() < until) {
        notify_tick(notify, clock_monotonic());
        clock_pause(0.005);
    }
    notify_free(&notify);
    assert_gone("endless.pid");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_reads_all_texts_in_order),
        cmocka_unit_test(a_long_text_needs_no_reader),
        cmocka_unit_test(a_program_is_tried_three_times),
        cmocka_unit_test(a_program_that_hangs_is_ended_with_its_children),
        cmocka_unit_test(the_end_waits_for_nobody),
    };
    return scratch_run("notify", tests, sizeof tests / sizeof tests[0]);
}
