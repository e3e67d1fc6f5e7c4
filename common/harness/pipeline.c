/* Runs a stage in a pipeline: the main thread serves the sockets, the ledger's outboxes and the heartbeat. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/harness/lease.h"
#include "common/harness/pipeline.h"
#include "common/memory.h"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_CONFIGURATION = 2, EXIT_TERMINATED = 143 };
enum { RECEIVE_BACKLOG = 16, ANSWERS_HELD = 4096, TICK_MS = 250 };

static void beat(struct pipeline *pipeline) {
    struct stage *stage = pipeline->stage;
    struct err err = {0};
    if (stage->descriptor->produce == NULL && atomic_load(&stage->metrics.state) != METRICS_PROCESSING) {
        stage_lock(stage);
        bool blocked = pipeline->phase == PHASE_RUN && !lanes_empty(stage) && lanes_room(stage) == 0;
        stage_unlock(stage);
        atomic_store(&stage->metrics.state, blocked ? METRICS_BLOCKED : METRICS_WAITING);
    }
    stage_lock(stage);
    struct parts parts = stage->parts;
    stage->warnings_wanted = warnings_wait(stage->warnings);
    if (stage->warnings_wanted) stage_wake(stage, PART_LEDGER);
    stage_unlock(stage);
    log_renew(stage->log);
    atomic_store(&stage->metrics.warnings, warnings_written(stage->warnings));
    bool failed = metrics_heartbeat(&stage->metrics, &parts, atomic_load(&stage->change), pipeline->instance.heartbeat,
                                    &err) != STATUS_OK;
    if (failed && !pipeline->beat_failed)
        stage_log(stage, LOG_WARN, "heartbeat", "%s (logged once; the stage tries again each second)", err.message);
    pipeline->beat_failed = failed;
}

/* Notices when another process (a retry) has put something back into an outbox. */
static enum status check_outboxes(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (int i = 0; i < stage->output_count; i++) {
        int64_t count;
        /* An item that another thread is writing down must be counted in both places, or in none. */
        ledger_hold(stage->ledger);
        enum status status = ledger_unacknowledged(stage->ledger, stage->outputs[i].edge, &count, err);
        stage_lock(stage);
        bool differs = status == STATUS_OK && count != stage->outputs[i].unacknowledged;
        if (differs) {
            stage->outputs[i].unacknowledged = count;
            stage_event(stage);
        }
        stage_unlock(stage);
        ledger_let_go(stage->ledger);
        TRY(status);
        if (differs) outbox_rescan(pipeline->outboxes[i]);
    }
    return STATUS_OK;
}

static enum status inputs_ended(struct pipeline *pipeline, bool *ret_ended, struct err *err) {
    struct stage *stage = pipeline->stage;
    if (stage->descriptor->produce != NULL) {
        *ret_ended = true;
        return STATUS_OK;
    }
    int ended;
    TRY(ledger_ended_inputs(stage->ledger, stage->run, &ended, err));
    *ret_ended = ended >= pipeline->instance.input_count;
    return STATUS_OK;
}

static enum status end_outputs(struct pipeline *pipeline, double now, struct err *err) {
    const struct stage *stage = pipeline->stage;
    bool over = true;
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        outbox_end(pipeline->outboxes[i]);
        over = over && outbox_ended(pipeline->outboxes[i]);
    }
    if (over) {
        /* A later incarnation in this run then knows that nothing is left to do and no receiver is left. */
        TRY(ledger_end_output(stage->ledger, stage->instance, stage->run, err));
    } else if (now >= pipeline->look_at) {
        /* The receivers may have ended because of an earlier incarnation's end; the launcher then writes that down. */
        pipeline->look_at = now + 1;
        TRY(ledger_output_ended(stage->ledger, stage->instance, stage->run, &over, err));
    }
    if (over) pipeline->phase = PHASE_OVER;
    return STATUS_OK;
}

