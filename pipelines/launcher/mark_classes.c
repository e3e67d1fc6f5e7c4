/* Choices of classes: names the particles that classes have in one snapshot, and binds them. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/formats/star.h"
#include "common/memory.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/mark.h"

enum { CLASSES_MAX = 1001, SHOWN = 3 };

enum status mark_stage(const struct session *session, const json_t *plan, const char *name, const char **ret_stage,
                       struct err *err) {
    size_t i, count = 0;
    json_t *stage;
    const char *found = NULL;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        const char *kind = json_string_value(json_object_get(stage, "kind"));
        const char *own = json_string_value(json_object_get(stage, "name"));
        if (own == NULL || kind == NULL || strcmp(kind, "classifier") != 0) continue;
        if (name != NULL && strcmp(own, name) != 0) continue;
        found = own;
        count++;
    }
    FAIL_IF(count == 0 && name != NULL, err, STATUS_BAD_ARGUMENT, "%s has no classifier %s", session->path, name);
    FAIL_IF(count == 0, err, STATUS_BAD_ARGUMENT, "%s has no classifier, so there are no classes to choose",
            session->path);
    FAIL_IF(count > 1, err, STATUS_BAD_ARGUMENT, "%s has %zu classifiers; name one with --stage", session->path, count);
    *ret_stage = found;
    return STATUS_OK;
}

/* Says which snapshots are there. */
static enum status fail_missing(const struct session *session, const char *stage, int iteration, struct err *err) {
    char folder[PATH_SIZE], shown[96] = "";
    TRY(path_join(session->path, stage, folder, sizeof folder, err));
    int at = INT_MAX, last[SHOWN], count = 0;
    while (count < SHOWN && (at = file_last_number(folder, "run_it", "_model.star", at)) > 0)
        last[count++] = at;
    for (int i = count; i > 0; i--) {
        size_t length = strlen(shown);
        snprintf(shown + length, sizeof shown - length, "%s%d", length > 0 ? ", " : "", last[i - 1]);
    }
    FAIL_IF(count == 0, err, STATUS_NOT_FOUND, "%s: %s has no snapshot yet", session->path, stage);
    FAIL(err, STATUS_NOT_FOUND,
         "%s: there is no snapshot of iteration %d of %s; there are %s. A classifier keeps its last %d", session->path,
         iteration, stage, shown, SHOWN);
}

static enum status read_snapshot(const struct session *session, const char *stage, int iteration, const char *part,
                                 struct star_file **ret_file, struct err *err) {
    char name[64], folder[PATH_SIZE], path[PATH_SIZE];
    snprintf(name, sizeof name, "run_it%03d_%s.star", iteration, part);
    TRY(path_join(session->path, stage, folder, sizeof folder, err));
    TRY(path_join(folder, name, path, sizeof path, err));
    if (!file_exists(path)) {
        char model[PATH_SIZE];
        snprintf(name, sizeof name, "run_it%03d_model.star", iteration);
        TRY(path_join(folder, name, model, sizeof model, err));
        FAIL_IF(file_exists(model), err, STATUS_NOT_FOUND, "%s is missing, so the members of the classes are not known",
                path);
        return fail_missing(session, stage, iteration, err);
    }
    return star_read(path, ret_file, err);
}

enum status mark_class_count(const struct session *session, const char *stage, int iteration, int *ret_count,
                             struct err *err) {
    _cleanup_(star_destroy) struct star_file *model = NULL;
    TRY(read_snapshot(session, stage, iteration, "model", &model, err));
    const struct star_table *classes = star_table_find(model, "model_classes");
    size_t count = classes != NULL ? star_row_count(classes) : 0;
    FAIL_IF(count == 0 || count > CLASSES_MAX, err, STATUS_BAD_FORMAT,
            "%s: the model of iteration %d of %s has no table of classes", session->path, iteration, stage);
    *ret_count = (int)count;
    return STATUS_OK;
}

