/* Lanes: an item's way through load, process and store, and the threads that run these. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/clock.h"
#include "common/memory.h"
#include "common/stage_private.h"

static const double idle_pause = 1, summary_pause = 5, summary_share = 20;

static void use_threads(int count) {
#ifdef _OPENMP
    omp_set_num_threads(count);
#else
    (void)count;
#endif
}

/* The slot in a phase, with that ticket or (any_ticket) the earliest. */
static struct slot *find_slot(struct stage *stage, enum slot_phase phase, bool any_ticket, uint64_t ticket) {
    struct slot *best = NULL;
    for (int i = 0; i < stage->lane_count; i++) {
        struct slot *slot = &stage->slots[i];
        if (slot->phase == phase && (any_ticket || slot->ticket == ticket) &&
            (best == NULL || slot->ticket < best->ticket))
            best = slot;
    }
    return best;
}

static int busy_lanes(const struct stage *stage) {
    int busy = 0;
    for (int i = 0; i < stage->lane_count; i++)
        busy += stage->slots[i].phase != SLOT_FREE;
    return busy;
}

bool lanes_empty(const struct stage *stage) {
    return busy_lanes(stage) == 0;
}

bool lanes_room(const struct stage *stage) {
    int busy = busy_lanes(stage);
    if (busy == stage->lane_count || stage->flush_wanted) return false;
    /* What a cumulative stage sends has no item behind it that could wait. */
    if (stage->descriptor->cumulative) return true;
    for (int i = 0; i < stage->output_count; i++)
        if (stage->outputs[i].unacknowledged + busy >= stage->outputs[i].window) return false;
    return true;
}

void lanes_take(struct stage *stage, struct item **item, int edge, int64_t seq) {
    stage_lock(stage);
    struct slot *slot = find_slot(stage, SLOT_FREE, true, 0);
    if (slot == NULL) {
        /* The caller asked for room before; without it the item is let go and comes again. */
        stage_unlock(stage);
        item_destroy(item);
        return;
    }
    slot->lane.item = *item;
    *item = NULL;
    snprintf(slot->id, sizeof slot->id, "%s", item_id(slot->lane.item));
    slot->ticket = stage->next_ticket++;
    slot->judged = 0;
    slot->arrivals[0] = (struct arrival){edge, seq};
    slot->arrival_count = 1;
    slot->taken = clock_monotonic();
    slot->status = STATUS_OK;
    slot->settled = false;
    slot->phase = SLOT_LOAD;
    atomic_fetch_add(&stage->metrics.in, 1);
    atomic_store(&stage->metrics.queue, busy_lanes(stage));
    stage_event(stage);
    stage_unlock(stage);
}

struct slot *lanes_done(struct stage *stage) {
    return find_slot(stage, SLOT_DONE, true, 0);
}

void lanes_free(struct stage *stage, struct slot *slot) {
    item_destroy(&slot->lane.item);
    slot->phase = SLOT_FREE;
    atomic_store(&stage->metrics.queue, busy_lanes(stage));
    stage_changed(stage);
}

/* Callbacks may end an item, not the stage; but a lost device ends it. */
static void note_status(struct stage *stage, struct slot *slot, enum status status) {
    slot->status = status;
    if (status == STATUS_DEVICE) stage_fatal(stage, status, &slot->err);
}

static void load_slot(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    enum status status = stage_check_input(stage, slot->lane.item, &slot->err);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane.item, &slot->judged, &slot->err);
    if (status == STATUS_OK && descriptor->load != NULL)
        status = descriptor->load(stage, stage->state, &slot->lane, &slot->err);
    note_status(stage, slot, status);
}

static void *load_main(void *argument) {
    struct stage *stage = argument;
    /* Load and store take turns with the compute thread for the cores; they are for reading and writing. */
    use_threads(1);
    stage_lock(stage);
    while (!stage->threads_end) {
        struct slot *slot = find_slot(stage, SLOT_LOAD, true, 0);
        if (slot == NULL) {
            stage_wait_until(stage, INFINITY);
            continue;
        }
        slot->phase = SLOT_LOADING;
        stage_unlock(stage);
        load_slot(stage, slot);
        stage_lock(stage);
        slot->phase = stage->descriptor->process != NULL ? SLOT_PROCESS : SLOT_STORE;
        stage_changed(stage);
    }
    stage_unlock(stage);
    return NULL;
}

