#include "common/files.h"
#include "common/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory.h"
#include "tests/common/scratch.h"

static void assert_text(const char *path, const char *expected) {
    struct err err = {0};
    char *text = NULL;
    size_t length = 0;
    assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    free(text);
}

static void paths_are_joined_and_split(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    assert_ok(path_join("a/b", "c", path, sizeof path, &err));
    assert_string_equal(path, "a/b/c");
    assert_ok(path_join("a/", "c", path, sizeof path, &err));
    assert_string_equal(path, "a/c");
    assert_ok(path_join("a", "/c", path, sizeof path, &err));
    assert_string_equal(path, "/c");
    assert_ok(path_join("", "c", path, sizeof path, &err));
    assert_string_equal(path, "c");
    assert_int_equal(path_join("abc", "def", path, 7, &err), STATUS_BAD_ARGUMENT);
    assert_ok(path_join("abc", "def", path, 8, &err));
    assert_ok(path_without_ending("a.b/mic.1.mrc", path, sizeof path, &err));
    assert_string_equal(path, "a.b/mic.1");
    assert_ok(path_without_ending("a.b/mic", path, sizeof path, &err));
    assert_string_equal(path, "a.b/mic");
    assert_ok(path_without_ending("a/.mrc", path, sizeof path, &err));
    assert_string_equal(path, "a/.mrc");
    assert_ok(path_folder("a/b/c", path, sizeof path, &err));
    assert_string_equal(path, "a/b");
    assert_ok(path_folder("c", path, sizeof path, &err));
    assert_string_equal(path, ".");
    assert_ok(path_folder("/c", path, sizeof path, &err));
    assert_string_equal(path, "/");
    const char *rest = NULL;
    assert_true(path_is_below("/a/b/c", "/a/b", &rest));
    assert_string_equal(rest, "c");
    assert_true(path_is_below("/a/b/c", "/a/b/", NULL));
    assert_true(path_is_below("/a/b", "/a/b", &rest));
    assert_string_equal(rest, "");
    assert_true(path_is_below("/a", "/", &rest));
    assert_string_equal(rest, "a");
    assert_false(path_is_below("/a/bc", "/a/b", &rest));
    assert_false(path_is_below("/a", "/a/b", &rest));
    assert_string_equal(path_name("a/b.c"), "b.c");
    assert_string_equal(path_name("b.c"), "b.c");
}

static void folders_are_made_on_the_way(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("deep/er/est", path);
    assert_ok(file_make_folders(path, 0700, &err));
    assert_ok(file_make_folders(path, 0700, &err));
    assert_true(file_is_folder(path));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    scratch_path("deep/file", path);
    assert_ok(file_write_whole(path, "x", 1, &err));
    assert_false(file_is_folder(path));
    scratch_path("deep/file/below", path);
    assert_int_equal(file_make_folders(path, 0700, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "deep/file"));
    scratch_path("made/for/this.mrc", path);
    assert_ok(file_make_parents(path, 0777, &err));
    scratch_path("made/for", path);
    assert_true(file_is_folder(path));
}

static void what_is_discarded_leaves_the_old_file(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], partial[PATH_SIZE];
    scratch_path("old.star", path);
    scratch_path(".old.star.partial", partial);
    assert_ok(file_write_whole(path, "old", 3, &err));
    struct file_output *output = NULL;
    assert_ok(file_create(path, &output, &err));
    fputs("new", file_output_stream(output));
    assert_true(file_exists(partial));
    assert_text(path, "old");
    file_discard(&output);
    assert_null(output);
    assert_false(file_exists(partial));
    assert_text(path, "old");
    assert_ok(file_create(path, &output, &err));
    fputs("new", file_output_stream(output));
    assert_ok(file_commit(&output, &err));
    assert_null(output);
    file_discard(&output);
    assert_text(path, "new");
    assert_false(file_exists(partial));
}

static void what_a_killed_process_left_is_overwritten(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], partial[PATH_SIZE];
    scratch_path("again", path);
    scratch_path(".again.partial", partial);
    assert_ok(file_write_whole(partial, "much longer than what follows", 29, &err));
    assert_ok(file_write_whole(path, "short", 5, &err));
    assert_text(path, "short");
    assert_false(file_exists(partial));
}

