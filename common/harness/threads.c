/* The threads of an instance: what calls load, process and store, and what commits the outcomes. */
#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/clock.h"
#include "common/harness/stage_private.h"

static const double idle_pause = 1, summary_pause = 5, summary_share = 20;

static void use_threads(int count) {
#ifdef _OPENMP
    omp_set_num_threads(count);
#else
    (void)count;
#endif
}

/* A callback runs between these two, without the lock. */
static void begin_work(struct stage *stage, enum part part) {
    parts_enter(&stage->parts, part, clock_monotonic());
    stage_unlock(stage);
}

static void end_work(struct stage *stage, enum part part) {
    stage_lock(stage);
    parts_leave(&stage->parts, part, clock_monotonic());
}

/* The stage cannot go on; unless it was told to end while it waited for something. */
static void end_stage(struct stage *stage, enum status status, const struct err *err) {
    bool told = atomic_load(&stage->stopping) == STOP_NOW && status == STATUS_UNAVAILABLE;
    if (status != STATUS_OK && status != STATUS_CANCELLED && !told) stage_fatal(stage, status, err);
}

/* Callbacks may end an item, not the stage; but a lost device ends it. */
static void note_status(struct stage *stage, struct slot *slot, enum status status) {
    slot->status = status;
    if (status == STATUS_DEVICE) stage_fatal(stage, status, &slot->err);
    if (status == STATUS_NO_MEMORY)
        err_context(
            &slot->err, status,
            "there was not enough memory for it (give the stage more, or fewer lanes, threads or replicas; then "
            "`icestream retry`)");
}

/* What is read may stay away for good, and others wait behind it. */
static const double reading_limit = 300;

static void load_slot(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    enum status status = stage_check_input(stage, slot->lane->item, &slot->err);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    struct stage_patience patience = {.limit = reading_limit};
    if (status == STATUS_OK && descriptor->load != NULL) do
            status = descriptor->load(stage, stage->state, slot->lane, &slot->err);
        while (stage_wait_out(stage, status, &slot->err, &patience));
    note_status(stage, slot, status);
}

