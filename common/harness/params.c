#include "common/harness/params.h"
#include "common/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/files.h"
#include "common/harness/params_private.h"
#include "common/memory.h"

enum { KEY_MAX = 64, NEAREST_MAX = 128 };

/* Returns whether the stage can choose this value itself, so that "auto" is allowed. */
static bool takes_auto(const struct param *param) {
    return param->default_text == NULL || strcmp(param->default_text, "auto") == 0;
}

static bool is_auto(const struct param *param, const char *text) {
    return takes_auto(param) && strcmp(text, "auto") == 0;
}

static bool has_limits(const struct param *param) {
    return param->minimum != 0 || param->maximum != 0;
}

static void print_range(const struct param *param, char *out, size_t size) {
    const char *unit = param->unit != NULL ? param->unit : "";
    if (isinf(param->maximum))
        snprintf(out, size, "%.15g or more%s%s", param->minimum, *unit ? ", in " : "", unit);
    else if (isinf(param->minimum))
        snprintf(out, size, "%.15g or less%s%s", param->maximum, *unit ? ", in " : "", unit);
    else
        snprintf(out, size, "%.15g to %.15g%s%s", param->minimum, param->maximum, *unit ? " " : "", unit);
}

static enum status check_range(const struct param *param, double value, const char *where, struct err *err) {
    if (!has_limits(param) || (value >= param->minimum && value <= param->maximum)) return STATUS_OK;
    char range[128];
    print_range(param, range, sizeof range);
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: %s is %.10g; it must be %s", where, param->name, value, range);
}

static enum status parse_bool(const struct param *param, const char *text, const char *where, bool *ret_value,
                              struct err *err) {
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *ret_value = strcasecmp(text, yes[i]) == 0;
            return STATUS_OK;
        }
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: %s is '%s'; it must be true or false", where, param->name, text);
}

static enum status parse_int(const struct param *param, const char *text, const char *where, int *ret_value,
                             struct err *err) {
    if (is_auto(param, text)) {
        *ret_value = INT_MIN;
        return STATUS_OK;
    }
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    FAIL_IF(end == text || *end != '\0', err, STATUS_BAD_ARGUMENT, "%s: %s is '%s'; it must be a whole number%s", where,
            param->name, text, takes_auto(param) ? " or auto" : "");
    FAIL_IF(errno == ERANGE || value > INT_MAX || value <= INT_MIN, err, STATUS_BAD_ARGUMENT,
            "%s: %s is '%s', which is too large", where, param->name, text);
    TRY(check_range(param, (double)value, where, err));
    *ret_value = (int)value;
    return STATUS_OK;
}

static enum status parse_float(const struct param *param, const char *text, const char *where, double *ret_value,
                               struct err *err) {
    if (is_auto(param, text)) {
        *ret_value = NAN;
        return STATUS_OK;
    }
    char *end;
    double value = strtod(text, &end);
    FAIL_IF(end == text || *end != '\0' || !isfinite(value), err, STATUS_BAD_ARGUMENT,
            "%s: %s is '%s'; it must be a number%s%s%s", where, param->name, text,
            param->unit != NULL && *param->unit ? " in " : "", param->unit != NULL ? param->unit : "",
            takes_auto(param) ? ", or auto" : "");
    TRY(check_range(param, value, where, err));
    *ret_value = value;
    return STATUS_OK;
}

