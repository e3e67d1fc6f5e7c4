#include "pipelines/launcher/replay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"

enum { DEPTH_MAX = 32, COPY_BYTES = 1 << 16 };

void replay_clear(struct replay *replay) {
    for (size_t i = 0; i < replay->count; i++)
        free(replay->files[i].path);
    free(replay->files);
    free(replay->kills);
    free(replay->source);
    free(replay->target);
    *replay = (struct replay){0};
}

/* ---- What was recorded ---- */

static enum status add_file(struct replay *replay, const char *path, const struct stat *info, struct err *err) {
    if ((replay->count & (replay->count - 1)) == 0) {
        size_t capacity = replay->count ? 2 * replay->count : 64;
        struct replay_file *files = realloc(replay->files, capacity * sizeof *files);
        FAIL_IF(files == NULL, err, STATUS_NO_MEMORY, "no memory for the list of files");
        replay->files = files;
    }
    struct replay_file *file = &replay->files[replay->count];
    *file = (struct replay_file){.path = strdup(path),
                                 .time = (double)info->st_mtim.tv_sec + 1e-9 * (double)info->st_mtim.tv_nsec};
    FAIL_IF(file->path == NULL, err, STATUS_NO_MEMORY, "no memory for the list of files");
    replay->count++;
    return STATUS_OK;
}

/* Collects files. below: relative to the source; "" for the source itself. Skips hidden files, which may be
 * half-written. */
static enum status collect(struct replay *replay, const char *below, int depth, struct err *err) {
    char folder[PATH_SIZE], path[PATH_SIZE], whole[PATH_SIZE];
    TRY(path_join(replay->source, below, folder, sizeof folder, err));
    DIR *directory = opendir(folder);
    FAIL_IF(directory == NULL, err, STATUS_NOT_FOUND, "%s: cannot be read: %s", folder, strerror(errno));
    enum status status = STATUS_OK;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (entry->d_name[0] == '.') continue;
        status = path_join(below, entry->d_name, path, sizeof path, err);
        if (status == STATUS_OK) status = path_join(replay->source, path, whole, sizeof whole, err);
        if (status != STATUS_OK || stat(whole, &info) != 0) continue;
        if (S_ISREG(info.st_mode))
            status = add_file(replay, path, &info, err);
        else if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX)
            status = collect(replay, path, depth + 1, err);
    }
    closedir(directory);
    return status;
}

static int by_time(const void *a, const void *b) {
    const struct replay_file *one = a, *two = b;
    if (one->time != two->time) return one->time < two->time ? -1 : 1;
    return strcmp(one->path, two->path);
}

static int by_due(const void *a, const void *b) {
    const struct replay_file *one = a, *two = b;
    if (one->due != two->due) return one->due < two->due ? -1 : 1;
    if (one->again != two->again) return one->again ? 1 : -1;
    return by_time(a, b);
}

/* ---- Faults ---- */

static enum status bad_fault(const char *spec, struct err *err) {
    FAIL(err, STATUS_BAD_ARGUMENT,
         "--fault %s: expected kill:STAGE@N, corrupt:N, delay:N:SECONDS or duplicate:N (N counts from 1)", spec);
}

static enum status add_kill(struct replay *replay, const char *spec, struct err *err) {
    const char *stage = spec + strlen("kill:"), *at = strrchr(stage, '@');
    char *end = NULL;
    long after = at ? strtol(at + 1, &end, 10) : -1;
    struct replay_kill *fault = &replay->kills[replay->kill_count];
    if (at == NULL || at == stage || end == at + 1 || *end != '\0' || after < 0 ||
        (size_t)(at - stage) >= sizeof fault->stage)
        return bad_fault(spec, err);
    *fault = (struct replay_kill){.after = after};
    memcpy(fault->stage, stage, (size_t)(at - stage));
    replay->kill_count++;
    return STATUS_OK;
}

