/* Parameters and rules that the page gives to stages, for what comes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/control_private.h"
#include "pipelines/launcher/invert_hand.h"
#include "pipelines/launcher/set.h"

/* Writes the errors among the problems as the page shows them: without the graph's path, and without notes. */
static void write_errors(char *problems, FILE *out) {
    static const char mark[] = ": error: ";
    char *rest = NULL;
    for (char *line = strtok_r(problems, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, mark);
        if (at != NULL) fprintf(out, "%s\n", at + strlen(mark));
    }
}

/* Sets values, or inverts the hand of a stage. */
struct wish {
    const char *const *words;
    size_t count;
    bool inverts;
    const char *stage; /* NULL: the only refiner */
};

static enum status grant(struct control *c, const struct wish *wish, FILE *problems, struct set_result *result,
                         struct err *err) {
    return wish->inverts ? invert_hand(&c->session, wish->stage, c->peer, problems, result, err)
                         : set_values(&c->session, wish->words, wish->count, c->peer, problems, result, err);
}

/* Writes what has changed into the message. */
static enum status set(struct control *c, const struct wish *wish, struct err *err) {
    struct set_result result = {0};
    size_t i;
    json_t *entry;
    char *problems = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&problems, &size);
    FAIL_IF(lines == NULL, err, STATUS_NO_MEMORY, "no memory for what is wrong with a value");
    enum status status = grant(c, wish, lines, &result, err);
    fclose(lines);
    if (status != STATUS_OK && problems != NULL) write_errors(problems, c->out);
    free(problems);
    c->noted = true;
    json_array_foreach(result.entries, i, entry) {
        char text[768];
        change_text(entry, text, sizeof text);
        fprintf(c->out, "%s\n", text);
    }
    c->changed = (int64_t)json_array_size(result.entries);
    c->number = result.number;
    if (status == STATUS_OK && c->changed == 0) fputs("nothing has changed: the session has these values", c->out);
    json_decref(result.entries);
    return status;
}

/* A line break would begin another key of the graph. */
static enum status check_text(const char *key, const char *text, struct err *err) {
    for (const char *at = text; *at != '\0'; at++)
        FAIL_IF((unsigned char)*at < ' ', err, STATUS_BAD_ARGUMENT, "\"%s\" must be one line", key);
    return STATUS_OK;
}

static enum status set_one(struct control *c, const char *stage, const char *key, const char *value, struct err *err) {
    FAIL_IF(strchr(stage, '.') != NULL || strchr(stage, '=') != NULL, err, STATUS_NOT_FOUND, "there is no stage %s",
            stage);
    FAIL_IF(strchr(key, '=') != NULL, err, STATUS_BAD_ARGUMENT, "%s has no parameter %s", stage, key);
    size_t size = strlen(stage) + strlen(key) + strlen(value) + 3;
    char *word = malloc(size);
    FAIL_IF(word == NULL, err, STATUS_NO_MEMORY, "no memory for a value");
    snprintf(word, size, "%s.%s=%s", stage, key, value);
    const char *words[] = {word};
    enum status status = check_text(key, word, err);
    if (status == STATUS_OK) status = set(c, &(struct wish){.words = words, .count = 1}, err);
    free(word);
    return status;
}

enum status control_rules(struct control *c, struct err *err) {
    const json_t *text = json_object_get(c->body, "text");
    const char *stage;
    TRY(control_need_text(c, "stage", &stage, err));
    if (json_is_array(text)) {
        char *list = json_dumps(text, 0);
        FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for rules");
        enum status status = set_one(c, stage, "reject_if", list, err);
        free(list);
        return status;
    }
    FAIL_IF(!json_is_string(text) && !json_is_null(text), err, STATUS_BAD_ARGUMENT,
            "\"text\" must be a rule, a list of rules, or null for none");
    const char *rule = json_string_value(text);
    return set_one(c, stage, "reject_if", rule != NULL && rule[strspn(rule, " \t")] != '\0' ? rule : "[]", err);
}

static enum status set_list(struct control *c, const json_t *values, struct err *err) {
    size_t count = json_array_size(values), i;
    json_t *value;
    FAIL_IF(count == 0, err, STATUS_BAD_ARGUMENT, "\"values\" must be a list of texts STAGE.KEY=VALUE");
    const char **words = calloc(count, sizeof *words);
    FAIL_IF(words == NULL, err, STATUS_NO_MEMORY, "no memory for values");
    enum status status = STATUS_OK;
    json_array_foreach(values, i, value) {
        words[i] = json_string_value(value);
        if (status == STATUS_OK && words[i] == NULL)
            status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                             "\"values\" must be a list of texts STAGE.KEY=VALUE");
        if (status == STATUS_OK) status = check_text("values", words[i], err);
    }
    if (status == STATUS_OK) status = set(c, &(struct wish){.words = words, .count = count}, err);
    free(words);
    return status;
}

/* alarms.jsonl keeps who silenced what; it is not the session that changes. */
enum status control_silence(struct control *c, struct err *err) {
    const json_t *until = json_object_get(c->body, "until");
    const char *alarm, *subject, *why;
    TRY(control_need_text(c, "alarm", &alarm, err));
    TRY(control_may_text(c, "subject", &subject, err));
    TRY(control_may_text(c, "why", &why, err));
    FAIL_IF(!json_is_number(until) || !(json_number_value(until) >= 0), err, STATUS_BAD_ARGUMENT,
            "\"until\" must be a time in seconds since 1970");
    FAIL_IF(c->serve->alarms == NULL, err, STATUS_UNAVAILABLE, "this server keeps no alarms");
    double end = json_number_value(until), left = end - c->serve->now;
    c->noted = true;
    TRY(alarms_silence(c->serve->alarms, alarm, subject != NULL ? subject : "", end, c->serve->now, c->peer, why, err));
    c->changed = 1;
    if (left > 0)
        fprintf(c->out, "%s is silent for %.0f minute%s", alarm, ceil(left / 60), ceil(left / 60) == 1 ? "" : "s");
    else
        fprintf(c->out, "%s is no longer silenced", alarm);
    return STATUS_OK;
}

enum status control_set(struct control *c, struct err *err) {
    const json_t *values = json_object_get(c->body, "values"), *value = json_object_get(c->body, "value");
    const char *stage, *key;
    if (values != NULL) return set_list(c, values, err);
    TRY(control_need_text(c, "stage", &stage, err));
    TRY(control_need_text(c, "key", &key, err));
    FAIL_IF(!json_is_string(value) && !json_is_number(value) && !json_is_boolean(value), err, STATUS_BAD_ARGUMENT,
            "\"value\" must be a text, a number, true or false");
    if (json_is_string(value)) return set_one(c, stage, key, json_string_value(value), err);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a value");
    enum status status = set_one(c, stage, key, text, err);
    free(text);
    return status;
}

enum status control_invert_hand(struct control *c, struct err *err) {
    struct wish wish = {.inverts = true};
    TRY(control_may_text(c, "stage", &wish.stage, err));
    return set(c, &wish, err);
}