static void failures_name_the_file(void **state) {
    (void)state;
    struct err err = {0};
    struct file_output *output = NULL;
    char *text = NULL;
    char path[PATH_SIZE];
    scratch_path("nowhere/file", path);
    assert_int_equal(file_create(path, &output, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, path));
    assert_null(output);
    assert_int_equal(file_read_whole(path, 10, &text, NULL, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(file_read_whole("/tmp", 10, &text, NULL, &err), STATUS_BAD_FORMAT);
    assert_int_equal(file_read_whole("/dev/zero", 10, &text, NULL, &err), STATUS_BAD_FORMAT);
    scratch_path("eleven", path);
    assert_ok(file_write_whole(path, "0123456789a", 11, &err));
    assert_int_equal(file_read_whole(path, 10, &text, NULL, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "11 bytes"));
    assert_ok(file_read_whole(path, 11, &text, NULL, &err));
    free(text);
}

static void a_full_disk_is_reported(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) skip();
    fclose(full);
    struct err err = {0};
    char path[PATH_SIZE], partial[PATH_SIZE];
    scratch_path("full", path);
    scratch_path(".full.partial", partial);
    struct file_output *output = NULL;
    assert_ok(file_create(path, &output, &err));
    int device = -1;
    /* The stream's descriptor now writes to a device on which every write fails. */
    device = dup2(fileno(freopen("/dev/full", "w", file_output_stream(output))), fileno(file_output_stream(output)));
    assert_true(device >= 0);
    fputs("lost", file_output_stream(output));
    assert_int_equal(file_commit(&output, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, path));
    assert_false(file_exists(path));
    assert_false(file_exists(partial));
}

/* A writer that stops in the middle of a file must not keep others from writing the file, and must do no harm when it
 * continues. */
static void a_writer_that_stands_still_is_passed(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], *text;
    scratch_path("slow", path);
    struct file_output *slow = NULL;
    assert_ok(file_create(path, &slow, &err));
    fputs("half of", file_output_stream(slow));
    assert_ok(file_write_whole(path, "whole", 5, &err)); /* after some seconds */
    assert_int_equal(file_commit(&slow, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "took over"));
    assert_ok(file_read_whole(path, 100, &text, NULL, &err));
    assert_string_equal(text, "whole");
    free(text);
    scratch_path(".slow.partial", path);
    assert_false(file_exists(path));
    scratch_path(".slow.2.partial", path);
    assert_false(file_exists(path));
}

static bool is_there(const char *name) {
    char path[PATH_SIZE];
    scratch_path(name, path);
    return file_exists(path);
}

static struct file_output *begin(const char *name, const char *text) {
    struct err err = {0};
    struct file_output *output = NULL;
    char path[PATH_SIZE];
    scratch_path(name, path);
    assert_ok(file_create(path, &output, &err));
    fputs(text, file_output_stream(output));
    return output;
}

/* The test is one process after the other: what it writes on two hosts are files of two names. */
static void writers_on_two_hosts_do_not_meet(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("both", path);
    file_share("node-1.example.org", "0123456789abcdef");
    struct file_output *here = begin("both", "here");
    file_share("node-2", "fedcba9876543210");
    struct file_output *there = begin("both", "there"); /* without a wait for the other one */
    assert_true(is_there(".both.node_1_example_org-89abcdef.partial"));
    assert_true(is_there(".both.node_2-76543210.partial"));
    assert_ok(file_commit(&there, &err));
    assert_text(path, "there");
    assert_ok(file_commit(&here, &err));
    assert_text(path, "here");
    file_share(NULL, NULL);
    struct file_output *alone = begin("both", "");
    assert_true(is_there(".both.partial"));
    file_discard(&alone);
}

enum { HOSTS = 8 };

/* Processes of several hosts want the same name at once. One gets it, and its content stays. */
static void one_alone_makes_a_new_file(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], text[2] = "";
    pid_t writers[HOSTS];
    int start[2], firsts = 0, first = -1;
    scratch_path("number", path);
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < HOSTS; i++) {
        text[0] = (char)('0' + i);
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] > 0) continue;
        char nothing;
        bool is_new = false;
        close(start[1]);
        (void)!read(start[0], &nothing, 1); /* until all are there */
        _exit(file_write_new(path, text, 1, &is_new, &err) != STATUS_OK ? 2 : is_new ? 1 : 0);
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < HOSTS; i++) {
        int wait_status = 0;
        assert_int_equal(waitpid(writers[i], &wait_status, 0), writers[i]);
        assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) < 2);
        if (WEXITSTATUS(wait_status) == 1) first = i;
        firsts += WEXITSTATUS(wait_status);
    }
    assert_int_equal(firsts, 1);
    text[0] = (char)('0' + first);
    assert_text(path, text);
    bool is_new = true;
    /* A writer that stands still on another host is not waited for, and keeps its file: no lock is asked. */
    struct file_output *still = begin("unlocked", "later");
    scratch_path("unlocked", path);
    assert_ok(file_write_new(path, "new", 3, &is_new, &err));
    assert_true(is_new);
    assert_ok(file_commit(&still, &err));
    scratch_path("number", path);
    assert_ok(file_write_new(path, "late", 4, &is_new, &err));
    assert_false(is_new);
    assert_text(path, text);
    assert_int_equal(scratch_shell("ls -A \"$(dirname '%s')\" | grep -q 'number.*partial'", path),
                     1); /* nothing is left */
}

