#include "pipelines/launcher/control.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/control_private.h"
#include "pipelines/launcher/view/view.h"

static const double LEDGER_WAIT = 5; /* s: nobody else is served meanwhile */

static const struct {
    const char *name;
    control_deed *deed;
} deeds[] = {{"retry", control_retry},     {"redo", control_redo},
             {"drain", control_drain},     {"stop", control_stop},
             {"silence", control_silence}, {"mark", control_mark},
             {"rules", control_rules},     {"set", control_set},
             {"classes", control_classes}, {"invert-hand", control_invert_hand}};

static control_deed *find_deed(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof deeds / sizeof *deeds; i++)
        if (strcmp(deeds[i].name, name) == 0) return deeds[i].deed;
    return NULL;
}

enum status control_may_text(const struct control *c, const char *key, const char **ret_text, struct err *err) {
    const json_t *value = json_object_get(c->body, key);
    const char *text = json_string_value(value);
    FAIL_IF(value != NULL && !json_is_null(value) && text == NULL, err, STATUS_BAD_ARGUMENT, "\"%s\" must be a text",
            key);
    *ret_text = text != NULL && *text != '\0' ? text : NULL;
    return STATUS_OK;
}

enum status control_need_text(const struct control *c, const char *key, const char **ret_text, struct err *err) {
    TRY(control_may_text(c, key, ret_text, err));
    FAIL_IF(*ret_text == NULL, err, STATUS_BAD_ARGUMENT, "\"%s\" is missing; it must be a text", key);
    return STATUS_OK;
}

enum status control_numbers(const struct control *c, const char *key, int64_t **ret_numbers, size_t *ret_count,
                            struct err *err) {
    const json_t *list = json_object_get(c->body, key);
    size_t count = json_array_size(list), i;
    json_t *value;
    FAIL_IF(!json_is_array(list), err, STATUS_BAD_ARGUMENT, "\"%s\" must be a list of numbers", key);
    json_array_foreach(list, i, value) {
        FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 1, err, STATUS_BAD_ARGUMENT,
                "\"%s\" must be a list of whole numbers from 1", key);
    }
    int64_t *numbers = calloc(count + 1, sizeof *numbers);
    FAIL_IF(numbers == NULL, err, STATUS_NO_MEMORY, "no memory for a list of numbers");
    json_array_foreach(list, i, value) {
        numbers[i] = json_integer_value(value);
    }
    *ret_numbers = numbers;
    *ret_count = count;
    return STATUS_OK;
}

/* Adds to the history what is no change by itself: that something was sent through again, or the run was ended. */
static enum status add_note(struct control *c, const char *deed, const char *message, struct err *err) {
    int lock;
    json_t *change = json_pack("{s:s, s:s, s:s, s:i}", "by", deed, "note", message, "peer", c->peer, "run",
                               view_run(c->serve->view));
    FAIL_IF(change == NULL, err, STATUS_NO_MEMORY, "no memory for the history");
    enum status status = changes_hold(&c->session, &lock, err);
    if (status == STATUS_OK) {
        status = changes_write(&c->session, change, &c->number, err);
        close(lock);
    }
    json_decref(change);
    return status;
}

static enum status begin(struct control *c, struct err *err) {
    FAIL_IF(c->serve->read_only, err, STATUS_BAD_STATE, "%s can only be read here", c->serve->folder);
    TRY(session_find(c->serve->folder, &c->session, err));
    c->session.patience = LEDGER_WAIT;
    return STATUS_OK;
}

/* Makes one text of the lines that the commands print: "; " takes the place of a line's end. */
static enum status join_lines(char **text, struct err *err) {
    size_t length = strlen(*text), count = 0, at = 0;
    while (length > 0 && (*text)[length - 1] == '\n')
        (*text)[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        count += (*text)[i] == '\n';
    char *joined = malloc(length + count + 1);
    FAIL_IF(joined == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    for (size_t i = 0; i < length; i++) {
        joined[at++] = (*text)[i] == '\n' ? ';' : (*text)[i];
        if ((*text)[i] == '\n') joined[at++] = ' ';
    }
    joined[at] = '\0';
    free(*text);
    *text = joined;
    return STATUS_OK;
}

static enum status run_deed(struct control *c, const char *name, control_deed *deed, char **message, size_t *size,
                            struct err *err) {
    c->out = open_memstream(message, size);
    FAIL_IF(c->out == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    enum status status = deed(c, err);
    fclose(c->out);
    FAIL_IF(*message == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    if (status != STATUS_OK) {
        (void)join_lines(message, NULL);
        return status;
    }
    TRY(join_lines(message, err));
    if (c->noted) return STATUS_OK;
    /* It has happened: a history that cannot be written does not undo it. */
    struct err own = {0};
    if (add_note(c, name, *message, &own) != STATUS_OK && c->serve->log != NULL)
        log_write(c->serve->log, LOG_WARN, "history", "the history lacks what %s did: %s", c->peer, own.message);
    return STATUS_OK;
}

enum status control_do(struct serve *serve, const char *peer, const json_t *body, json_t **ret_answer,
                       struct err *err) {
    struct control c = {.serve = serve, .peer = peer != NULL ? peer : "", .body = body};
    const char *name = json_string_value(json_object_get(body, "do"));
    control_deed *deed = find_deed(name);
    char *message = NULL;
    size_t size = 0;
    struct err own = {0};
    FAIL_IF(deed == NULL, err, STATUS_BAD_ARGUMENT,
            "\"do\" is %.40s; expected retry, redo, drain, stop, silence, mark, rules, set, classes or invert-hand",
            name != NULL ? name : "missing");
    TRY(begin(&c, err));
    enum status status = run_deed(&c, name, deed, &message, &size, &own);
    if (serve->log != NULL)
        log_write(serve->log, LOG_INFO, "control", "%s, asked for by %s: %s", name, c.peer,
                  status == STATUS_OK ? message : own.message);
    if (status != STATUS_OK) {
        /* The problems that a command prints come first. */
        enum status failed = err_set(err, status, own.file, own.line, "%s%s%s", message != NULL ? message : "",
                                     message != NULL && *message != '\0' ? "; " : "", own.message);
        free(message);
        return failed;
    }
    *ret_answer = json_pack("{s:i, s:b, s:I, s:s, s:o}", "v", 1, "ok", 1, "changed", (json_int_t)c.changed, "message",
                            message, "change", c.number > 0 ? json_integer(c.number) : json_null());
    free(message);
    FAIL_IF(*ret_answer == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    return STATUS_OK;
}

enum status control_post(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                         struct err *err) {
    json_t *result = NULL;
    TRY(control_do(serve, request->peer, request->json, &result, err));
    api_forget(serve);
    return http_answer_json(answer, result, err);
}
