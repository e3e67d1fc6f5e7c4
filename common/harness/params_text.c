/* Prints parameters as JSON and as text for people, and reads them from JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/params_private.h"
#include "common/memory.h"
#include "common/text.h"

enum { JSON_PARAMS_MAX = 256, TEXT_MAX = 4096, HELP_COLUMN = 30, DETAILS_MAX = 768, HELP_MAX = 2048 };

static const char *const type_names[] = {"bool", "int", "float", "string", "path", "choice", "floats", "glob"};

const char *params_type_name(enum param_type type) {
    return type_names[type];
}

static const char *const changes_names[] = {"never", "restart", "live"};

const char *params_changes_name(enum param_changes changes) {
    return changes_names[changes];
}

enum param_changes params_changes_of(const json_t *described_params, const char *key) {
    char wanted[64];
    text_key(key, wanted, sizeof wanted);
    for (size_t i = 0; i < json_array_size(described_params); i++) {
        const json_t *entry = json_array_get(described_params, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *changes = json_string_value(json_object_get(entry, "changes"));
        if (name == NULL || changes == NULL || strcmp(name, wanted) != 0) continue;
        for (int k = PARAM_RESTART; k <= PARAM_LIVE; k++)
            if (strcmp(changes, changes_names[k]) == 0) return (enum param_changes)k;
    }
    return PARAM_NEVER;
}

json_t *params_describe(const struct param *table, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct param *param = &table[i];
        bool limits = param->minimum != 0 || param->maximum != 0;
        json_t *entry = json_object();
        json_object_set_new(entry, "name", json_string(param->name));
        json_object_set_new(entry, "type", json_string(type_names[param->type]));
        json_object_set_new(entry, "unit", json_string(param->unit != NULL ? param->unit : ""));
        json_object_set_new(entry, "default", param->default_text ? json_string(param->default_text) : json_null());
        json_object_set_new(entry, "minimum",
                            limits && isfinite(param->minimum) ? json_real(param->minimum) : json_null());
        json_object_set_new(entry, "maximum",
                            limits && isfinite(param->maximum) ? json_real(param->maximum) : json_null());
        json_t *choices = json_null();
        if (param->choices != NULL) {
            char buffer[512];
            snprintf(buffer, sizeof buffer, "%s", param->choices);
            choices = json_array();
            for (char *save = NULL, *word = strtok_r(buffer, "|", &save); word; word = strtok_r(NULL, "|", &save))
                json_array_append_new(choices, json_string(word));
        }
        json_object_set_new(entry, "choices", choices);
        json_object_set_new(entry, "count", param->list_count > 0 ? json_integer(param->list_count) : json_null());
        json_object_set_new(entry, "required", json_boolean(param->required));
        json_object_set_new(entry, "changes", json_string(changes_names[param->changes]));
        if (param->gives != NULL) json_object_set_new(entry, "gives", json_string(param->gives));
        if (param->may_come) json_object_set_new(entry, "may_come", json_true());
        if (param->begins != NULL) json_object_set_new(entry, "begins", json_string(param->begins));
        json_object_set_new(entry, "help", json_string(param->help != NULL ? param->help : ""));
        json_array_append_new(list, entry);
    }
    return list;
}

enum status params_json_text(const char *key, const json_t *value, char *out, size_t size, const char *where,
                             struct err *err) {
    int used = 0;
    if (json_is_string(value))
        used = snprintf(out, size, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        used = snprintf(out, size, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        used = snprintf(out, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        used = snprintf(out, size, "%.15g", json_real_value(value));
    else if (json_is_array(value)) {
        out[0] = '\0';
        size_t at = 0;
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *element = json_array_get(value, i);
            FAIL_IF(json_is_array(element) || json_is_object(element), err, STATUS_BAD_ARGUMENT,
                    "%s: %s holds a list inside a list", where, key);
            if (i > 0 && at + 1 < size) out[at++] = ',';
            TRY(params_json_text(key, element, out + at, size - at, where, err));
            at += strlen(out + at);
        }
        used = (int)at;
    } else
        FAIL(err, STATUS_BAD_ARGUMENT, "%s: %s must be a word, a number or a list of them", where, key);
    FAIL_IF(used < 0 || (size_t)used >= size, err, STATUS_BAD_ARGUMENT, "%s: %s is longer than %zu characters", where,
            key, size - 1);
    return STATUS_OK;
}

enum status params_set_json(const struct param *table, size_t count, void *target, const json_t *object,
                            const char *where, struct err *err) {
    FAIL_IF(!json_is_object(object), err, STATUS_BAD_FORMAT, "%s: the parameters must be a JSON object", where);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value)) {
            /* A key with the value null keeps the default, but it must still be a known key. */
            TRY(params_known(table, count, key, where, err));
            continue;
        }
        char text[TEXT_MAX];
        TRY(params_json_text(key, value, text, sizeof text, where, err));
        TRY(params_set(table, count, target, key, text, where, err));
    }
    return STATUS_OK;
}

static double json_limit(const json_t *entry, const char *key, double absent) {
    const json_t *value = json_object_get(entry, key);
    return json_is_number(value) ? json_number_value(value) : absent;
}