static void names_fit_with_a_host(void **state) {
    (void)state;
    struct err err = {0};
    char name[220], path[PATH_SIZE];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    file_share("a-name-of-a-host-that-is-longer-than-most", "0123456789abcdef");
    scratch_path(name, path);
    assert_ok(file_write_whole(path, "long", 4, &err));
    assert_text(path, "long");
    file_share(NULL, NULL);
}

static void what_dead_processes_left_is_swept(void **state) {
    (void)state;
    struct err err = {0};
    char folder[PATH_SIZE], path[PATH_SIZE];
    static const char *const left[] = {
        "swept/.dead.mrc.here-00000000.partial", "swept/a/b/.dead.2.here-0000000a.partial",
        "swept/a/.link.mrc.here-00000000.link", "swept/.other.mrc.there-00000000.partial",
        "swept/.other.mrc.here-and-there-00000000.partial"};
    static const char *const kept[] = {"swept/.dead.mrc.partial", "swept/.dead.here-0000000.partial",
                                       "swept/.dead.here-0000000g.partial", "swept/dead.here-00000000.partial",
                                       "swept/.here-00000000.partial"};
    scratch_path("swept/a/b", folder);
    assert_ok(file_make_folders(folder, 0777, &err));
    scratch_path("swept", folder);
    for (size_t i = 0; i < 5; i++) {
        scratch_path(left[i], path);
        assert_int_equal(scratch_shell("touch '%s'", path), 0);
        scratch_path(kept[i], path);
        assert_int_equal(scratch_shell("touch '%s'", path), 0);
    }
    file_share("here", "L0000000000001-fedc12345678"); /* as stages have them: a life, and random digits */
    struct file_output *alive = begin("swept/alive.mrc", "alive");
    file_sweep(folder, "here");
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(is_there(left[i]), i >= 3); /* those of other hosts stay: they may be at work */
        assert_true(is_there(kept[i]));
    }
    assert_true(is_there("swept/.alive.mrc.here-12345678.partial"));
    /* A sweep for all hosts takes the file from its writer, who notices. */
    file_sweep(folder, NULL);
    assert_false(is_there(left[3]) || is_there(left[4]) || is_there("swept/.alive.mrc.here-12345678.partial"));
    assert_true(is_there(kept[0]));
    assert_int_equal(file_commit(&alive, &err), STATUS_UNAVAILABLE);
    assert_false(is_there("swept/alive.mrc"));
    alive = begin("swept/alive.mrc", "again");
    assert_ok(file_commit(&alive, &err));
    assert_true(is_there("swept/alive.mrc"));
    file_share(NULL, NULL);
}

static void lines_are_appended_whole(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("lines", path);
    assert_ok(file_append_line(path, "one", &err));
    assert_ok(file_append_line(path, "two", &err));
    assert_text(path, "one\ntwo\n");
    /* The next line replaces a line that a crash has cut. */
    assert_ok(file_write_whole(path, "one\ntw", 6, &err));
    assert_ok(file_append_line(path, "three", &err));
    assert_text(path, "one\nthree\n");
    assert_ok(file_write_whole(path, "half", 4, &err));
    assert_ok(file_append_line(path, "whole", &err));
    assert_text(path, "whole\n");
    scratch_path("nowhere/lines", path);
    assert_int_equal(file_append_line(path, "lost", &err), STATUS_UNAVAILABLE);
}