static enum status parse_floats(const struct param *param, const char *text, const char *where,
                                struct param_floats *ret_floats, struct err *err) {
    struct param_floats floats = {0};
    const char *p = text + strspn(text, " \t");
    if (is_auto(param, p)) {
        *ret_floats = floats;
        return STATUS_OK;
    }
    bool bracket = *p == '[';
    p += bracket;
    for (;;) {
        char *end;
        double value = strtod(p, &end);
        FAIL_IF(end == p || !isfinite(value), err, STATUS_BAD_ARGUMENT,
                "%s: %s is '%s'; it must be a list of numbers, such as 1,2", where, param->name, text);
        FAIL_IF(floats.count == PARAM_FLOATS_MAX, err, STATUS_BAD_ARGUMENT, "%s: %s holds more than %d numbers", where,
                param->name, PARAM_FLOATS_MAX);
        TRY(check_range(param, value, where, err));
        floats.values[floats.count++] = value;
        p = end + strspn(end, " \t");
        if (*p != ',') break;
        p++;
    }
    if (bracket && *p == ']')
        p += 1 + strspn(p + 1, " \t");
    else if (bracket)
        p = text;
    FAIL_IF(*p != '\0', err, STATUS_BAD_ARGUMENT, "%s: %s is '%s'; it must be a list of numbers, such as 1,2", where,
            param->name, text);
    FAIL_IF(param->list_count != 0 && floats.count != param->list_count, err, STATUS_BAD_ARGUMENT,
            "%s: %s holds %d number%s ('%s'); it must hold %d", where, param->name, floats.count,
            floats.count == 1 ? "" : "s", text, param->list_count);
    *ret_floats = floats;
    return STATUS_OK;
}

static enum status parse_choice(const struct param *param, const char *text, const char *where, int *ret_value,
                                struct err *err) {
    const char *words[NEAREST_MAX];
    char buffer[512];
    snprintf(buffer, sizeof buffer, "%s", param->choices);
    int count = 0;
    for (char *save = NULL, *word = strtok_r(buffer, "|", &save); word != NULL && count < NEAREST_MAX;
         word = strtok_r(NULL, "|", &save)) {
        if (strcmp(word, text) == 0) {
            *ret_value = count;
            return STATUS_OK;
        }
        words[count++] = word;
    }
    char list[512];
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 words[i]);
    const char *near = text_nearest(text, words, (size_t)count);
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: %s is '%s'; it must be %s%s%s%s", where, param->name, text, list,
         near != NULL ? ": did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
}

enum status params_parse(const struct param *param, const char *text, const char *where, union param_value *ret_value,
                         struct err *err) {
    switch (param->type) {
    case PARAM_BOOL:
        return parse_bool(param, text, where, &ret_value->boolean, err);
    case PARAM_INT:
        return parse_int(param, text, where, &ret_value->integer, err);
    case PARAM_FLOAT:
        return parse_float(param, text, where, &ret_value->number, err);
    case PARAM_CHOICE:
        return parse_choice(param, text, where, &ret_value->integer, err);
    case PARAM_FLOATS:
        return parse_floats(param, text, where, &ret_value->floats, err);
    case PARAM_STRING:
    case PARAM_PATH:
    case PARAM_GLOB:
        ret_value->text = text;
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_STATE, "%s: %s has no known type", where, param->name);
}

enum status params_path_check(const char *name, const char *path, bool may_come, const char *where, struct err *err) {
    char folder[PATH_SIZE];
    bool will_come = may_come && access(path, F_OK) != 0 && errno == ENOENT &&
                     path_folder(path, folder, sizeof folder, NULL) == STATUS_OK && file_is_folder(folder);
    if (will_come) return STATUS_OK;
    FAIL_IF(access(path, R_OK) != 0, err, STATUS_NOT_FOUND, "%s: %s is '%s', which %s", where, name, path,
            errno == ENOENT    ? "is not there"
            : errno == ENOTDIR ? "leads through something that is not a folder"
            : errno == EACCES  ? "may not be read"
                               : "cannot be read");
    return STATUS_OK;
}

static bool is_text(const struct param *param) {
    return param->type == PARAM_STRING || param->type == PARAM_PATH || param->type == PARAM_GLOB;
}

static enum status assign(const struct param *param, void *target, const char *text, const char *where,
                          struct err *err) {
    union param_value value;
    TRY(params_parse(param, text, where, &value, err));
    char *place = (char *)target + param->offset;
    switch (param->type) {
    case PARAM_BOOL:
        *(bool *)place = value.boolean;
        return STATUS_OK;
    case PARAM_INT:
    case PARAM_CHOICE:
        *(int *)place = value.integer;
        return STATUS_OK;
    case PARAM_FLOAT:
        *(double *)place = value.number;
        return STATUS_OK;
    case PARAM_FLOATS:
        *(struct param_floats *)place = value.floats;
        return STATUS_OK;
    case PARAM_STRING:
    case PARAM_PATH:
    case PARAM_GLOB:
        break;
    }
    char *copy = strdup(text);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "%s: no memory for the value of %s", where, param->name);
    free(*(char **)place);
    *(char **)place = copy;
    return STATUS_OK;
}

