/* Tests processes that die, hang, or refuse to end. This program itself plays them (--fake MODE FILE …), so the tests
 * wait for nothing but events. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipelines/launcher/run/supervisor.h"

enum { CHILDREN_MAX = 4 };

/* The children. */

static void touch(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (file < 0 || write(file, "x", 1) != 1 || close(file) != 0) _exit(99);
}

static void pause_for_ever(void) {
    for (;;)
        pause();
}

static void on_interrupt(int signal) {
    (void)signal;
    _exit(0);
}

static int fake(char **argv) {
    const char *mode = argv[2], *file = argv[3];
    struct stat info;
    if (strcmp(mode, "exit") == 0) return atoi(argv[4]);
    if (strcmp(mode, "fail-times") == 0) { /* dies this many times, then ends well */
        touch(file);
        return stat(file, &info) == 0 && info.st_size > atoi(argv[4]) ? 0 : 1;
    }
    if (strcmp(mode, "until-interrupt") == 0) {
        signal(SIGINT, on_interrupt);
        touch(file);
        pause_for_ever();
    }
    if (strcmp(mode, "stubborn") == 0) {
        signal(SIGTERM, SIG_IGN);
        touch(file);
        pause_for_ever();
    }
    if (strcmp(mode, "hang-once") == 0) {
        if (access(file, F_OK) == 0) return 0;
        touch(file);
        pause_for_ever();
    }
    if (strcmp(mode, "lacks") ==
        0) { /* lacks a resource twice at once, once after some life (heartbeat in argv[4]), then ends well */
        const struct timespec life = {0, 300000000};
        touch(file);
        if (stat(file, &info) != 0 || info.st_size > 3) return 0;
        if (info.st_size == 3) {
            touch(argv[4]);
            nanosleep(&life, NULL);
        }
        return EXIT_UNAVAILABLE;
    }
    if (strcmp(mode, "again-times") == 0) { /* begins again this many times, then ends well */
        touch(file);
        return stat(file, &info) == 0 && info.st_size > atoi(argv[4]) ? 0 : EXIT_AGAIN;
    }
    if (strcmp(mode, "abort") == 0) abort();
    if (strcmp(mode, "leave-grandchild") == 0) {
        int ends[2];
        if (access(file, F_OK) == 0) return 0;
        if (pipe(ends) != 0) return 99;
        pid_t pid = fork();
        if (pid == 0) pause_for_ever();
        FILE *out = fopen(file, "w");
        fprintf(out, "%d\n", (int)pid);
        fclose(out);
        return 1;
    }
    return 98;
}

/* The supervisor's side. */

struct scene {
    char *folder;
    struct supervisor_child children[CHILDREN_MAX];
    char *argv[CHILDREN_MAX][6];
    char files[CHILDREN_MAX][256], logs[CHILDREN_MAX][256];
    size_t count;
    struct supervisor_options options;
    int deaths, last_status;
    int64_t finished, finished_step; /* the number that `died` returns, and its growth per call */
    int signal, signals_sent;        /* a signal that the test sends to itself once the children's files exist */
    int signals_wanted;
    bool at_once; /* sends without waiting for the files */
    int restarts;
    char said[4096];
};

static enum status died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err) {
    struct scene *scene = context;
    (void)child;
    (void)err;
    scene->deaths++;
    scene->last_status = wait_status;
    scene->finished += scene->finished_step;
    *ret_finished = scene->finished;
    return STATUS_OK;
}

static void tick(void *context, struct supervisor *supervisor) {
    struct scene *scene = context;
    scene->restarts = supervisor_restarts(supervisor, 0);
    bool all = true;
    for (size_t i = 0; i < scene->count && !scene->at_once; i++)
        all &= access(scene->files[i], F_OK) == 0;
    if (scene->signals_sent < scene->signals_wanted && all) {
        scene->signals_sent++;
        kill(getpid(), scene->signal);
    }
}

static void say(void *context, const char *text) {
    struct scene *scene = context;
    size_t used = strlen(scene->said);
    snprintf(scene->said + used, sizeof scene->said - used, "%s\n", text);
}

