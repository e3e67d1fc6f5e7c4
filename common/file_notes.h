/* Notes which files a piece of work reads and writes: their size, time and digest, for the ledger. The harness lends
 * the notes to the thread that does the work (file_observe, common/files.h). */
#ifndef ICESTREAM_COMMON_FILE_NOTES_H
#define ICESTREAM_COMMON_FILE_NOTES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/files.h"

enum { FILE_REMOVED = -1 };

struct file_note {
    size_t path;  /* place of the path in `texts` */
    bool written; /* else read */
    int64_t size; /* bytes; FILE_REMOVED: the file was removed after it was written */
    int64_t mtime_ns;
    uint64_t inode;
    char digest[DIGEST_SIZE]; /* "": not known */
};

/* The list grows to what the work needs, and keeps its memory when it is emptied. */
struct file_notes {
    pthread_mutex_t lock;
    struct file_note *list;
    size_t count, capacity;
    char *texts;
    size_t used, room;
    struct file_observer observer; /* for file_observe */
    /* NULL, or says whether files may be placed now; an error is one of the call that would place it. */
    enum status (*may_write)(const void *context, struct err *err);
    const void *may_write_context;
};

/* Makes empty notes. */
void file_notes_init(struct file_notes *notes);
/* Frees them. */
void file_notes_clear(struct file_notes *notes);
/* Forgets all notes, and keeps the memory. */
void file_notes_empty(struct file_notes *notes);
/* Returns the path of a note as it was given to the function that opened or wrote the file; valid until the next note
 * is taken. */
const char *file_note_path(const struct file_notes *notes, const struct file_note *note);

#endif