enum status params_check_json(const json_t *described_params, const char *key, const char *text, const char *where,
                              struct err *err) {
    const char *names[JSON_PARAMS_MAX];
    char wanted[64];
    text_key(key, wanted, sizeof wanted);
    const json_t *entry = NULL;
    size_t known = 0;
    for (size_t i = 0; i < json_array_size(described_params) && known < JSON_PARAMS_MAX; i++) {
        const json_t *candidate = json_array_get(described_params, i);
        const char *name = json_string_value(json_object_get(candidate, "name"));
        if (name == NULL) continue;
        names[known++] = name;
        if (strcmp(name, wanted) == 0) entry = candidate;
    }
    if (entry == NULL) return params_unknown(key, names, known, where, err);

    struct param param = {.name = json_string_value(json_object_get(entry, "name")),
                          .unit = json_string_value(json_object_get(entry, "unit")),
                          .default_text = json_string_value(json_object_get(entry, "default")),
                          .list_count = (int)json_integer_value(json_object_get(entry, "count"))};
    const char *type = json_string_value(json_object_get(entry, "type"));
    size_t index = 0;
    while (index < sizeof type_names / sizeof *type_names && (type == NULL || strcmp(type, type_names[index]) != 0))
        index++;
    FAIL_IF(index == sizeof type_names / sizeof *type_names, err, STATUS_BAD_FORMAT,
            "%s: the program describes %s with the unknown type '%s'", where, param.name, type ? type : "");
    param.type = (enum param_type)index;
    bool limits =
        json_is_number(json_object_get(entry, "minimum")) || json_is_number(json_object_get(entry, "maximum"));
    if (limits) {
        param.minimum = json_limit(entry, "minimum", -INFINITY);
        param.maximum = json_limit(entry, "maximum", INFINITY);
    }
    char choices[512] = "";
    const json_t *list = json_object_get(entry, "choices");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        size_t used = strlen(choices);
        snprintf(choices + used, sizeof choices - used, "%s%s", used > 0 ? "|" : "", word != NULL ? word : "");
    }
    param.choices = choices;
    union param_value value;
    TRY(params_parse(&param, text, where, &value, err));
    param.may_come = json_is_true(json_object_get(entry, "may_come"));
    if (param.type == PARAM_PATH && *text != '\0') TRY(params_path_check(param.name, text, param.may_come, where, err));
    return STATUS_OK;
}

const char *params_value_word(const struct param *param) {
    bool unit = param->unit != NULL && *param->unit != '\0';
    switch (param->type) {
    case PARAM_BOOL:
        return "true|false";
    case PARAM_INT:
    case PARAM_FLOAT:
        return unit ? param->unit : "NUMBER";
    case PARAM_STRING:
        return "TEXT";
    case PARAM_PATH:
        return "PATH";
    case PARAM_GLOB:
        return "GLOB";
    case PARAM_CHOICE:
        return "WORD";
    case PARAM_FLOATS:
        return unit ? param->unit : "LIST";
    }
    return "";
}

void params_limits_text(const struct param *param, char *out, size_t size) {
    *out = '\0';
    if (param->minimum == 0 && param->maximum == 0) return;
    if (isfinite(param->minimum) && isfinite(param->maximum))
        snprintf(out, size, "%.15g to %.15g", param->minimum, param->maximum);
    else if (isfinite(param->minimum))
        snprintf(out, size, "%.15g or more", param->minimum);
    else if (isfinite(param->maximum))
        snprintf(out, size, "%.15g or less", param->maximum);
}

/* Writes choices, limits and default of a parameter in parentheses; empty: it has none of them. */
static void details_text(const struct param *param, char *out, size_t size) {
    char limits[96], preset[128] = "";
    params_limits_text(param, limits, sizeof limits);
    if (param->required)
        snprintf(preset, sizeof preset, "required");
    else if (param->default_text != NULL && *param->default_text != '\0')
        snprintf(preset, sizeof preset, "default: %s", param->default_text);
    const char *const parts[] = {param->choices != NULL ? param->choices : "", limits, preset};
    size_t used = 0;
    *out = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (*parts[i] != '\0' && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "; " : " (", parts[i]);
    if (used > 0 && used < size) snprintf(out + used, size - used, ")");
}

void params_help_line(const char *name, const char *value, const char *help, FILE *out) {
    char left[96];
    snprintf(left, sizeof left, "  --%s%s%s", name, value != NULL ? " " : "", value != NULL ? value : "");
    size_t width = text_width(left), blanks = width + 1 < HELP_COLUMN ? HELP_COLUMN - width : 1;
    fprintf(out, "%s%*s", left, (int)blanks, "");
    text_wrap(help, width + blanks, HELP_COLUMN, out);
}

void params_help(const struct param *table, size_t count, FILE *out) {
    for (size_t i = 0; i < count; i++) {
        const struct param *param = &table[i];
        char details[DETAILS_MAX], help[HELP_MAX];
        details_text(param, details, sizeof details);
        snprintf(help, sizeof help, "%s%s", param->help != NULL ? param->help : "", details);
        params_help_line(param->name, param->type != PARAM_BOOL ? params_value_word(param) : NULL, help, out);
    }
}
