/* Answers what callbacks may ask of the harness. */
#include <stdarg.h>
#include <stdio.h>

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

enum status stage_devices(const struct stage *stage, int wanted, int most, struct device *ret_devices, int *ret_count,
                          struct err *err) {
    int visible = 1;
    if (stage->device.kind == DEVICE_CUDA) {
        TRY(device_count(&visible, err));
        visible -= stage->device.index;
    }
    FAIL_IF(wanted > visible, err, STATUS_BAD_ARGUMENT, "devices: %d are wanted, but there %s %d", wanted,
            visible == 1 ? "is" : "are", visible);
    if (wanted == 0) wanted = stage_in_pipeline(stage) && visible > 1 ? visible : 1;
    FAIL_IF(wanted > most, err, STATUS_BAD_ARGUMENT, "devices: there are %d, at most %d can share the work: set `gpu`",
            wanted, most);
    for (int i = 0; i < wanted; i++)
        ret_devices[i] = (struct device){stage->device.kind, stage->device.index + i};
    *ret_count = wanted;
    return STATUS_OK;
}

bool stage_separate(const struct stage *stage) {
    return stage->separate;
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

bool stage_decides(const struct stage *stage) {
    return !stage->shared || stage->instance == 0;
}

int stage_deaths(const struct stage *stage) {
    return stage->deaths;
}

/* On files the log is the screen. More lines of a kind are counted there; --verbose shows all. */
enum { SHOWN_OF_A_KIND = 10 };

void stage_log(const struct stage *stage, enum log_level level, const char *id, const char *format, ...) {
    char message[WARNING_TEXT_SIZE];
    int64_t count = 0;
    va_list args;
    if (level == LOG_WARN) {
        va_start(args, format);
        vsnprintf(message, sizeof message, format, args);
        va_end(args);
        count = warnings_note(stage->warnings, id, message);
    }
    if (stage->mode == STAGE_ON_FILES && !stage->verbose && count > SHOWN_OF_A_KIND) return;
    va_start(args, format);
    log_write_list(stage->log, level, id, format, args);
    va_end(args);
}

void stage_doing(struct stage *stage, const char *format, ...) {
    char text[sizeof stage->metrics.doing];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    metrics_doing(&stage->metrics, text);
}

void stage_resolution(struct stage *stage, double resolution) {
    atomic_store(&stage->metrics.resolution, resolution);
}

void stage_note(struct stage *stage, const char *format, ...) {
    char note[160];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    metrics_note(&stage->metrics, note);
}
