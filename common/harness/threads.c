/* The threads of an instance: they call the stage's callbacks, and commit the outcomes to the ledger. */
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

/* Returns whether the stage's own work waits: a later revision was counted, or live parameters are about to change. */
static bool rests(const struct stage *stage) {
    return stage->stale || stage->changing;
}

/* A callback runs between these two calls, without the lock. */
static void begin_work(struct stage *stage, enum part part) {
    parts_enter(&stage->parts, part, clock_monotonic());
    stage_unlock(stage);
}

static void end_work(struct stage *stage, enum part part) {
    stage_lock(stage);
    parts_leave(&stage->parts, part, clock_monotonic());
}

/* Ends the stage with an error, unless it was asked to stop while it waited for the machine. */
static void end_stage(struct stage *stage, enum status status, const struct err *err) {
    bool told = atomic_load(&stage->stopping) == STOP_NOW && status == STATUS_UNAVAILABLE;
    if (status != STATUS_OK && status != STATUS_CANCELLED && !told) stage_fatal(stage, status, err);
}

/* A callback may fail its item, not the stage; but a lost device ends the stage. */
static void note_status(struct stage *stage, struct slot *slot, enum status status) {
    slot->status = status;
    if (status == STATUS_DEVICE) stage_fatal(stage, status, &slot->err);
    if (status == STATUS_NO_MEMORY)
        err_context(
            &slot->err, status,
            "there was not enough memory for it (give the stage more, or fewer lanes, threads or replicas; then "
            "`icestream retry`)");
}

/* Seconds to wait for a file: it may stay away for good, and other items wait behind this one. */
static const double reading_limit = 300;

static void load_slot(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    const char *withdrawn = item_string(slot->lane->item, "withdrawn");
    enum status status = withdrawn != NULL ? err_set(&slot->err, STATUS_REJECTED, __FILE__, __LINE__, "%s", withdrawn)
                                           : stage_check_input(stage, slot->lane->item, &slot->err);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    bool reads = status == STATUS_OK;
    if (reads && descriptor->need != NULL)
        STAGE_PERSIST_FOR(reading_limit, stage, status, &slot->err,
                          descriptor->need(stage, stage->state, slot->lane, &slot->need, &slot->err));
    status = admission_wait(stage, slot, status);
    if (status == STATUS_OK && descriptor->load != NULL)
        STAGE_PERSIST_FOR(reading_limit, stage, status, &slot->err, files_load(stage, slot, &slot->err));
    slot->set_aside = reads && absent_waits(stage, slot, status);
    note_status(stage, slot, status);
}

void *thread_load(void *argument) {
    struct stage *stage = argument;
    /* Load and store share the cores with the compute thread; they read and write rather than compute. */
    use_threads(1);
    stage_lock(stage);
    while (!stage->threads_end) {
        struct slot *slot = lanes_to_load(stage);
        if (slot == NULL) {
            stage_sleep(stage, PART_LOAD, INFINITY);
            continue;
        }
        slot->phase = SLOT_LOADING;
        begin_work(stage, PART_LOAD);
        crash_blame(stage->current, slot->mark);
        load_slot(stage, slot);
        crash_blame(NULL, NULL);
        end_work(stage, PART_LOAD);
        bool processed = stage->descriptor->process != NULL;
        slot->phase = processed ? SLOT_PROCESS : SLOT_STORE;
        stage_wake(stage, processed ? PART_PROCESS : PART_STORE);
    }
    stage_unlock(stage);
    return NULL;
}

/* Writes the mark of the item inside process into `current`. The first byte comes last: it makes the mark valid. */
static void mark_current(struct stage *stage, const char *mark) {
    if (stage->current == NULL) return;
    size_t length = strlen(mark);
    if (length > 0) memcpy(stage->current + 1, mark + 1, length);
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile char *)stage->current = mark[0];
}

/* Set-up counts as work, but it does not belong to any single item. */
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
        /* A failed set-up leaves nothing to work with, so that the next item sets up its shape again, whatever it
         * is. */
        memcpy(last_shape, NO_SHAPE, sizeof NO_SHAPE);
        TRY(set_up(stage, lane, err));
        memcpy(last_shape, lane->shape, sizeof lane->shape);
    }
    return descriptor->process(stage, stage->state, lane, err);
}

