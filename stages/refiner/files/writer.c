#include "stages/refiner/files/writer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/worker.h"
#include "stages/refiner/files/history.h"
#include "stages/refiner/files/snapshot.h"
#include "stages/refiner/unresolved.h"

/* Files may take longer than a short iteration: those of two iterations can be in progress. */
enum { SLOTS = 2 };

/* The copy from which the files of an iteration are written. */
struct slot {
    struct snapshot *snapshot;
    struct refiner_state state;
    const char *remark;
};

struct writer {
    struct stage *stage;
    struct refiner *refiner;
    int keep;
    struct worker *worker;
    struct slot slots[SLOTS];
    pthread_mutex_t lock;
    pthread_cond_t reserved;
    bool lock_made, reserved_made;
    /* guarded by the lock */
    int first, count; /* slots to write, in turn */
    bool running;     /* the worker looks for more slots before it ends */
    bool failed;      /* an error waits to be returned */
    bool reserving;   /* before it writes, the worker makes room in the slots that are not in turn */
};

const char *writer_prefix(const struct stage *stage) {
    return stage_promised(stage);
}

/* Describes the classes for the log: " in 3 classes (52, 31, 17 %)". */
static void describe_classes(const struct refiner *refiner, int classes, char *text, size_t size) {
    int used = snprintf(text, size, " in %d classes (", classes);
    for (int k = 0; k < classes && used >= 0 && (size_t)used < size; k++)
        used += snprintf(text + used, size - (size_t)used, "%s%.0f", k > 0 ? ", " : "",
                         100 * refiner_class(refiner, k).share);
    if (used >= 0 && (size_t)used < size) snprintf(text + used, size - (size_t)used, " %%)");
}

/* Describes the time, and the device's part of it: "1.6 s", "0.42 s, the device 0.31 s of it". */
static void describe_time(const struct refiner_state *s, char *text, size_t size) {
    if (s->device_seconds > 0)
        snprintf(text, size, "%.2f s, the device %.2f s of it", s->seconds, s->device_seconds);
    else
        snprintf(text, size, "%.1f s", s->seconds);
}

/* Describes what the maps are worth. */
static void describe_resolution(const struct refiner_state *s, int digits, char text[UNRESOLVED_SIZE]) {
    unresolved_describe(s, text);
    if (*text == 0) snprintf(text, UNRESOLVED_SIZE, "%.*f Å", digits, s->resolution);
}

static const char *hand(const struct refiner_state *s) {
    return s->inverted ? ", hand inverted" : "";
}

static void log_classes(struct stage *stage, const struct refiner *refiner, const struct refiner_state *s,
                        const char *remark) {
    char classes[512], took[64], worth[UNRESOLVED_SIZE];
    describe_classes(refiner, s->classes, classes, sizeof classes);
    describe_time(s, took, sizeof took);
    describe_resolution(s, 2, worth);
    stage_note(stage, "iteration %d, %zu particles%s%s%s%s", s->iteration, s->particles, hand(s), classes,
               s->unresolved == UNRESOLVED_NOISE ? ", noise, no resolution"
               : s->alike                        ? ", alike: no difference found"
                                                 : "",
               remark);
    stage_log(stage, LOG_INFO, "refine-iteration",
              "iteration %d: %zu particles%s%s, %s, %.0f %% changed class, order %d (%.2f°, %.2f px), size %d, "
              "Pmax %.2f, %.0f significant, %s",
              s->iteration, s->particles, hand(s), classes, worth, 100 * s->class_changes, s->order, s->angle_step,
              s->offset_step, s->current_size, s->average_pmax, s->significant, took);
}

static void log_halves(struct stage *stage, const struct refiner_state *s, const char *remark) {
    char took[64], noted[UNRESOLVED_SIZE], worth[UNRESOLVED_SIZE], views[128];
    describe_time(s, took, sizeof took);
    describe_resolution(s, 1, noted);
    describe_resolution(s, 2, worth);
    orientations_note(&s->views, views, sizeof views);
    stage_note(stage, "iteration %d, %zu particles%s, %s, %s%s", s->iteration, s->particles, hand(s), noted, views,
               remark);
    stage_log(stage, LOG_INFO, "refine-iteration",
              "iteration %d%s: %zu particles%s, %s, order %d%s (%.2f°, %.2f px), size %d, accuracy %.2f° %.2f px, "
              "Pmax %.2f, %.0f significant, directions %.2f, %s",
              s->iteration, s->final ? " (final)" : "", s->particles, hand(s), worth, s->order,
              s->kept    ? " at the given poses"
              : s->local ? " near"
                         : "",
              s->angle_step, s->offset_step, s->current_size, s->accuracy_angle, s->accuracy_offset, s->average_pmax,
              s->significant, s->views.efficiency, took);
}

static enum status write_slot(struct writer *w, const struct slot *slot, struct err *err) {
    struct stage *stage = w->stage;
    struct refiner_state state = slot->state;
    TRY(snapshot_measure(slot->snapshot, &state.views, err));
    const struct refiner *refiner = snapshot_refiner(slot->snapshot);
    enum status status;
    STAGE_PERSIST(stage, status, err, refiner_write(refiner, stage_folder(stage), writer_prefix(stage), w->keep, err));
    TRY(status);
    STAGE_PERSIST(stage, status, err, history_write(stage_folder(stage), writer_prefix(stage), &state, err));
    TRY(status);
    if (state.classes > 1)
        log_classes(stage, refiner, &state, slot->remark);
    else
        log_halves(stage, &state, slot->remark);
    return STATUS_OK;
}