static void add(struct scene *scene, const char *mode, const char *argument) {
    size_t i = scene->count++;
    snprintf(scene->files[i], sizeof scene->files[i], "%s/file%zu", scene->folder, i);
    snprintf(scene->logs[i], sizeof scene->logs[i], "%s/log%zu", scene->folder, i);
    char *argv[6] = {(char *)"/proc/self/exe", (char *)"--fake", (char *)mode, scene->files[i], (char *)argument, NULL};
    memcpy(scene->argv[i], argv, sizeof argv);
    scene->children[i] = (struct supervisor_child){.name = mode, .argv = scene->argv[i], .log = scene->logs[i]};
}

static enum supervisor_outcome run(struct scene *scene) {
    const struct supervisor_hooks hooks = {.context = scene, .died = died, .tick = tick, .say = say};
    enum supervisor_outcome outcome;
    struct err err = {0};
    enum status status = supervisor_run(scene->children, scene->count, &scene->options, &hooks, &outcome, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
    return outcome;
}

static int begin(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    char folder[256];
    snprintf(folder, sizeof folder, "/tmp/icestream-supervisor-XXXXXX");
    if (scene == NULL || mkdtemp(folder) == NULL) return 1;
    scene->folder = strdup(folder);
    supervisor_defaults(&scene->options);
    scene->options.backoff = 0;
    scene->options.tick = 0.01;
    *state = scene;
    return 0;
}

static int end(void **state) {
    struct scene *scene = *state;
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (scene->files[i][0]) unlink(scene->files[i]);
        if (scene->logs[i][0]) unlink(scene->logs[i]);
    }
    rmdir(scene->folder);
    free(scene->folder);
    free(scene);
    return 0;
}

static void test_all_end_well(void **state) {
    struct scene *scene = *state;
    add(scene, "exit", "0");
    add(scene, "exit", "3"); /* some items failed, and the rest is done */
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 0);
}

static void test_restarts_what_dies(void **state) {
    struct scene *scene = *state;
    add(scene, "fail-times", "3");
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 3);
    assert_int_equal(scene->restarts, 3);
}

static void test_gives_up(void **state) {
    struct scene *scene = *state;
    scene->options.restart_limit = 2;
    add(scene, "abort", "");
    add(scene, "until-interrupt", ""); /* ends when the first child is given up */
    assert_int_equal(run(scene), SUPERVISOR_GAVE_UP);
    assert_int_equal(scene->deaths, 4); /* three times the first child, then the other by SIGTERM */
    assert_non_null(strstr(scene->said, "signal 6"));
    assert_non_null(strstr(scene->said, "gives up"));
}

static void test_progress_between_deaths(void **state) {
    struct scene *scene = *state;
    scene->options.restart_limit = 2;
    scene->finished_step = 1;
    add(scene, "fail-times", "7");
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 7);
}

/* A child that dies while others make progress is not given up, but its restarts come after growing pauses. */
static void test_pauses_grow_beside_progress(void **state) {
    struct scene *scene = *state;
    add(scene, "fail-times", "4");
    scene->finished_step = 1;
    scene->options.backoff = 0.02;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double passed = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    assert_true(passed > 15 * scene->options.backoff); /* 1 + 2 + 4 + 8 */
}

static void test_usage_is_not_tried_again(void **state) {
    struct scene *scene = *state;
    add(scene, "exit", "2");
    assert_int_equal(run(scene), SUPERVISOR_GAVE_UP);
    assert_int_equal(scene->deaths, 1);
}

static void test_missing_program(void **state) {
    struct scene *scene = *state;
    add(scene, "exit", "0");
    scene->argv[0][0] = (char *)"/nowhere/program";
    assert_int_equal(run(scene), SUPERVISOR_GAVE_UP);
    FILE *log = fopen(scene->logs[0], "r");
    char line[256] = "";
    assert_non_null(log);
    assert_non_null(fgets(line, sizeof line, log));
    fclose(log);
    assert_non_null(strstr(line, "/nowhere/program cannot be started"));
}

static void test_interrupt_drains(void **state) {
    struct scene *scene = *state;
    add(scene, "until-interrupt", "");
    scene->children[0].source = true;
    scene->signal = SIGINT;
    scene->signals_wanted = 1;
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 0);
    assert_non_null(strstr(scene->said, "draining"));
}