static enum status process_marked(struct stage *stage, struct slot *slot, int last_shape[3]) {
    mark_current(stage, slot->mark);
    crash_blame(stage->current, slot->mark);
    enum status status = process_item(stage, slot->lane, last_shape, &slot->err);
    crash_blame(NULL, NULL);
    mark_current(stage, "");
    return status;
}

static void compute_item(struct stage *stage, struct slot *slot, int last_shape[3]) {
    if (slot->status != STATUS_OK) return;
    atomic_store(&stage->metrics.state, METRICS_PROCESSING);
    metrics_item(&stage->metrics, slot->id);
    enum status status;
    STAGE_PERSIST_FOR(reading_limit, stage, status, &slot->err, process_marked(stage, slot, last_shape));
    metrics_item(&stage->metrics, "");
    atomic_store(&stage->metrics.state, METRICS_WAITING);
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
}

/* On files, idle is never called: how much of its own work the stage does would depend on how fast the files were
 * read. */
static bool has_idle(const struct stage *stage) {
    return stage->descriptor->idle != NULL && stage->mode != STAGE_ON_FILES;
}

/* Tells the launcher, should the process die, that the stage is at work of its own, of which no item is the cause. */
static void mark_own_work(struct stage *stage, bool at_work) {
    if (stage->current != NULL) *(volatile char *)(stage->current + CURRENT_SIZE - 1) = at_work;
}

/* Between two slices of idle the stage still works: the heartbeat says so until there is no more work. */
static void end_own_work(struct stage *stage) {
    metrics_doing(&stage->metrics, "");
    atomic_store(&stage->metrics.state, METRICS_WAITING);
}

static enum stage_work be_idle(struct stage *stage) {
    enum stage_work work = STAGE_WORK_NONE;
    struct err err = {0};
    enum status status;
    mark_own_work(stage, true);
    atomic_store(&stage->metrics.state, METRICS_PROCESSING);
    STAGE_PERSIST(stage, status, &err, stage->descriptor->idle(stage, stage->state, &work, &err));
    mark_own_work(stage, false);
    if (status != STATUS_OK || work == STAGE_WORK_NONE) end_own_work(stage);
    end_stage(stage, status, &err);
    files_write_own(stage);
    return status == STATUS_OK ? work : STAGE_WORK_NONE;
}

static void run_flush(struct stage *stage) {
    struct err err = {0};
    enum status status = STATUS_OK;
    mark_own_work(stage, true);
    if (stage->descriptor->flush != NULL && stage->descriptor->produce == NULL)
        atomic_store(&stage->metrics.state, METRICS_PROCESSING);
    if (stage->descriptor->flush != NULL)
        STAGE_PERSIST(stage, status, &err, stage->descriptor->flush(stage, stage->state, &err));
    end_stage(stage, status, &err);
    files_write_own(stage);
    mark_own_work(stage, false);
    if (stage->descriptor->produce == NULL) end_own_work(stage);
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
    files_watch_own(stage);
    if (stage->descriptor->produce != NULL) {
        run_source(stage);
        return NULL;
    }
    stage_lock(stage);
    while (!stage->threads_end && !stage->flushed) {
        if (admission_release(stage) || stage->reshape) memcpy(last_shape, NO_SHAPE, sizeof NO_SHAPE);
        stage->reshape = false;
        struct slot *slot = lanes_at(stage, stage->process_ticket, SLOT_PROCESS);
        if (slot != NULL) {
            slot->phase = SLOT_PROCESSING;
            begin_work(stage, PART_PROCESS);
            compute_item(stage, slot, last_shape);
            end_work(stage, PART_PROCESS);
            slot->phase = SLOT_STORE;
            stage->process_ticket++;
            stage_wake(stage, PART_STORE);
        } else if (stage->flush_wanted) {
            begin_work(stage, PART_PROCESS);
            run_flush(stage);
            end_work(stage, PART_PROCESS);
        } else if (!rests(stage) && (idle_now || (idles && (stage->events != seen || clock_monotonic() > idle_at)))) {
            seen = stage->events;
            stage->idling = true;
            begin_work(stage, PART_PROCESS);
            idle_now = be_idle(stage) == STAGE_WORK_MORE;
            end_work(stage, PART_PROCESS);
            stage->idling = false;
            if (stage->stale) stage_wake(stage, PART_STORE);
            idle_at = clock_monotonic() + idle_pause;
        } else
            stage_sleep(stage, PART_PROCESS, idles && !rests(stage) ? idle_at + 0.01 : INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}

static void store_item(struct stage *stage, struct slot *slot) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    enum status status = STATUS_OK;
    if (slot->status != STATUS_OK) return; /* the failure is noted already */
    if (descriptor->store != NULL) {
        STAGE_PERSIST(stage, status, &slot->err, files_store(stage, slot, &slot->err));
        /* On files the user sees the error at once, and the other items would fail in the same way. */
        if (status == STATUS_UNAVAILABLE) end_stage(stage, status, &slot->err);
    }
    if (status == STATUS_OK) status = stage_judge(stage, slot->lane->item, &slot->judged, &slot->err);
    note_status(stage, slot, status);
}

/* Returns how long the summary took. ret_again: it could not be written now, but may be a little later. */
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
    *ret_again = status == STATUS_UNAVAILABLE && !last; /* the store that waits, or the last summary, logs the reason */
    if (status != STATUS_OK && status != STATUS_CANCELLED && !*ret_again) {
        stage_log(stage, LOG_WARN, "summary", "the joined tables could not be written: %s", err.message);
        if (last) end_stage(stage, status, &err);
    }
    return clock_monotonic() - begin;
}

