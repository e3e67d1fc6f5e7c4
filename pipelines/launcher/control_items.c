/* Marks exposures for the page, sends them through again, makes them again. */
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/control_private.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/redo.h"
#include "pipelines/launcher/retry.h"
#include "pipelines/launcher/view/view.h"

static enum status find_row(const struct control *c, int64_t number, const struct view_row **ret_row, struct err *err) {
    int64_t row = view_find(c->serve->view, number);
    FAIL_IF(row < 0, err, STATUS_NOT_FOUND, "there is no exposure %lld", (long long)number);
    *ret_row = view_row(c->serve->view, (size_t)row);
    return STATUS_OK;
}

/* Reads "items": names, or numbers of exposures. The names are borrowed; frees the list with free. */
static enum status read_items(const struct control *c, const char ***ret_names, size_t *ret_count, struct err *err) {
    const json_t *list = json_object_get(c->body, "items");
    size_t count = json_array_size(list), i;
    json_t *value;
    FAIL_IF(list != NULL && !json_is_array(list) && !json_is_null(list), err, STATUS_BAD_ARGUMENT,
            "\"items\" must be a list of names or numbers of exposures");
    /* An empty list of a page on which nothing is chosen must not mean all. */
    FAIL_IF(json_is_array(list) && count == 0, err, STATUS_BAD_ARGUMENT,
            "\"items\" is empty; leave it out where all are meant");
    const char **names = calloc(count + 1, sizeof *names);
    FAIL_IF(names == NULL, err, STATUS_NO_MEMORY, "no memory for the names of items");
    enum status status = STATUS_OK;
    json_array_foreach(list, i, value) {
        const struct view_row *row = NULL;
        if (status == STATUS_OK && json_is_integer(value)) status = find_row(c, json_integer_value(value), &row, err);
        names[i] = row != NULL ? row->name : json_string_value(value);
        if (status == STATUS_OK && names[i] == NULL)
            status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                             "\"items\" must be a list of names or numbers of exposures");
    }
    if (status != STATUS_OK) {
        free(names);
        return status;
    }
    *ret_names = names;
    *ret_count = count;
    return STATUS_OK;
}

enum status control_retry(struct control *c, struct err *err) {
    struct retry_request request = {0};
    struct retry_outcome outcome = {0};
    char *lines = NULL;
    size_t size = 0;
    const char **names = NULL;
    TRY(control_may_text(c, "stage", &request.stage, err));
    TRY(read_items(c, &names, &request.name_count, err));
    request.names = names;
    request.out = open_memstream(&lines, &size); /* a line for each item would be too much for an answer */
    enum status status = request.out != NULL ? retry_items(&c->session, &request, &outcome, err)
                                             : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory");
    if (request.out != NULL) fclose(request.out);
    free(lines);
    free(names);
    TRY(status);
    c->changed = outcome.total;
    c->noted = outcome.total == 0;
    FAIL_IF(outcome.total == 0 && outcome.miscount[0] != '\0', err, STATUS_BAD_STATE,
            "nothing has failed, but the counts do not add up: %s", outcome.miscount);
    if (outcome.total == 0)
        fputs("nothing has failed", c->out);
    else
        fprintf(c->out, "%lld item%s go%s through again%s%s%s", (long long)outcome.total, outcome.total == 1 ? "" : "s",
                outcome.total == 1 ? "es" : "", request.stage != NULL ? ": " : "",
                request.stage != NULL ? request.stage : "",
                outcome.running ? "" : "; run the session again to make them");
    return STATUS_OK;
}

enum status control_redo(struct control *c, struct err *err) {
    struct redo_request request = {.out = c->out, .warnings = c->out};
    struct redo_outcome outcome = {0};
    const char **names = NULL;
    TRY(control_may_text(c, "stage", &request.stage, err));
    TRY(read_items(c, &names, &request.name_count, err));
    request.names = names;
    enum status status = redo_items(&c->session, &request, &outcome, err);
    free(names);
    TRY(status);
    c->changed = outcome.total;
    c->noted = outcome.total == 0;
    if (outcome.on_their_way > 0) fprintf(c->out, "%lld already on the way\n", (long long)outcome.on_their_way);
    if (outcome.failed > 0) fprintf(c->out, "%lld failed: retry sends them through again\n", (long long)outcome.failed);
    return STATUS_OK;
}

enum status control_mark(struct control *c, struct err *err) {
    const json_t *mark = json_object_get(c->body, "mark");
    const enum choice choice = choice_named(json_string_value(mark));
    struct mark_author author = {.peer = c->peer};
    struct mark_result result = {0};
    int64_t *numbers = NULL;
    size_t count = 0, lost = 0;
    FAIL_IF(choice == CHOICE_NONE && !json_is_null(mark), err, STATUS_BAD_ARGUMENT,
            "\"mark\" must be \"keep\", \"reject\" or null");
    TRY(control_may_text(c, "why", &author.why, err));
    TRY(control_numbers(c, "n", &numbers, &count, err));
    struct ledger_key *keys = calloc(count + 1, sizeof *keys);
    enum status status =
        keys != NULL ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for marks");
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        const struct view_row *row = NULL;
        status = find_row(c, numbers[i], &row, err);
        if (status == STATUS_OK) keys[i] = (struct ledger_key){row->source, row->id};
        if (status == STATUS_OK && choice == CHOICE_KEEP && row->state == LEDGER_REJECTED) lost++;
    }
    if (status == STATUS_OK) status = mark_items(&c->session, keys, count, choice, &author, &result, err);
    free(keys);
    free(numbers);
    TRY(status);
    static const char *const done[] = {
        [CHOICE_NONE] = "no longer marked", [CHOICE_KEEP] = "kept by hand", [CHOICE_REJECT] = "rejected by hand"};
    c->changed = (int64_t)result.changed;
    c->number = result.number;
    c->noted = true;
    if (result.number > 0)
        fprintf(c->out, "%zu exposure%s %s", result.changed, result.changed == 1 ? "" : "s", done[choice]);
    else
        fputs("nothing has changed", c->out);
    result.lost = lost;
    mark_write_lost(&result, c->out);
    return STATUS_OK;
}
