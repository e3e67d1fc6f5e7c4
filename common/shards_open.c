#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/shards_private.h"

static const char PREFIX[] = "icestream-";

/* Reads the rows of an index that are whole. */
static enum status load_rows(struct shards *s, int shard, int descriptor, int64_t bytes, struct err *err) {
    _cleanup_(mem_free) struct shard_row *rows = NULL;
    int64_t count = (bytes - shards_row_place(0)) / (int64_t)sizeof *rows;
    if (count > SHARD_RECORDS) count = SHARD_RECORDS;
    TRY(mem_new((size_t)count + 1, sizeof *rows, "the index of scratch", &rows, err));
    if (file_read_at(descriptor, s->folder, shards_row_place(0), rows, (size_t)count * sizeof *rows, NULL) != STATUS_OK)
        return STATUS_OK;
    for (int slot = 0; slot < count; slot++) {
        const struct shard_record record = {
            .key = rows[slot].key, .digest = rows[slot].digest, .shard = shard, .slot = slot};
        if (rows[slot].check != shards_check(&rows[slot], offsetof(struct shard_row, check))) continue;
        TRY(shards_add_record(s, &record, err));
        s->list[shard].taken = slot + 1;
    }
    return STATUS_OK;
}

/* Takes over what is whole of a shard. Removes files that are no shard of ours. */
static enum status load_shard(struct shards *s, int number, struct err *err) {
    char data[PATH_SIZE], index[PATH_SIZE];
    struct shard_head head = {0};
    struct stat of_data, of_index;
    _cleanup_(file_close) int descriptor = -1;
    shards_file(s, number, "shard", data);
    shards_file(s, number, "index", index);
    descriptor = open(index, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool whole = descriptor >= 0 && fstat(descriptor, &of_index) == 0 && lstat(data, &of_data) == 0 &&
                 S_ISREG(of_data.st_mode) &&
                 file_read_at(descriptor, index, 0, &head, sizeof head, NULL) == STATUS_OK &&
                 memcmp(head.magic, SHARDS_MAGIC, sizeof head.magic) == 0 && head.number == (uint64_t)number &&
                 head.check == shards_check(&head, offsetof(struct shard_head, check)) && head.size > 0;
    if (!whole) {
        (void)unlink(index);
        (void)unlink(data);
        return STATUS_OK;
    }
    const struct shard shard = {.size = head.size, .number = number, .descriptor = -1, .index = -1};
    TRY(shards_add_shard(s, &shard, err));
    s->bytes += (size_t)of_data.st_size;
    return load_rows(s, s->count - 1, descriptor, of_index.st_size, err);
}

/* Returns the number of a name like 000012.shard or 000012.index; 0: it is not such a name. */
static int number_of(const char *name) {
    int number = 0, length = 0;
    if (strlen(name) != 12 || sscanf(name, "%6d%n", &number, &length) != 1 || length != 6 || number < 1) return 0;
    return strcmp(name + 6, ".shard") == 0 || strcmp(name + 6, ".index") == 0 ? number : 0;
}

static int by_number(const void *a, const void *b) {
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Takes over what a run before has left. */
static enum status load(struct shards *s, struct err *err) {
    _cleanup_(mem_free) int *numbers = NULL;
    size_t count = 0, room = 0;
    DIR *folder = opendir(s->folder);
    FAIL_IF(folder == NULL, err, STATUS_UNAVAILABLE, "%s cannot be read: %s", s->folder, strerror(errno));
    enum status status = STATUS_OK;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(folder)) != NULL;) {
        int number = number_of(entry->d_name);
        if (number == 0) continue;
        if (count == room) {
            int *larger = realloc(numbers, (room = 2 * room + 64) * sizeof *larger);
            if (larger == NULL) status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for scratch");
            if (larger != NULL) numbers = larger;
        }
        if (status == STATUS_OK) numbers[count++] = number;
    }
    closedir(folder);
    if (count > 0) qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        if (i == 0 || numbers[i] != numbers[i - 1]) status = load_shard(s, numbers[i], err);
    s->report.found = s->report.records;
    return status;
}

