#include "stages/refiner/files/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/unresolved.h"

/* Adds what is known of the directions of view. Returns the line's new length. */
static int put_views(const struct orientations *o, char *line, size_t size, int length) {
    char tilt[32] = "null", tilted[32] = "null";
    if (isnan(o->efficiency) || length < 0 || (size_t)length >= size) return length;
    length += snprintf(line + length, size - (size_t)length, "\"efficiency\": %.3f, ", o->efficiency);
    if (!o->advised || (size_t)length >= size) return length;
    if (!isnan(o->tilt)) {
        snprintf(tilt, sizeof tilt, "%.0f", o->tilt);
        snprintf(tilted, sizeof tilted, "%.3f", o->tilted_efficiency);
    }
    return length + snprintf(line + length, size - (size_t)length, "\"advised_tilt\": %s, \"tilted_efficiency\": %s, ",
                             tilt, tilted);
}

enum status history_write(const char *folder, const char *prefix, const struct refiner_state *s, struct err *err) {
    char path[PATH_SIZE], stem[32] = "run", resolution[32] = "null";
    if (s->unresolved == REFINER_RESOLVED) snprintf(resolution, sizeof resolution, "%.3f", s->resolution);
    if (!s->final) snprintf(stem, sizeof stem, "run_it%03d", s->iteration);
    TRY(path_join(folder, "history.jsonl", path, sizeof path, err));
    size_t size = 1280 + (size_t)s->classes * (strlen(prefix) + sizeof stem + 32);
    _cleanup_(mem_free) char *line = NULL;
    TRY(mem_new(size, 1, "a line of the history", &line, err));
    int length = snprintf(line, size,
                          "{\"time\": %.3f, \"event\": \"map\", \"iteration\": %d, \"particles\": %zu, \"twins\": %zu, "
                          "\"resolution\": %s, \"seconds\": %.4f, \"device\": %.4f, \"between\": %.4f, "
                          "\"waited\": %.4f, "
                          "\"order\": %d, \"size\": %d, \"accuracy\": %.2f, \"pmax\": %.3f, "
                          "\"significant\": %.1f, \"final\": %s, \"inverted\": %s, ",
                          clock_realtime(), s->iteration, s->particles, s->twins, resolution, s->seconds,
                          s->device_seconds, s->between, s->waited, s->order, s->current_size, s->accuracy_angle,
                          s->average_pmax, s->significant, s->final ? "true" : "false", s->inverted ? "true" : "false");
    length = put_views(&s->views, line, size, length);
    if (!isnan(s->signal) && length >= 0 && (size_t)length < size)
        length += snprintf(line + length, size - (size_t)length, "\"signal\": %.2f, \"noise\": %s, ", s->signal,
                           s->unresolved == UNRESOLVED_NOISE ? "true" : "false");
    if (s->unresolved != REFINER_RESOLVED && length >= 0 && (size_t)length < size)
        length +=
            snprintf(line + length, size - (size_t)length, "\"unresolved\": \"%s\", ", unresolved_word(s->unresolved));
    if (s->classes == 1 && length >= 0 && (size_t)length < size)
        length += snprintf(line + length, size - (size_t)length, "\"agreement\": %.3f, \"views_doubt\": %.2f, ",
                           s->agreement, s->views_doubt);
    if (!isnan(s->starts_agree) && length >= 0 && (size_t)length < size)
        length += snprintf(line + length, size - (size_t)length, "\"starts_agree\": %.3f, ", s->starts_agree);
    if (!isnan(s->difference) && length >= 0 && (size_t)length < size)
        length += snprintf(line + length, size - (size_t)length, "\"difference\": %.2f, \"alike\": %s, ", s->difference,
                           s->alike ? "true" : "false");
    if (length >= 0 && (size_t)length < size) length += snprintf(line + length, size - (size_t)length, "\"steps\": {");
    for (int i = 0; i < REFINER_STEPS && length >= 0 && (size_t)length < size; i++)
        length += snprintf(line + length, size - (size_t)length, "%s\"%s\": %.4f", i > 0 ? ", " : "",
                           refiner_step_name((enum refiner_step)i), s->steps[i]);
    if (length >= 0 && (size_t)length < size)
        length += snprintf(line + length, size - (size_t)length, "}, \"files\": [");
    for (int k = 0; k < s->classes && length >= 0 && (size_t)length < size; k++)
        length += snprintf(line + length, size - (size_t)length, "%s\"%s/%s_class%03d.mrc\"", k > 0 ? ", " : "", prefix,
                           stem, k + 1);
    if (length >= 0 && (size_t)length < size) length += snprintf(line + length, size - (size_t)length, "]}");
    FAIL_IF(length < 0 || (size_t)length >= size, err, STATUS_BAD_STATE, "%s: a line is too long", path);
    return file_append_line(path, line, err);
}

enum status history_write_first_map(const char *folder, int attempt, int replaced, size_t particles, double gain,
                                    struct err *err) {
    char path[PATH_SIZE], line[256];
    TRY(path_join(folder, "history.jsonl", path, sizeof path, err));
    snprintf(line, sizeof line,
             "{\"time\": %.3f, \"event\": \"first-map\", \"attempt\": %d, \"replaces\": %d, \"particles\": %zu, "
             "\"gain\": %.2f}",
             clock_realtime(), attempt, replaced, particles, gain);
    return file_append_line(path, line, err);
}
