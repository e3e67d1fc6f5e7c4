#include "stages/classifier/selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/selection_changes.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/classifier/snapshot_private.h"

void selection_clear(struct selection *s) {
    mem_free(&s->members);
    mem_free(&s->optics);
    *s = (struct selection){0};
}

static uint64_t add_text(uint64_t digest, const char *text) {
    return text_fnv(digest, text, strlen(text) + 1);
}

static uint64_t digest_columns(const struct star_table *t) {
    uint64_t digest = TEXT_FNV_BEGIN;
    for (size_t i = 0; i < star_column_count(t); i++)
        digest = add_text(digest, star_column_name(t, i));
    return digest;
}

static uint64_t digest_row(const struct star_table *t, size_t row) {
    uint64_t digest = digest_columns(t);
    for (size_t i = 0; i < star_column_count(t); i++)
        digest = add_text(digest, star_get(t, row, (int)i));
    return digest;
}

enum status selection_take(struct selection *s, const char *id, const struct selection_rows *rows, struct err *err) {
    const struct star_table *t = star_table_find(rows->file, "particles"),
                            *optics = star_table_find(rows->file, "optics");
    const int image = star_column_find(t, "rlnImageName");
    selection_clear(s);
    s->room = dataset_count(rows->dataset);
    s->optics_count = star_row_count(optics);
    TRY(mem_new(s->room + 1, sizeof *s->members, "a selection", &s->members, err));
    TRY(mem_new(s->optics_count + 1, sizeof *s->optics, "a selection", &s->optics, err));
    for (size_t i = 0; i < s->optics_count; i++)
        s->optics[i] = digest_row(optics, i);
    for (size_t row = 0; row < rows->count; row++) {
        s->members[rows->which[row]] = 1;
        s->digest += selection_digest(star_get(t, row, image));
    }
    s->columns = digest_columns(t);
    s->count = rows->count;
    snprintf(s->id, sizeof s->id, "%s", id);
    return STATUS_OK;
}

/* Returns whether rows that stay are the same in both tables, but for what the classification found: the numbers of optics
 * groups, and the columns. */
static bool rows_stay(const struct selection *s, const struct selection *since) {
    return s->columns == since->columns && s->optics_count >= since->optics_count &&
           memcmp(s->optics, since->optics, since->optics_count * sizeof *s->optics) == 0;
}

/* Lists the changes: rows of the whole table, and the names of particles that have left. */
struct difference {
    size_t *rows, row_count;
    char **names;
    size_t name_count;
};

static void difference_clear(struct difference *d) {
    for (size_t i = 0; i < d->name_count; i++)
        free(d->names[i]);
    mem_free(&d->names);
    mem_free(&d->rows);
}

static bool was_member(const struct selection *since, size_t index) {
    return index < since->room && since->members[index];
}

static enum status list_removed(const struct selection *s, const struct selection *since,
                                const struct selection_rows *rows, struct difference *d, struct err *err) {
    char name[SNAPSHOT_NAME];
    for (size_t i = 0; i < since->room; i++) {
        if (!since->members[i] || s->members[i]) continue;
        snapshot_image(rows->root, rows->dataset, i, name);
        d->names[d->name_count] = strdup(name);
        FAIL_IF(d->names[d->name_count] == NULL, err, STATUS_NO_MEMORY, "no memory for a name");
        d->name_count++;
    }
    return STATUS_OK;
}

static enum status write_difference(const struct selection *s, const struct selection *since,
                                    const struct selection_rows *rows, const struct difference *d, const char *path,
                                    char digest[DIGEST_SIZE], struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct selection_changes head = {
        .since_count = since->count, .count = s->count, .since_digest = since->digest, .digest = s->digest};
    snprintf(head.since, sizeof head.since, "%s", since->id);
    TRY(selection_changes_make(&head, rows->file, d->rows, d->row_count, (const char *const *)d->names, d->name_count,
                               &file, err));
    TRY(star_write(file, path, err));
    return digest_file(path, digest, NULL, err);
}

/* Lists which rows are new. A row of the same particle differs only in what the classification found. */
static enum status find_difference(const struct selection *s, const struct selection *since,
                                   const struct selection_rows *rows, size_t most, struct difference *d, bool *ret_few,
                                   struct err *err) {
    size_t stay = 0;
    TRY(mem_new_unset(rows->count + 1, sizeof *d->rows, "changes of a selection", &d->rows, err));
    for (size_t row = 0; row < rows->count; row++)
        if (was_member(since, rows->which[row]))
            stay++;
        else
            d->rows[d->row_count++] = row;
    const size_t removed = since->count - stay;
    *ret_few = d->row_count + removed <= most;
    if (!*ret_few) return STATUS_OK;
    TRY(mem_new(removed + 1, sizeof *d->names, "changes of a selection", &d->names, err));
    return list_removed(s, since, rows, d, err);
}

enum status selection_write_changes(struct selection *s, const struct selection *since,
                                    const struct selection_rows *rows, const char *path, char digest[DIGEST_SIZE],
                                    struct err *err) {
    struct difference d = {0};
    const size_t most = s->count / 2;
    bool few = false;
    *digest = '\0';
    s->told = 0;
    if (since->id[0] == '\0' || since->told > most || !rows_stay(s, since)) return STATUS_OK;
    enum status status = find_difference(s, since, rows, most - since->told, &d, &few, err);
    if (status == STATUS_OK && few) status = write_difference(s, since, rows, &d, path, digest, err);
    if (status == STATUS_OK && few) s->told = since->told + d.row_count + d.name_count;
    difference_clear(&d);
    return status;
}
