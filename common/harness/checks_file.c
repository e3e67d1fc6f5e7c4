/* Answers --check FILE: reads the parameters of an instance file, checks them, and prints the problems as JSON. */
#include <stdlib.h>
#include <string.h>

#include "common/harness/params_private.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2 };

/* Adds a problem as the parameter tables report it: without the name of the stage before it. */
static void add(struct stage *stage, const char *key, enum status status, const struct err *err) {
    if (status == STATUS_NO_MEMORY) stage->checks.no_memory = true;
    if (status == STATUS_OK || status == STATUS_NO_MEMORY) return;
    size_t length = strlen(stage->name);
    bool named = strncmp(err->message, stage->name, length) == 0 && strncmp(err->message + length, ": ", 2) == 0;
    /* A file that is away may come back: in a session that has begun the stage waits for it. */
    enum stage_check_level level = status == STATUS_NOT_FOUND ? STAGE_CHECK_WARNING : STAGE_CHECK_ERROR;
    stage_checks_add(&stage->checks, level, key, "%s", named ? err->message + length + 2 : err->message);
}

static void set_all(struct stage *stage, const json_t *object, bool session) {
    const char *key;
    json_t *value;
    size_t count;
    const struct param *table = stage_session_params(&count);
    json_object_foreach((json_t *)object, key, value) {
        char text[4096];
        struct err err = {0};
        if (json_is_null(value)) continue;
        enum status status = params_json_text(key, value, text, sizeof text, stage->name, &err);
        if (status == STATUS_OK && session)
            status = params_set(table, count, &stage->session, key, text, stage->name, &err);
        else if (status == STATUS_OK)
            status = stage_set(stage, key, text, stage->name, &err);
        add(stage, key, status, &err);
    }
}

/* Checks each parameter by itself, so that each problem has its key. */
static void check_tables(struct stage *stage) {
    const struct stage_descriptor *d = stage->descriptor;
    for (size_t i = 0; i < d->param_count; i++) {
        struct err err = {0};
        enum status status = params_check(&d->params[i], 1, stage->params, stage->name, &err);
        add(stage, d->params[i].name, status, &err);
    }
    struct err err = {0};
    add(stage, "reject_if", rules_parse(stage->common.reject_if, &stage->rules, &err), &err);
    add(stage, "device", device_parse(stage->common.device, &stage->device, &err), &err);
}

static enum status read_file(struct stage *stage, const char *path, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    json_error_t error;
    TRY(file_read_whole(path, INSTANCE_SIZE_MAX, &text, &length, err));
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "%s: line %d: %s", path, error.line, error.text);
    const json_t *params = json_object_get(root, "params"), *session = json_object_get(root, "session_params");
    const char *name = json_string_value(json_object_get(root, "name"));
    const char *device = json_string_value(json_object_get(root, "device"));
    bool good = json_is_object(root) && (params == NULL || json_is_object(params)) &&
                (session == NULL || json_is_object(session));
    if (good) {
        if (name != NULL) snprintf(stage->name, sizeof stage->name, "%s", name);
        struct err own = {0};
        set_all(stage, session, true);
        set_all(stage, params, false);
        if (device != NULL) add(stage, "device", stage_set(stage, "device", device, stage->name, &own), &own);
    }
    json_decref(root);
    FAIL_IF(
        !good, err, STATUS_BAD_FORMAT,
        "%s: an instance file was expected: a JSON object with \"params\" and \"session_params\", which are objects "
        "too",
        path);
    return STATUS_OK;
}

static enum status print(const struct stage_checks *checks, struct err *err) {
    json_t *list = json_array();
    for (size_t i = 0; i < checks->count; i++) {
        const struct stage_check *check = &checks->list[i];
        const char *level = check->level == STAGE_CHECK_ERROR ? "error" : "warning";
        json_t *text = json_string(check->text);
        /* A path that is not UTF-8 must not hide the problem. */
        if (text == NULL) text = json_string("a value or a path in it is not UTF-8");
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "key", check->key, "level", level, "message", text));
    }
    bool whole = !checks->no_memory && list != NULL && json_array_size(list) == checks->count &&
                 json_dumpf(list, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER) == 0 && fputc('\n', stdout) != EOF;
    json_decref(list);
    FAIL_IF(!whole, err, STATUS_NO_MEMORY, "the problems cannot be printed: no memory, or the output is closed");
    return STATUS_OK;
}

int checks_print(struct stage *stage, const char *instance_file) {
    struct err err = {0};
    enum status status = read_file(stage, instance_file, &err);
    if (status == STATUS_OK) {
        check_tables(stage);
        if (stage->checks.errors == 0 && stage->descriptor->check != NULL)
            stage->descriptor->check(stage->params, &stage->session, &stage->checks);
        status = print(&stage->checks, &err);
    }
    if (status == STATUS_OK) return stage->checks.errors > 0 ? EXIT_USAGE : EXIT_OK;
    fprintf(stderr, "icestream-%s: --check %s\n", stage->descriptor->name, err.message);
    return status == STATUS_NO_MEMORY || status == STATUS_UNAVAILABLE ? EXIT_ERROR : EXIT_USAGE;
}