/* The id stands in `current` while its item is inside process; the first byte is what makes it valid. */
static void mark_current(struct stage *stage, const char *id) {
    if (stage->current == NULL) return;
    size_t length = strlen(id);
    if (length > 0) memcpy(stage->current + 1, id + 1, length);
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile char *)stage->current = id[0];
}

static const int NO_SHAPE[3] = {-1, -1, -1};

static enum status process_item(struct stage *stage, struct stage_lane *lane, int last_shape[3], struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (descriptor->reconfigure != NULL && memcmp(last_shape, lane->shape, sizeof lane->shape) != 0) {
        /* One that failed has left nothing to work with: the shape before it is set up anew as well. */
        memcpy(last_shape, NO_SHAPE, sizeof NO_SHAPE);
        TRY(descriptor->reconfigure(stage, stage->state, lane, err));
        memcpy(last_shape, lane->shape, sizeof lane->shape);
    }
    return descriptor->process(stage, stage->state, lane, err);
}

static void compute_item(struct stage *stage, struct slot *slot, int last_shape[3]) {
    if (slot->status != STATUS_OK) return;
    atomic_store(&stage->metrics.state, METRICS_PROCESSING);
    metrics_item(&stage->metrics, item_id(slot->lane.item));
    mark_current(stage, item_id(slot->lane.item));
    enum status status = process_item(stage, &slot->lane, last_shape, &slot->err);
    mark_current(stage, "");
    metrics_item(&stage->metrics, "");
    atomic_store(&stage->metrics.state, METRICS_WAITING);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane.item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
}

static enum stage_work be_idle(struct stage *stage) {
    enum stage_work work = STAGE_WORK_NONE;
    struct err err = {0};
    enum status status = stage->descriptor->idle(stage, stage->state, &work, &err);
    if (status == STATUS_OK) return work;
    if (status != STATUS_CANCELLED) stage_fatal(stage, status, &err);
    return STAGE_WORK_NONE;
}

static void run_flush(struct stage *stage) {
    struct err err = {0};
    enum status status =
        stage->descriptor->flush != NULL ? stage->descriptor->flush(stage, stage->state, &err) : STATUS_OK;
    if (status != STATUS_OK && status != STATUS_CANCELLED) stage_fatal(stage, status, &err);
    stage_lock(stage);
    stage->flushed = true;
    stage_changed(stage);
    stage_unlock(stage);
}

static void run_source(struct stage *stage) {
    struct err err = {0};
    enum status status = stage->descriptor->produce(stage, stage->state, &err);
    if (status != STATUS_OK && status != STATUS_CANCELLED) stage_fatal(stage, status, &err);
    run_flush(stage);
}