static enum status check_groups(const struct session *session, const char *stage, int iteration,
                                const struct mark_group *groups, size_t group_count,
                                enum choice chosen[CLASSES_MAX + 1], struct err *err) {
    int classes;
    TRY(mark_class_count(session, stage, iteration, &classes, err));
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            int k = groups[g].classes[i];
            FAIL_IF(k < 1 || k > classes, err, STATUS_BAD_ARGUMENT,
                    "iteration %d of %s has no class %d; its classes are 1 to %d", iteration, stage, k, classes);
            FAIL_IF(chosen[k] != CHOICE_NONE && chosen[k] != groups[g].choice, err, STATUS_BAD_ARGUMENT,
                    "class %d is both kept and rejected; name it once", k);
            chosen[k] = groups[g].choice;
        }
    return STATUS_OK;
}

enum { COLUMNS = 4 };
static const char *const COLUMN_NAMES[COLUMNS] = {"rlnImageName", "rlnClassNumber", "rlnCoordinateX", "rlnCoordinateY"};

/* Copies the members of chosen classes; members[k] counts those of class k. */
static enum status copy_members(struct star_table *from, const enum choice chosen[CLASSES_MAX + 1],
                                struct star_table *to, size_t members[CLASSES_MAX + 1], struct err *err) {
    int source[COLUMNS], target[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        source[c] = star_column_find(from, COLUMN_NAMES[c]);
        if (c < 2) TRY(star_column_need(from, COLUMN_NAMES[c], &source[c], err));
        if (source[c] >= 0) TRY(star_column_add(to, COLUMN_NAMES[c], NULL, &target[c], err));
    }
    for (size_t row = 0; row < star_row_count(from); row++) {
        long k;
        size_t added;
        TRY(star_get_integer(from, row, source[1], &k, err));
        if (k < 1 || k > CLASSES_MAX || chosen[k] == CHOICE_NONE) continue;
        TRY(star_row_add(to, &added, err));
        for (int c = 0; c < COLUMNS; c++)
            if (source[c] >= 0) TRY(star_set(to, added, target[c], star_get(from, row, source[c]), err));
        members[k]++;
    }
    return STATUS_OK;
}

static enum status write_members(const struct session *session, const char *stage, int iteration,
                                 const enum choice chosen[CLASSES_MAX + 1], const char *name,
                                 size_t members[CLASSES_MAX + 1], struct err *err) {
    _cleanup_(star_destroy) struct star_file *data = NULL, *file = NULL;
    struct star_table *table;
    char path[PATH_SIZE];
    TRY(read_snapshot(session, stage, iteration, "data", &data, err));
    struct star_table *from = star_table_find(data, "particles");
    FAIL_IF(from == NULL, err, STATUS_BAD_FORMAT, "%s: iteration %d of %s has no table of particles", session->path,
            iteration, stage);
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "particles", true, &table, err));
    TRY(copy_members(from, chosen, table, members, err));
    TRY(path_join(session->path, name, path, sizeof path, err));
    return star_write(file, path, err);
}

/* Returns {"stage", "iteration", "classes", "choice", "particles"}. */
static json_t *entry_of(const char *stage, int iteration, const int *classes, size_t count, const char *choice,
                        const size_t *members) {
    json_t *list = json_array();
    size_t particles = 0;
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_integer(classes[i]));
        if (members != NULL) particles += members[classes[i]];
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:I}", "stage", stage, "iteration", iteration, "classes", list, "choice",
                     choice != NULL ? json_string(choice) : json_null(), "particles", (json_int_t)particles);
}

static enum status write_choice(const struct session *session, json_t *entries, const char *members,
                                const struct mark_author *author, int *ret_number, struct err *err) {
    json_t *change = json_pack("{s:s, s:o}", "by", "mark", "choices", entries);
    if (change != NULL && members != NULL) json_object_set_new(change, "members", json_string(members));
    if (change != NULL && author->why != NULL) json_object_set_new(change, "why", json_string(author->why));
    if (change != NULL && author->peer != NULL) json_object_set_new(change, "peer", json_string(author->peer));
    FAIL_IF(change == NULL, err, STATUS_NO_MEMORY, "no memory for a choice of classes");
    enum status status = changes_write(session, change, ret_number, err);
    json_decref(change);
    return status;
}

/* Needs the lock. The members come first: without their change they count for nothing, and the next change writes over
 * them. */