/* Returns whether it is time to write the joined tables; one thread writes them. */
static bool summary_due(const struct stage *stage, bool *ret_last) {
    *ret_last = stage->summary_wanted && !stage->summarised && !stage->summarising;
    return *ret_last || (stage->stored > 0 && !rests(stage) && stage->descriptor->summarise != NULL &&
                         !stage->summarising && clock_monotonic() >= stage->summary_at);
}

static void summarise(struct stage *stage, bool last) {
    stage->stored = 0;
    stage->summarising = true;
    begin_work(stage, PART_STORE);
    bool again;
    files_watch_own(stage);
    double took = run_summary(stage, last, &again);
    file_observe(NULL);
    files_write_own(stage);
    end_work(stage, PART_STORE);
    stage->stored += again;
    stage->summary_at = clock_monotonic() + fmax(summary_pause, summary_share * took);
    stage->summarising = false;
    stage->summarised = last;
    stage_changed(stage);
    /* Another thread may wait for the time of the next summary. */
    stage_wake(stage, PART_STORE);
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
            if (revision_counts_twice(stage, slot)) revision_begin(stage);
            begin_work(stage, PART_STORE);
            crash_blame(stage->current, slot->mark);
            store_item(stage, slot);
            crash_blame(NULL, NULL);
            end_work(stage, PART_STORE);
            stage->store_ticket++;
            lanes_let_go(stage, slot);
            slot->phase = SLOT_STORED;
            stage_wake(stage, PART_LEDGER);
        } else if (summary_due(stage, &last))
            summarise(stage, last);
        else {
            bool later =
                stage->stored > 0 && !rests(stage) && stage->descriptor->summarise != NULL && !stage->summarising;
            stage_sleep(stage, PART_STORE, later ? stage->summary_at : INFINITY);
        }
    }
    stage_unlock(stage);
    return NULL;
}

/* Takes all stored items whose turn it is: they share one wait for the disk. */
static int take_stored(struct stage *stage, struct slot *group[SLOTS_MAX]) {
    int count = 0;
    for (struct slot *slot; (slot = lanes_at(stage, stage->settle_ticket, SLOT_STORED)) != NULL;
         group[count++] = slot) {
        stage->settle_ticket++;
        slot->phase = SLOT_SETTLING;
    }
    return count;
}

