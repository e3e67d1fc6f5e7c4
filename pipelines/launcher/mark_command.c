/* `icestream mark`: keeps or rejects exposures, or the particles of classes, by hand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/tally.h"

enum { CLASSES_MAX = 1001 };

static enum status read_options(const struct options *options, enum choice *ret_choice, struct err *err) {
    FAIL_IF(options->keep + options->reject + options->clear != 1, err, STATUS_BAD_ARGUMENT,
            "give one of --keep, --reject and --clear");
    FAIL_IF(options->classes != NULL && options->iteration == 0, err, STATUS_BAD_ARGUMENT,
            "--classes needs --iteration N, the snapshot that numbers them (classifier/run_itNNN_classes.png)");
    FAIL_IF(options->iteration > 0 && options->word_count > 0, err, STATUS_BAD_ARGUMENT,
            "'%s': name exposures, or classes with --iteration, and not both", options->words[0]);
    FAIL_IF(options->iteration > 0 && options->classes == NULL && !options->clear, err, STATUS_BAD_ARGUMENT,
            "--iteration %d needs --classes N,…, the classes that are kept or rejected", options->iteration);
    FAIL_IF(options->iteration == 0 && options->word_count == 0, err, STATUS_BAD_ARGUMENT,
            "name the exposures as `icestream status --json` does, or classes with --iteration N --classes N,…");
    FAIL_IF(options->stage != NULL && options->iteration == 0, err, STATUS_BAD_ARGUMENT,
            "--stage %s is for classes: give --iteration N --classes N,… too", options->stage);
    *ret_choice = options->keep ? CHOICE_KEEP : options->reject ? CHOICE_REJECT : CHOICE_NONE;
    return STATUS_OK;
}

static enum status read_classes(const char *text, int classes[CLASSES_MAX], size_t *ret_count, struct err *err) {
    size_t count = 0;
    for (const char *at = text; at != NULL;) {
        char *end;
        errno = 0;
        long number = strtol(at, &end, 10);
        FAIL_IF(end == at || errno != 0 || number < 1 || number > CLASSES_MAX || (*end != ',' && *end != '\0') ||
                    count == CLASSES_MAX,
                err, STATUS_BAD_ARGUMENT, "--classes is '%s'; it must be numbers of classes from 1, as in 1,3,5", text);
        classes[count++] = (int)number;
        at = *end == ',' ? end + 1 : NULL;
    }
    *ret_count = count;
    return STATUS_OK;
}

/* Only what a source found can be marked: not what a cumulative stage made of many. */
static bool is_exposure(const json_t *plan, const char *source) {
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        const char *name = json_string_value(json_object_get(stage, "name"));
        if (name != NULL && strcmp(name, source) == 0) return json_array_size(json_object_get(stage, "from")) == 0;
    }
    return true; /* of an earlier version, which named no sources */
}

/* Counts the chosen exposures that a stage has rejected. */
static size_t count_rejected(const struct tally *tally, const struct tally_choice *chosen) {
    size_t count = 0;
    for (size_t s = 0; s < tally->count; s++)
        for (size_t i = 0; i < tally->stages[s].item_count; i++) {
            const struct tally_item *item = &tally->stages[s].items[i];
            count += item->own && item->state == LEDGER_REJECTED && tally_is_chosen(chosen, tally_key(item));
        }
    return count;
}

