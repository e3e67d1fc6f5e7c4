/* Finds shared libraries that the programs need and that the system does not have. The system's own loader is asked
 * (ld.so(8), LD_TRACE_LOADED_OBJECTS), which lists what it would load and starts nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "pipelines/launcher/doctor/doctor.h"

/* Packages of Debian 12 and Ubuntu 24.04. */
static const struct {
    const char *library, *package;
} packages[] = {
    {"libchealpix.so", "libchealpix0"},
    {"libfftw3f.so", "libfftw3-single3"},
    {"libfftw3f_omp.so", "libfftw3-single3"},
    {"libgomp.so", "libgomp1"},
    {"libjansson.so", "libjansson4"},
    {"libjpeg.so.62", "libjpeg62-turbo"},
    {"libjpeg.so.8", "libjpeg-turbo8"},
    {"libopenblas.so", "libopenblas0"},
    {"libpng16.so", "libpng16-16"},
    {"libmicrohttpd.so", "libmicrohttpd12"},
    {"libpq.so", "libpq5"},
    {"libz.so", "zlib1g"},
    {"libsqlite3.so", "libsqlite3-0"},
    {"libstdc++.so", "libstdc++6"},
    {"libtiff.so", "libtiff6"},
    {"libxgboost.so", "libxgboost0"},
    {"libxxhash.so", "libxxhash0"},
    {"libyaml-0.so", "libyaml-0-2"},
    {"libzmq.so", "libzmq5"},
};

enum { TRACE_MAX = 1 << 16, WAIT_MAX = 10, REPORTED_MAX = 4 };

static const char *package_of(const char *library) {
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        size_t length = strlen(packages[i].library);
        if (strncmp(library, packages[i].library, length) == 0 && (library[length] == '.' || library[length] == '\0'))
            return packages[i].package;
    }
    return NULL;
}

static void take(struct doctor_missing *missing, const char *program, const char *library, size_t length) {
    char name[sizeof missing->rows->library];
    snprintf(name, sizeof name, "%.*s", (int)length, library);
    size_t row = 0;
    while (row < missing->count && strcmp(missing->rows[row].library, name) != 0)
        row++;
    if (row == sizeof missing->rows / sizeof *missing->rows) return;
    if (row == missing->count) {
        missing->count++;
        memcpy(missing->rows[row].library, name, sizeof name);
        snprintf(missing->rows[row].program, sizeof missing->rows[row].program, "%s", program);
    }
    missing->rows[row].programs++;
}

void doctor_take_trace(struct doctor_missing *missing, const char *program, const char *text) {
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        const char *begin = text + strspn(text, " \t"), *end = text + length;
        const char *found = memmem(begin, (size_t)(end - begin), " => not found", 13);
        const char *version = memmem(begin, (size_t)(end - begin), ": version `", 11);
        if (found != NULL) {
            take(missing, program, begin, (size_t)(found - begin));
        } else if (version != NULL) { /* PROGRAM: LIBRARY: version `GLIBC_2.38' not found (required by …) */
            const char *name = memmem(version + 11, (size_t)(end - version - 11), "'", 1);
            if (name != NULL) take(missing, program, version + 11, (size_t)(name - version - 11));
        }
        text = end + (*end == '\n');
    }
}

void doctor_judge_libraries(struct doctor *doctor, const struct doctor_missing *missing, size_t programs,
                            const char *folder) {
    if (programs == 0) {
        doctor_add(doctor, DOCTOR_ERROR, "libraries", NULL,
                   "no program icestream-… lies in %s: icestream starts its stages from its own folder, so install all "
                   "of it",
                   folder);
        return;
    }
    char remedy[sizeof doctor->findings->remedy] = "sudo apt-get install", names[256] = "";
    size_t known = 0;
    for (size_t i = 0; i < missing->count; i++) {
        const char *package = package_of(missing->rows[i].library);
        size_t used = strlen(names);
        if (i < REPORTED_MAX)
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", missing->rows[i].library);
        if (package == NULL) continue;
        used = strlen(remedy);
        if (strstr(remedy, package) == NULL) snprintf(remedy + used, sizeof remedy - used, " %s", package);
        known++;
    }
    if (missing->unstarted[0] != '\0')
        doctor_add(doctor, DOCTOR_ERROR, "libraries", NULL,
                   "%s in %s cannot be started: see whether the folder is mounted with noexec, and whether the file is "
                   "whole",
                   missing->unstarted, folder);
    if (missing->count == 0 && missing->unstarted[0] == '\0') {
        doctor_add(doctor, DOCTOR_OK, "libraries", NULL, "%zu programs in %s find all that they need", programs,
                   folder);
        return;
    }
    if (missing->count == 0) return;
    doctor_add(doctor, DOCTOR_ERROR, "libraries", known ? remedy : NULL,
               "%s%s not found, which %s needs, and %zu of %zu programs in all%s", names,
               missing->count > REPORTED_MAX ? " and others are"
               : missing->count > 1          ? " are"
                                             : " is",
               missing->rows[0].program, missing->rows[0].programs, programs,
               known == missing->count
                   ? (doctor->apt ? "" : "; the command is that of Debian and Ubuntu")
                   : "; where no command is given, this system is older or newer than the one of the build: build "
                     "icestream here");
}

