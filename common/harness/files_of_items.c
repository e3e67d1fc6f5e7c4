#include "common/harness/files_of_items.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/edges/item_files.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

static enum status may_write(const void *stage, struct err *err) {
    return stage_may_publish(stage, err);
}

static void begin_notes(const struct stage *stage, struct file_notes *notes) {
    file_notes_init(notes);
    notes->may_write = may_write;
    notes->may_write_context = stage;
}

static bool keeps_account(const struct stage *stage) {
    return stage->mode == STAGE_IN_PIPELINE;
}

/* Returns the path as items have it: relative to the session when it lies inside. */
static const char *in_session(const struct stage *stage, const char *path, bool *ret_inside) {
    const char *rest;
    bool leased = stage->lease_root[0] != '\0' && path_is_below(path, stage->lease_root, &rest) && rest[0] != '\0';
    *ret_inside = leased || (path_is_below(path, stage->root, &rest) && rest[0] != '\0');
    return *ret_inside ? rest : path;
}

static struct item_file item_file_of(const struct file_note *note) {
    return (struct item_file){note->size, note->mtime_ns, note->inode, note->digest};
}

static void print_time(int64_t ns, char *text, size_t size) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    if (localtime_r(&seconds, &parts) == NULL || strftime(text, size, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(text, size, "%lld s", (long long)seconds);
}

static enum status replaced(const char *path, const struct item_file *expected, int64_t size, int64_t mtime_ns,
                            struct err *err) {
    char then[64], now[64];
    print_time(expected->mtime_ns, then, sizeof then);
    print_time(mtime_ns, now, sizeof now);
    FAIL(
        err, STATUS_BAD_FORMAT,
        "%s was replaced while the item was on its way: it has %lld bytes of %s, and the item was made from %lld bytes "
        "of %s. Nothing is made of both: the item begins again when the watcher sends the new file; for a file that no "
        "watcher has taken, put the old one back and `icestream retry`",
        path, (long long)size, now, (long long)expected->size, then);
}

/* Digests a file that has just been read, and makes sure that it is still the same one. */
static enum status digest_again(const char *path, struct file_note *note, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    struct stat info;
    TRY(file_open_read(path, &descriptor, NULL, err));
    bool same = fstat(descriptor, &info) == 0 && info.st_size == note->size && file_mtime_ns(&info) == note->mtime_ns;
    FAIL_IF(!same, err, STATUS_UNAVAILABLE, "%s: is being replaced", path);
    TRY(digest_descriptor(descriptor, path, note->digest, &note->size, err));
    same = fstat(descriptor, &info) == 0 && info.st_size == note->size && file_mtime_ns(&info) == note->mtime_ns;
    FAIL_IF(!same, err, STATUS_UNAVAILABLE, "%s: is being written", path);
    return STATUS_OK;
}

/* Returns whether the file at the path is no longer the one that was opened. */
static bool is_moving(const char *path, const struct file_note *note) {
    struct stat info;
    return stat(path, &info) != 0 || info.st_size != note->size || file_mtime_ns(&info) != note->mtime_ns ||
           info.st_ino != note->inode;
}

/* Compares a file that was read with what the item says about it. Equal content under another time is no change. If
 * nobody has digested the file, nothing has been made of it yet, and it counts as it is now: programs that copy files
 * set the time last. */
static enum status check_known(struct file_note *note, const char *path, const struct item_file *expected,
                               struct err *err) {
    bool digested = expected->digest[0] != '\0';
    if (digested && expected->size != note->size) return replaced(path, expected, note->size, note->mtime_ns, err);
    if (digested && expected->mtime_ns == note->mtime_ns && (expected->inode == 0 || expected->inode == note->inode)) {
        snprintf(note->digest, sizeof note->digest, "%s", expected->digest);
        return STATUS_OK;
    }
    TRY(digest_again(path, note, err));
    if (digested && strcmp(note->digest, expected->digest) != 0)
        return replaced(path, expected, note->size, note->mtime_ns, err);
    return STATUS_OK;
}

static enum status check_note(struct item *item, const char *path, const char *name, bool inside,
                              struct file_note *note, struct err *err) {
    struct item_file expected;
    bool known = item_file(item, name, &expected);
    if (!known && inside) return STATUS_OK; /* the stage that wrote it has its digest */
    /* The stage reads the file again, when it has come to rest. */
    FAIL_IF(is_moving(path, note), err, STATUS_UNAVAILABLE, "%s: is being replaced", path);
    if (known)
        TRY(check_known(note, path, &expected, err));
    else
        TRY(digest_again(path, note, err));
    if (known ? strcmp(expected.digest, note->digest) == 0 : !item_names(item, name)) return STATUS_OK;
    const struct item_file file = item_file_of(note);
    return item_set_file(item, name, &file, err);
}

static enum status check_notes(struct stage *stage, struct slot *slot, struct err *err) {
    struct file_notes *notes = &slot->files.notes;
    for (size_t i = 0; i < notes->count; i++) {
        bool inside;
        const char *path = file_note_path(notes, &notes->list[i]);
        const char *name = in_session(stage, path, &inside);
        TRY(check_note(slot->lane->item, path, name, inside, &notes->list[i], err));
    }
    return STATUS_OK;
}

enum status files_load(struct stage *stage, struct slot *slot, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (!keeps_account(stage)) return descriptor->load(stage, stage->state, slot->lane, err);
    if (slot->files.notes.observer.context == NULL) begin_notes(stage, &slot->files.notes);
    file_notes_empty(&slot->files.notes);
    file_observe(&slot->files.notes.observer);
    enum status status = descriptor->load(stage, stage->state, slot->lane, err);
    file_observe(NULL);
    if (status != STATUS_OK) return status;
    struct err own = {0};
    status = check_notes(stage, slot, &own);
    if (status == STATUS_OK) return STATUS_OK;
    if (status == STATUS_BAD_FORMAT)
        stage_log(stage, LOG_WARN, "replaced", "%s: %s", item_id(slot->lane->item), own.message);
    FAIL(err, status, "%s", own.message);
}

/* Adds what was written to the item, for those files that the item names: later stages compare. */
static enum status add_written(struct stage *stage, struct slot *slot, struct err *err) {
    const struct file_notes *notes = &slot->files.notes;
    for (size_t i = 0; i < notes->count; i++) {
        bool inside;
        const char *name = in_session(stage, file_note_path(notes, &notes->list[i]), &inside);
        if (!notes->list[i].written || !item_names(slot->lane->item, name)) continue;
        const struct item_file file = item_file_of(&notes->list[i]);
        TRY(item_set_file(slot->lane->item, name, &file, err));
    }
    return STATUS_OK;
}

enum status files_store(struct stage *stage, struct slot *slot, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (!keeps_account(stage)) return descriptor->store(stage, stage->state, slot->lane, err);
    if (slot->files.notes.observer.context == NULL) begin_notes(stage, &slot->files.notes);
    file_observe(&slot->files.notes.observer);
    enum status status = descriptor->store(stage, stage->state, slot->lane, err);
    file_observe(NULL);
    return status == STATUS_OK ? add_written(stage, slot, err) : status;
}

static enum status make_rows(size_t wanted, struct ledger_file **rows, size_t *capacity, struct err *err) {
    if (wanted <= *capacity) return STATUS_OK;
    struct ledger_file *list = realloc(*rows, 2 * wanted * sizeof *list);
    FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for the list of an item's files");
    *rows = list;
    *capacity = 2 * wanted;
    return STATUS_OK;
}

static struct ledger_file row_of(const struct stage *stage, const struct file_notes *notes,
                                 const struct file_note *note) {
    bool inside;
    return (struct ledger_file){.path = in_session(stage, file_note_path(notes, note), &inside),
                                .product = note->written,
                                .size = note->size,
                                .mtime_ns = note->mtime_ns,
                                .digest = note->digest};
}

enum status files_rows(struct stage *stage, struct slot *slot, bool done, struct err *err) {
    struct slot_files *files = &slot->files;
    const struct file_notes *notes = &files->notes;
    files->count = 0;
    if (!keeps_account(stage)) return STATUS_OK;
    TRY(make_rows(notes->count, &files->rows, &files->capacity, err));
    for (size_t i = 0; i < notes->count; i++)
        if (done || !notes->list[i].written) files->rows[files->count++] = row_of(stage, notes, &notes->list[i]);
    return STATUS_OK;
}

struct stamp {
    struct stage *stage;
    struct item *item, *stamped;
};

static enum status stamp_path(const char *path, void *context, struct err *err) {
    struct stamp *stamp = context;
    char absolute[PATH_SIZE];
    struct stat info;
    if (path_join(stamp->stage->root, path, absolute, sizeof absolute, NULL) != STATUS_OK ||
        stat(absolute, &info) != 0 || !S_ISREG(info.st_mode))
        return STATUS_OK;
    const struct item_file file = {info.st_size, file_mtime_ns(&info), info.st_ino, ""};
    return item_set_file(stamp->stamped, path, &file, err);
}

enum status files_stamp(struct stage *stage, struct item *item, struct err *err) {
    struct stamp stamp = {.stage = stage, .item = item};
    if (!keeps_account(stage)) return STATUS_OK;
    /* The item must not change while its members are walked. */
    TRY(item_create(item_id(item), item_kind(item), &stamp.stamped, err));
    enum status status = item_each_path(item, stamp_path, &stamp, err);
    json_t *files = json_object_get(item_json(stamp.stamped), "files");
    if (status == STATUS_OK && files != NULL &&
        json_object_set((json_t *)(uintptr_t)item_json(item), "files", files) != 0)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the files of an item");
    item_destroy(&stamp.stamped);
    return status;
}

void files_begin(struct stage *stage) {
    begin_notes(stage, &stage->own_files.notes);
    stage->own_files.notes.observer.read = NULL;
}

void files_end(struct stage *stage) {
    files_write_own(stage);
    file_notes_clear(&stage->own_files.notes);
    free(stage->own_files.rows);
    for (int i = 0; i < SLOTS_MAX; i++) {
        file_notes_clear(&stage->slots[i].files.notes);
        free(stage->slots[i].files.rows);
    }
}

void files_watch_own(struct stage *stage) {
    if (keeps_account(stage)) file_observe(&stage->own_files.notes.observer);
}

void files_write_own(struct stage *stage) {
    struct slot_files *files = &stage->own_files;
    struct file_notes *notes = &files->notes;
    if (!keeps_account(stage) || stage->ledger == NULL || notes->observer.context == NULL) return;
    pthread_mutex_lock(&notes->lock);
    if (notes->count > 0 && make_rows(notes->count, &files->rows, &files->capacity, NULL) == STATUS_OK) {
        for (size_t i = 0; i < notes->count; i++)
            files->rows[i] = row_of(stage, notes, &notes->list[i]);
        if (ledger_add_files(stage->ledger, files->rows, notes->count, NULL) == STATUS_OK) file_notes_empty(notes);
    }
    pthread_mutex_unlock(&notes->lock);
}
