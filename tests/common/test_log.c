/* Tests logs: lines stay whole and none is lost while the file is renamed under several writers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/log.h"
#include "tests/common/scratch.h"

enum { WRITERS = 4, THREADS = 2, LINES = 400 };

struct job {
    struct log *log;
    int writer;
};

static void *write_lines(void *argument) {
    const struct job *job = argument;
    for (int i = 0; i < LINES; i++)
        log_write(job->log, LOG_INFO, "line", "writer %d number %d end", job->writer, i);
    return NULL;
}

/* A process with several threads and one log. */
static void be_writer(const char *path, int64_t size, int writer) {
    struct log *log = NULL;
    struct err err = {0};
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    if (log_open(path, "test.0", LOG_ERROR + 1, &log, &err) != STATUS_OK) _exit(1);
    log_set_size(log, size);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){log, writer * THREADS + i};
        if (pthread_create(&threads[i], NULL, write_lines, &jobs[i]) != 0) _exit(1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    log_close(&log);
    _exit(0);
}

static int old_path(const char *path, int number, char *ret_path, size_t size) {
    return number > 0 ? snprintf(ret_path, size, "%s.%d", path, number) : snprintf(ret_path, size, "%s", path);
}

/* Counts each line of the log and its old files. A line that the test did not write fails. */
static int collect(const char *path, unsigned char *seen, size_t seen_size) {
    int files = 0;
    for (int k = 0; k <= LOG_KEPT + 1; k++) {
        char name[PATH_SIZE + 8], line[256];
        old_path(path, k, name, sizeof name);
        FILE *file = fopen(name, "r");
        if (file == NULL) continue;
        files++;
        while (fgets(line, sizeof line, file) != NULL) {
            int writer, number, used = 0;
            const char *text = strstr(line, " writer ");
            assert_non_null(text);
            assert_int_equal(sscanf(text, " writer %d number %d end%n", &writer, &number, &used), 2);
            assert_string_equal(text + used, "\n");
            size_t place = (size_t)writer * LINES + (size_t)number;
            assert_true(place < seen_size);
            seen[place]++;
        }
        fclose(file);
    }
    return files;
}

static void nothing_is_lost_or_torn_when_the_log_is_renamed(void **state) {
    (void)state;
    char path[PATH_SIZE];
    scratch_path("shared.log", path);
    const int64_t size = 64 << 10; /* About 70 bytes a line: three or four old files, and none is dropped. */
    for (int i = 0; i < WRITERS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) be_writer(path, size, i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int how;
        assert_true(wait(&how) > 0);
        assert_int_equal(how, 0);
    }
    enum { ALL = WRITERS * THREADS * LINES };
    static unsigned char seen[ALL];
    int files = collect(path, seen, ALL);
    assert_in_range(files, 3, LOG_KEPT + 1);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(seen[i], 1);
    struct stat information;
    for (int k = 0; k < files; k++) {
        char name[PATH_SIZE + 8];
        old_path(path, k, name, sizeof name);
        assert_int_equal(stat(name, &information), 0);
        /* A writer that had already opened the file when it was renamed may add a line. */
        assert_true(information.st_size <= size + 256 * WRITERS * THREADS);
    }
}

static void only_so_many_old_files_are_kept(void **state) {
    (void)state;
    struct err err = {0};
    struct log *log = NULL;
    char path[PATH_SIZE], name[PATH_SIZE + 8];
    scratch_path("kept.log", path);
    assert_ok(log_open(path, "test.0", LOG_ERROR + 1, &log, &err));
    log_set_size(log, 1000);
    for (int i = 0; i < 500; i++)
        log_write(log, LOG_INFO, "line", "writer 0 number %d end", i % LINES);
    for (int k = 0; k <= LOG_KEPT + 1; k++) {
        old_path(path, k, name, sizeof name);
        assert_int_equal(file_exists(name), k <= LOG_KEPT);
    }
    /* Another process renames the log. */
    log_rotate(path, 1);
    assert_false(file_exists(path));
    log_write(log, LOG_INFO, "line", "writer 0 number 0 end");
    assert_true(file_exists(path));
    log_rotate(path, 1 << 20);
    assert_true(file_exists(path));
    log_close(&log);
}

static void put(int descriptor, const char *text) {
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
}

static void standard_error_goes_along(void **state) {
    (void)state;
    struct err err = {0};
    struct log *log = NULL;
    char path[PATH_SIZE], old[PATH_SIZE + 8];
    char *text = NULL;
    size_t length;
    scratch_path("error.log", path);
    old_path(path, 1, old, sizeof old);
    int before = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    assert_ok(log_open(path, "test.0", LOG_ERROR + 1, &log, &err));
    log_set_size(log, 100);
    put(STDERR_FILENO, "a library says something that is longer than what the log may be: "
                       "one hundred bytes, which is not much, all in all\n");
    log_renew(log);
    put(STDERR_FILENO, "and more\n");
    dup2(before, STDERR_FILENO);
    close(before);
    close(file);
    log_close(&log);
    assert_true(file_exists(old));
    assert_ok(file_read_whole(path, 4096, &text, &length, &err));
    assert_string_equal(text, "and more\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_torn_when_the_log_is_renamed),
        cmocka_unit_test(only_so_many_old_files_are_kept),
        cmocka_unit_test(standard_error_goes_along),
    };
    return scratch_run("log", tests, sizeof tests / sizeof *tests);
}
