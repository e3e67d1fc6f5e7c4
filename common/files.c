#include "common/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/files_private.h"
#include "common/memory.h"
#include "common/text.h"
#include "common/together.h"

enum { LOCK_TRIES = 500 }; /* 5 s */

struct file_output {
    char path[PATH_SIZE];
    char partial[PATH_SIZE];
    char folder[PATH_SIZE];
    char mark[FILE_MARK_SIZE];
    struct stat opened;
    FILE *stream;
};

/* The functions between a stage's callback and these know nothing of who called them, as with errno. */
static _Thread_local const struct file_observer *observed_by;

const struct file_observer *file_observe(const struct file_observer *observer) {
    const struct file_observer *before = observed_by;
    observed_by = observer;
    return before;
}

const struct file_observer *file_observed_by(void) {
    return observed_by;
}

enum status file_remove(const char *path, struct err *err) {
    if (unlink(path) != 0 && errno != ENOENT)
        FAIL(err, status_of_writing(errno), "%s: cannot be removed: %s", path, strerror(errno));
    if (observed_by != NULL && observed_by->removed != NULL) observed_by->removed(observed_by->context, path);
    return STATUS_OK;
}

int64_t file_mtime_ns(const struct stat *info) {
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

int file_last_number(const char *folder, const char *prefix, const char *suffix, int before) {
    DIR *entries = opendir(folder);
    int last = 0;
    if (entries == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char *end;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        long number = strtol(entry->d_name + strlen(prefix), &end, 10);
        if (strcmp(end, suffix) == 0 && number > last && number < before) last = (int)number;
    }
    closedir(entries);
    return last;
}

bool path_is_below(const char *path, const char *folder, const char **ret_rest) {
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/')
        length--;
    if (strncmp(path, folder, length) != 0 || (path[length] != '/' && path[length] != '\0')) return false;
    if (ret_rest != NULL) *ret_rest = path + length + (path[length] == '/');
    return true;
}

enum status path_join(const char *folder, const char *name, char *ret_path, size_t size, struct err *err) {
    size_t length = strlen(folder);
    bool alone = name[0] == '/' || length == 0;
    const char *slash = alone || folder[length - 1] == '/' ? "" : "/";
    size_t need = (alone ? 0 : length) + strlen(slash) + strlen(name) + 1;
    FAIL_IF(need > size, err, STATUS_BAD_ARGUMENT, "the path %.200s/%.200s is %zu bytes long; at most %zu are allowed",
            folder, name, need - 1, size - 1);
    snprintf(ret_path, size, "%s%s%s", alone ? "" : folder, slash, name);
    return STATUS_OK;
}

static enum status copy_path(const char *path, size_t length, char *ret_path, size_t size, struct err *err) {
    FAIL_IF(length >= size, err, STATUS_BAD_ARGUMENT, "the path %.200s... is %zu bytes long; at most %zu are allowed",
            path, length, size - 1);
    memmove(ret_path, path, length);
    ret_path[length] = '\0';
    return STATUS_OK;
}

const char *path_base(const char *path, size_t *ret_length) {
    const char *name = path_name(path), *dot = strrchr(name, '.');
    *ret_length = dot != NULL && dot != name ? (size_t)(dot - name) : strlen(name);
    return name;
}

enum status path_without_ending(const char *path, char *ret_path, size_t size, struct err *err) {
    size_t length;
    const char *name = path_base(path, &length);
    return copy_path(path, (size_t)(name - path) + length, ret_path, size, err);
}

enum status path_stem(const char *path, char *ret_stem, size_t size, struct err *err) {
    enum { LONG = 200, KEPT = 183, MARK = 1 + 16 };
    char mark[MARK + 1];
    const char *name = path_name(path);
    size_t before = (size_t)(name - path);
    if (strlen(name) <= LONG) return copy_path(path, strlen(path), ret_stem, size, err);
    snprintf(mark, sizeof mark, "~%016llx", (unsigned long long)text_hash(path));
    size_t kept = before + text_fit(name, KEPT);
    FAIL_IF(kept + MARK >= size, err, STATUS_BAD_ARGUMENT,
            "the path %.200s... is too long: at most %zu bytes are allowed", path, size - 1);
    TRY(copy_path(path, kept, ret_stem, size, err));
    memcpy(ret_stem + kept, mark, sizeof mark);
    return STATUS_OK;
}

enum status path_folder(const char *path, char *ret_path, size_t size, struct err *err) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return copy_path(".", 1, ret_path, size, err);
    return copy_path(path, slash == path ? 1 : (size_t)(slash - path), ret_path, size, err);
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum status file_sync_folder(const char *folder, struct err *err) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A folder that this user may enter but not read is as safe as its owner makes it. */
    if (descriptor < 0 && errno == EACCES) return STATUS_OK;
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: the folder cannot be opened to sync it: %s", folder,
            status_reason(errno));
    /* Some network file systems cannot sync a folder (EINVAL): the rename is then as safe as they make it. */
    int result = fsync(descriptor), reason = errno;
    close(descriptor);
    FAIL_IF(result != 0 && reason != EINVAL && reason != ENOTSUP, err, status_of_writing(reason),
            "%s: the folder cannot be synced: %s", folder, status_reason(reason));
    return STATUS_OK;
}