/* The files are still in the order of their times, which the N of a fault counts. */
static enum status add_file_fault(struct replay *replay, size_t recorded, const char *spec, struct err *err) {
    const char *number = strchr(spec, ':') + 1;
    char *end;
    long n = strtol(number, &end, 10);
    FAIL_IF(end != number && n > (long)recorded, err, STATUS_BAD_ARGUMENT, "--fault %s: there are only %zu files", spec,
            recorded);
    if (end == number || n < 1) return bad_fault(spec, err);
    struct replay_file *file = &replay->files[n - 1];
    if (strncmp(spec, "corrupt:", 8) == 0 && *end == '\0') {
        file->corrupt = true;
    } else if (strncmp(spec, "delay:", 6) == 0 && *end == ':') {
        const char *from = end + 1;
        double seconds = strtod(from, &end);
        if (end == from || *end != '\0' || !isfinite(seconds) || seconds < 0) return bad_fault(spec, err);
        file->due += seconds;
    } else if (strncmp(spec, "duplicate:", 10) == 0 && *end == '\0') {
        struct replay_file copy = *file;
        const struct stat info = {0};
        TRY(add_file(replay, copy.path, &info, err));
        struct replay_file *added = &replay->files[replay->count - 1];
        added->time = copy.time;
        added->due = copy.due;
        added->again = true;
    } else {
        return bad_fault(spec, err);
    }
    return STATUS_OK;
}

static enum status add_faults(struct replay *replay, const char *const *faults, size_t count, struct err *err) {
    size_t recorded = replay->count;
    replay->kills = calloc(count + 1, sizeof *replay->kills);
    FAIL_IF(replay->kills == NULL, err, STATUS_NO_MEMORY, "no memory for the faults");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(faults[i], "kill:", 5) == 0)
            TRY(add_kill(replay, faults[i], err));
        else if (strchr(faults[i], ':') != NULL)
            TRY(add_file_fault(replay, recorded, faults[i], err));
        else
            return bad_fault(faults[i], err);
    }
    return STATUS_OK;
}

static enum status fill(struct replay *replay, double speed, const char *const *faults, size_t fault_count,
                        struct err *err) {
    TRY(collect(replay, "", 0, err));
    FAIL_IF(replay->count == 0, err, STATUS_NOT_FOUND, "%s holds no files to play again", replay->source);
    qsort(replay->files, replay->count, sizeof *replay->files, by_time);
    replay->expected = replay->count;
    for (size_t i = 0; i < replay->count; i++)
        replay->files[i].due = isinf(speed) ? 0 : (replay->files[i].time - replay->files[0].time) / speed;
    TRY(add_faults(replay, faults, fault_count, err));
    qsort(replay->files, replay->count, sizeof *replay->files, by_due);
    for (size_t i = 1; i < replay->count; i++)
        replay->longest_gap = fmax(replay->longest_gap, replay->files[i].due - replay->files[i - 1].due);
    return STATUS_OK;
}

enum status replay_create(const char *source, double speed, const char *const *faults, size_t fault_count,
                          struct replay *ret_replay, struct err *err) {
    struct replay replay = {.source = realpath(source, NULL)};
    FAIL_IF(replay.source == NULL, err, STATUS_NOT_FOUND, "%s: %s", source, strerror(errno));
    enum status status = fill(&replay, speed, faults, fault_count, err);
    if (status != STATUS_OK) {
        replay_clear(&replay);
        return status;
    }
    *ret_replay = replay;
    return STATUS_OK;
}

/* ---- Files appear: whole, under their own times ---- */

enum status replay_begin(struct replay *replay, const char *target, struct err *err) {
    TRY(file_make_folders(target, 0777, err));
    replay->target = realpath(target, NULL);
    FAIL_IF(replay->target == NULL, err, STATUS_IO, "%s: %s", target, strerror(errno));
    FAIL_IF(path_is_below(replay->target, replay->source, NULL), err, STATUS_BAD_ARGUMENT,
            "%s lies inside %s, which is to be played into it; use another --session", target, replay->source);
    replay->start = clock_monotonic();
    /* Goes on where a stopped replay ended. */
    for (; replay->next < replay->count; replay->next++) {
        char path[PATH_SIZE];
        TRY(path_join(replay->target, replay->files[replay->next].path, path, sizeof path, err));
        if (!file_exists(path)) break;
    }
    if (replay->next < replay->count) replay->start -= replay->files[replay->next].due;
    return STATUS_OK;
}

