#include "common/harness/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"

enum { BEAT_BYTES = 4096 };

static const double LIMITS[METRICS_LIMITS] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}; /* s */
static const char *const OUTCOMES[METRICS_OUTCOMES] = {"done", "rejected", "failed"};

/* The texts change a few times a second at most, so a waiter may spin. */
static void lock(struct metrics *metrics) {
    while (atomic_exchange(&metrics->lock, 1))
        sched_yield();
}

static void unlock(struct metrics *metrics) {
    atomic_store(&metrics->lock, 0);
}

void metrics_item(struct metrics *metrics, const char *id) {
    lock(metrics);
    snprintf(metrics->item, sizeof metrics->item, "%s", id);
    text_trim(metrics->item);
    unlock(metrics);
}

void metrics_note(struct metrics *metrics, const char *note) {
    lock(metrics);
    snprintf(metrics->note, sizeof metrics->note, "%s", note);
    text_trim(metrics->note);
    unlock(metrics);
}

void metrics_doing(struct metrics *metrics, const char *doing) {
    lock(metrics);
    snprintf(metrics->doing, sizeof metrics->doing, "%s", doing);
    text_trim(metrics->doing);
    unlock(metrics);
}

void metrics_trouble(struct metrics *metrics, const char *trouble) {
    lock(metrics);
    snprintf(metrics->trouble, sizeof metrics->trouble, "%s", trouble);
    text_trim(metrics->trouble);
    unlock(metrics);
}

void metrics_texts(struct metrics *metrics, char doing[METRICS_DOING], char note[METRICS_NOTE]) {
    lock(metrics);
    memcpy(doing, metrics->doing, METRICS_DOING);
    memcpy(note, metrics->note, METRICS_NOTE);
    unlock(metrics);
}

void metrics_latency(struct metrics *metrics, double seconds) {
    double before = atomic_load(&metrics->latency);
    int limit = 0;
    atomic_store(&metrics->latency, before == 0 ? seconds : 0.9 * before + 0.1 * seconds);
    while (limit < METRICS_LIMITS && seconds > LIMITS[limit])
        limit++;
    atomic_fetch_add(&metrics->latencies[limit], 1);
    atomic_store(&metrics->latency_sum, atomic_load(&metrics->latency_sum) + seconds);
}

void metrics_finished(struct metrics *metrics, enum metrics_outcome outcome) {
    atomic_fetch_add(&metrics->outcomes[outcome], 1);
}

/* Returns {"le": [11 limits], "counts": [12], "sum"}; counts[i]: items of up to le[i] s, the last one: all items. NULL: no
 * memory. */
static json_t *latencies_json(struct metrics *metrics) {
    json_t *limits = json_array(), *counts = json_array();
    long long total = 0;
    for (int i = 0; i <= METRICS_LIMITS; i++) {
        total += atomic_load(&metrics->latencies[i]);
        if (i < METRICS_LIMITS) json_array_append_new(limits, json_real(LIMITS[i]));
        json_array_append_new(counts, json_integer(total));
    }
    return json_pack("{s:o, s:o, s:f}", "le", limits, "counts", counts, "sum", atomic_load(&metrics->latency_sum));
}

static json_t *outcomes_json(struct metrics *metrics) {
    json_t *outcomes = json_object();
    for (int i = 0; i < METRICS_OUTCOMES; i++)
        json_object_set_new(outcomes, OUTCOMES[i], json_integer(atomic_load(&metrics->outcomes[i])));
    return outcomes;
}