void *thread_load(void *argument) {
    struct stage *stage = argument;
    /* Load and store take turns with the compute thread for the cores; they are for reading and writing. */
    use_threads(1);
    stage_lock(stage);
    while (!stage->threads_end) {
        struct slot *slot = lanes_to_load(stage);
        if (slot == NULL) {
            stage_await_call(stage, PART_LOAD, INFINITY);
            continue;
        }
        slot->phase = SLOT_LOADING;
        begin_work(stage, PART_LOAD);
        crash_blame(stage->current, slot->id);
        load_slot(stage, slot);
        crash_blame(NULL, NULL);
        end_work(stage, PART_LOAD);
        bool processed = stage->descriptor->process != NULL;
        slot->phase = processed ? SLOT_PROCESS : SLOT_STORE;
        stage_call(stage, processed ? PART_PROCESS : PART_STORE);
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

/* Set-up is work like any other, but not of every item. */
static enum status set_up(struct stage *stage, struct stage_lane *lane, struct err *err) {
    double begin = clock_monotonic();
    enum status status = stage->descriptor->reconfigure(stage, stage->state, lane, err);
    stage_lock(stage);
    stage->parts.setup += clock_monotonic() - begin;
    stage_unlock(stage);
    return status;
}

static const int NO_SHAPE[3] = {-1, -1, -1};

static enum status process_item(struct stage *stage, struct stage_lane *lane, int last_shape[3], struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (descriptor->reconfigure != NULL && memcmp(last_shape, lane->shape, sizeof lane->shape) != 0) {
        /* One that failed has left nothing to work with: the shape before it is set up anew as well. */
        memcpy(last_shape, NO_SHAPE, sizeof NO_SHAPE);
        TRY(set_up(stage, lane, err));
        memcpy(last_shape, lane->shape, sizeof lane->shape);
    }
    return descriptor->process(stage, stage->state, lane, err);
}

static void compute_item(struct stage *stage, struct slot *slot, int last_shape[3]) {
    if (slot->status != STATUS_OK) return;
    atomic_store(&stage->metrics.state, METRICS_PROCESSING);
    metrics_item(&stage->metrics, slot->id);
    struct stage_patience patience = {.limit = reading_limit};
    enum status status;
    do {
        mark_current(stage, slot->id);
        crash_blame(stage->current, slot->id);
        status = process_item(stage, slot->lane, last_shape, &slot->err);
        crash_blame(NULL, NULL);
        mark_current(stage, "");
    } while (stage_wait_out(stage, status, &slot->err, &patience));
    metrics_item(&stage->metrics, "");
    atomic_store(&stage->metrics.state, METRICS_WAITING);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
}

/* On files nothing is waited for: what a stage does of its own would begin with as much as happened to be read by then. */
static bool has_idle(const struct stage *stage) {
    return stage->descriptor->idle != NULL && stage->mode != STAGE_ON_FILES;
}

static enum stage_work be_idle(struct stage *stage) {
    enum stage_work work = STAGE_WORK_NONE;
    struct err err = {0};
    struct stage_patience patience = {0};
    enum status status;
    do
        status = stage->descriptor->idle(stage, stage->state, &work, &err);
    while (stage_wait_out(stage, status, &err, &patience));
    end_stage(stage, status, &err);
    return status == STATUS_OK ? work : STAGE_WORK_NONE;
}

static void run_flush(struct stage *stage) {
    struct err err = {0};
    struct stage_patience patience = {0};
    enum status status = STATUS_OK;
    if (stage->descriptor->flush != NULL) do
            status = stage->descriptor->flush(stage, stage->state, &err);
        while (stage_wait_out(stage, status, &err, &patience));
    end_stage(stage, status, &err);
    stage_lock(stage);
    stage->flushed = true;
    stage_changed(stage);
    stage_unlock(stage);
}

static void run_source(struct stage *stage) {
    struct err err = {0};
    end_stage(stage, stage->descriptor->produce(stage, stage->state, &err), &err);
    stage_lock(stage);
    stage_drain_emissions(stage);
    stage_unlock(stage);
    run_flush(stage);
}

void *thread_compute(void *argument) {
    struct stage *stage = argument;
    int last_shape[3] = {-1, -1, -1};
    const bool idles = has_idle(stage);
    bool idle_now = idles;
    uint64_t seen = 0;
    double idle_at = 0;
    use_threads(stage->threads);
    if (stage->descriptor->produce != NULL) {
        run_source(stage);
        return NULL;
    }
    stage_lock(stage);
    while (!stage->threads_end && !stage->flushed) {
        struct slot *slot = lanes_at(stage, stage->process_ticket, SLOT_PROCESS);
        if (slot != NULL) {
            slot->phase = SLOT_PROCESSING;
            begin_work(stage, PART_PROCESS);
            compute_item(stage, slot, last_shape);
            end_work(stage, PART_PROCESS);
            slot->phase = SLOT_STORE;
            stage->process_ticket++;
            stage_call(stage, PART_STORE);
        } else if (stage->flush_wanted) {
            begin_work(stage, PART_PROCESS);
            run_flush(stage);
            end_work(stage, PART_PROCESS);
        } else if (idle_now || (idles && (stage->events != seen || clock_monotonic() > idle_at))) {
            seen = stage->events;
            begin_work(stage, PART_PROCESS);
            idle_now = be_idle(stage) == STAGE_WORK_MORE;
            end_work(stage, PART_PROCESS);
            idle_at = clock_monotonic() + idle_pause;
        } else
            stage_await_call(stage, PART_PROCESS, idles ? idle_at + 0.01 : INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}

static void store_item(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    enum status status = STATUS_OK;
    struct stage_patience patience = {0};
    if (slot->status != STATUS_OK) return; /* that is noted already */
    if (descriptor->store != NULL) {
        do
            status = descriptor->store(stage, stage->state, slot->lane, &slot->err);
        while (stage_wait_out(stage, status, &slot->err, &patience));
        /* On files the user is there: the others would not fare better. */
        if (status == STATUS_UNAVAILABLE) end_stage(stage, status, &slot->err);
    }
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
}

/* Returns how long it took; ret_again: it could not be written, and may be a little later. */
static double run_summary(struct stage *stage, bool last, bool *ret_again) {
    *ret_again = false;
    if (stage->descriptor->summarise == NULL) return 0;
    double begin = clock_monotonic();
    struct err err = {0};
    struct stage_patience patience = {0};
    enum status status;
    do
        status = stage->descriptor->summarise(stage, stage->state, &err);
    while (last && stage_wait_out(stage, status, &err, &patience));
    *ret_again = status == STATUS_UNAVAILABLE && !last; /* the store that waits, or the last summary, says it */
    if (status != STATUS_OK && status != STATUS_CANCELLED && !*ret_again) {
        log_write(stage->log, LOG_WARN, "summary", "the joined tables could not be written: %s", err.message);
        if (last) end_stage(stage, status, &err);
    }
    return clock_monotonic() - begin;
}

/* Whether it is time for the joined tables, of which one thread takes care. */
static bool summary_due(const struct stage *stage, bool *ret_last) {
    *ret_last = stage->summary_wanted && !stage->summarised && !stage->summarising;
    return *ret_last || (stage->stored > 0 && stage->descriptor->summarise != NULL && !stage->summarising &&
                         clock_monotonic() >= stage->summary_at);
}

static void summarise(struct stage *stage, bool last) {
    stage->stored = 0;
    stage->summarising = true;
    begin_work(stage, PART_STORE);
    bool again;
    double took = run_summary(stage, last, &again);
    end_work(stage, PART_STORE);
    stage->stored += again;
    stage->summary_at = clock_monotonic() + fmax(summary_pause, summary_share * took);
    stage->summarising = false;
    stage->summarised = last;
    stage_changed(stage);
    /* Another thread may wait for the time of the next one. */
    stage_call(stage, PART_STORE);
}

void *thread_store(void *argument) {
    struct stage *stage = argument;
    use_threads(1);
    stage_lock(stage);
    if (stage->summary_at == 0) stage->summary_at = clock_monotonic() + summary_pause;
    bool in_order = stage->parts.part[PART_STORE].threads == 1, last;
    while (!stage->threads_end) {
        struct slot *slot = in_order ? lanes_at(stage, stage->store_ticket, SLOT_STORE) : lanes_to_store(stage);
        if (slot != NULL) {
            slot->phase = SLOT_STORING;
            begin_work(stage, PART_STORE);
            crash_blame(stage->current, slot->id);
            store_item(stage, slot);
            crash_blame(NULL, NULL);
            end_work(stage, PART_STORE);
            stage->store_ticket++;
            lanes_let_go(stage, slot);
            slot->phase = SLOT_STORED;
            stage_call(stage, PART_LEDGER);
        } else if (summary_due(stage, &last))
            summarise(stage, last);
        else {
            bool later = stage->stored > 0 && stage->descriptor->summarise != NULL && !stage->summarising;
            stage_await_call(stage, PART_STORE, later ? stage->summary_at : INFINITY);
        }
    }
    stage_unlock(stage);
    return NULL;
}

/* Stored items whose turn it is: all that are there, since they share the wait for the disk. */
static int take_stored(struct stage *stage, struct slot *group[SLOTS_MAX]) {
    int count = 0;
    for (struct slot *slot; (slot = lanes_at(stage, stage->settle_ticket, SLOT_STORED)) != NULL;
         group[count++] = slot) {
        stage->settle_ticket++;
        slot->phase = SLOT_SETTLING;
    }
    return count;
}

static int settle_stored(struct stage *stage, struct slot *group[SLOTS_MAX]) {
    struct stage_patience patience = {0};
    struct err err = {0};
    enum status status;
    int count = 0;
    do {
        /* While this waits for the ledger more may be stored. */
        ledger_hold(stage->ledger);
        stage_lock(stage);
        if (count == 0) count = take_stored(stage, group);
        stage_unlock(stage);
        status = stage_settle(stage, group, count, &err);
        ledger_let_go(stage->ledger);
    } while (stage_wait_out(stage, status, &err, &patience));
    end_stage(stage, status, &err);
    return count;
}

static void commit_outcomes(struct stage *stage) {
    struct slot *group[SLOTS_MAX];
    begin_work(stage, PART_LEDGER);
    int count = settle_stored(stage, group);
    end_work(stage, PART_LEDGER);
    bool first = stage->stored == 0;
    for (int i = 0; i < count; i++) {
        metrics_latency(&stage->metrics, clock_monotonic() - group[i]->taken);
        stage->stored += group[i]->settled;
        group[i]->phase = SLOT_DONE;
    }
    if (first && stage->descriptor->summarise != NULL) stage_call(stage, PART_STORE);
    stage_event(stage);
}

/* They stay in sight, for stage_lookup, until the ledger has them. */
static void commit_emissions(struct stage *stage) {
    struct item *group[EMISSIONS_MAX];
    struct stage_patience patience = {0};
    struct err err = {0};
    enum status status;
    int count;
    begin_work(stage, PART_LEDGER);
    do {
        ledger_hold(stage->ledger);
        stage_lock(stage);
        count = stage->emission_count;
        memcpy(group, stage->emissions, sizeof group);
        stage_unlock(stage);
        status = stage_settle_emissions(stage, group, count, &err);
        ledger_let_go(stage->ledger);
    } while (stage_wait_out(stage, status, &err, &patience));
    end_stage(stage, status, &err);
    end_work(stage, PART_LEDGER);
    stage->emission_count -= count;
    memmove(stage->emissions, stage->emissions + count, (size_t)stage->emission_count * sizeof *stage->emissions);
    for (int i = 0; i < count; i++)
        item_destroy(&group[i]);
    bool first = stage->stored == 0;
    stage->stored += (uint64_t)count;
    if (first && stage->descriptor->summarise != NULL) stage_call(stage, PART_STORE);
    stage_event(stage);
}

void *thread_ledger(void *argument) {
    struct stage *stage = argument;
    stage_lock(stage);
    for (;;) {
        if (lanes_at(stage, stage->settle_ticket, SLOT_STORED) != NULL)
            commit_outcomes(stage);
        else if (stage->emission_count > 0)
            commit_emissions(stage);
        else if (stage->threads_end)
            break;
        else
            stage_await_call(stage, PART_LEDGER, INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}