/* Syncs the folder above: a power cut that removes a new folder also removes all that was synced inside it. */
static enum status make_folder(const char *path, mode_t mode, struct err *err) {
    if (mkdir(path, mode) == 0) {
        char above[PATH_SIZE];
        TRY(path_folder(path, above, sizeof above, err));
        return file_sync_folder(above, err);
    }
    int reason = errno;
    FAIL_IF(!file_is_folder(path), err, reason == EEXIST ? STATUS_IO : status_of_writing(reason),
            "%s: the folder cannot be made: %s", path,
            reason == EEXIST ? "a file of that name is in the way" : status_reason(reason));
    return STATUS_OK;
}

/* Does not follow links: they may lead back. */
static bool is_folder_itself(const struct dirent *entry, const char *path) {
    struct stat info;
    return entry->d_type == DT_DIR || (lstat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* Does not look at files: there may be very many. */
static enum status sync_below(const char *folder, struct err *err) {
    TRY(file_sync_folder(folder, err));
    DIR *entries = opendir(folder);
    if (entries == NULL && errno == EACCES) return STATUS_OK; /* as above */
    FAIL_IF(entries == NULL, err, status_of_reading(errno), "%s: the folder cannot be read: %s", folder,
            strerror(errno));
    enum status status = STATUS_OK;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(entries)) != NULL;) {
        char path[PATH_SIZE];
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (dots || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) continue;
        status = path_join(folder, entry->d_name, path, sizeof path, err);
        if (status == STATUS_OK && is_folder_itself(entry, path)) status = sync_below(path, err);
    }
    closedir(entries);
    return status;
}

enum status file_sync_folders(const char *folder, struct err *err) {
    char above[PATH_SIZE];
    TRY(path_folder(folder, above, sizeof above, err));
    TRY(file_sync_folder(above, err));
    return sync_below(folder, err);
}

