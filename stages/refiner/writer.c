#include "stages/refiner/writer.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/worker.h"
#include "stages/refiner/history.h"
#include "stages/refiner/snapshot.h"

struct writer {
    struct stage *stage;
    struct refiner *refiner;
    int keep;
    struct worker *worker;
    struct snapshot *snapshot;
    struct refiner_state state; /* of the snapshot */
};

const char *writer_prefix(const struct stage *stage) {
    const char *root = stage_root(stage), *folder = stage_folder(stage);
    size_t length = strlen(root);
    return strncmp(folder, root, length) == 0 && folder[length] == '/' ? folder + length + 1 : folder;
}

/* What the log says of classes: " in 3 classes (52, 31, 17 %)". */
static void describe_classes(const struct refiner *refiner, int classes, char *text, size_t size) {
    int used = snprintf(text, size, " in %d classes (", classes);
    for (int k = 0; k < classes && used >= 0 && (size_t)used < size; k++)
        used += snprintf(text + used, size - (size_t)used, "%s%.0f", k > 0 ? ", " : "",
                         100 * refiner_class(refiner, k).share);
    if (used >= 0 && (size_t)used < size) snprintf(text + used, size - (size_t)used, " %%)");
}

/* How long it took, and the device's part of that: "1.6 s", "0.42 s, the device 0.31 s of it". */
static void describe_time(const struct refiner_state *s, char *text, size_t size) {
    if (s->device_seconds > 0)
        snprintf(text, size, "%.2f s, the device %.2f s of it", s->seconds, s->device_seconds);
    else
        snprintf(text, size, "%.1f s", s->seconds);
}

static void log_classes(struct stage *stage, const struct refiner *refiner, const struct refiner_state *s) {
    char classes[512], took[64];
    describe_classes(refiner, s->classes, classes, sizeof classes);
    describe_time(s, took, sizeof took);
    stage_note(stage, "iteration %d, %zu particles%s", s->iteration, s->particles, classes);
    stage_log(stage, LOG_INFO, "refine-iteration",
              "iteration %d: %zu particles%s, %.2f Å, %.0f %% changed class, order %d (%.2f°, %.2f px), size %d, "
              "Pmax %.2f, %.0f significant, %s",
              s->iteration, s->particles, classes, s->resolution, 100 * s->class_changes, s->order, s->angle_step,
              s->offset_step, s->current_size, s->average_pmax, s->significant, took);
}

static void log_halves(struct stage *stage, const struct refiner_state *s) {
    char took[64];
    describe_time(s, took, sizeof took);
    stage_note(stage, "iteration %d, %zu particles, %.1f Å", s->iteration, s->particles, s->resolution);
    stage_log(stage, LOG_INFO, "refine-iteration",
              "iteration %d%s: %zu particles, %.2f Å, order %d%s (%.2f°, %.2f px), size %d, accuracy %.2f° %.2f px, "
              "Pmax %.2f, %.0f significant, %s",
              s->iteration, s->final ? " (final)" : "", s->particles, s->resolution, s->order, s->local ? " near" : "",
              s->angle_step, s->offset_step, s->current_size, s->accuracy_angle, s->accuracy_offset, s->average_pmax,
              s->significant, took);
}

/* On the writer's thread. */
static enum status write_all(void *context, struct err *err) {
    struct writer *w = context;
    struct stage *stage = w->stage;
    const struct refiner *refiner = snapshot_refiner(w->snapshot);
    struct stage_patience patience = {0};
    enum status status;
    do
        status = refiner_write(refiner, stage_folder(stage), writer_prefix(stage), w->keep, err);
    while (stage_wait_out(stage, status, err, &patience));
    TRY(status);
    do
        status = history_write(stage_folder(stage), writer_prefix(stage), &w->state, err);
    while (stage_wait_out(stage, status, err, &patience));
    TRY(status);
    if (w->state.classes > 1)
        log_classes(stage, refiner, &w->state);
    else
        log_halves(stage, &w->state);
    return STATUS_OK;
}

enum status writer_create(struct stage *stage, struct refiner *refiner, int keep, struct writer **ret_writer,
                          struct err *err) {
    struct writer *w = NULL;
    TRY(mem_new(1, sizeof *w, "files of an iteration", &w, err));
    *w = (struct writer){.stage = stage, .refiner = refiner, .keep = keep};
    enum status status = snapshot_create(&w->snapshot, err);
    if (status == STATUS_OK) status = worker_create(&w->worker, err);
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
    if (w->snapshot != NULL) snapshot_return(w->snapshot, w->refiner);
    snapshot_destroy(&w->snapshot);
    mem_free(writer);
}

enum status writer_wait(struct writer *w, struct err *err) {
    enum status status = worker_wait(w->worker, err);
    snapshot_return(w->snapshot, w->refiner);
    return status;
}

enum status writer_look(struct writer *w, struct err *err) {
    return worker_busy(w->worker) ? STATUS_OK : writer_wait(w, err);
}

enum status writer_write(struct writer *w, struct err *err) {
    double began = clock_monotonic();
    TRY(writer_wait(w, err));
    TRY(snapshot_take(w->snapshot, w->refiner, err));
    w->state = refiner_state(w->refiner);
    w->state.waited = clock_monotonic() - began;
    worker_start(w->worker, write_all, w);
    return STATUS_OK;
}