static enum status copy_bytes(int from, int to, off_t limit, const char *path, struct err *err) {
    _cleanup_(mem_free) char *buffer = malloc(COPY_BYTES);
    FAIL_IF(buffer == NULL, err, STATUS_NO_MEMORY, "no memory to copy %s", path);
    while (limit > 0) {
        ssize_t got = read(from, buffer, limit < COPY_BYTES ? (size_t)limit : COPY_BYTES);
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(got < 0, err, STATUS_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0) break;
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(to, buffer + done, (size_t)(got - done));
            FAIL_IF(put < 0 && errno != EINTR, err, status_of_writing(errno), "%s: cannot be copied: %s", path,
                    status_reason(errno));
            done += put > 0 ? put : 0;
        }
        limit -= got;
    }
    return STATUS_OK;
}

static enum status copy(const char *from, const char *to, bool half, struct err *err) {
    struct stat info;
    _cleanup_(file_close) int input = open(from, O_RDONLY | O_CLOEXEC);
    FAIL_IF(input < 0 || fstat(input, &info) != 0, err, STATUS_IO, "%s: cannot be read: %s", from, strerror(errno));
    int output = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    enum status status = STATUS_OK;
    if (output < 0)
        status = err_set(err, status_of_writing(errno), __FILE__, __LINE__, "%s: cannot be written: %s", to,
                         status_reason(errno));
    if (status == STATUS_OK) status = copy_bytes(input, output, half ? info.st_size / 2 : info.st_size, from, err);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    if (output >= 0 && status == STATUS_OK) futimens(output, times);
    if (output >= 0 && close(output) != 0 && status == STATUS_OK)
        status = err_set(err, status_of_writing(errno), __FILE__, __LINE__, "%s: cannot be written: %s", to,
                         status_reason(errno));
    return status;
}

static enum status place(const struct replay *replay, const struct replay_file *file, struct err *err) {
    char from[PATH_SIZE], to[PATH_SIZE], folder[PATH_SIZE], beside[PATH_SIZE];
    TRY(path_join(replay->source, file->path, from, sizeof from, err));
    TRY(path_join(replay->target, file->path, to, sizeof to, err));
    TRY(path_folder(to, folder, sizeof folder, err));
    TRY(file_make_folders(folder, 0777, err));
    int length = snprintf(beside, sizeof beside, "%s/.%s.partial", folder, path_name(to));
    FAIL_IF(length < 0 || length >= (int)sizeof beside, err, STATUS_BAD_ARGUMENT, "%s: too long a path", to);
    FAIL_IF(unlink(beside) != 0 && errno != ENOENT, err, status_of_writing(errno), "%s: cannot be removed: %s", beside,
            status_reason(errno));
    /* A hard link costs nothing and survives the recording; renaming a hard link over the same file would do
     * nothing. */
    if (file->corrupt || file->again)
        TRY(copy(from, beside, file->corrupt, err));
    else if (link(from, beside) != 0 && symlink(from, beside) != 0)
        TRY(copy(from, beside, false, err));
    FAIL_IF(rename(beside, to) != 0, err, status_of_writing(errno), "%s: cannot be renamed to %s: %s", beside, to,
            status_reason(errno));
    return STATUS_OK;
}

enum status replay_advance(struct replay *replay, struct err *err) {
    while (!replay_all_in(replay) && replay->files[replay->next].due <= clock_monotonic() - replay->start) {
        TRY(place(replay, &replay->files[replay->next], err));
        replay->next++;
    }
    return STATUS_OK;
}

bool replay_all_in(const struct replay *replay) {
    return replay->next == replay->count;
}
