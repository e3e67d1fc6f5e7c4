#include "common/shards_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/memory.h"

/* OPEN_MOST: shards that are open at a time. Free space is looked at after so many bytes. */
enum { OPEN_MOST = 64, LOOK_EVERY = 16 << 20, SHARDS_MOST = 999999 };
static const size_t MARGIN_MOST = (size_t)10 << 30;

static uint32_t hash_of(struct digest_value key) {
    return (uint32_t)key.low;
}

uint64_t shards_check(const void *bytes, size_t size) {
    return digest_memory(bytes, size).low;
}

void shards_file(const struct shards *s, int number, const char *ending, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.4000s/%06d.%s", s->folder, number, ending);
}

/* Ends the writing. Called with the lock. */
static void stop(struct shards *s, const char *why) {
    if (s->report.stopped) return;
    s->report.stopped = true;
    snprintf(s->report.why, sizeof s->report.why, "%s", why);
}

static void close_shard(struct shards *s, struct shard *shard) {
    s->open -= shard->descriptor >= 0;
    file_close(&shard->descriptor);
    file_close(&shard->index);
}

/* Closes a shard that nobody uses, so that one more may be opened. */
static void make_room(struct shards *s) {
    for (int tried = 0; s->open >= OPEN_MOST && tried < s->count; tried++) {
        struct shard *shard = &s->list[s->hand++ % s->count];
        s->hand %= s->count;
        if (shard->users == 0) close_shard(s, shard);
    }
}

/* Opens both files of a shard, if they are not open. Called with the lock. */
static bool open_shard(struct shards *s, struct shard *shard) {
    char path[PATH_SIZE];
    if (shard->descriptor >= 0 || shard->gone) return !shard->gone;
    make_room(s);
    shards_file(s, shard->number, "shard", path);
    shard->descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    shards_file(s, shard->number, "index", path);
    if (shard->descriptor >= 0) shard->index = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    shard->gone = shard->index < 0;
    if (shard->gone) file_close(&shard->descriptor);
    s->open += !shard->gone;
    return !shard->gone;
}

static bool same(struct digest_value a, struct digest_value b) {
    return a.high == b.high && a.low == b.low;
}

static struct shard_record *find(struct shards *s, struct digest_value key) {
    size_t step = 0;
    int i;
    while ((i = names_next(&s->table, hash_of(key), &step)) >= 0) {
        struct shard_record *r = &s->records[i];
        if (same(r->key, key) && r->shard >= 0) return r;
    }
    return NULL;
}

enum status shards_add_record(struct shards *s, const struct shard_record *record, struct err *err) {
    if (s->record_count == s->record_room) {
        size_t room = s->record_room == 0 ? SHARD_RECORDS : 2 * s->record_room;
        struct shard_record *larger = room <= INT32_MAX ? realloc(s->records, room * sizeof *larger) : NULL;
        FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the list of images in scratch");
        s->records = larger;
        s->record_room = room;
    }
    TRY(names_put(&s->table, hash_of(record->key), (int)s->record_count, err));
    s->records[s->record_count++] = *record;
    s->report.records++;
    return STATUS_OK;
}

enum status shards_add_shard(struct shards *s, const struct shard *shard, struct err *err) {
    if (s->count == s->room) {
        struct shard *larger = realloc(s->list, ((size_t)s->room + 64) * sizeof *larger);
        FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the list of images in scratch");
        s->list = larger;
        s->room += 64;
    }
    s->list[s->count++] = *shard;
    return STATUS_OK;
}

