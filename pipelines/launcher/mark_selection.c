/* Copies a selection without what was rejected by hand since. */
#include <stdio.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "pipelines/launcher/mark.h"

enum { SELECTION_MAX = 1 << 30 };

/* Choices made by hand, and the stacks whose particles they reject. */
struct rejections {
    struct choices *choices;
    json_t *stacks; /* names of the stacks of rejected exposures, without their stage and ending, as keys */
};

static enum status name_stacks(struct rejections *r, bool separate, struct err *err) {
    json_t *marks = choices_marks(r->choices), *mark;
    size_t i;
    enum status status = STATUS_OK;
    r->stacks = json_object();
    if (marks == NULL || r->stacks == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for marks");
    json_array_foreach(marks, i, mark) {
        const char *id = json_string_value(json_object_get(mark, "id"));
        const char *source = json_string_value(json_object_get(mark, "source"));
        char stem[PATH_SIZE], name[PATH_SIZE];
        if (status != STATUS_OK || choice_named(json_string_value(json_object_get(mark, "mark"))) != CHOICE_REJECT)
            continue;
        status = path_stem(id, stem, sizeof stem, err);
        bool below = separate && source != NULL && *source != '\0';
        snprintf(name, sizeof name, "%s%s%s", below ? source : "", below ? "/" : "", stem);
        if (status == STATUS_OK) json_object_set_new(r->stacks, name, json_true());
    }
    json_decref(marks);
    return status;
}

/* Returns whether "000001@extractor/SOURCE/MIC.mrcs" is of a rejected exposure. */
static bool of_rejected(const struct rejections *r, const char *image) {
    char name[PATH_SIZE];
    const char *at = strchr(image, '@'), *below = at != NULL ? strchr(at, '/') : NULL;
    const char *end = below != NULL ? strrchr(below, '.') : NULL;
    if (end == NULL || json_object_size(r->stacks) == 0) return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - below - 1), below + 1);
    return json_object_get(r->stacks, name) != NULL;
}

static bool is_rejected(const struct rejections *r, const struct star_table *t, size_t row) {
    const char *image = star_get(t, row, star_column_find(t, "rlnImageName"));
    return of_rejected(r, image) ||
           choices_of_particle(r->choices, image, star_get(t, row, star_column_find(t, "rlnCoordinateX")),
                               star_get(t, row, star_column_find(t, "rlnCoordinateY"))) == CHOICE_REJECT;
}

static enum status copy_rows(const struct rejections *r, const struct star_table *from, struct star_table *to,
                             struct err *err) {
    for (size_t c = 0; c < star_column_count(from); c++)
        TRY(star_column_add(to, star_column_name(from, c), NULL, NULL, err));
    for (size_t row = 0; row < star_row_count(from); row++) {
        size_t added;
        if (r != NULL && is_rejected(r, from, row)) continue;
        TRY(star_row_add(to, &added, err));
        TRY(star_row_copy(from, row, to, added, err));
    }
    return STATUS_OK;
}

static enum status write_rest(const struct rejections *r, struct star_file *from, const char *to, struct err *err) {
    _cleanup_(star_destroy) struct star_file *rest = NULL;
    TRY(star_create(&rest, err));
    for (size_t i = 0; i < star_table_count(from); i++) {
        struct star_table *table = star_table_at(from, i), *copy;
        bool particles = strcmp(star_table_name(table), "particles") == 0;
        TRY(star_table_add(rest, star_table_name(table), true, &copy, err));
        TRY(copy_rows(particles ? r : NULL, table, copy, err));
    }
    return star_write(rest, to, err);
}

static enum status copy_file(const char *from, const char *to, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(from, SELECTION_MAX, &text, &length, err));
    return file_write_whole(to, text, length, err);
}

static enum status write_selection(const struct rejections *r, const char *from, const char *to, size_t *left_out,
                                   struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_read(from, &file, err));
    const struct star_table *particles = star_table_find(file, "particles");
    for (size_t row = 0; particles != NULL && row < star_row_count(particles); row++)
        *left_out += is_rejected(r, particles, row);
    return *left_out > 0 ? write_rest(r, file, to, err) : copy_file(from, to, err);
}

enum status mark_write_selection(const struct session *session, const char *stage, const char *from, const char *to,
                                 size_t *ret_left_out, struct err *err) {
    struct rejections r = {0};
    json_t *plan = NULL;
    size_t left_out = 0;
    TRY(session_read_plan(session, &plan, err));
    bool separate = json_is_true(json_object_get(plan, "separate"));
    json_decref(plan);
    TRY(choices_create(session->path, stage, &r.choices, err));
    enum status status = choices_poll(r.choices, NULL, err);
    if (status == STATUS_OK && choices_number(r.choices) == 0)
        status = copy_file(from, to, err);
    else if (status == STATUS_OK) {
        status = name_stacks(&r, separate, err);
        if (status == STATUS_OK) status = write_selection(&r, from, to, &left_out, err);
    }
    json_decref(r.stacks);
    choices_destroy(&r.choices);
    if (status == STATUS_OK) *ret_left_out = left_out;
    return status;
}
