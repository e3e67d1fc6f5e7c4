#include "pipelines/launcher/alarms/conditions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double RESTARTS_WITHIN = 1800, BACKLOG_GROWS = 900, DISK_RATE = 3600, DISK_RATE_LEAST = 300; /* s */
static const double XID_WITHIN = 600;                                                                     /* s */
enum { IN_A_ROW = 5, RECENT_LEAST = 20, HUNDRED_LEAST = 50, CRITICAL_AFTER = 6 };

static void pass(const struct conditions *c, enum alarm_kind kind, enum alarm_severity severity, const char *subject,
                 double value, const char *text) {
    c->found(c->context, &(struct condition){kind, severity, subject, text, value});
}

void condition_found(const struct conditions *c, enum alarm_kind kind, const char *subject, double value,
                     const char *format, ...) {
    char text[ALARM_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pass(c, kind, alarm_rule(kind)->severity, subject, value, text);
}

void condition_span(double seconds, char *text, size_t size) {
    if (seconds < 120)
        snprintf(text, size, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, size, "%.0f min", seconds / 60);
    else
        snprintf(text, size, "%.1f h", seconds / 3600);
}

/* Returns the oldest sample that is at most so many seconds older than the present one. */
static const struct alarm_sample *before(const struct conditions *c, double seconds) {
    size_t i = c->at;
    while (i > 0 && c->samples[c->at].time - c->samples[i - 1].time <= seconds)
        i--;
    return &c->samples[i];
}

static double threshold(const struct conditions *c, enum alarm_kind kind) {
    return c->settings->rules[kind].threshold;
}

/* Before the first exposure of a session the time counts from the start of the run. */
static void find_no_exposure(const struct conditions *c, const struct alarm_sample *now) {
    const double limit = threshold(c, ALARM_NO_EXPOSURE);
    const double since = now->time - fmax(now->last_exposure, now->begun); /* fmax leaves NaN out */
    const double wait = isnan(now->interval) ? limit : fmax(limit, 5 * now->interval);
    char text[ALARM_TEXT], span[32], usual[32] = "";
    if (!now->running || now->draining || isnan(since) || since <= wait) return;
    condition_span(since, span, sizeof span);
    if (!isnan(now->interval)) {
        condition_span(now->interval, usual, sizeof usual);
        snprintf(
            text, sizeof text,
            "no new exposure for %s; usually there is one every %s. Does the microscope still collect, and does it "
            "still write to the watched folder?",
            span, usual);
    } else {
        snprintf(text, sizeof text,
                 "no new exposure for %s. Does the microscope collect, and does it write to the watched folder?", span);
    }
    pass(c, ALARM_NO_EXPOSURE, since > CRITICAL_AFTER * limit ? ALARM_CRITICAL : ALARM_WARNING, "", since, text);
}

static void find_stage(const struct conditions *c, const struct alarm_sample *now, size_t index) {
    const struct alarm_stage *stage = &now->stages[index];
    char span[32];
    if (stage->gave_up)
        condition_found(c, ALARM_STAGE_GAVE_UP, stage->name, NAN,
                        "%s died again and again, and the run has ended. See log/%s.*.log, then start the run again",
                        stage->name, stage->name);
    if (!now->running) return;
    if (stage->silent > threshold(c, ALARM_STAGE_SILENT)) {
        condition_span(stage->silent, span, sizeof span);
        condition_found(c, ALARM_STAGE_SILENT, stage->instance, stage->silent,
                        "%s has given no sign of life for %s; it hangs, or its disk or GPU does", stage->instance,
                        span);
    }
    if (stage->trouble[0] != '\0')
        condition_found(c, ALARM_TROUBLE, stage->name, NAN, "%s %s", stage->instance, stage->trouble);

    const struct alarm_sample *then = before(c, RESTARTS_WITHIN);
    const int64_t restarts = index < then->stage_count ? stage->restarts - then->stages[index].restarts : 0;
    if ((double)restarts >= threshold(c, ALARM_STAGE_RESTARTS))
        condition_found(c, ALARM_STAGE_RESTARTS, stage->name, (double)restarts,
                        "%s was started again %lld times within half an hour; see log/%s.*.log", stage->name,
                        (long long)restarts, stage->name);

    /* Ages that grow at half the pace of the clock or faster: the stage falls behind. */
    then = before(c, BACKLOG_GROWS);
    const double passed = now->time - then->time;
    if (stage->oldest > threshold(c, ALARM_BACKLOG) && passed > 0.9 * BACKLOG_GROWS && index < then->stage_count &&
        stage->oldest - then->stages[index].oldest > passed / 2) {
        condition_span(stage->oldest, span, sizeof span);
        condition_found(c, ALARM_BACKLOG, stage->name, stage->oldest,
                        "%lld items wait for %s, the oldest for %s, and it grows; the stage is slower than the "
                        "microscope: give it more replicas, threads or a GPU",
                        (long long)stage->queue, stage->name, span);
    }
}

static void find_losses(const struct conditions *c, const struct alarm_sample *now) {
    const double failed = now->recent_count > 0 ? 100.0 * now->recent_failed / now->recent_count : 0;
    const double rejected = now->hundred_count > 0 ? 100.0 * now->hundred_rejected / now->hundred_count : 0;
    if (now->failures_in_row >= IN_A_ROW)
        condition_found(c, ALARM_FAILING, "", now->failures_in_row, "the last %d exposures have failed%s%s",
                        now->failures_in_row, now->failure[0] ? ", most of them at " : "", now->failure);
    else if (now->recent_count >= RECENT_LEAST && failed > threshold(c, ALARM_FAILING))
        condition_found(c, ALARM_FAILING, "", failed, "%d of the last %d exposures have failed%s%s", now->recent_failed,
                        now->recent_count, now->failure[0] ? ", most of them at " : "", now->failure);
    if (now->hundred_count >= HUNDRED_LEAST && rejected > threshold(c, ALARM_REJECTING))
        condition_found(c, ALARM_REJECTING, "", rejected, "%d of the last %d exposures were rejected%s%s",
                        now->hundred_rejected, now->hundred_count, now->rejection[0] ? ", most of them at " : "",
                        now->rejection);
    if (!now->adds_up)
        condition_found(c, ALARM_DOES_NOT_ADD_UP, "", NAN,
                        "the counts of the ledgers disagree; `icestream status` says where, `icestream repair` mends "
                        "it");
}

static void find_disk(const struct conditions *c, const struct alarm_sample *now, size_t index) {
    const struct alarm_place *place = &now->places[index];
    const char *what = strcmp(place->name, "watch") == 0 ? "watched folder" : place->name;
    const double share = place->size > 0 ? 100 * place->free / place->size : NAN;
    if (share < threshold(c, ALARM_DISK))
        condition_found(c, ALARM_DISK, place->name, share,
                        "%.1f %% of the disk of the %s is free (%.1f GB); make room before the intake pauses", share,
                        what, place->free / 1e9);
    const struct alarm_sample *then = before(c, DISK_RATE);
    const double passed = now->time - then->time;
    if (index >= then->place_count || passed < DISK_RATE_LEAST) return;
    const double rate = (then->places[index].free - place->free) / passed; /* bytes/s */
    const double hours = rate > 0 ? place->free / rate / 3600 : INFINITY;
    if (hours < threshold(c, ALARM_DISK_HOURS))
        condition_found(c, ALARM_DISK_HOURS, place->name, hours,
                        "the disk of the %s is full in %.1f hours if it fills as in the last hour (%.1f GB an hour)",
                        what, hours, rate * 3.6e-6);
}

static void find_gpu(const struct conditions *c, const struct alarm_gpu *gpu) {
    if (gpu->lost)
        condition_found(c, ALARM_GPU_LOST, gpu->name, NAN,
                        "%s no longer answers; `nvidia-smi` and the kernel's log (Xid) say why", gpu->name);
    else if (gpu->xid != 0 && gpu->xid_age < XID_WITHIN)
        condition_found(c, ALARM_GPU_LOST, gpu->name, (double)gpu->xid,
                        "%s has reported error Xid %llu; the kernel's log and NVIDIA's list of Xid errors say what it "
                        "means, and whether the machine must be restarted",
                        gpu->name, gpu->xid);
    if (gpu->celsius > threshold(c, ALARM_GPU_HOT))
        condition_found(c, ALARM_GPU_HOT, gpu->name, gpu->celsius,
                        "%s has %.0f °C; look at its fans and the air of the room", gpu->name, gpu->celsius);
    if (100 * gpu->utilization < threshold(c, ALARM_GPU_IDLE) && gpu->queue > 0)
        condition_found(c, ALARM_GPU_IDLE, gpu->name, 100 * gpu->utilization,
                        "%s works at %.0f %% while %lld items wait for its stages; a disk or another stage holds them "
                        "up",
                        gpu->name, 100 * gpu->utilization, (long long)gpu->queue);
}

void conditions_find(const struct conditions *c) {
    const struct alarm_sample *now = &c->samples[c->at];
    for (size_t i = 0; i < now->stage_count; i++)
        find_stage(c, now, i);
    if (now->gone)
        condition_found(c, ALARM_LAUNCHER_GONE, "", NAN,
                        "the run has stopped without an end: its launcher was killed, or lacked memory. Nothing is "
                        "processed now; start the run again, it goes on where it was");
    find_no_exposure(c, now);
    find_losses(c, now);
    for (size_t i = 0; now->running && i < now->place_count; i++)
        find_disk(c, now, i);
    for (size_t i = 0; now->running && i < now->gpu_count; i++)
        find_gpu(c, &now->gpus[i]);
    if (now->running && now->paused[0] != '\0')
        condition_found(c, ALARM_INTAKE_PAUSED, "", NAN, "nothing new is taken in: %s; make room on the disk",
                        now->paused);
    if (now->running) conditions_find_quality(c);
}
