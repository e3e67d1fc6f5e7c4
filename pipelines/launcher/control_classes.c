/* Classes that the page keeps or rejects. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/control_private.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/view/view.h"

enum { CLASSES_MAX = 1001 };

struct classes {
    int numbers[CLASSES_MAX];
    size_t count;
};

static enum status read_classes(const struct control *c, const char *key, struct classes *classes, struct err *err) {
    int64_t *numbers = NULL;
    size_t count = 0;
    if (json_object_get(c->body, key) == NULL) return STATUS_OK;
    TRY(control_numbers(c, key, &numbers, &count, err));
    enum status status = STATUS_OK;
    if (count > CLASSES_MAX)
        status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__, "\"%s\" names %zu classes; there are %d at most",
                         key, count, CLASSES_MAX);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        classes->numbers[classes->count++] = numbers[i] > INT_MAX ? INT_MAX : (int)numbers[i];
    free(numbers);
    return status;
}

static void add_others(const struct classes *keep, int all, struct classes *others) {
    for (int k = 1; k <= all; k++) {
        bool named = false;
        for (size_t i = 0; i < keep->count; i++)
            named = named || keep->numbers[i] == k;
        if (!named) others->numbers[others->count++] = k;
    }
}

static enum status choose(struct control *c, const char *stage, int iteration, const struct mark_author *author,
                          struct mark_result *result, struct err *err) {
    struct classes keep = {0}, reject = {0};
    int all;
    TRY(read_classes(c, "keep", &keep, err));
    TRY(read_classes(c, "reject", &reject, err));
    if (json_object_get(c->body, "reject") == NULL) {
        TRY(mark_class_count(&c->session, stage, iteration, &all, err));
        add_others(&keep, all, &reject);
    }
    FAIL_IF(keep.count + reject.count == 0, err, STATUS_BAD_ARGUMENT, "name the classes to keep or to reject");
    const struct mark_group groups[] = {{keep.numbers, keep.count, CHOICE_KEEP},
                                        {reject.numbers, reject.count, CHOICE_REJECT}};
    TRY(mark_classes(&c->session, stage, iteration, groups, 2, author, result, err));
    fprintf(c->out, "iteration %d: %zu class%s kept and %zu rejected by hand, with %zu particles", iteration,
            keep.count, keep.count == 1 ? "" : "es", reject.count, result->particles);
    return STATUS_OK;
}

static enum status undo(struct control *c, const char *stage, int iteration, const struct mark_author *author,
                        struct mark_result *result, struct err *err) {
    TRY(mark_classes_undo(&c->session, stage, iteration, NULL, 0, author, result, err));
    if (result->number > 0)
        fprintf(c->out, "the choice of iteration %d is taken back", iteration);
    else
        fputs("nothing has changed: no choice of this iteration stands", c->out);
    return STATUS_OK;
}

enum status control_classes(struct control *c, struct err *err) {
    const json_t *iteration = json_object_get(c->body, "iteration"), *keep = json_object_get(c->body, "keep");
    struct mark_author author = {.peer = c->peer};
    struct mark_result result = {0};
    const char *name, *stage;
    FAIL_IF(!json_is_integer(iteration) || json_integer_value(iteration) < 1 || json_integer_value(iteration) > INT_MAX,
            err, STATUS_BAD_ARGUMENT, "\"iteration\" must be the number of a snapshot");
    FAIL_IF(keep == NULL && json_object_get(c->body, "reject") == NULL, err, STATUS_BAD_ARGUMENT,
            "\"keep\" is missing; it must be a list of classes, or null to take a choice back");
    TRY(control_may_text(c, "stage", &name, err));
    TRY(control_may_text(c, "why", &author.why, err));
    TRY(mark_stage(&c->session, view_plan(c->serve->view), name, &stage, err));
    int number = (int)json_integer_value(iteration);
    TRY(json_is_null(keep) ? undo(c, stage, number, &author, &result, err)
                           : choose(c, stage, number, &author, &result, err));
    c->changed = (int64_t)result.changed;
    c->number = result.number;
    c->noted = true;
    return STATUS_OK;
}