static enum status assign_default(const struct param *param, void *target, struct err *err) {
    char *place = (char *)target + param->offset;
    if (is_text(param)) mem_free(place);
    if (param->default_text != NULL) return assign(param, target, param->default_text, "default", err);
    switch (param->type) {
    case PARAM_BOOL:
        *(bool *)place = false;
        break;
    case PARAM_INT:
        *(int *)place = INT_MIN;
        break;
    case PARAM_CHOICE:
        *(int *)place = 0;
        break;
    case PARAM_FLOAT:
        *(double *)place = NAN;
        break;
    case PARAM_FLOATS:
        memset(place, 0, sizeof(struct param_floats));
        break;
    case PARAM_STRING:
    case PARAM_PATH:
    case PARAM_GLOB:
        break;
    }
    return STATUS_OK;
}

enum status params_defaults(const struct param *table, size_t count, void *target, struct err *err) {
    for (size_t i = 0; i < count; i++)
        TRY(assign_default(&table[i], target, err));
    return STATUS_OK;
}

const struct param *params_find(const struct param *table, size_t count, const char *key) {
    char name[KEY_MAX];
    text_key(key, name, sizeof name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

enum status params_unknown(const char *key, const char *const *names, size_t count, const char *where,
                           struct err *err) {
    const char *near = text_nearest(key, names, count);
    FAIL_IF(near != NULL, err, STATUS_BAD_ARGUMENT, "%s: there is no parameter '%s': did you mean '%s'?", where, key,
            near);
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: there is no parameter '%s' (--help lists them)", where, key);
}

enum status params_known(const struct param *table, size_t count, const char *key, const char *where, struct err *err) {
    if (params_find(table, count, key) != NULL) return STATUS_OK;
    const char *names[NEAREST_MAX];
    size_t known = 0;
    for (; known < count && known < NEAREST_MAX; known++)
        names[known] = table[known].name;
    return params_unknown(key, names, known, where, err);
}

enum status params_set(const struct param *table, size_t count, void *target, const char *key, const char *text,
                       const char *where, struct err *err) {
    TRY(params_known(table, count, key, where, err));
    return assign(params_find(table, count, key), target, text, where, err);
}

enum status params_check(const struct param *table, size_t count, const void *target, const char *where,
                         struct err *err) {
    for (size_t i = 0; i < count; i++) {
        const struct param *param = &table[i];
        const char *place = (const char *)target + param->offset;
        bool set = true;
        switch (param->type) {
        case PARAM_STRING:
        case PARAM_PATH:
        case PARAM_GLOB:
            set = *(char *const *)place != NULL && **(char *const *)place != '\0';
            break;
        case PARAM_INT:
            set = *(const int *)place != INT_MIN;
            break;
        case PARAM_FLOAT:
            set = !isnan(*(const double *)place);
            break;
        case PARAM_FLOATS:
            set = ((const struct param_floats *)place)->count > 0;
            break;
        case PARAM_BOOL:
        case PARAM_CHOICE:
            break;
        }
        FAIL_IF(param->required && !set, err, STATUS_BAD_ARGUMENT, "%s: %s is not set, and it must be: %s", where,
                param->name, param->help);
        if (param->type == PARAM_PATH && set)
            TRY(params_path_check(param->name, *(char *const *)place, param->may_come, where, err));
    }
    return STATUS_OK;
}

void params_clear(const struct param *table, size_t count, void *target) {
    for (size_t i = 0; i < count; i++)
        if (is_text(&table[i])) mem_free((char *)target + table[i].offset);
}

bool params_give(const struct param *table, size_t count, const void *target, const char *member) {
    for (size_t i = 0; i < count && target != NULL; i++) {
        if (table[i].gives == NULL || strcmp(table[i].gives, member) != 0 || !is_text(&table[i])) continue;
        const char *text = *(char *const *)((const char *)target + table[i].offset);
        if (text != NULL && *text != '\0') return true;
    }
    return false;
}