/* Removes the files of a part, and the part if nothing else is in it. The caller holds its lock. */
static void remove_part(const char *part) {
    char path[PATH_SIZE + 300];
    DIR *folder = opendir(part);
    if (folder == NULL) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (number_of(entry->d_name) == 0 && strcmp(entry->d_name, "owner") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", part, entry->d_name);
        (void)unlink(path);
    }
    closedir(folder);
    (void)rmdir(part);
}

/* Opens the file that names the owner, and locks it; −1: another process has the lock, or it cannot be opened. */
static int lock_owner(const char *part, int flags) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%.4000s/owner", part);
    int descriptor = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        int reason = errno;
        file_close(&descriptor);
        errno = reason;
    }
    return descriptor;
}

/* Removes parts whose owner no longer exists, and that no process uses. */
static void clean(const char *folder) {
    char part[PATH_SIZE], owner[PATH_SIZE];
    DIR *all = opendir(folder);
    if (all == NULL) return;
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0) continue;
        snprintf(part, sizeof part, "%.3800s/%s", folder, entry->d_name);
        _cleanup_(file_close) int descriptor = lock_owner(part, O_RDWR);
        if (descriptor < 0) continue;
        ssize_t length = pread(descriptor, owner, sizeof owner - 1, 0);
        if (length <= 0 || owner[0] != '/') continue;
        owner[length] = '\0';
        if (access(owner, F_OK) != 0 && errno == ENOENT) remove_part(part);
    }
    closedir(all);
}

/* Writes who owns a part. What is right already stays: copies of a run before can be read from a full disk. */
static bool write_owner(int descriptor, const char *owner) {
    char before[PATH_SIZE];
    const ssize_t length = (ssize_t)strlen(owner);
    if (pread(descriptor, before, sizeof before, 0) == length && memcmp(before, owner, (size_t)length) == 0)
        return true;
    return ftruncate(descriptor, 0) == 0 && pwrite(descriptor, owner, (size_t)length, 0) == length;
}

static enum status open_part(struct shards *s, const char *folder, const char *owner, struct err *err) {
    struct stat info;
    TRY(file_make_folders(s->folder, 0700, err));
    FAIL_IF(lstat(s->folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid(), err, STATUS_UNAVAILABLE,
            "%s belongs to another user", s->folder);
    clean(folder);
    s->owner = lock_owner(s->folder, O_RDWR | O_CREAT);
    FAIL_IF(s->owner < 0 && errno == EWOULDBLOCK, err, STATUS_UNAVAILABLE, "another process uses %s", s->folder);
    FAIL_IF(s->owner < 0 || !write_owner(s->owner, owner), err, STATUS_UNAVAILABLE, "%s cannot be written: %s",
            s->folder, strerror(errno));
    return load(s, err);
}

enum status shards_open(const char *folder, const char *owner, size_t most, struct shards **ret_shards,
                        struct err *err) {
    struct shards *s = NULL;
    FAIL_IF(strlen(folder) > 3800 || strlen(owner) >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: the path is too long",
            folder);
    TRY(mem_new(1, sizeof *s, "scratch", &s, err));
    *s = (struct shards){.most = most, .owner = -1};
    snprintf(s->folder, sizeof s->folder, "%.3800s/%s%u-%016llx", folder, PREFIX, (unsigned)geteuid(),
             (unsigned long long)shards_check(owner, strlen(owner)));
    s->lock_made = pthread_mutex_init(&s->lock, NULL) == 0;
    enum status status = s->lock_made ? open_part(s, folder, owner, err)
                                      : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no lock could be made");
    if (status != STATUS_OK) {
        shards_close(&s, false);
        return status;
    }
    *ret_shards = s;
    return STATUS_OK;
}

void shards_close(struct shards **shards, bool remove) {
    if (shards == NULL || *shards == NULL) return;
    struct shards *s = *shards;
    for (int i = 0; i < s->count; i++) {
        file_close(&s->list[i].descriptor);
        file_close(&s->list[i].index);
    }
    if (remove && s->owner >= 0) remove_part(s->folder);
    file_close(&s->owner);
    names_destroy(&s->table);
    if (s->lock_made) pthread_mutex_destroy(&s->lock);
    mem_free(&s->list);
    mem_free(&s->records);
    mem_free(shards);
}
