/* The lock that the threads of a stage share, and how they wake each other. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"

void stage_lock(struct stage *stage) {
    pthread_mutex_lock(&stage->lock);
}

void stage_unlock(struct stage *stage) {
    pthread_mutex_unlock(&stage->lock);
}

void stage_changed(struct stage *stage) {
    pthread_cond_broadcast(&stage->changed);
    uint64_t one = 1;
    /* A write fails when the counter is full; the reader wakes all the same. */
    if (stage->wake >= 0 && write(stage->wake, &one, sizeof one) < 0) return;
}

void stage_wake(struct stage *stage, enum part part) {
    pthread_cond_signal(&stage->wakes[part]);
}

void stage_event(struct stage *stage) {
    stage->events++;
    stage_wake(stage, PART_PROCESS);
    stage_changed(stage);
}

void stage_wake_all(struct stage *stage) {
    for (int i = 0; i < PART_COUNT; i++)
        pthread_cond_broadcast(&stage->wakes[i]);
    pthread_cond_broadcast(&stage->admission.changed);
    stage_event(stage);
}

void stage_wait_on(struct stage *stage, pthread_cond_t *condition, double deadline) {
    if (isinf(deadline)) {
        pthread_cond_wait(condition, &stage->lock);
        return;
    }
    struct timespec until = {(time_t)floor(deadline), (long)(1e9 * (deadline - floor(deadline)))};
    pthread_cond_timedwait(condition, &stage->lock, &until);
}

void stage_wait_until(struct stage *stage, double deadline) {
    stage->room_told = false;
    stage_wait_on(stage, &stage->changed, deadline);
}

void stage_sleep(struct stage *stage, enum part part, double deadline) {
    stage_wait_on(stage, &stage->wakes[part], deadline);
}

static bool item_waits(struct stage *stage) {
    return lanes_at(stage, stage->process_ticket, SLOT_PROCESS) != NULL;
}

void stage_wait(struct stage *stage, double seconds) {
    double deadline = clock_monotonic() + seconds;
    stage_lock(stage);
    while (stage->events == stage->waited && !stage_stopping(stage) && !item_waits(stage) && !stage->threads_end &&
           clock_monotonic() < deadline)
        stage_sleep(stage, PART_PROCESS, deadline);
    stage->waited = stage->events;
    stage_unlock(stage);
}

void stage_stop(struct stage *stage, enum stage_stop how) {
    stage_lock(stage);
    if (atomic_load(&stage->stopping) < (int)how) atomic_store(&stage->stopping, (int)how);
    stage_wake_all(stage);
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
    stage_wake_all(stage);
    stage_unlock(stage);
}