static void refusals_are_told_apart(void **state) {
    (void)state;
    assert_int_equal(status_of_writing(ENOSPC), STATUS_UNAVAILABLE);
    assert_int_equal(status_of_writing(EROFS), STATUS_UNAVAILABLE);
    assert_int_equal(status_of_writing(EFBIG), STATUS_IO);
    const struct rlimit limit = {1 << 30, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status_of_writing(EFBIG), STATUS_UNAVAILABLE);
    assert_non_null(strstr(status_reason(EFBIG), "ulimit -f"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_string_equal(status_reason(EFBIG), strerror(EFBIG));
    assert_int_equal(status_of_writing(ENAMETOOLONG), STATUS_IO);
    assert_int_equal(status_of_writing(ENOMEM), STATUS_NO_MEMORY);
    assert_int_equal(status_of_reading(EMFILE), STATUS_UNAVAILABLE);
    assert_int_equal(status_of_reading(EACCES), STATUS_IO);
    assert_int_equal(status_of_reading(EIO), STATUS_IO);
}

enum { WRITERS = 4, ROUNDS = 50 };

static void *write_often(void *argument) {
    const char *path = argument;
    char text[4001];
    for (int i = 0; i < ROUNDS; i++) {
        memset(text, 'a' + i % 26, 4000);
        struct file_output *output = NULL;
        if (file_create(path, &output, NULL) != STATUS_OK) return argument;
        for (int part = 0; part < 4; part++)
            if (fwrite(text, 1, 1000, file_output_stream(output)) != 1000) return argument;
        if (file_commit(&output, NULL) != STATUS_OK) return argument;
    }
    return NULL;
}

/* A reader sees one writer's whole file at any time. */
static void two_writers_of_one_path_take_turns(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("shared", path);
    assert_ok(file_write_whole(path, "", 0, &err));
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, path), 0);
    for (int i = 0; i < 200; i++) {
        char *text = NULL;
        size_t length = 0;
        assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
        assert_true(length == 0 || length == 4000);
        for (size_t c = 1; c < length; c++)
            assert_int_equal(text[c], text[0]);
        free(text);
    }
    for (int i = 0; i < WRITERS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void long_names_are_shortened_and_stay_their_own(void **state) {
    (void)state;
    struct err err = {0};
    char name[256], other[256], stem[PATH_SIZE], second[PATH_SIZE];
    assert_ok(path_stem("grid/mic_1", stem, sizeof stem, &err));
    assert_string_equal(stem, "grid/mic_1");
    snprintf(name, sizeof name, "g/%0200d", 1);
    assert_ok(path_stem(name, stem, sizeof stem, &err));
    assert_string_equal(stem, name);
    snprintf(name, sizeof name, "g/%0250d", 1);
    snprintf(other, sizeof other, "g/%0250d", 2);
    assert_ok(path_stem(name, stem, sizeof stem, &err));
    assert_ok(path_stem(other, second, sizeof second, &err));
    assert_int_equal(strlen(stem), 2 + 200);
    assert_int_equal(strlen(second), 2 + 200);
    assert_string_not_equal(stem, second);
    /* Files of old sessions are found by this hash: it must never change. */
    assert_string_equal(stem + 2 + 183, "~e37818d0595ceb8a");
    /* No character is cut. Each takes 3 bytes and 183 is a multiple of 3, so one byte goes before. */
    memcpy(name, "g/x", 3);
    for (int i = 0; i < 80; i++)
        memcpy(name + 3 + 3 * i, "\xe2\x84\xab", 4);
    assert_ok(path_stem(name, stem, sizeof stem, &err));
    assert_int_equal(strlen(stem), 2 + 181 + 17);
    text_trim(name);
    assert_int_equal(strlen(name), 243);
    for (int cut = 1; cut <= 3; cut++) {
        name[243 - cut] = '\0';
        text_trim(name);
        assert_int_equal(strlen(name), 240);
    }
    assert_int_equal(path_stem(other, stem, 202, &err), STATUS_BAD_ARGUMENT);
}

/* A large file is read in pieces, of which the last is shorter. */
static void large_files_are_read_whole(void **state) {
    (void)state;
    const size_t count = ((size_t)17 << 20) / sizeof(uint32_t) + 1;
    char path[PATH_SIZE];
    struct err err = {0};
    _cleanup_(mem_free) uint32_t *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)i;
    scratch_path("large", path);
    assert_ok(file_write_whole(path, numbers, count * sizeof *numbers - 1, &err));
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    assert_ok(file_read_whole(path, SIZE_MAX, &text, &length, &err));
    assert_int_equal(length, count * sizeof *numbers - 1);
    assert_memory_equal(text, numbers, length);
    assert_int_equal(text[length], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_files_are_read_whole),
        cmocka_unit_test(long_names_are_shortened_and_stay_their_own),
        cmocka_unit_test(paths_are_joined_and_split),
        cmocka_unit_test(folders_are_made_on_the_way),
        cmocka_unit_test(what_is_discarded_leaves_the_old_file),
        cmocka_unit_test(what_a_killed_process_left_is_overwritten),
        cmocka_unit_test(failures_name_the_file),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(writers_on_two_hosts_do_not_meet),
        cmocka_unit_test(one_alone_makes_a_new_file),
        cmocka_unit_test(names_fit_with_a_host),
        cmocka_unit_test(what_dead_processes_left_is_swept),
        cmocka_unit_test(lines_are_appended_whole),
        cmocka_unit_test(refusals_are_told_apart),
        cmocka_unit_test(a_writer_that_stands_still_is_passed),
        cmocka_unit_test(two_writers_of_one_path_take_turns),
    };
    return scratch_run("files", tests, sizeof tests / sizeof *tests);
}
