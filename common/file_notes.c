#include "common/file_notes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LOOK_BACK = 16 }; /* notes among which a file that is read again is looked for */

const char *file_note_path(const struct file_notes *notes, const struct file_note *note) {
    return notes->texts + note->path;
}

static bool make_room(struct file_notes *notes, size_t length) {
    if (notes->count == notes->capacity) {
        size_t capacity = notes->capacity == 0 ? 8 : 2 * notes->capacity;
        struct file_note *list = realloc(notes->list, capacity * sizeof *list);
        if (list == NULL) return false;
        notes->list = list;
        notes->capacity = capacity;
    }
    if (notes->used + length > notes->room) {
        size_t room = 2 * notes->room + length + 512;
        char *texts = realloc(notes->texts, room);
        if (texts == NULL) return false;
        notes->texts = texts;
        notes->room = room;
    }
    return true;
}

static bool is_same(const struct file_notes *notes, const struct file_note *a, const struct file_note *b,
                    const char *path) {
    return a->written == b->written && a->size == b->size && a->mtime_ns == b->mtime_ns && a->inode == b->inode &&
           strcmp(file_note_path(notes, a), path) == 0;
}

static enum status add(struct file_notes *notes, const char *path, const struct file_note *values, struct err *err) {
    size_t length = strlen(path) + 1;
    pthread_mutex_lock(&notes->lock);
    bool known = false;
    for (size_t i = 0; !values->written && !known && i < notes->count && i < LOOK_BACK; i++)
        known = is_same(notes, &notes->list[notes->count - 1 - i], values, path);
    bool room = known || make_room(notes, length);
    if (room && !known) {
        struct file_note *note = &notes->list[notes->count++];
        *note = *values;
        note->path = notes->used;
        memcpy(notes->texts + notes->used, path, length);
        notes->used += length;
    }
    pthread_mutex_unlock(&notes->lock);
    FAIL_IF(!room, err, STATUS_NO_MEMORY, "%s: no memory to note the file", path);
    return STATUS_OK;
}

static struct file_note note_of(const struct stat *info, bool written) {
    return (struct file_note){
        .written = written, .size = info->st_size, .mtime_ns = file_mtime_ns(info), .inode = info->st_ino};
}

static enum status note_read(void *context, const char *path, int descriptor, const struct stat *info,
                             struct err *err) {
    (void)descriptor;
    const struct file_note note = note_of(info, false);
    return add(context, path, &note, err);
}

/* The file was just written, so that the system still has it in memory. */
static enum status note_written(void *context, const char *path, int descriptor, const struct stat *info,
                                struct err *err) {
    const struct file_notes *notes = context;
    struct file_note note = note_of(info, true);
    if (notes->may_write != NULL) TRY(notes->may_write(notes->may_write_context, err));
    TRY(digest_descriptor(descriptor, path, note.digest, &note.size, err));
    return add(context, path, &note, err);
}

/* Without memory the ledger keeps the file, and `icestream verify` misses it. */
static void note_removed(void *context, const char *path) {
    const struct file_note note = {.written = true, .size = FILE_REMOVED};
    (void)add(context, path, &note, NULL);
}

void file_notes_init(struct file_notes *notes) {
    *notes = (struct file_notes){.observer = {.read = note_read, .written = note_written, .removed = note_removed}};
    notes->observer.context = notes;
    pthread_mutex_init(&notes->lock, NULL);
}

void file_notes_empty(struct file_notes *notes) {
    notes->count = notes->used = 0;
}

void file_notes_clear(struct file_notes *notes) {
    if (notes->observer.context == NULL) return;
    free(notes->list);
    free(notes->texts);
    pthread_mutex_destroy(&notes->lock);
    *notes = (struct file_notes){0};
}
