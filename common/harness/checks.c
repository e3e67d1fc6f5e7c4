/* Collects the problems of a stage's parameters, and acts on them when the stage starts. */
#include "common/harness/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/stage_private.h"

static struct stage_check *add(struct stage_checks *checks) {
    if (checks->count == checks->capacity) {
        size_t capacity = checks->capacity > 0 ? 2 * checks->capacity : 8;
        struct stage_check *list = realloc(checks->list, capacity * sizeof *list);
        if (list == NULL) return NULL;
        checks->list = list;
        checks->capacity = capacity;
    }
    return &checks->list[checks->count];
}

void stage_checks_add(struct stage_checks *checks, enum stage_check_level level, const char *key, const char *format,
                      ...) {
    struct stage_check *check = add(checks);
    if (check != NULL) {
        va_list args;
        va_start(args, format);
        *check = (struct stage_check){.level = level};
        if (vasprintf(&check->text, format, args) < 0) check = NULL;
        va_end(args);
    }
    if (check == NULL) {
        checks->no_memory = true;
        return;
    }
    snprintf(check->key, sizeof check->key, "%s", key);
    checks->count++;
    checks->errors += level == STAGE_CHECK_ERROR;
}

bool stage_checks_result(struct stage_checks *checks, const char *key, enum status status, const struct err *err) {
    bool wrong = status == STATUS_BAD_ARGUMENT || status == STATUS_UNSUPPORTED || status == STATUS_BAD_FORMAT ||
                 status == STATUS_TRUNCATED;
    if (status == STATUS_NO_MEMORY) checks->no_memory = true;
    if (wrong) stage_checks_add(checks, STAGE_CHECK_ERROR, key, "%s", err->message);
    return status == STATUS_OK;
}

void checks_clear(struct stage_checks *checks) {
    for (size_t i = 0; i < checks->count; i++)
        free(checks->list[i].text);
    free(checks->list);
    *checks = (struct stage_checks){0};
}

enum status checks_run(struct stage *stage, struct err *err) {
    struct stage_checks *checks = &stage->checks;
    if (stage->descriptor->check == NULL) return STATUS_OK;
    checks_clear(checks);
    stage->descriptor->check(stage->params, &stage->session, checks);
    FAIL_IF(checks->no_memory, err, STATUS_NO_MEMORY, "no memory to check the parameters");
    if (checks->errors == 0) return STATUS_OK;
    char text[sizeof err->message] = "";
    for (size_t i = 0; i < checks->count; i++) {
        size_t length = strlen(text);
        if (checks->list[i].level == STAGE_CHECK_ERROR)
            snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? "; " : "", checks->list[i].text);
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s", text);
}

bool checks_blame_value(const struct stage *stage, enum status status) {
    bool of_file = status == STATUS_NOT_FOUND || status == STATUS_BAD_FORMAT || status == STATUS_TRUNCATED ||
                   status == STATUS_UNSUPPORTED;
    return status == STATUS_BAD_ARGUMENT || (of_file && !stage->ready);
}

void checks_warn(struct stage *stage) {
    for (size_t i = 0; i < stage->checks.count; i++)
        if (stage->checks.list[i].level == STAGE_CHECK_WARNING)
            stage_log(stage, LOG_WARN, "check", "%s", stage->checks.list[i].text);
}