enum status file_make_folders(const char *path, mode_t mode, struct err *err) {
    char partial[PATH_SIZE];
    FAIL_IF(path[0] == '\0', err, STATUS_BAD_ARGUMENT, "a folder with an empty name cannot be made");
    TRY(copy_path(path, strlen(path), partial, sizeof partial, err));
    for (char *slash = strchr(partial + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TRY(make_folder(partial, mode, err));
        *slash = '/';
    }
    return make_folder(partial, mode, err);
}

enum status file_make_parents(const char *path, mode_t mode, struct err *err) {
    char folder[PATH_SIZE];
    TRY(path_folder(path, folder, sizeof folder, err));
    return file_make_folders(folder, mode, err);
}

static bool lock_patiently(int descriptor) {
    static const struct timespec pause = {0, 10000000};
    for (int i = 0; flock(descriptor, LOCK_EX | LOCK_NB) != 0; i++) {
        /* Some network file systems have no locks: nothing then orders the writers. */
        if (errno != EWOULDBLOCK && errno != EINTR) return true;
        if (i == LOCK_TRIES) return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Returns whether the partial file's name still belongs to the file that was opened. */
static bool is_named(const struct file_output *output) {
    struct stat named;
    return lstat(output->partial, &named) == 0 && output->opened.st_ino == named.st_ino &&
           output->opened.st_dev == named.st_dev;
}

static enum status name_partial(struct file_output *output, bool second, struct err *err) {
    /* The name of a file has at most 255 bytes. */
    char name[256];
    const char *mark = output->mark;
    int room = (second ? 238 : 240) - (int)strlen(mark);
    snprintf(name, sizeof name, ".%.*s%s%s.partial", room, path_name(output->path), second ? ".2" : "", mark);
    return path_join(output->folder, name, output->partial, sizeof output->partial, err);
}

/* The lock makes writers of one path take turns. A writer that has waited for the lock holds a file that was renamed
 * away meanwhile, and must open it again. A writer that keeps the lock for long stands still (it is stopped, or its
 * disk is): this one removes the other's file and uses another name, so that the other does not take this file for its
 * own when it wakes. */
static enum status open_partial(struct file_output *output, int *ret_descriptor, struct err *err) {
    for (bool second = false;;) {
        TRY(name_partial(output, second, err));
        int descriptor = open(output->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        /* A process of another user was killed here. */
        if (descriptor < 0 && errno == EACCES && unlink(output->partial) == 0)
            descriptor = open(output->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: cannot be written: %s", output->path,
                status_reason(errno));
        if (!lock_patiently(descriptor)) {
            unlink(output->partial);
            second = !second;
        } else if (fstat(descriptor, &output->opened) == 0 && is_named(output)) {
            if (ftruncate(descriptor, 0) != 0) {
                int reason = errno;
                unlink(output->partial);
                close(descriptor);
                FAIL(err, status_of_writing(reason), "%s: cannot be written: %s", output->path, status_reason(reason));
            }
            *ret_descriptor = descriptor;
            return STATUS_OK;
        }
        close(descriptor);
    }
}

static enum status create(const char *path, const char *mark, struct file_output **ret_output, struct err *err) {
    _cleanup_(mem_free) struct file_output *output = NULL;
    TRY(mem_new(1, sizeof *output, "an output file", &output, err));
    TRY(copy_path(path, strlen(path), output->path, sizeof output->path, err));
    TRY(path_folder(path, output->folder, sizeof output->folder, err));
    FAIL_IF(path_name(path)[0] == '\0', err, STATUS_BAD_ARGUMENT, "%s: that is a folder, not a file to write", path);
    FAIL_IF(file_is_folder(path), err, STATUS_IO, "%s: cannot be written: a folder of that name is in the way", path);
    memcpy(output->mark, mark, strlen(mark) + 1);
    int descriptor = -1;
    TRY(open_partial(output, &descriptor, err));
    output->stream = fdopen(descriptor, "w+");
    if (output->stream == NULL) {
        close(descriptor);
        unlink(output->partial);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    }
    *ret_output = output;
    output = NULL;
    return STATUS_OK;
}

enum status file_create(const char *path, struct file_output **ret_output, struct err *err) {
    return create(path, file_writer_mark(), ret_output, err);
}

FILE *file_output_stream(struct file_output *output) {
    return output->stream;
}

/* Tells the observer that a file is whole; it is not at its path yet. */
static enum status tell_written(const struct file_output *output, struct err *err) {
    const struct file_observer *observer = observed_by;
    int descriptor = fileno(output->stream);
    struct stat info;
    if (observer == NULL || observer->written == NULL || fstat(descriptor, &info) != 0) return STATUS_OK;
    return observer->written(observer->context, output->path, descriptor, &info, err);
}

/* Gives the partial file its name, unless another file has it. A file system without hard links cannot do both at once:
 * there, two writers of the same moment may both succeed. */
static bool name_if_free(const struct file_output *o, bool *ret_free) {
    *ret_free = link(o->partial, o->path) == 0;
    if (*ret_free) return unlink(o->partial) == 0;
    if (errno == EEXIST) return true;
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) return false;
    *ret_free = !file_exists(o->path);
    return !*ret_free || rename(o->partial, o->path) == 0;
}

/* ret_free: NULL, to replace a file of this name; else whether there was none. */
static enum status place(struct file_output **output, bool *ret_free, struct err *err) {
    struct file_output *o = *output;
    bool is_free = true;
    errno = 0;
    bool bad = ferror(o->stream) != 0 || fflush(o->stream) != 0 || fsync(fileno(o->stream)) != 0;
    if (!bad && !is_named(o)) {
        err_set(err, STATUS_UNAVAILABLE, __FILE__, __LINE__,
                "%s: cannot be written: its folder is gone, or another process took over since this one stood still",
                o->path);
        file_discard(output);
        return STATUS_UNAVAILABLE;
    }
    enum status status = bad ? STATUS_OK : tell_written(o, err);
    if (status != STATUS_OK) {
        file_discard(output);
        return status;
    }
    errno = 0;
    if (bad || !(ret_free != NULL ? name_if_free(o, &is_free) : rename(o->partial, o->path) == 0)) {
        /* ferror() reports an earlier write whose reason is lost: a full disk is the likely one. */
        int reason = errno;
        enum status failed = reason != 0 ? status_of_writing(reason) : STATUS_UNAVAILABLE;
        err_set(err, failed, __FILE__, __LINE__, "%s: cannot be written: %s", o->path,
                reason != 0 ? status_reason(reason)
                            : "a write failed (is the disk full, or the limit `ulimit -f` reached?)");
        file_discard(output);
        return failed;
    }
    if (ret_free != NULL) *ret_free = is_free;
    if (!is_free) {
        file_discard(output);
        return STATUS_OK;
    }
    fclose(o->stream);
    mem_free(output);
    return STATUS_OK;
}

enum status file_place(struct file_output **output, struct err *err) {
    return place(output, NULL, err);
}

enum status file_commit(struct file_output **output, struct err *err) {
    char folder[PATH_SIZE];
    memcpy(folder, (*output)->folder, sizeof folder);
    TRY(file_place(output, err));
    return file_sync_folder(folder, err);
}

void file_discard(struct file_output **output) {
    if (output == NULL || *output == NULL) return;
    /* Removes the file while the lock is held, so that it is certainly its own. */
    if (is_named(*output)) unlink((*output)->partial);
    fclose((*output)->stream);
    mem_free(output);
}

enum status file_write_whole(const char *path, const void *bytes, size_t length, struct err *err) {
    struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    if (length > 0) (void)!fwrite(bytes, 1, length, output->stream); /* file_commit checks the stream's error mark */
    return file_commit(&output, err);
}

enum status file_write_new(const char *path, const void *bytes, size_t length, bool *ret_new, struct err *err) {
    struct file_output *output = NULL;
    char folder[PATH_SIZE], mark[FILE_MARK_SIZE];
    TRY(path_folder(path, folder, sizeof folder, err));
    file_unique_mark(mark);
    TRY(create(path, mark, &output, err));
    if (length > 0) (void)!fwrite(bytes, 1, length, output->stream); /* place checks the stream's error mark */
    TRY(place(&output, ret_new, err));
    return *ret_new ? file_sync_folder(folder, err) : STATUS_OK;
}

enum status file_missing(const char *path, struct err *err) {
    char folder[PATH_SIZE];
    TRY(path_folder(path, folder, sizeof folder, err));
    FAIL_IF(!file_is_folder(folder), err, STATUS_UNAVAILABLE,
            "%s: there is no such file, and its folder is not there either (moved, deleted or not mounted?)", path);
    FAIL(err, STATUS_NOT_FOUND, "%s: there is no such file", path);
}

/* Finds the end of the last whole line: behind it, a line may have been cut short. */
static enum status line_end(int descriptor, const char *path, off_t *ret_end, struct err *err) {
    struct stat info;
    char last = '\n';
    FAIL_IF(fstat(descriptor, &info) != 0, err, status_of_reading(errno), "%s: %s", path, strerror(errno));
    off_t end = info.st_size;
    for (; end > 0; end--) {
        FAIL_IF(pread(descriptor, &last, 1, end - 1) != 1, err, STATUS_IO, "%s: cannot be read: %s", path,
                strerror(errno));
        if (last == '\n') break;
    }
    *ret_end = end;
    return STATUS_OK;
}

enum status file_append_line(const char *path, const char *text, struct err *err) {
    char folder[PATH_SIZE];
    _cleanup_(file_close) int descriptor = -1;
    bool is_new = !file_exists(path);
    off_t end = 0;
    TRY(path_folder(path, folder, sizeof folder, err));
    descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: cannot be appended to: %s", path, status_reason(errno));
    TRY(line_end(descriptor, path, &end, err));
    struct iovec parts[] = {{(void *)(uintptr_t)text, strlen(text)}, {(void *)(uintptr_t) "\n", 1}};
    ssize_t length = (ssize_t)strlen(text) + 1;
    errno = ENOSPC; /* the usual reason for a write that is cut short */
    if (pwritev(descriptor, parts, 2, end) != length || ftruncate(descriptor, end + length) != 0 ||
        fsync(descriptor) != 0) {
        int reason = errno;
        FAIL_IF(ftruncate(descriptor, end) != 0, err, status_of_writing(errno),
                "%s: cannot be appended to, nor cut back to %lld bytes: %s", path, (long long)end,
                status_reason(errno));
        FAIL(err, status_of_writing(reason), "%s: cannot be appended to: %s", path, status_reason(reason));
    }
    return is_new ? file_sync_folder(folder, err) : STATUS_OK;
}

enum status file_open_read(const char *path, int *ret_descriptor, int64_t *ret_size, struct err *err) {
    /* Non-blocking, so that a named pipe does not block the caller; regular files ignore this. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return file_missing(path, err);
    FAIL_IF(descriptor < 0, err, status_of_reading(errno), "%s: cannot be opened: %s", path, strerror(errno));
    struct stat info = {0};
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        bool folder = S_ISDIR(info.st_mode);
        close(descriptor);
        FAIL(err, STATUS_BAD_FORMAT, "%s: %s, a file is expected", path,
             folder ? "is a folder" : "is neither file nor folder");
    }
    if (observed_by != NULL && observed_by->read != NULL) {
        enum status status = observed_by->read(observed_by->context, path, descriptor, &info, err);
        if (status != STATUS_OK) {
            close(descriptor);
            return status;
        }
    }
    *ret_descriptor = descriptor;
    if (ret_size != NULL) *ret_size = info.st_size;
    return STATUS_OK;
}

void file_close(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

enum status file_read_at(int descriptor, const char *path, int64_t offset, void *bytes, size_t length,
                         struct err *err) {
    char *to = bytes;
    size_t done = 0;
    while (done < length) {
        ssize_t got = pread(descriptor, to + done, length - done, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(got < 0, err, status_of_reading(errno), "%s: cannot be read at byte %lld: %s", path,
                (long long)(offset + (int64_t)done), strerror(errno));
        FAIL_IF(got == 0, err, STATUS_TRUNCATED, "%s: ends at byte %lld, %zu bytes from byte %lld on were expected",
                path, (long long)(offset + (int64_t)done), length, (long long)offset);
        done += (size_t)got;
    }
    return STATUS_OK;
}

/* A file that is read in pieces of PIECE bytes. */
struct whole {
    int descriptor;
    const char *path;
    char *text;
    size_t size;
};
enum { PIECE = 8 << 20 };

static enum status read_piece(void *context, size_t index, struct err *err) {
    const struct whole *w = context;
    const size_t at = index * PIECE, length = w->size - at < PIECE ? w->size - at : PIECE;
    return file_read_at(w->descriptor, w->path, (int64_t)at, w->text + at, length, err);
}

enum status file_read_whole(const char *path, size_t limit, char **ret_text, size_t *ret_length, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    TRY(file_open_read(path, &descriptor, &size, err));
    FAIL_IF((uint64_t)size > limit, err, STATUS_BAD_FORMAT, "%s: has %lld bytes; at most %zu are expected here", path,
            (long long)size, limit);
    _cleanup_(mem_free) char *text = malloc((size_t)size + 1);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory for its %lld bytes", path, (long long)size);
    struct whole whole = {descriptor, path, text, (size_t)size};
    TRY(work_together(((size_t)size + PIECE - 1) / PIECE, TOGETHER_FILE, read_piece, &whole, err));
    text[size] = '\0';
    if (ret_length != NULL) *ret_length = (size_t)size;
    *ret_text = text;
    text = NULL;
    return STATUS_OK;
}