/* An interrupt that comes before a source listens would kill it. The supervisor keeps the signal until the first
 * heartbeat. */
static void test_interrupt_waits_for_heartbeat(void **state) {
    struct scene *scene = *state;
    add(scene, "until-interrupt", "");
    scene->children[0].source = true;
    scene->children[0].heartbeat = scene->files[0];
    scene->children[0].heartbeat_expected = true;
    scene->signal = SIGINT;
    scene->signals_wanted = 1;
    scene->at_once = true;
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 0);
}

static void test_second_interrupt_stops(void **state) {
    struct scene *scene = *state;
    add(scene, "stubborn", "");
    scene->options.stop_kill = 0.05;
    scene->signal = SIGINT;
    scene->signals_wanted = 2;
    assert_int_equal(run(scene), SUPERVISOR_STOPPED);
    assert_true(WIFSIGNALED(scene->last_status) && WTERMSIG(scene->last_status) == SIGKILL);
}

static void test_hangup_stops(void **state) {
    struct scene *scene = *state;
    add(scene, "until-interrupt", "");
    scene->signal = SIGHUP;
    scene->signals_wanted = 1;
    assert_int_equal(run(scene), SUPERVISOR_STOPPED);
    assert_true(WIFSIGNALED(scene->last_status) && WTERMSIG(scene->last_status) == SIGTERM);
}

static void test_hanging_is_killed(void **state) {
    struct scene *scene = *state;
    char beat[300];
    add(scene, "hang-once", "");
    snprintf(beat, sizeof beat, "%s/beat", scene->folder);
    scene->children[0].heartbeat = beat;
    scene->children[0].heartbeat_expected = true;
    scene->options.hang_report = 0.3;
    scene->options.hang_kill = 0.1;
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 1);
    assert_true(WIFSIGNALED(scene->last_status) && WTERMSIG(scene->last_status) == SIGKILL);
    assert_non_null(strstr(scene->said, "has not answered"));
}

/* A missing resource is reported once, and again if it was there in between. */
static void test_lack_is_said_again(void **state) {
    struct scene *scene = *state;
    char beat[300];
    snprintf(beat, sizeof beat, "%s/beat", scene->folder);
    add(scene, "lacks", beat);
    scene->children[0].heartbeat = beat;
    scene->options.backoff_max = 0.05;
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 3);
    const char *first = strstr(scene->said, "cannot go on");
    assert_non_null(first);
    const char *second = strstr(first + 1, "cannot go on");
    assert_non_null(second);
    assert_null(strstr(second + 1, "cannot go on"));
    unlink(beat);
}

/* To begin again is no death, and nobody is told of it. */
static void test_begins_again(void **state) {
    struct scene *scene = *state;
    scene->options.restart_limit = 1;
    add(scene, "again-times", "4");
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    assert_int_equal(scene->deaths, 0);
    assert_string_equal(scene->said, "");
}

/* Returns whether a process is gone. A zombie that waits for init counts as gone. */
static bool is_gone(pid_t pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return true;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *after = strrchr(text, ')');
    return after == NULL || after[2] == 'Z' || after[2] == 'X';
}

static void test_grandchildren_go_too(void **state) {
    struct scene *scene = *state;
    add(scene, "leave-grandchild", "");
    assert_int_equal(run(scene), SUPERVISOR_ENDED);
    FILE *file = fopen(scene->files[0], "r");
    int pid = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    assert_true(pid > 1);
    while (!is_gone(pid))
        ; /* SIGKILL is on its way */
}

/* ---- A place that is lost ---- */

/* Starts nothing, and is lost at the second look. */
struct away {
    struct scene *scene;
    struct process_place place;
    int starts, looks, signals, lost, refusals;
};

static enum status away_start(void *context, size_t child, const struct supervisor_child *spec, pid_t *ret_pid,
                              struct err *err) {
    struct away *away = context;
    (void)child;
    (void)spec;
    (void)err;
    away->starts++;
    *ret_pid = 1;
    return STATUS_OK;
}