static enum status settle_stored(struct stage *stage, struct slot *group[SLOTS_MAX], int *count, struct err *err) {
    /* While this thread waits for the ledger, more items may be stored. */
    ledger_hold(stage->ledger);
    stage_lock(stage);
    if (*count == 0) *count = take_stored(stage, group);
    stage_unlock(stage);
    enum status status = stage_settle(stage, group, *count, err);
    ledger_let_go(stage->ledger);
    return status;
}

static void commit_outcomes(struct stage *stage) {
    struct slot *group[SLOTS_MAX];
    struct err err = {0};
    enum status status;
    int count = 0;
    begin_work(stage, PART_LEDGER);
    STAGE_PERSIST(stage, status, &err, settle_stored(stage, group, &count, &err));
    end_stage(stage, status, &err);
    end_work(stage, PART_LEDGER);
    bool first = stage->stored == 0;
    char revised[ITEM_ID_MAX + 1] = "";
    for (int i = 0; i < count; i++) {
        if (revision_counts_twice(stage, group[i])) memcpy(revised, group[i]->id, sizeof revised);
        if (!group[i]->set_aside) metrics_latency(&stage->metrics, clock_monotonic() - group[i]->taken);
        stage->stored += group[i]->settled;
        group[i]->phase = SLOT_DONE;
    }
    if (first && stage->descriptor->summarise != NULL) stage_wake(stage, PART_STORE);
    stage_event(stage);
    if (revised[0] == '\0') return;
    stage_unlock(stage); /* revision_end takes the lock itself */
    revision_end(stage, revised);
    stage_lock(stage);
}

/* Emitted items stay in the list, where stage_lookup sees them, until the ledger holds them. */
static enum status settle_emitted(struct stage *stage, struct item *group[EMISSIONS_MAX], int *count, struct err *err) {
    ledger_hold(stage->ledger);
    stage_lock(stage);
    *count = stage->emission_count;
    memcpy(group, stage->emissions, sizeof stage->emissions);
    stage_unlock(stage);
    enum status status = stage_settle_emissions(stage, group, *count, err);
    ledger_let_go(stage->ledger);
    return status;
}

static void commit_emissions(struct stage *stage) {
    struct item *group[EMISSIONS_MAX];
    struct err err = {0};
    enum status status;
    int count = 0;
    begin_work(stage, PART_LEDGER);
    STAGE_PERSIST(stage, status, &err, settle_emitted(stage, group, &count, &err));
    end_stage(stage, status, &err);
    end_work(stage, PART_LEDGER);
    stage->emission_count -= count;
    memmove(stage->emissions, stage->emissions + count, (size_t)stage->emission_count * sizeof *stage->emissions);
    for (int i = 0; i < count; i++)
        item_destroy(&group[i]);
    bool first = stage->stored == 0;
    stage->stored += (uint64_t)count;
    if (first && stage->descriptor->summarise != NULL) stage_wake(stage, PART_STORE);
    stage_event(stage);
}

/* Warnings that cannot be written now are written later: they must hold up nothing. */
static void commit_warnings(struct stage *stage) {
    stage->warnings_wanted = false;
    begin_work(stage, PART_LEDGER);
    (void)warnings_write(stage->warnings, stage->ledger, NULL);
    end_work(stage, PART_LEDGER);
}

void *thread_ledger(void *argument) {
    struct stage *stage = argument;
    stage_lock(stage);
    for (;;) {
        if (stage->warnings_wanted)
            commit_warnings(stage);
        else if (lanes_at(stage, stage->settle_ticket, SLOT_STORED) != NULL)
            commit_outcomes(stage);
        else if (stage->emission_count > 0)
            commit_emissions(stage);
        else if (stage->threads_end)
            break;
        else
            stage_sleep(stage, PART_LEDGER, INFINITY);
    }
    stage_unlock(stage);
    return NULL;
}

void stage_report_parts(struct stage *stage, FILE *out) {
    double now = clock_monotonic();
    char line[512];
    stage_lock(stage);
    struct parts parts = stage->parts;
    stage_unlock(stage);
    if (parts.begun == 0) return;
    long long done = atomic_load(&stage->metrics.out);
    parts_line(&parts, done, now, line, sizeof line);
    log_write(stage->log, LOG_INFO, "parts", "%s", line);
    if (out != NULL) parts_table(&parts, done, now, out);
}