static enum status choose_held(const struct session *session, const char *stage, int iteration,
                               const struct mark_group *groups, size_t group_count, const struct mark_author *author,
                               struct mark_result *ret_result, struct err *err) {
    enum choice chosen[CLASSES_MAX + 1] = {CHOICE_NONE};
    size_t members[CLASSES_MAX + 1] = {0};
    struct mark_result result = {0};
    char name[32];
    int next;
    TRY(check_groups(session, stage, iteration, groups, group_count, chosen, err));
    TRY(changes_next(session, &next, err));
    snprintf(name, sizeof name, "changes/%04d.star", next);
    TRY(write_members(session, stage, iteration, chosen, name, members, err));
    json_t *entries = json_array();
    for (size_t g = 0; g < group_count; g++)
        if (groups[g].count > 0)
            json_array_append_new(entries, entry_of(stage, iteration, groups[g].classes, groups[g].count,
                                                    choice_name(groups[g].choice), members));
    for (int k = 1; k <= CLASSES_MAX; k++) {
        result.changed += chosen[k] != CHOICE_NONE;
        result.particles += members[k];
    }
    TRY(write_choice(session, entries, name, author, &result.number, err));
    *ret_result = result;
    return STATUS_OK;
}

enum status mark_classes(const struct session *session, const char *stage, int iteration,
                         const struct mark_group *groups, size_t group_count, const struct mark_author *author,
                         struct mark_result *ret_result, struct err *err) {
    int lock;
    FAIL_IF(author->why != NULL && !item_text_fits(author->why), err, STATUS_BAD_ARGUMENT,
            "the reason is not valid UTF-8; write it in UTF-8");
    TRY(changes_hold(session, &lock, err));
    enum status status = choose_held(session, stage, iteration, groups, group_count, author, ret_result, err);
    close(lock);
    return status;
}

static void set_classes(const json_t *classes, bool value, bool standing[CLASSES_MAX + 1]) {
    size_t i;
    json_t *number;
    json_array_foreach(classes, i, number) {
        json_int_t k = json_integer_value(number);
        if (k >= 1 && k <= CLASSES_MAX) standing[k] = value;
    }
    if (!value && json_array_size(classes) == 0) memset(standing, 0, CLASSES_MAX + 1);
}

/* Finds the classes of a snapshot for which a choice stands. */
static void find_standing(const json_t *changes, const char *stage, int iteration, bool standing[CLASSES_MAX + 1]) {
    size_t i, n;
    json_t *change, *entry;
    memset(standing, 0, CLASSES_MAX + 1);
    json_array_foreach(changes, i, change) {
        if (json_is_true(json_object_get(change, "whole"))) memset(standing, 0, CLASSES_MAX + 1);
        json_array_foreach(json_object_get(change, "choices"), n, entry) {
            const char *name = json_string_value(json_object_get(entry, "stage"));
            if (name != NULL && strcmp(name, stage) == 0 &&
                json_integer_value(json_object_get(entry, "iteration")) == iteration)
                set_classes(json_object_get(entry, "classes"), !json_is_null(json_object_get(entry, "choice")),
                            standing);
        }
    }
}

static enum status undo_held(const struct session *session, const char *stage, int iteration, const int *classes,
                             size_t count, const struct mark_author *author, struct mark_result *ret_result,
                             struct err *err) {
    bool standing[CLASSES_MAX + 1], wanted[CLASSES_MAX + 1] = {false};
    int undone[CLASSES_MAX + 1];
    struct mark_result result = {0};
    json_t *changes = NULL;
    TRY(changes_read(session, &changes, err));
    find_standing(changes, stage, iteration, standing);
    json_decref(changes);
    for (size_t i = 0; i < count; i++)
        if (classes[i] >= 1 && classes[i] <= CLASSES_MAX) wanted[classes[i]] = true;
    for (int k = 1; k <= CLASSES_MAX; k++)
        if (standing[k] && (count == 0 || wanted[k])) undone[result.changed++] = k;
    if (result.changed > 0) {
        json_t *entries = json_array();
        json_array_append_new(entries, entry_of(stage, iteration, undone, result.changed, NULL, NULL));
        TRY(write_choice(session, entries, NULL, author, &result.number, err));
    }
    *ret_result = result;
    return STATUS_OK;
}

enum status mark_classes_undo(const struct session *session, const char *stage, int iteration, const int *classes,
                              size_t count, const struct mark_author *author, struct mark_result *ret_result,
                              struct err *err) {
    int lock;
    TRY(changes_hold(session, &lock, err));
    enum status status = undo_held(session, stage, iteration, classes, count, author, ret_result, err);
    close(lock);
    return status;
}