static void away_signal(void *context, size_t child, pid_t pid, int signal, bool group) {
    struct away *away = context;
    (void)child;
    (void)group;
    assert_int_equal(pid, 1);
    assert_int_equal(signal, SIGTERM);
    away->signals++;
}

static enum place_news away_reap(void *context, size_t child, pid_t pid, int *ret_wait_status) {
    struct away *away = context;
    (void)child;
    (void)pid;
    (void)ret_wait_status;
    return ++away->looks < 2 ? PLACE_RUNS : PLACE_LOST;
}

static enum status away_where(void *context, size_t child, const struct process_place **ret_place, struct err *err) {
    struct away *away = context;
    (void)child;
    (void)err;
    if (away->starts == 0) *ret_place = &away->place;
    return STATUS_OK;
}

/* The consequences of the loss cannot be written down at once. */
static enum status away_lost(void *context, size_t child, struct err *err) {
    struct away *away = context;
    (void)child;
    away->lost++;
    FAIL_IF(away->refusals-- > 0, err, STATUS_UNAVAILABLE, "not now");
    return STATUS_OK;
}

static enum status away_died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err) {
    return died(((struct away *)context)->scene, child, wait_status, ret_finished, err);
}

static void away_tick(void *context, struct supervisor *supervisor) {
    struct away *away = context;
    const struct process_place *place = supervisor_place(supervisor, 0);
    assert_true(place == NULL || (place == &away->place) == (away->lost == 0));
    if (away->looks == 1) supervisor_kill(supervisor, 0, SIGTERM);
}

static void away_say(void *context, const char *text) {
    say(((struct away *)context)->scene, text);
}

/* A child whose place is lost starts elsewhere. That is no death, even if there may be none. */
static void test_place_is_lost(void **state) {
    static const struct place_operations operations = {.start = away_start, .signal = away_signal, .reap = away_reap};
    struct scene *scene = *state;
    struct away away = {.scene = scene, .refusals = 2};
    away.place = (struct process_place){&operations, &away};
    scene->options.restart_limit = 0;
    add(scene, "exit", "0");
    const struct supervisor_hooks hooks = {.context = &away,
                                           .where = away_where,
                                           .lost = away_lost,
                                           .died = away_died,
                                           .tick = away_tick,
                                           .say = away_say};
    enum supervisor_outcome outcome;
    struct err err = {0};
    assert_int_equal(supervisor_run(scene->children, scene->count, &scene->options, &hooks, &outcome, &err), STATUS_OK);
    assert_int_equal(outcome, SUPERVISOR_ENDED);
    assert_int_equal(away.starts, 1);
    assert_int_equal(away.signals, 1);
    assert_int_equal(away.lost, 3);
    assert_int_equal(scene->deaths, 0);
    assert_non_null(strstr(scene->said, "not now; trying again"));
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "--fake") == 0) return fake(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_end_well, begin, end),
        cmocka_unit_test_setup_teardown(test_restarts_what_dies, begin, end),
        cmocka_unit_test_setup_teardown(test_gives_up, begin, end),
        cmocka_unit_test_setup_teardown(test_progress_between_deaths, begin, end),
        cmocka_unit_test_setup_teardown(test_pauses_grow_beside_progress, begin, end),
        cmocka_unit_test_setup_teardown(test_usage_is_not_tried_again, begin, end),
        cmocka_unit_test_setup_teardown(test_missing_program, begin, end),
        cmocka_unit_test_setup_teardown(test_interrupt_drains, begin, end),
        cmocka_unit_test_setup_teardown(test_interrupt_waits_for_heartbeat, begin, end),
        cmocka_unit_test_setup_teardown(test_second_interrupt_stops, begin, end),
        cmocka_unit_test_setup_teardown(test_hangup_stops, begin, end),
        cmocka_unit_test_setup_teardown(test_hanging_is_killed, begin, end),
        cmocka_unit_test_setup_teardown(test_lack_is_said_again, begin, end),
        cmocka_unit_test_setup_teardown(test_begins_again, begin, end),
        cmocka_unit_test_setup_teardown(test_grandchildren_go_too, begin, end),
        cmocka_unit_test_setup_teardown(test_place_is_lost, begin, end),
    };
    return cmocka_run_group_tests_name("supervisor", tests, NULL, NULL);
}