/* Goes from the end of the inputs to the end of the stage, phase by phase. */
static enum status advance(struct pipeline *pipeline, double now, struct err *err) {
    struct stage *stage = pipeline->stage;
    bool ended = false;
    if (pipeline->phase == PHASE_RUN && now >= pipeline->look_at) {
        pipeline->look_at = now + 1;
        TRY(inputs_ended(pipeline, &ended, err));
    }
    if (pipeline->phase == PHASE_RUN && revision_look(stage, ended)) {
        pipeline->look_at = ended ? 0 : pipeline->look_at;
        return STATUS_OK;
    }
    stage_lock(stage);
    if (ended && lanes_empty(stage) && pipeline->absent.count == 0) {
        stage->flush_wanted = true;
        pipeline->phase = PHASE_FLUSH;
        stage_wake_all(stage);
    } else if (ended)
        pipeline->look_at = 0;
    if (pipeline->phase == PHASE_FLUSH && stage->flushed) {
        stage->summary_wanted = true;
        pipeline->phase = PHASE_SUMMARY;
        stage_wake_all(stage);
    }
    if (pipeline->phase == PHASE_SUMMARY && stage->summarised) {
        pipeline->phase = PHASE_END;
        parts_end(&stage->parts, clock_monotonic());
    }
    stage_unlock(stage);
    return pipeline->phase == PHASE_END ? end_outputs(pipeline, now, err) : STATUS_OK;
}

static enum status wait_for_something(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    struct transport_wait waits[3 * EDGES_MAX + 1];
    size_t count = 0;
    waits[count++] = (struct transport_wait){.descriptor = stage->wake};
    bool patient = pipeline->patience.tries > 0, receiving = !patient && edges_room(pipeline) > 0;
    for (int i = 0; receiving && i < pipeline->instance.input_count; i++)
        waits[count++] = (struct transport_wait){.socket = pipeline->inboxes[i].data};
    for (int i = 0; !patient && i < pipeline->instance.output_count; i++) {
        waits[count++] = (struct transport_wait){.socket = outbox_acks(pipeline->outboxes[i])};
        if (outbox_blocked(pipeline->outboxes[i]))
            waits[count++] = (struct transport_wait){.socket = outbox_data(pipeline->outboxes[i]), .for_sending = true};
    }
    TRY(transport_poll(waits, count, TICK_MS, err));
    uint64_t woken;
    if (waits[0].ready && read(stage->wake, &woken, sizeof woken) < 0 && errno != EAGAIN)
        FAIL(err, STATUS_IO, "the wake-up call cannot be read: %s", strerror(errno));
    return STATUS_OK;
}

/* Items whose files were not there. They need room as all others do, but not that there are few of them. */
static void load_again(struct pipeline *pipeline, double now) {
    struct stage *stage = pipeline->stage;
    if (pipeline->absent.count == 0) return;
    stage_lock(stage);
    int room = lanes_room(stage);
    stage_unlock(stage);
    absent_look(stage, &pipeline->absent, room, now);
}

static enum status serve(struct pipeline *pipeline, double now, struct err *err) {
    if (now >= pipeline->check_at) {
        pipeline->check_at = now + 1;
        TRY(lease_tend(pipeline->stage, err));
        TRY(edges_mend(pipeline, err));
        TRY(check_outboxes(pipeline, err));
    }
    TRY(change_look(pipeline->stage, pipeline->changes, pipeline->phase <= PHASE_FLUSH, err));
    TRY(edges_receive_answers(pipeline, err));
    TRY(edges_acknowledge(pipeline, err));
    edges_fit_ahead(pipeline, now);
    load_again(pipeline, now);
    TRY(edges_receive(pipeline, err));
    TRY(advance(pipeline, now, err));
    return edges_pump(pipeline, now, err);
}

/* Items that could not be claimed were dropped: asks their senders to send them again. */
static enum status ask_again(struct pipeline *pipeline, struct err *err) {
    for (int i = 0; i < pipeline->instance.input_count; i++)
        TRY(edges_answer(pipeline, &pipeline->inboxes[i], MESSAGE_HELLO, 0, "", err));
    return STATUS_OK;
}

static enum status run_once(struct pipeline *pipeline, struct err *err) {
    double now = clock_monotonic();
    if (now >= pipeline->beat_at) {
        pipeline->beat_at = now + 1;
        beat(pipeline);
        edges_tell_dropped(pipeline, now);
        edges_bind_again(pipeline);
        endpoints_follow(pipeline);
    }
    if (now >= pipeline->patience.until) {
        struct err own = {0};
        bool waited = pipeline->patience.tries > 0;
        enum status status = serve(pipeline, now, &own);
        bool wait = stage_may_wait(pipeline->stage, status, &own, &pipeline->patience);
        FAIL_IF(status != STATUS_OK && !wait, err, status, "%s", own.message);
        if (waited && !wait) TRY(ask_again(pipeline, err));
    }
    return pipeline->phase != PHASE_OVER ? wait_for_something(pipeline, err) : STATUS_OK;
}