/* Returns the bytes of memory that the process has now; 0: not known. */
static long long resident(void) {
    FILE *stream = fopen("/proc/self/statm", "re");
    long long pages = 0;
    if (stream == NULL) return 0;
    if (fscanf(stream, "%*d %lld", &pages) != 1) pages = 0;
    fclose(stream);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Returns how many bytes the process has read and written so far, in files and sockets. */
static long long bytes_moved(void) {
    FILE *stream = fopen("/proc/self/io", "re");
    if (stream == NULL) return 0;
    long long total = 0, value;
    char line[128];
    while (fgets(line, sizeof line, stream) != NULL)
        if (sscanf(line, "rchar: %lld", &value) == 1 || sscanf(line, "wchar: %lld", &value) == 1) total += value;
    fclose(stream);
    return total;
}

static enum status put_text(const char *path, const char *text, size_t length, struct err *err) {
    _cleanup_(file_close) int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: %s", path, status_reason(errno));
    errno = ENOSPC; /* the usual reason for a write that is cut short */
    FAIL_IF(pwrite(descriptor, text, length, 0) != (ssize_t)length || ftruncate(descriptor, (off_t)length) != 0, err,
            status_of_writing(errno), "%s cannot be written: %s", path, status_reason(errno));
    return STATUS_OK;
}

/* Writes the text into the second of two files, which keeps its blocks for good, and exchanges their names. A heartbeat
 * then needs no room on the disk, and goes on when the disk is full. */
static enum status exchange(const char *path, const char *text, size_t length, struct err *err) {
    char other[PATH_SIZE + 8];
    snprintf(other, sizeof other, "%s.tmp", path);
    TRY(put_text(other, text, length, err));
    if (renameat2(AT_FDCWD, other, AT_FDCWD, path, RENAME_EXCHANGE) == 0) return STATUS_OK;
    /* The first time there is no file to exchange with; and some network file systems cannot exchange. */
    FAIL_IF(rename(other, path) != 0, err, status_of_writing(errno), "%s cannot be written: %s", path,
            status_reason(errno));
    return put_text(other, text, length, err);
}

/* Pads the text with blanks, so that a longer heartbeat needs no new block. */
static enum status write_beat(const char *path, const char *text, struct err *err) {
    size_t length = strlen(text), room = (length / BEAT_BYTES + 1) * BEAT_BYTES;
    _cleanup_(mem_free) char *padded = malloc(room);
    FAIL_IF(padded == NULL, err, STATUS_NO_MEMORY, "no memory for a heartbeat of %zu bytes", room);
    memset(padded, ' ', room);
    memcpy(padded, text, length);
    padded[room - 1] = '\n';
    return exchange(path, padded, room, err);
}

enum status metrics_heartbeat(struct metrics *metrics, const struct parts *parts, int change, const char *path,
                              struct err *err) {
    static const char *const states[] = {"waiting", "blocked", "processing"};
    char item[sizeof metrics->item], doing[sizeof metrics->doing], note[sizeof metrics->trouble];
    lock(metrics);
    memcpy(item, metrics->item, sizeof item);
    memcpy(doing, metrics->doing, sizeof doing);
    snprintf(note, sizeof note, "%s", metrics->trouble[0] != '\0' ? metrics->trouble : metrics->note);
    unlock(metrics);
    json_t *beat = json_pack(
        "{s:f, s:i, s:s, s:s*, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:s*, s:o*}", "time", clock_realtime(),
        "pid", (int)getpid(), "state", states[atomic_load(&metrics->state)], "item", item, "in",
        (json_int_t)atomic_load(&metrics->in), "out", (json_int_t)atomic_load(&metrics->out), "rejected",
        (json_int_t)atomic_load(&metrics->rejected), "failed", (json_int_t)atomic_load(&metrics->failed), "dropped",
        (json_int_t)atomic_load(&metrics->dropped), "warnings", (json_int_t)atomic_load(&metrics->warnings), "bytes",
        (json_int_t)bytes_moved(), "latency", atomic_load(&metrics->latency), "queue", atomic_load(&metrics->queue),
        "note", note, "parts", parts->begun > 0 ? parts_json(parts, clock_monotonic()) : NULL);
    double resolution = atomic_load(&metrics->resolution);
    if (beat != NULL) {
        json_object_set_new(beat, "change", json_integer(change));
        json_object_set_new(beat, "outcomes", outcomes_json(metrics));
        json_object_set_new(beat, "latencies", latencies_json(metrics));
        json_object_set_new(beat, "resident", json_integer(resident()));
    }
    if (beat != NULL && doing[0] != '\0') json_object_set_new(beat, "doing", json_string(doing));
    if (beat != NULL && resolution > 0) json_object_set_new(beat, "resolution", json_real(resolution));
    _cleanup_(mem_free) char *text = beat != NULL ? json_dumps(beat, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(beat);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "the heartbeat cannot be put together");
    return write_beat(path, text, err);
}
