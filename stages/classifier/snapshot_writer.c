#include "stages/classifier/snapshot_writer.h"

#include "common/memory.h"
#include "common/worker.h"
#include "stages/classifier/snapshot_copy.h"

struct snapshot_writer {
    struct stage *stage;
    struct worker *worker;
    struct snapshot_copy copy; /* while a snapshot is written, this and the next belong to the worker */
    struct snapshot snapshot;
    bool begun;
};

enum status snapshot_writer_create(struct stage *stage, struct snapshot_writer **ret_writer, struct err *err) {
    struct snapshot_writer *w = NULL;
    TRY(mem_new(1, sizeof *w, "the files of snapshots", &w, err));
    w->stage = stage;
    enum status status = worker_create(&w->worker, err);
    if (status == STATUS_OK)
        *ret_writer = w;
    else
        mem_free(&w);
    return status;
}

void snapshot_writer_destroy(struct snapshot_writer **writer) {
    struct snapshot_writer *w = *writer;
    if (w == NULL) return;
    worker_destroy(&w->worker);
    snapshot_copy_clear(&w->copy);
    mem_free(writer);
}

static enum status write(void *context, struct err *err) {
    struct snapshot_writer *w = context;
    enum status status;
    STAGE_PERSIST(w->stage, status, err, snapshot_write_judged(&w->copy.classifier, &w->snapshot, err));
    TRY(status);
    STAGE_PERSIST(w->stage, status, err, snapshot_link(&w->snapshot, err));
    TRY(status);
    STAGE_PERSIST(w->stage, status, err, snapshot_history(&w->copy.classifier, &w->snapshot, err));
    return status;
}

enum status snapshot_writer_begin(struct snapshot_writer *w, struct classifier *classifier,
                                  const struct snapshot *snapshot, struct err *err) {
    FAIL_IF(w->begun, err, STATUS_BAD_STATE, "one snapshot is written at a time");
    TRY(snapshot_copy_take(&w->copy, classifier, err));
    w->snapshot = *snapshot;
    w->begun = true;
    worker_start(w->worker, write, w);
    return STATUS_OK;
}

bool snapshot_writer_busy(const struct snapshot_writer *w) {
    return w->begun;
}

bool snapshot_writer_done(struct snapshot_writer *w, double seconds) {
    return w->begun && worker_rests(w->worker, seconds);
}

enum status snapshot_writer_end(struct snapshot_writer *w, const struct snapshot **ret_snapshot,
                                struct classifier **ret_classifier, struct err *err) {
    FAIL_IF(!w->begun, err, STATUS_BAD_STATE, "no snapshot was begun");
    w->begun = false;
    TRY(worker_wait(w->worker, err));
    *ret_snapshot = &w->snapshot;
    *ret_classifier = &w->copy.classifier;
    return STATUS_OK;
}