/* ---- Beginning and end ---- */

/* Must come before any thread can emit: what the stage emits must know where it goes. */
static enum status set_outputs(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        const struct stage_edge *edge = &pipeline->instance.outputs[i];
        struct stage_output *output = &stage->outputs[i];
        memcpy(output->edge, edge->edge, sizeof output->edge);
        output->window = edge->window;
        output->revisions = edge->revisions;
        TRY(ledger_unacknowledged(stage->ledger, edge->edge, &output->unacknowledged, err));
    }
    stage->output_count = pipeline->instance.output_count;
    return STATUS_OK;
}

static enum status open_edges(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    const struct instance *instance = &pipeline->instance;
    TRY(transport_create(instance->public_key, instance->secret_key, &pipeline->transport, err));
    for (int i = 0; i < instance->output_count; i++) {
        const struct stage_edge *edge = &instance->outputs[i];
        if (edge->data_descriptor > 0)
            TRY(transport_adopt(pipeline->transport, edge->data, edge->data_descriptor, err));
        if (edge->ack_descriptor > 0) TRY(transport_adopt(pipeline->transport, edge->ack, edge->ack_descriptor, err));
        TRY(outbox_create(pipeline->transport, stage->ledger, edge->edge, edge->data, edge->ack, edge->window,
                          &pipeline->outboxes[i], err));
        if (edge->resend > 0) outbox_set_pause(pipeline->outboxes[i], edge->resend);
    }
    for (int i = 0; i < instance->input_count; i++) {
        struct inbox *inbox = &pipeline->inboxes[i];
        memcpy(inbox->edge, instance->inputs[i].edge, sizeof inbox->edge);
        TRY(transport_open(pipeline->transport, TRANSPORT_DATA_IN, instance->inputs[i].data, RECEIVE_BACKLOG,
                           &inbox->data, err));
        TRY(transport_open(pipeline->transport, TRANSPORT_ACK_OUT, instance->inputs[i].ack, ANSWERS_HELD, &inbox->acks,
                           err));
        TRY(edges_answer(pipeline, inbox, MESSAGE_HELLO, 0, "", err));
    }
    pipeline->endpoints = (struct endpoints){.number = instance->endpoints_number};
    return STATUS_OK;
}

/* The launcher saw these files and folders when it checked the graph: one that is missing now is away, and may come
 * back. */
static enum status or_away(enum status status) {
    return status == STATUS_NOT_FOUND ? STATUS_UNAVAILABLE : status;
}

static enum status configure(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    TRY(or_away(stage_configure(stage, stage->name, err)));
    if (stage->descriptor->cumulative || stage->descriptor->produce != NULL) return STATUS_OK;
    FAIL_IF(pipeline->instance.input_count == 0, err, STATUS_BAD_ARGUMENT, "%s has no inputs", stage->name);
    return STATUS_OK;
}

/* A thread waits for the server of the ledgers. The heart goes on, whichever thread it is. */
static bool await_server(void *context) {
    struct pipeline *pipeline = context;
    double now = clock_monotonic();
    if (pthread_equal(pthread_self(), pipeline->thread) && now >= pipeline->beat_at) {
        pipeline->beat_at = now + 1;
        beat(pipeline);
    }
    stage_lock(pipeline->stage);
    bool on = !stage_ending(pipeline->stage);
    stage_unlock(pipeline->stage);
    return on;
}

