#include "common/harness/warnings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/edges/item.h"
#include "common/memory.h"
#include "common/text.h"

struct warning {
    char id[WARNING_ID_SIZE], message[WARNING_TEXT_SIZE];
    int64_t count, unwritten;
    double first, last; /* s since 1970; first: of those that are not written */
};

struct warnings {
    pthread_mutex_t lock;
    const char *stage;
    int count;
    int64_t unwritten, written;
    struct warning kinds[WARNING_KINDS];
    struct warning copies[WARNING_KINDS]; /* what is being written; of the one thread that writes */
};

enum status warnings_create(const char *stage, struct warnings **ret_warnings, struct err *err) {
    struct warnings *warnings = calloc(1, sizeof *warnings);
    FAIL_IF(warnings == NULL, err, STATUS_NO_MEMORY, "no memory for the warnings");
    warnings->stage = stage;
    pthread_mutex_init(&warnings->lock, NULL);
    *ret_warnings = warnings;
    return STATUS_OK;
}

void warnings_destroy(struct warnings **warnings) {
    if (*warnings == NULL) return;
    pthread_mutex_destroy(&(*warnings)->lock);
    mem_free(warnings);
}

/* Copies a text as JSON and a terminal can show it. */
static void copy_text(const char *text, char *out, size_t size) {
    snprintf(out, size, "%s", text);
    text_trim(out);
    bool fits = item_text_fits(out);
    for (char *at = out; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20) *at = ' ';
        if (!fits && (unsigned char)*at >= 0x80) *at = '?';
    }
}

/* Returns the entry of a kind. */
static struct warning *find(struct warnings *warnings, const char *id) {
    for (int i = 0; i < warnings->count; i++)
        if (strncmp(warnings->kinds[i].id, id, WARNING_ID_SIZE - 1) == 0) return &warnings->kinds[i];
    if (warnings->count == WARNING_KINDS) {
        struct warning *last = &warnings->kinds[WARNING_KINDS - 1];
        snprintf(last->id, sizeof last->id, "other");
        return last;
    }
    struct warning *kind = &warnings->kinds[warnings->count++];
    copy_text(id, kind->id, sizeof kind->id);
    return kind;
}

int64_t warnings_note(struct warnings *warnings, const char *id, const char *message) {
    if (warnings == NULL) return 0;
    pthread_mutex_lock(&warnings->lock);
    struct warning *kind = find(warnings, id);
    kind->last = clock_realtime();
    if (kind->unwritten == 0) kind->first = kind->last;
    copy_text(message, kind->message, sizeof kind->message);
    kind->unwritten++;
    warnings->unwritten++;
    int64_t count = ++kind->count;
    pthread_mutex_unlock(&warnings->lock);
    return count;
}

bool warnings_wait(struct warnings *warnings) {
    pthread_mutex_lock(&warnings->lock);
    bool waits = warnings->unwritten > 0;
    pthread_mutex_unlock(&warnings->lock);
    return waits;
}

int64_t warnings_written(struct warnings *warnings) {
    pthread_mutex_lock(&warnings->lock);
    int64_t written = warnings->written;
    pthread_mutex_unlock(&warnings->lock);
    return written;
}

enum status warnings_write(struct warnings *warnings, struct ledger *ledger, struct err *err) {
    struct ledger_warning rows[WARNING_KINDS];
    size_t count = 0;
    pthread_mutex_lock(&warnings->lock);
    memcpy(warnings->copies, warnings->kinds, sizeof warnings->copies);
    int copied = warnings->count;
    pthread_mutex_unlock(&warnings->lock);
    for (int i = 0; i < copied; i++) {
        const struct warning *kind = &warnings->copies[i];
        if (kind->unwritten == 0) continue;
        rows[count++] =
            (struct ledger_warning){warnings->stage, kind->id, kind->message, kind->unwritten, kind->first, kind->last};
    }
    if (count == 0) return STATUS_OK;
    TRY(ledger_warn(ledger, rows, count, err));
    pthread_mutex_lock(&warnings->lock);
    for (int i = 0; i < copied; i++) {
        warnings->kinds[i].unwritten -= warnings->copies[i].unwritten;
        warnings->unwritten -= warnings->copies[i].unwritten;
        warnings->written += warnings->copies[i].unwritten;
        if (warnings->kinds[i].unwritten > 0) warnings->kinds[i].first = warnings->copies[i].last;
    }
    pthread_mutex_unlock(&warnings->lock);
    return STATUS_OK;
}

void warnings_print(struct warnings *warnings, FILE *out) {
    pthread_mutex_lock(&warnings->lock);
    for (int i = 0; i < warnings->count; i++) {
        const struct warning *kind = &warnings->kinds[i];
        fprintf(out, "icestream-%s: warning: %s (%s", warnings->stage, kind->message, kind->id);
        if (kind->count > 1) fprintf(out, ", %lld times", (long long)kind->count);
        fputs(")\n", out);
    }
    pthread_mutex_unlock(&warnings->lock);
}