static bool write_all(int descriptor, const void *bytes, size_t size, int64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(descriptor, (const char *)bytes + done, size - done, offset + (int64_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

int64_t shards_row_place(int slot) {
    return (int64_t)sizeof(struct shard_head) + (int64_t)slot * (int64_t)sizeof(struct shard_row);
}

/* Makes the two files of a new shard. */
static enum status make_shard(struct shards *s, size_t size, struct err *err) {
    char data[PATH_SIZE], index[PATH_SIZE];
    int number = s->count > 0 ? s->list[s->count - 1].number + 1 : 1;
    struct shard_head head = {.number = (uint64_t)number, .size = size};
    struct shard shard = {.size = size, .number = number, .descriptor = -1, .index = -1};
    memcpy(head.magic, SHARDS_MAGIC, sizeof head.magic);
    head.check = shards_check(&head, offsetof(struct shard_head, check));
    FAIL_IF(number > SHARDS_MOST, err, STATUS_UNSUPPORTED, "%s holds too many files", s->folder);
    shards_file(s, number, "shard", data);
    shards_file(s, number, "index", index);
    make_room(s);
    shard.descriptor = open(data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (shard.descriptor >= 0) shard.index = open(index, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool made = shard.index >= 0 && write_all(shard.index, &head, sizeof head, 0);
    int reason = errno;
    enum status status = made ? shards_add_shard(s, &shard, err) : STATUS_UNAVAILABLE;
    if (status == STATUS_OK) {
        s->open++;
        return STATUS_OK;
    }
    file_close(&shard.descriptor);
    file_close(&shard.index);
    (void)unlink(index);
    (void)unlink(data);
    FAIL_IF(!made, err, status, "%s cannot be written: %s", data, strerror(reason));
    return status;
}

static size_t margin_of(const struct statvfs *disk) {
    size_t share = (size_t)disk->f_blocks * disk->f_frsize / 20;
    return share < MARGIN_MOST ? share : MARGIN_MOST;
}

/* Returns whether so many bytes more may be written; if not, nothing more is. */
static bool has_room(struct shards *s, size_t bytes) {
    struct statvfs disk;
    char why[200];
    if (s->most > 0 && s->bytes + bytes > s->most) {
        snprintf(why, sizeof why, "%.1f GiB are full", (double)s->most / 0x1p30);
        stop(s, why);
        return false;
    }
    if (s->unseen > 0 && s->unseen + bytes < LOOK_EVERY) return true;
    s->unseen = 0;
    if (fstatvfs(s->owner, &disk) != 0 || (size_t)disk.f_bavail * disk.f_frsize >= margin_of(&disk) + LOOK_EVERY / 4)
        return true;
    snprintf(why, sizeof why, "the disk has %.1f GiB left", (double)(disk.f_bavail * disk.f_frsize) / 0x1p30);
    stop(s, why);
    return false;
}

/* Takes the next slot for a record of this size. Called with the lock; −1: there is none. */
static int take_slot(struct shards *s, size_t size, int *ret_slot) {
    struct err own = {0};
    int i = s->count - 1;
    if (!has_room(s, size)) return -1;
    while (i >= 0 && (s->list[i].size != size || s->list[i].taken >= SHARD_RECORDS || !open_shard(s, &s->list[i])))
        i--;
    if (i < 0) {
        if (make_shard(s, size, &own) != STATUS_OK) {
            stop(s, own.message);
            return -1;
        }
        i = s->count - 1;
    }
    *ret_slot = s->list[i].taken++;
    s->list[i].users++;
    s->bytes += size;
    s->unseen += size;
    return i;
}

void shards_write(struct shards *s, struct digest_value key, const void *bytes, size_t size) {
    struct shard_record record = {.key = key, .shard = -1};
    struct shard shard = {0};
    pthread_mutex_lock(&s->lock);
    if (!s->report.stopped && find(s, key) == NULL) record.shard = take_slot(s, size, &record.slot);
    if (record.shard >= 0) shard = s->list[record.shard];
    pthread_mutex_unlock(&s->lock);
    if (record.shard < 0) return;
    record.digest = digest_memory(bytes, size);
    struct shard_row row = {.key = key, .digest = record.digest};
    row.check = shards_check(&row, offsetof(struct shard_row, check));
    bool written = write_all(shard.descriptor, bytes, size, (int64_t)record.slot * (int64_t)size) &&
                   write_all(shard.index, &row, sizeof row, shards_row_place(record.slot));
    int reason = errno;
    pthread_mutex_lock(&s->lock);
    s->list[record.shard].users--;
    if (!written)
        stop(s, strerror(reason));
    else if (shards_add_record(s, &record, NULL) != STATUS_OK)
        stop(s, "no memory");
    pthread_mutex_unlock(&s->lock);
}

size_t shards_read(struct shards *s, struct digest_value key, void *bytes, size_t room) {
    struct shard_record record = {.shard = -1};
    struct shard shard = {0};
    pthread_mutex_lock(&s->lock);
    struct shard_record *found = find(s, key);
    bool readable = found != NULL && s->list[found->shard].size <= room;
    if (readable && open_shard(s, &s->list[found->shard])) {
        record = *found;
        s->list[record.shard].users++;
        shard = s->list[record.shard];
    } else if (readable) {
        found->shard = -1;
        s->report.damaged++;
        s->report.records--;
    }
    pthread_mutex_unlock(&s->lock);
    if (record.shard < 0) return 0;
    const int64_t place = (int64_t)record.slot * (int64_t)shard.size;
    bool whole = file_read_at(shard.descriptor, s->folder, place, bytes, shard.size, NULL) == STATUS_OK &&
                 same(digest_memory(bytes, shard.size), record.digest);
    pthread_mutex_lock(&s->lock);
    s->list[record.shard].users--;
    found = whole ? NULL : find(s, key);
    if (found != NULL && found->shard == record.shard && found->slot == record.slot) {
        found->shard = -1;
        s->report.damaged++;
        s->report.records--;
    }
    pthread_mutex_unlock(&s->lock);
    return whole ? shard.size : 0;
}

void shards_report(struct shards *s, struct shards_report *ret_report) {
    pthread_mutex_lock(&s->lock);
    *ret_report = s->report;
    ret_report->bytes = s->bytes;
    pthread_mutex_unlock(&s->lock);
}
