#include <stddef.h>
#include <stdio.h>

#include "pipelines/launcher/alarms/judge.h"
#include "pipelines/launcher/alarms/places.h"
#include "pipelines/launcher/api/gpus.h"
#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/view/view.h"

static void write_disks(const struct metrics_source *source, struct metrics_text *text) {
    struct alarm_place places[ALARM_PLACES];
    const size_t count = places_read(source->view, places);
    metrics_family(text, "icestream_disk_free_bytes", "gauge",
                   "Room on the disks of the session and the watched folder.");
    for (size_t i = 0; i < count; i++)
        metrics_sample(text, places[i].free, "place", places[i].name, NULL);
    metrics_family(text, "icestream_disk_size_bytes", "gauge", "Sizes of these disks.");
    for (size_t i = 0; i < count; i++)
        metrics_sample(text, places[i].size, "place", places[i].name, NULL);
}

static void write_gpus(const struct metrics_source *source, struct metrics_text *text) {
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"icestream_gpu_utilization_ratio", "Part of the time in which a GPU computes.",
         offsetof(struct gpu, utilisation)},
        {"icestream_gpu_memory_used_bytes", "Memory of a GPU that is taken.", offsetof(struct gpu, memory_used)},
        {"icestream_gpu_memory_size_bytes", "Memory of a GPU.", offsetof(struct gpu, memory_total)},
        {"icestream_gpu_temperature_celsius", "Temperature of a GPU.", offsetof(struct gpu, temperature)},
        {"icestream_gpu_power_watts", "Power that a GPU draws.", offsetof(struct gpu, power)},
    };
    char index[16];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        metrics_family(text, rows[r].name, "gauge", rows[r].help);
        for (size_t i = 0; i < source->gpu_count; i++) {
            const struct gpu *gpu = &source->gpus[i];
            snprintf(index, sizeof index, "%d", gpu->index);
            metrics_sample(text, *(const double *)((const char *)gpu + rows[r].offset), "gpu", index, "uuid", gpu->uuid,
                           NULL);
        }
    }
    metrics_family(text, "icestream_gpu_up", "gauge", "1 while a GPU answers.");
    for (size_t i = 0; i < source->gpu_count; i++) {
        snprintf(index, sizeof index, "%d", source->gpus[i].index);
        metrics_sample(text, !source->gpus[i].lost, "gpu", index, "uuid", source->gpus[i].uuid, NULL);
    }
}

/* Each alarm that has fired has a sample, so that 0 tells its end; each rule has one without a subject. */
static void write_alarms(const struct metrics_source *source, struct metrics_text *text) {
    if (source->alarms == NULL) return;
    metrics_family(text, "icestream_alarm", "gauge", "1 while an alarm fires.");
    for (int kind = 0; kind < ALARM_KINDS; kind++) {
        const struct alarm_rule *rule = alarm_rule((enum alarm_kind)kind);
        bool session = false;
        for (size_t i = 0; i < source->alarms->count; i++) {
            const struct alarm *alarm = &source->alarms->alarms[i];
            if ((int)alarm->kind != kind || alarm->started == 0) continue;
            session |= alarm->subject[0] == '\0';
            metrics_sample(text, alarm_fires(alarm), "alarm", rule->name, "severity",
                           alarm_severity_name(alarm->severity), "subject", alarm->subject, NULL);
        }
        if (!session)
            metrics_sample(text, 0, "alarm", rule->name, "severity", alarm_severity_name(rule->severity), "subject", "",
                           NULL);
    }
}

static void write_server(const struct metrics_server *server, struct metrics_text *text) {
    if (server == NULL) return;
    metrics_family(text, "process_cpu_seconds_total", "counter", "Processor time of icestream serve.");
    metrics_sample(text, server->cpu, NULL);
    metrics_family(text, "process_resident_memory_bytes", "gauge", "Memory of icestream serve.");
    metrics_sample(text, server->resident, NULL);
    metrics_family(text, "icestream_http_requests_total", "counter", "Requests that icestream serve has answered.");
    metrics_sample(text, (double)server->requests, NULL);
    metrics_family(text, "icestream_event_clients", "gauge", "Pages that listen to events.");
    metrics_sample(text, server->listeners, NULL);
}

void metrics_machine(const struct metrics_source *source, struct metrics_text *text) {
    write_disks(source, text);
    write_gpus(source, text);
    write_alarms(source, text);
    write_server(source->server, text);
}