static enum status mark_words(const struct options *options, const struct session *session, const json_t *plan,
                              enum choice choice, struct mark_result *ret_result, struct err *err) {
    const struct mark_author author = {.why = options->why};
    struct tally tally = {0};
    struct tally_choice chosen = {0};
    struct ledger_key *keys = calloc(options->word_count, sizeof *keys);
    FAIL_IF(keys == NULL, err, STATUS_NO_MEMORY, "no memory for the names of items");
    enum status status = tally_take(session, plan, TALLY_ITEMS, &tally, err);
    if (status == STATUS_OK) status = tally_choose(&tally, options->words, options->word_count, &chosen, err);
    for (size_t i = 0; status == STATUS_OK && i < chosen.count; i++) {
        if (chosen.items[i] == NULL)
            status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s: no stage of %s has seen such an item",
                             options->words[i], session->path);
        else if (!is_exposure(plan, chosen.items[i]->source))
            status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                             "%s: %s made this of many items; mark exposures, or choose classes", options->words[i],
                             chosen.items[i]->source);
        else
            keys[i] = tally_key(chosen.items[i]);
    }
    if (status == STATUS_OK) status = mark_items(session, keys, chosen.count, choice, &author, ret_result, err);
    if (status == STATUS_OK && choice == CHOICE_KEEP) ret_result->lost = count_rejected(&tally, &chosen);
    tally_choice_clear(&chosen);
    tally_clear(&tally);
    free(keys);
    return status;
}

static enum status mark_numbers(const struct options *options, const struct session *session, const json_t *plan,
                                enum choice choice, struct mark_result *ret_result, struct err *err) {
    const struct mark_author author = {.why = options->why};
    int classes[CLASSES_MAX];
    size_t count = 0;
    const char *stage;
    TRY(read_classes(options->classes, classes, &count, err));
    TRY(mark_stage(session, plan, options->stage, &stage, err));
    if (choice == CHOICE_NONE)
        return mark_classes_undo(session, stage, options->iteration, classes, count, &author, ret_result, err);
    const struct mark_group group = {classes, count, choice};
    return mark_classes(session, stage, options->iteration, &group, 1, &author, ret_result, err);
}

static bool has_classifier(const json_t *plan) {
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        const char *kind = json_string_value(json_object_get(stage, "kind"));
        if (kind != NULL && strcmp(kind, "classifier") == 0) return true;
    }
    return false;
}

static void report(const struct options *options, const struct session *session, const json_t *plan, enum choice choice,
                   const struct mark_result *result) {
    const char *what = options->iteration > 0 ? "class" : "exposure", *plural = options->iteration > 0 ? "es" : "s";
    static const char *const done[] = {
        [CHOICE_NONE] = "no longer marked", [CHOICE_KEEP] = "kept by hand", [CHOICE_REJECT] = "rejected by hand"};
    if (result->number == 0) {
        fputs(choice == CHOICE_NONE ? "nothing has changed: no such mark stands"
                                    : "nothing has changed: they are marked so already",
              stdout);
        mark_write_lost(result, stdout);
        putchar('\n');
        return;
    }
    printf("change %d: %zu %s%s %s", result->number, result->changed, what, result->changed == 1 ? "" : plural,
           done[choice]);
    if (result->particles > 0) printf(", with %zu particle%s", result->particles, result->particles == 1 ? "" : "s");
    mark_write_lost(result, stdout);
    if (!has_classifier(plan))
        puts("\nthis session has no classifier, so no stage leaves out or keeps anything for it; `status` shows it");
    else
        puts(session_is_running(session) ? "\nthe next selection of particles obeys it"
                                         : "\nthe next run of the session obeys it in its selection of particles");
}

int command_mark(const struct options *options) {
    struct err err = {0};
    struct session session = {0};
    struct mark_result result = {0};
    json_t *plan = NULL;
    enum choice choice = CHOICE_NONE;
    enum status status = read_options(options, &choice, &err);
    if (status == STATUS_OK) status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = session_read_plan(&session, &plan, &err);
    if (status == STATUS_OK)
        status = options->iteration > 0 ? mark_numbers(options, &session, plan, choice, &result, &err)
                                        : mark_words(options, &session, plan, choice, &result, &err);
    if (status == STATUS_OK) report(options, &session, plan, choice, &result);
    json_decref(plan);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    bool wrong = status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT || status == STATUS_BAD_FORMAT;
    return wrong ? EXIT_USAGE : EXIT_ERROR;
}