static void *compute_main(void *argument) {
    struct stage *stage = argument;
    int last_shape[3] = {-1, -1, -1};
    bool idle_now = stage->descriptor->idle != NULL;
    uint64_t seen = 0;
    double idle_at = 0;
    use_threads(stage->threads);
    if (stage->descriptor->produce != NULL) {
        run_source(stage);
        return NULL;
    }
    stage_lock(stage);
    while (!stage->threads_end && !stage->flushed) {
        struct slot *slot = find_slot(stage, SLOT_PROCESS, false, stage->process_ticket);
        if (slot != NULL) {
            slot->phase = SLOT_PROCESSING;
            stage_unlock(stage);
            compute_item(stage, slot, last_shape);
            stage_lock(stage);
            slot->phase = SLOT_STORE;
            stage->process_ticket++;
            stage_changed(stage);
        } else if (stage->flush_wanted) {
            stage_unlock(stage);
            run_flush(stage);
            stage_lock(stage);
        } else if (idle_now ||
                   (stage->descriptor->idle != NULL && (stage->events != seen || clock_monotonic() > idle_at))) {
            seen = stage->events;
            stage_unlock(stage);
            idle_now = be_idle(stage) == STAGE_WORK_MORE;
            stage_lock(stage);
            idle_at = clock_monotonic() + idle_pause;
        } else
            stage_wait_until(stage, stage->descriptor->idle != NULL ? idle_at + 0.01 : INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}

static void store_item(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    enum status status = slot->status;
    if (status == STATUS_OK && descriptor->store != NULL)
        status = descriptor->store(stage, stage->state, &slot->lane, &slot->err);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane.item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
    stage_settle(stage, slot);
    metrics_latency(&stage->metrics, clock_monotonic() - slot->taken);
}

/* Returns how long it took. */
static double run_summary(struct stage *stage, bool last) {
    if (stage->descriptor->summarise == NULL) return 0;
    double begin = clock_monotonic();
    struct err err = {0};
    enum status status = stage->descriptor->summarise(stage, stage->state, &err);
    if (status != STATUS_OK && status != STATUS_CANCELLED) {
        log_write(stage->log, LOG_WARN, "summary", "the joined tables could not be written: %s", err.message);
        if (last) stage_fatal(stage, status, &err);
    }
    return clock_monotonic() - begin;
}

static void *store_main(void *argument) {
    struct stage *stage = argument;
    double summary_at = clock_monotonic() + summary_pause;
    use_threads(1);
    stage_lock(stage);
    while (!stage->threads_end) {
        struct slot *slot = find_slot(stage, SLOT_STORE, false, stage->store_ticket);
        if (slot != NULL) {
            slot->phase = SLOT_STORING;
            stage_unlock(stage);
            store_item(stage, slot);
            stage_lock(stage);
            stage->stored += slot->settled;
            stage->store_ticket++;
            slot->phase = SLOT_DONE;
            stage_event(stage);
            continue;
        }
        bool last = stage->summary_wanted && !stage->summarised;
        bool due = stage->stored > 0 && stage->descriptor->summarise != NULL;
        if (last || (due && clock_monotonic() >= summary_at)) {
            stage->stored = 0;
            stage_unlock(stage);
            double took = run_summary(stage, last);
            summary_at = clock_monotonic() + fmax(summary_pause, summary_share * took);
            stage_lock(stage);
            stage->summarised = last;
            stage_changed(stage);
            continue;
        }
        stage_wait_until(stage, due ? summary_at : INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}

static enum status start_thread(struct stage *stage, pthread_t *thread, void *(*run)(void *), struct err *err) {
    int failed = pthread_create(thread, NULL, run, stage);
    FAIL_IF(failed != 0, err, STATUS_NO_MEMORY, "a thread cannot be started: %s", strerror(failed));
    stage->threads_started++;
    return STATUS_OK;
}

enum status lanes_start(struct stage *stage, struct err *err) {
    for (int i = 0; i < stage->lane_count; i++) {
        stage->slots[i].lane.index = i;
        if (stage->descriptor->lane_size > 0)
            TRY(mem_new(1, stage->descriptor->lane_size, "a lane", &stage->slots[i].lane.state, err));
    }
    TRY(start_thread(stage, &stage->compute, compute_main, err));
    TRY(start_thread(stage, &stage->store, store_main, err));
    for (int i = 0; i < LOAD_THREADS; i++)
        TRY(start_thread(stage, &stage->load[i], load_main, err));
    return STATUS_OK;
}

void lanes_stop(struct stage *stage) {
    stage_lock(stage);
    stage->threads_end = true;
    stage_event(stage);
    stage_unlock(stage);
    pthread_t threads[2 + LOAD_THREADS] = {stage->compute, stage->store};
    memcpy(threads + 2, stage->load, sizeof stage->load);
    for (int i = 0; i < stage->threads_started; i++)
        pthread_join(threads[i], NULL);
    stage->threads_started = 0;
}

enum status lanes_finish(struct stage *stage, struct err *err) {
    stage_lock(stage);
    stage->flush_wanted = true;
    stage_event(stage);
    while (!stage->flushed && stage->fatal == STATUS_OK && atomic_load(&stage->stopping) != STOP_NOW)
        stage_wait_until(stage, INFINITY);
    stage->summary_wanted = stage->flushed;
    stage_event(stage);
    while (stage->summary_wanted && !stage->summarised && stage->fatal == STATUS_OK)
        stage_wait_until(stage, INFINITY);
    enum status status = stage->fatal;
    if (status != STATUS_OK && err != NULL) *err = stage->fatal_err;
    stage_unlock(stage);
    return status;
}
