/* Parses what a program says about itself, and checks what the launcher relies on. */
#include <string.h>

#include "pipelines/launcher/program.h"

static bool is_text(const json_t *object, const char *key, bool required) {
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) return !required || json_string_length(value) > 0;
    return !required && (value == NULL || json_is_null(value));
}

static enum status check_params(const json_t *params, struct err *err) {
    static const char types[] = " bool int float string path choice floats glob ";
    FAIL_IF(params != NULL && !json_is_array(params), err, STATUS_BAD_FORMAT, "\"params\" must be a list");
    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *param = json_array_get(params, i);
        FAIL_IF(!is_text(param, "name", true), err, STATUS_BAD_FORMAT, "params[%zu] has no \"name\"", i);
        const char *name = json_string_value(json_object_get(param, "name"));
        const char *type = json_string_value(json_object_get(param, "type"));
        char word[16];
        snprintf(word, sizeof word, " %.12s ", type != NULL ? type : "?");
        FAIL_IF(strstr(types, word) == NULL, err, STATUS_BAD_FORMAT,
                "the parameter \"%.60s\" has the type \"%.60s\"; expected one of%s", name, type != NULL ? type : "",
                types);
        FAIL_IF(!is_text(param, "default", false) || !is_text(param, "unit", false) ||
                    !is_text(param, "begins", false) || !is_text(param, "gives", false),
                err, STATUS_BAD_FORMAT,
                "\"default\", \"unit\", \"begins\" and \"gives\" of the parameter \"%.60s\" must be texts", name);
    }
    return STATUS_OK;
}

static enum status check(const json_t *describe, struct err *err) {
    FAIL_IF(!is_text(describe, "name", true), err, STATUS_BAD_FORMAT, "\"name\" is missing or not a text");
    FAIL_IF(!is_text(describe, "in", false) || !is_text(describe, "out", false) || !is_text(describe, "version", false),
            err, STATUS_BAD_FORMAT, "\"in\", \"out\" and \"version\" must be texts");
    return check_params(json_object_get(describe, "params"), err);
}

enum status program_answer(const char *path, const char *text, size_t length, json_t **ret_describe, struct err *err) {
    static const char expected[] = "expected what docs/protocol.md says of --describe";
    size_t blank = 0;
    while (blank < length && (text[blank] == ' ' || text[blank] == '\n'))
        blank++;
    *ret_describe = NULL;
    if (blank == length || text[blank] != '{') /* a help text, for example: the program does not know the option */
        return STATUS_OK;
    json_error_t error;
    json_t *describe = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(describe == NULL, err, STATUS_BAD_FORMAT, "%s --describe: line %d: %s; %s", path, error.line, error.text,
            expected);
    struct err own = {0};
    if (check(describe, &own) != STATUS_OK) {
        json_decref(describe);
        FAIL(err, STATUS_BAD_FORMAT, "%s --describe: %s; %s", path, own.message, expected);
    }
    *ret_describe = describe;
    return STATUS_OK;
}

const json_t *program_params(const json_t *describe) {
    const json_t *params = json_object_get(describe, "params");
    return json_is_array(params) ? params : NULL;
}

static bool is_problem(const json_t *problem) {
    const char *level = json_string_value(json_object_get(problem, "level"));
    return level != NULL && (strcmp(level, "error") == 0 || strcmp(level, "warning") == 0) &&
           is_text(problem, "key", false) && is_text(problem, "message", true);
}

enum status program_problems(const char *path, const char *text, size_t length, json_t **ret_problems,
                             struct err *err) {
    json_error_t error;
    json_t *problems = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    bool good = json_is_array(problems);
    for (size_t i = 0; good && i < json_array_size(problems); i++)
        good = is_problem(json_array_get(problems, i));
    if (!good) json_decref(problems);
    FAIL_IF(!good, err, STATUS_BAD_FORMAT,
            "%s --check: a list of {\"key\", \"level\", \"message\"} was expected, as docs/protocol.md says; correct "
            "the program, or leave \"check\" out of what it says of itself",
            path);
    *ret_problems = problems;
    return STATUS_OK;
}