/* Reserves memory, after the first iteration, for the copy that the next one may need. */
static void reserve_other(struct writer *w, const struct slot *slot) {
    pthread_mutex_lock(&w->lock);
    bool reserve = w->reserving;
    pthread_mutex_unlock(&w->lock);
    if (!reserve) return;
    for (int i = 0; i < SLOTS; i++)
        if (&w->slots[i] != slot) snapshot_reserve(w->slots[i].snapshot, slot->snapshot);
    pthread_mutex_lock(&w->lock);
    w->reserving = false;
    pthread_cond_broadcast(&w->reserved);
    pthread_mutex_unlock(&w->lock);
}

/* Runs on the writer's thread: writes all slots in turn. A slot for which there was no memory stays, to be written
 * again. */
static enum status write_slots(void *context, struct err *err) {
    struct writer *w = context;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        const struct slot *slot = w->count > 0 ? &w->slots[w->first] : NULL;
        w->running = slot != NULL;
        pthread_mutex_unlock(&w->lock);
        if (slot == NULL) return STATUS_OK;
        reserve_other(w, slot);
        enum status status = write_slot(w, slot, err);
        pthread_mutex_lock(&w->lock);
        if (status != STATUS_NO_MEMORY) {
            w->first = (w->first + 1) % SLOTS;
            w->count--;
        }
        if (status != STATUS_OK) w->running = false, w->failed = true;
        pthread_mutex_unlock(&w->lock);
        TRY(status);
    }
}

static enum status open_all(struct writer *w, struct err *err) {
    w->lock_made = pthread_mutex_init(&w->lock, NULL) == 0;
    w->reserved_made = pthread_cond_init(&w->reserved, NULL) == 0;
    FAIL_IF(!w->lock_made || !w->reserved_made, err, STATUS_NO_MEMORY, "no lock could be made");
    w->reserving = true;
    for (int i = 0; i < SLOTS; i++)
        TRY(snapshot_create(&w->slots[i].snapshot, err));
    return worker_create(&w->worker, err);
}

enum status writer_create(struct stage *stage, struct refiner *refiner, int keep, struct writer **ret_writer,
                          struct err *err) {
    struct writer *w = NULL;
    TRY(mem_new(1, sizeof *w, "files of an iteration", &w, err));
    *w = (struct writer){.stage = stage, .refiner = refiner, .keep = keep};
    enum status status = open_all(w, err);
    if (status != STATUS_OK) {
        writer_destroy(&w);
        return status;
    }
    *ret_writer = w;
    return STATUS_OK;
}

void writer_destroy(struct writer **writer) {
    struct writer *w = *writer;
    if (w == NULL) return;
    worker_destroy(&w->worker);
    for (int i = 0; i < SLOTS; i++) {
        if (w->slots[i].snapshot != NULL) snapshot_return(w->slots[i].snapshot, w->refiner);
        snapshot_destroy(&w->slots[i].snapshot);
    }
    if (w->reserved_made) pthread_cond_destroy(&w->reserved);
    if (w->lock_made) pthread_mutex_destroy(&w->lock);
    mem_free(writer);
}

/* Returns how many slots are still to be written, and gives the copies of the others back. */
static int settle(struct writer *w, bool *ret_running) {
    pthread_mutex_lock(&w->lock);
    int count = w->count, first = w->first;
    *ret_running = w->running;
    pthread_mutex_unlock(&w->lock);
    for (int i = count; i < SLOTS; i++)
        snapshot_return(w->slots[(first + i) % SLOTS].snapshot, w->refiner);
    return count;
}

static void start_if_idle(struct writer *w) {
    pthread_mutex_lock(&w->lock);
    bool start = w->count > 0 && !w->running && !w->failed;
    w->running = w->running || start;
    pthread_mutex_unlock(&w->lock);
    if (start) worker_start(w->worker, write_slots, w);
}

/* Waits until the worker has ended, and returns its result. */
static enum status outcome(struct writer *w, struct err *err) {
    enum status status = worker_wait(w->worker, err);
    pthread_mutex_lock(&w->lock);
    w->failed = false;
    pthread_mutex_unlock(&w->lock);
    return status;
}

enum status writer_wait(struct writer *w, struct err *err) {
    bool running;
    for (;;) {
        TRY(outcome(w, err));
        if (settle(w, &running) == 0) return STATUS_OK;
        start_if_idle(w);
    }
}

enum status writer_look(struct writer *w, struct err *err) {
    bool running;
    (void)settle(w, &running);
    if (running) return STATUS_OK;
    TRY(outcome(w, err));
    start_if_idle(w);
    return STATUS_OK;
}

enum status writer_write(struct writer *w, const char *remark, struct err *err) {
    double began = clock_monotonic();
    bool running;
    if (settle(w, &running) == SLOTS) TRY(writer_wait(w, err));
    TRY(writer_look(w, err));
    pthread_mutex_lock(&w->lock);
    while (w->reserving && w->running)
        pthread_cond_wait(&w->reserved, &w->lock);
    struct slot *slot = &w->slots[(w->first + w->count) % SLOTS];
    pthread_mutex_unlock(&w->lock);
    TRY(snapshot_take(slot->snapshot, w->refiner, err));
    slot->state = refiner_state(w->refiner);
    slot->remark = remark;
    slot->state.waited = clock_monotonic() - began;
    pthread_mutex_lock(&w->lock);
    w->count++;
    pthread_mutex_unlock(&w->lock);
    start_if_idle(w);
    return STATUS_OK;
}