/* Makes the environment of a traced program: ours, since LD_LIBRARY_PATH belongs to it, and the two words before it. The
 * caller frees the list, and not its words. NULL: no memory. */
static char **make_environment(void) {
    size_t count = 0, used = 0;
    while (environ[count] != NULL)
        count++;
    char **words = calloc(count + 3, sizeof *words);
    if (words == NULL) return NULL;
    words[used++] = (char *)"LD_TRACE_LOADED_OBJECTS=1";
    words[used++] = (char *)"LC_ALL=C"; /* the loader translates what it says */
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0 && strncmp(environ[i], "LD_TRACE_", 9) != 0)
            words[used++] = environ[i];
    return words;
}

/* Runs a program that the loader only traces. Returns the length of what it prints; -1: it could not be started, or did
 * not end in time. */
static ssize_t trace(const char *path, char *text) {
    int pipes[2];
    char *argv[] = {(char *)path, NULL}, **environment = make_environment();
    if (environment == NULL || pipe2(pipes, O_CLOEXEC) != 0) {
        free(environment);
        return -1;
    }
    posix_spawn_file_actions_t actions;
    pid_t child;
    bool started = posix_spawn_file_actions_init(&actions) == 0;
    if (started) {
        started = posix_spawn_file_actions_adddup2(&actions, pipes[1], 1) == 0 &&
                  posix_spawn_file_actions_adddup2(&actions, pipes[1], 2) == 0 &&
                  posix_spawn(&child, path, &actions, NULL, argv, environment) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    close(pipes[1]);
    ssize_t length = 0, got = 1;
    const double deadline = clock_monotonic() + WAIT_MAX;
    while (started && got > 0 && length < TRACE_MAX - 1) {
        struct pollfd poller = {.fd = pipes[0], .events = POLLIN};
        double left = deadline - clock_monotonic();
        int ready = left > 0 ? poll(&poller, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR) continue;
        got = ready > 0 ? read(pipes[0], text + length, (size_t)(TRACE_MAX - 1 - length)) : -1;
        if (got > 0) length += got;
    }
    close(pipes[0]);
    if (!started) return -1;
    if (got != 0) kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    text[length] = '\0';
    return got == 0 ? length : -1;
}

static bool is_elf(const char *path) {
    char magic[4] = "";
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    bool is = read(descriptor, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "\177ELF", 4) == 0;
    close(descriptor);
    return is && access(path, X_OK) == 0;
}

void doctor_libraries(struct doctor *doctor, const char *folder) {
    static const char prefix[] = "icestream-";
    struct doctor_missing missing = {.count = 0};
    char path[PATH_SIZE], *text = malloc(TRACE_MAX);
    size_t programs = 0;
    DIR *directory = text ? opendir(folder) : NULL;
    for (struct dirent *entry = directory ? readdir(directory) : NULL; entry != NULL; entry = readdir(directory)) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            path_join(folder, entry->d_name, path, sizeof path, NULL) != STATUS_OK || !is_elf(path))
            continue;
        programs++;
        if (trace(path, text) > 0)
            doctor_take_trace(&missing, entry->d_name, text);
        else
            snprintf(missing.unstarted, sizeof missing.unstarted, "%s", entry->d_name);
    }
    if (directory != NULL) closedir(directory);
    free(text);
    doctor_judge_libraries(doctor, &missing, programs, folder);
}