static enum status run(struct pipeline *pipeline, bool *ret_configured, struct err *err) {
    struct stage *stage = pipeline->stage;
    stage->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    FAIL_IF(stage->wake < 0, err, status_of_reading(errno), "no eventfd: %s", strerror(errno));
    bool over = false;
    TRY(ledger_output_ended(stage->ledger, stage->instance, stage->run, &over, err));
    if (over) {
        log_write(stage->log, LOG_INFO, "over",
                  "an earlier process of this run has finished everything; nothing is left to do");
        *ret_configured = true;
        return STATUS_OK;
    }
    TRY(set_outputs(pipeline, err));
    TRY(or_away(stage_begin(stage, err)));
    *ret_configured = true;
    TRY(open_edges(pipeline, err));
    log_write(stage->log, LOG_INFO, "start", "run %d, process %d, %d lanes, %d threads", stage->run, (int)getpid(),
              stage->lane_count, stage->threads);
    if (stage->one_by_one > 0)
        stage_log(
            stage, LOG_WARN, "one-by-one",
            "the stage died several times with nothing finished between: the next %d items go through one by one, "
            "to find the one that ends it",
            stage->one_by_one);
    pipeline->phase = stage->descriptor->produce != NULL ? PHASE_FLUSH : PHASE_RUN;
    ledger_on_wait(stage->ledger, await_server, pipeline);
    while (pipeline->phase != PHASE_OVER && atomic_load(&stage->stopping) != STOP_NOW)
        TRY(run_once(pipeline, err));
    stage_lock(stage);
    enum status fatal = stage->fatal;
    if (fatal != STATUS_OK) *err = stage->fatal_err;
    stage_unlock(stage);
    TRY(fatal);
    TRY(lease_tend(stage, err));
    FAIL_IF(pipeline->phase != PHASE_OVER, err, STATUS_CANCELLED, "asked to stop");
    beat(pipeline);
    stage_report_parts(stage, NULL);
    log_write(stage->log, LOG_INFO, "end", "%lld in, %lld out, %lld rejected, %lld failed, %lld bad frames",
              (long long)atomic_load(&stage->metrics.in), (long long)atomic_load(&stage->metrics.out),
              (long long)atomic_load(&stage->metrics.rejected), (long long)atomic_load(&stage->metrics.failed),
              pipeline->bad.count + pipeline->stray.count);
    return STATUS_OK;
}

static int report(struct stage *stage, enum status status, bool configured, const struct err *err) {
    if (status == STATUS_OK) return EXIT_OK;
    stage_lock(stage); /* the thread of a lease may set it now */
    bool again = stage->again;
    stage_unlock(stage);
    if (status == STATUS_CANCELLED && again) {
        log_write(stage->log, LOG_INFO, "again", "%s", err->message);
        return EXIT_AGAIN;
    }
    if (status == STATUS_CANCELLED) {
        log_write(stage->log, LOG_INFO, "stopped", "%s; the next run does what is not finished", err->message);
        return EXIT_TERMINATED;
    }
    log_write(stage->log, LOG_ERROR, configured ? "fatal" : "configuration", "%s", err->message);
    fprintf(stderr, "icestream-%s: error: %s\n", stage->name, err->message);
    /* A new process may find the memory that this one could not. */
    if (status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY) return EXIT_UNAVAILABLE;
    return checks_blame_value(stage, status) ? EXIT_CONFIGURATION : EXIT_ERROR;
}

int stage_pipeline(struct stage *stage, const char *instance_file) {
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL) return EXIT_ERROR;
    struct err err = {0};
    struct signals *signals = NULL;
    bool configured = false;
    pipeline->stage = stage;
    pipeline->thread = pthread_self();
    pipeline->bad = (struct dropped){.id = "bad-frame", .level = LOG_WARN};
    pipeline->stray = (struct dropped){.id = "stray", .level = LOG_INFO};
    stage->mode = STAGE_IN_PIPELINE;
    /* A stage must not outlive the launcher, not even a stopped stage: the next launcher would start another one beside
     * it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    crash_watch();
    enum status status = signals_start(stage, &signals, &err);
    /* The launcher writes a missing instance file again before it starts the stage again. */
    if (status == STATUS_OK) status = change_watch_create(instance_file, &pipeline->changes, &err);
    if (status == STATUS_OK) status = or_away(instance_read(stage, instance_file, &pipeline->instance, &err));
    if (status == STATUS_OK) status = instance_open(stage, &pipeline->instance, &err);
    if (status == STATUS_OK) status = configure(pipeline, &err);
    if (status == STATUS_OK) status = run(pipeline, &configured, &err);
    int code = report(stage, status, configured, &err);
    /* Otherwise a source would search on, and nobody would tell it to end. */
    if (status != STATUS_OK) stage_stop(stage, STOP_NOW);
    if (stage->threads_started > 0) lanes_stop(stage);
    if (stage->ledger != NULL) (void)warnings_write(stage->warnings, stage->ledger, NULL);
    for (int i = 0; i < pipeline->arrived_count; i++)
        message_clear(&pipeline->arrived[i]);
    absent_clear(&pipeline->absent);
    for (int i = 0; i < EDGES_MAX; i++)
        outbox_destroy(&pipeline->outboxes[i]);
    transport_destroy(&pipeline->transport);
    signals_stop(&signals);
    change_watch_destroy(stage, &pipeline->changes);
    instance_clear(&pipeline->instance);
    free(pipeline);
    return code;
}
