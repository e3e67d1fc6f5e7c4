/* Tests the command lines that start hosts elsewhere. Scripts in the scratch folder stand for ssh, squeue, sbatch and
 * scancel, and write down how they were called. */
#include "pipelines/launcher/run/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/scratch.h"

static const double LIMIT = 120;          /* s to wait for anything */
static char said[4096], first[PATH_SIZE]; /* what was told; PATH as it was */

static void say(void *context, const char *text) {
    (void)context;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static void write_tool(const char *name, const char *body) {
    char path[PATH_SIZE], text[4096], where[PATH_SIZE];
    struct err err = {0};
    snprintf(where, sizeof where, "bin/%s", name);
    scratch_path(where, path);
    scratch_path("session", where);
    snprintf(text, sizeof text,
             "#!/bin/sh\ncd '%s'\ncall=$(printf '%%s|' %s \"$@\")\nprintf '%%s\\n' \"$call\" >>calls\n%s\n", where,
             name, body);
    assert_ok(file_write_whole(path, text, strlen(text), &err));
    assert_int_equal(chmod(path, 0700), 0);
}

/* Makes an empty session and puts the scripts before the system's programs. */
static int set_up(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[2 * PATH_SIZE];
    struct err err = {0};
    if (first[0] == '\0') snprintf(first, sizeof first, "%s", getenv("PATH"));
    scratch_path("session", folder);
    assert_int_equal(scratch_shell("rm -rf '%s' && mkdir -p '%s/log'", folder, folder), 0);
    scratch_path("bin", folder);
    assert_int_equal(scratch_shell("rm -rf '%s'", folder), 0);
    assert_ok(file_make_folders(folder, 0700, &err));
    snprintf(path, sizeof path, "%s:%s", folder, first);
    assert_int_equal(setenv("PATH", path, 1), 0);
    said[0] = '\0';
    return 0;
}

static struct engine *begin(enum engine_kind kind, const char *const *entries, size_t count) {
    static char session[PATH_SIZE];
    struct engine *engine;
    struct err err = {0};
    scratch_path("session", session);
    struct engine_options options = {.kind = kind,
                                     .program = "/opt/it's/icestream",
                                     .session = session,
                                     .entries = entries,
                                     .count = count,
                                     .own = "here",
                                     .say = say};
    engine_defaults(&options);
    assert_true(options.pause == 1 && options.pause_max == 30 && options.ask == 60 && options.patience == 10);
    options.pause = options.ask = 0.01;
    options.patience = LIMIT;
    assert_ok(engine_create(&options, &engine, &err));
    return engine;
}

/* Returns what stands in a file of the session; "" while there is none. */
static const char *content(const char *name) {
    static char text[1 << 16];
    char path[PATH_SIZE], below[PATH_SIZE], *found = NULL;
    snprintf(below, sizeof below, "session/%s", name);
    scratch_path(below, path);
    text[0] = '\0';
    if (file_read_whole(path, sizeof text - 1, &found, NULL, NULL) == STATUS_OK) strcpy(text, found);
    free(found);
    return text;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

/* Tends the engine until a file holds a word so many times. */
static void tend_until(struct engine *engine, const char *name, const char *word, int count) {
    const double end = clock_monotonic() + LIMIT;
    while (count_of(content(name), word) < count) {
        engine_tend(engine);
        clock_pause(0.002);
        if (clock_monotonic() > end) fail_msg("%s does not hold \"%s\" %d times: %s", name, word, count, content(name));
    }
}

static void expect_called(const char *text) {
    char session[PATH_SIZE], line[3 * PATH_SIZE] = "";
    scratch_path("session", session);
    for (const char *at = text; *at != '\0'; at++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, *at == '~' ? "%s" : "%.1s", *at == '~' ? session : at);
    }
    if (strstr(content("calls"), line) == NULL) fail_msg("not called:\n%s\nbut:\n%s", line, content("calls"));
}

/* ---- ssh ---- */

static void each_host_has_a_connection_that_is_made_again(void **state) {
    (void)state;
    static const char *const hosts[] = {"alpha", "beta", "here"};
    write_tool("ssh", "case \"$*\" in *alpha*) exit 0;; esac; echo joined; until [ -e over ]; do sleep 0.01; done");
    struct engine *engine = begin(ENGINE_SSH, hosts, 3);
    tend_until(engine, "calls", "|alpha|", 4); /* exit code 0 says nothing: it is not there */
    tend_until(engine, "log/host-beta.log", "joined", 1);
    expect_called("ssh|-o|BatchMode=yes|-o|ConnectTimeout=10|-o|ServerAliveInterval=15|-o|ServerAliveCountMax=4|beta|"
                  "exec '/opt/it'\\''s/icestream' host '~' --name beta|\n");
    assert_int_equal(count_of(content("calls"), "|beta|"), 1);
    assert_null(strstr(content("calls"), "|here|"));
    /* One notice, however often it ends. */
    assert_int_equal(count_of(said, "ssh to alpha has ended"), 1);
    assert_null(strstr(said, "beta"));
    /* The hosts are told that the run is over. */
    char session[PATH_SIZE];
    scratch_path("session", session);
    assert_int_equal(scratch_shell("touch '%s/over'", session), 0);
    engine_end(&engine);
    assert_null(engine);
}

static void a_connection_that_stays_is_ended(void **state) {
    (void)state;
    static const char *const hosts[] = {"alpha"};
    struct engine *engine;
    struct err err = {0};
    char session[PATH_SIZE];
    write_tool("ssh", "trap 'echo ended >>calls; exit 0' TERM; echo joined; sleep 1000 & wait");
    scratch_path("session", session);
    struct engine_options options = {
        .kind = ENGINE_SSH, .program = "/i", .session = session, .entries = hosts, .count = 1};
    engine_defaults(&options);
    options.patience = 0;
    assert_ok(engine_create(&options, &engine, &err));
    tend_until(engine, "log/host-alpha.log", "joined", 1);
    engine_end(&engine);
    assert_int_equal(count_of(content("calls"), "ended"), 1);
}

/* ---- Slurm ---- */

/* The queue is a file: lines of number and name. */
static void write_queue_tools(void) {
    write_tool("squeue",
               "[ ! -e down ] || exit 1; name=${2#--name=}; sed -n \"s/ $name\\$//p\" queue 2>/dev/null; exit 0");
    write_tool("sbatch", "[ ! -e down ] || exit 1\nuntil mkdir busy 2>/dev/null; do :; done\n"
                         "n=$(($(cat last 2>/dev/null || echo 100) + 1)); echo $n >last\n"
                         "for word; do case $word in --job-name=*) echo \"$n ${word#*=}\" >>queue;; esac; done\n"
                         "rmdir busy; echo \"$n;cluster\"");
    write_tool("scancel", "[ ! -e down ] || exit 1");
}

static void each_line_is_a_job_that_is_submitted_anew_when_it_is_gone(void **state) {
    (void)state;
    static const char *const lines[] = {"--partition gpu  --gres gpu:1 --array=0-3", ""};
    write_queue_tools();
    struct engine *engine = begin(ENGINE_SLURM, lines, 2);
    tend_until(engine, "hosts/slurm.json", "icestream-", 2);
    char call[512], name[64], file[PATH_SIZE];
    struct stat info;
    snprintf(name, sizeof name, "%.20s", strstr(content("queue"), "icestream-"));
    name[strlen("icestream-00000000-")] = '\0';
    snprintf(call, sizeof call,
             "sbatch|--parsable|--requeue|--open-mode=append|--signal=B:TERM@120|--job-name=%s0|--output=~/log/"
             "host-%%j.log|--partition|gpu|--gres|gpu:1|--array=0-3|--wrap|exec '/opt/it'\\''s/icestream' host '~'|\n",
             name);
    expect_called(call);
    scratch_path("session/hosts", file);
    assert_true(stat(file, &info) == 0 && (info.st_mode & 077) == 0);
    /* While the jobs are in the queue, nothing is submitted. */
    int asked = count_of(content("calls"), "squeue|");
    tend_until(engine, "calls", "squeue|", asked + 6);
    assert_int_equal(count_of(content("calls"), "sbatch|"), 2);
    assert_int_equal(scratch_shell("cd '%s/..' && : >queue", file), 0); /* the time limit */
    tend_until(engine, "calls", "sbatch|", 4);
    tend_until(engine, "hosts/slurm.json", "\"103\"", 1);
    tend_until(engine, "hosts/slurm.json", "\"104\"", 1);
    assert_int_equal(count_of(said, "was submitted"), 4);
    engine_end(&engine);
    bool either = strstr(content("calls"), "scancel|103|104|\n") || strstr(content("calls"), "scancel|104|103|\n");
    assert_true(either);
    assert_null(strstr(content("hosts/slurm.json"), "icestream-"));
}

static void jobs_of_an_earlier_launcher_go_on(void **state) {
    (void)state;
    static const char *const lines[] = {"--partition gpu"};
    write_queue_tools();
    struct engine *engine = begin(ENGINE_SLURM, lines, 1), *later;
    tend_until(engine, "hosts/slurm.json", "\"101\"", 1);
    later = begin(ENGINE_SLURM, lines, 1); /* the first was killed: it cancels nothing */
    assert_null(strstr(content("hosts/slurm.json"), "\"101\""));
    tend_until(later, "hosts/slurm.json", "\"101\"", 1);
    assert_int_equal(count_of(content("calls"), "sbatch|"), 1);
    assert_non_null(strstr(said, "job 101 of Slurm is in the queue"));
    engine_end(&later);
    expect_called("scancel|101|\n");
    engine_end(&engine);
}

/* Neither a queue that cannot be read nor an sbatch that fails makes a second job. */
static void a_controller_that_is_away_is_asked_again(void **state) {
    (void)state;
    write_queue_tools();
    char session[PATH_SIZE];
    scratch_path("session", session);
    assert_int_equal(scratch_shell("touch '%s/down'", session), 0);
    struct engine *engine = begin(ENGINE_SLURM, NULL, 0);
    tend_until(engine, "calls", "squeue|", 4);
    assert_int_equal(count_of(content("calls"), "sbatch|"), 0);
    assert_int_equal(count_of(said, "squeue gives no job"), 1);
    assert_int_equal(scratch_shell("rm '%s/down'", session), 0);
    tend_until(engine, "hosts/slurm.json", "\"101\"", 1);
    assert_int_equal(scratch_shell("touch '%s/down'", session), 0);
    int asked = count_of(content("calls"), "squeue|");
    tend_until(engine, "calls", "squeue|", asked + 4);
    assert_int_equal(count_of(content("calls"), "sbatch|"), 1);
    engine_end(&engine);
    assert_non_null(strstr(said, "may still be in the queue"));
    assert_non_null(strstr(content("hosts/slurm.json"), "\"101\""));
}

static void a_system_without_slurm_is_told_once(void **state) {
    (void)state;
    char bin[PATH_SIZE];
    scratch_path("bin", bin);
    struct engine *engine = begin(ENGINE_SLURM, NULL, 0);
    assert_int_equal(setenv("PATH", bin, 1), 0);
    tend_until(engine, "log/engine.log", "squeue cannot be started: No such file", 3);
    engine_tend(engine);
    assert_int_equal(count_of(said, "squeue cannot be started"), 1);
    assert_int_equal(setenv("PATH", first, 1), 0);
    engine_end(&engine);
}

/* ---- Words ---- */

static void wrong_words_are_refused(void **state) {
    (void)state;
    static const char *const hosts[] = {"", "-oProxyCommand=x", "a b", "me@alpha", "a;b", ".", "alpha'"};
    static const char *const lines[] = {"gpu",           "--wrap x",        "--job-name=a", "-Jname", "--partition 'a'",
                                        "--x=$(reboot)", "--partition=a b", "--parsable",   "-o x",   "--x a b"};
    static const char *const good[] = {"", "  ", "-p gpu -N 2",
                                       "--partition gpu --gres=gpu:1 --array 0-3%2 --exclusive"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (engine_check_host(hosts[i], NULL) != STATUS_BAD_ARGUMENT) fail_msg("\"%s\" was taken", hosts[i]);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (engine_check_slurm(lines[i], NULL) != STATUS_BAD_ARGUMENT) fail_msg("\"%s\" was taken", lines[i]);
    struct err err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_ok(engine_check_slurm(good[i], &err));
    assert_ok(engine_check_host("node-12.cluster_a", &err));
    enum engine_kind kind;
    assert_ok(engine_kind_read("slurm", &kind, &err));
    assert_int_equal(kind, ENGINE_SLURM);
    assert_int_equal(engine_kind_read("pbs", &kind, NULL), STATUS_BAD_ARGUMENT);
    struct engine *none = (struct engine *)&kind;
    assert_ok(engine_create(&(struct engine_options){.kind = ENGINE_LOCAL}, &none, &err));
    assert_null(none);
    engine_tend(none);
    engine_end(&none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_host_has_a_connection_that_is_made_again, set_up),
        cmocka_unit_test_setup(a_connection_that_stays_is_ended, set_up),
        cmocka_unit_test_setup(each_line_is_a_job_that_is_submitted_anew_when_it_is_gone, set_up),
        cmocka_unit_test_setup(jobs_of_an_earlier_launcher_go_on, set_up),
        cmocka_unit_test_setup(a_controller_that_is_away_is_asked_again, set_up),
        cmocka_unit_test_setup(a_system_without_slurm_is_told_once, set_up),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return scratch_run("engine", tests, sizeof tests / sizeof tests[0]);
}
