/* What callbacks may ask of the harness, and the lock that its threads share. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"

const void *stage_params(const struct stage *stage) {
    return stage->params;
}

const struct stage_session *stage_session(const struct stage *stage) {
    return &stage->session;
}

const char *stage_name(const struct stage *stage) {
    return stage->name;
}

const char *stage_root(const struct stage *stage) {
    return stage->root;
}

const char *stage_folder(const struct stage *stage) {
    return stage->folder;
}

int stage_threads(const struct stage *stage) {
    return stage->threads;
}

int stage_flush_threads(const struct stage *stage) {
    return stage->flush_threads > 0 ? stage->flush_threads : stage->threads;
}

const struct device *stage_device(const struct stage *stage) {
    return &stage->device;
}

bool stage_in_pipeline(const struct stage *stage) {
    return stage->mode == STAGE_IN_PIPELINE;
}

bool stage_stopping(const struct stage *stage) {
    int stopping = atomic_load(&stage->stopping);
    return stopping == STOP_NOW || (stopping == STOP_DRAIN && stage->descriptor->produce != NULL);
}

double stage_until_idle(const struct stage *stage) {
    return stage->until_idle;
}

void stage_lock(struct stage *stage) {
    pthread_mutex_lock(&stage->lock);
}

void stage_unlock(struct stage *stage) {
    pthread_mutex_unlock(&stage->lock);
}

void stage_changed(struct stage *stage) {
    pthread_cond_broadcast(&stage->changed);
    uint64_t one = 1;
    /* A full counter wakes the reader just as well. */
    if (stage->wake >= 0 && write(stage->wake, &one, sizeof one) < 0) return;
}

void stage_call(struct stage *stage, enum part part) {
    pthread_cond_signal(&stage->calls[part]);
}

void stage_event(struct stage *stage) {
    stage->events++;
    stage_call(stage, PART_PROCESS);
    stage_changed(stage);
}

void stage_call_all(struct stage *stage) {
    for (int i = 0; i < PART_COUNT; i++)
        pthread_cond_broadcast(&stage->calls[i]);
    stage_event(stage);
}

static void wait_on(struct stage *stage, pthread_cond_t *condition, double deadline) {
    if (isinf(deadline)) {
        pthread_cond_wait(condition, &stage->lock);
        return;
    }
    struct timespec until = {(time_t)floor(deadline), (long)(1e9 * (deadline - floor(deadline)))};
    pthread_cond_timedwait(condition, &stage->lock, &until);
}

void stage_wait_until(struct stage *stage, double deadline) {
    stage->room_told = false;
    wait_on(stage, &stage->changed, deadline);
}

void stage_await_call(struct stage *stage, enum part part, double deadline) {
    wait_on(stage, &stage->calls[part], deadline);
}

static bool item_waits(struct stage *stage) {
    return lanes_at(stage, stage->process_ticket, SLOT_PROCESS) != NULL;
}

void stage_wait(struct stage *stage, double seconds) {
    double deadline = clock_monotonic() + seconds;
    stage_lock(stage);
    while (stage->events == stage->waited && !stage_stopping(stage) && !item_waits(stage) && !stage->threads_end &&
           clock_monotonic() < deadline)
        stage_await_call(stage, PART_PROCESS, deadline);
    stage->waited = stage->events;
    stage_unlock(stage);
}

void stage_stop(struct stage *stage, enum stage_stop how) {
    stage_lock(stage);
    if (atomic_load(&stage->stopping) < (int)how) atomic_store(&stage->stopping, (int)how);
    stage_call_all(stage);
    stage_unlock(stage);
}

void stage_fatal(struct stage *stage, enum status status, const struct err *err) {
    stage_lock(stage);
    if (stage->fatal == STATUS_OK) {
        stage->fatal = status;
        stage->fatal_err = *err;
        stage->fatal_err.status = status;
    }
    atomic_store(&stage->stopping, STOP_NOW);
    stage_call_all(stage);
    stage_unlock(stage);
}

void stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_write_list(stage->log, level, id, format, args);
    va_end(args);
}

void stage_note(struct stage *stage, const char *format, ...) {
    char note[160];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    metrics_note(&stage->metrics, note);
}
