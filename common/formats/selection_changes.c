#include "common/formats/selection_changes.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/digest.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

static const char BLOCK[] = "changes";

uint64_t selection_digest(const char *name) {
    return digest_memory(name, strlen(name)).low;
}

static enum status put_head(const struct selection_changes *c, struct star_file *file, struct err *err) {
    struct star_table *t;
    char since_digest[32], digest[32];
    snprintf(since_digest, sizeof since_digest, "%016" PRIx64, c->since_digest);
    snprintf(digest, sizeof digest, "%016" PRIx64, c->digest);
    const struct star_cell cells[] = {
        {.column = "icestreamSince", .text = c->since},
        {.column = "icestreamSinceParticles", .value = (double)c->since_count, .integer = true},
        {.column = "icestreamSinceDigest", .text = since_digest},
        {.column = "icestreamParticles", .value = (double)c->count, .integer = true},
        {.column = "icestreamDigest", .text = digest},
    };
    TRY(star_table_add(file, BLOCK, false, &t, err));
    return star_cells_put(t, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status add_columns(const struct star_table *from, struct star_table *to, struct err *err) {
    for (size_t i = 0; i < star_column_count(from); i++)
        TRY(star_column_add(to, star_column_name(from, i), NULL, NULL, err));
    return STATUS_OK;
}

/* Both tables have the same columns. */
static enum status copy_row(const struct star_table *from, size_t row, struct star_table *to, struct err *err) {
    size_t added;
    TRY(star_row_add(to, &added, err));
    for (size_t i = 0; i < star_column_count(from); i++)
        TRY(star_set(to, added, (int)i, star_get(from, row, (int)i), err));
    return STATUS_OK;
}

static enum status put_optics(struct star_file *whole, struct star_file *file, struct err *err) {
    const struct star_table *from = star_table_find(whole, "optics");
    struct star_table *to;
    if (from == NULL) return STATUS_OK;
    TRY(star_table_add(file, "optics", true, &to, err));
    TRY(add_columns(from, to, err));
    for (size_t row = 0; row < star_row_count(from); row++)
        TRY(copy_row(from, row, to, err));
    return STATUS_OK;
}

static enum status put_rows(struct star_file *whole, const size_t *rows, size_t count, struct star_file *file,
                            struct err *err) {
    const struct star_table *from = star_table_find(whole, "particles");
    struct star_table *to, *places;
    FAIL_IF(from == NULL, err, STATUS_BAD_FORMAT, "a selection without data_particles has no changes");
    TRY(star_table_add(file, "particles", true, &to, err));
    TRY(add_columns(from, to, err));
    TRY(star_table_add(file, SELECTION_ROWS, true, &places, err));
    TRY(star_column_add(places, SELECTION_ROW, NULL, NULL, err));
    for (size_t i = 0; i < count; i++) {
        size_t row;
        TRY(copy_row(from, rows[i], to, err));
        TRY(star_row_add(places, &row, err));
        TRY(star_set_integer(places, row, 0, (long)rows[i] + 1, err));
    }
    return STATUS_OK;
}

static enum status put_removed(const char *const *removed, size_t count, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, SELECTION_REMOVED, true, &t, err));
    TRY(star_column_add(t, SELECTION_REMOVED_NAME, NULL, NULL, err));
    for (size_t i = 0; i < count; i++) {
        size_t row;
        TRY(star_row_add(t, &row, err));
        TRY(star_set(t, row, 0, removed[i], err));
    }
    return STATUS_OK;
}

enum status selection_changes_make(const struct selection_changes *changes, struct star_file *whole, const size_t *rows,
                                   size_t row_count, const char *const *removed, size_t removed_count,
                                   struct star_file **ret_file, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_create(&file, err));
    TRY(put_head(changes, file, err));
    TRY(put_optics(whole, file, err));
    TRY(put_rows(whole, rows, row_count, file, err));
    TRY(put_removed(removed, removed_count, file, err));
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

static enum status read_count(const struct star_table *t, const char *column, size_t *ret_count, struct err *err) {
    double count;
    TRY(star_need_number(t, 0, column, 0, INT_MAX, &count, err));
    *ret_count = (size_t)count;
    return STATUS_OK;
}

static enum status read_digest(const struct star_table *t, const char *path, const char *name, uint64_t *ret_digest,
                               struct err *err) {
    int column, used = 0;
    TRY(star_column_need(t, name, &column, err));
    const char *text = star_get(t, 0, column);
    bool digits = strspn(text, "0123456789abcdef") == 16 && text[16] == '\0';
    FAIL_IF(!digits || sscanf(text, "%16" SCNx64 "%n", ret_digest, &used) != 1 || used != 16, err, STATUS_BAD_FORMAT,
            "%s: %s is \"%.40s\"; 16 hexadecimal digits were expected", path, name, text);
    return STATUS_OK;
}

enum status selection_changes_read(struct star_file *file, const char *path, struct selection_changes *ret_changes,
                                   struct err *err) {
    struct selection_changes c = {0};
    int column;
    const struct star_table *t = star_table_find(file, BLOCK);
    FAIL_IF(t == NULL || star_row_count(t) == 0, err, STATUS_BAD_FORMAT, "%s: data_%s was expected", path, BLOCK);
    TRY(star_column_need(t, "icestreamSince", &column, err));
    const char *since = star_get(t, 0, column);
    FAIL_IF(strlen(since) >= sizeof c.since, err, STATUS_BAD_FORMAT, "%s: icestreamSince is \"%.80s\", too long", path,
            since);
    snprintf(c.since, sizeof c.since, "%s", since);
    TRY(read_count(t, "icestreamSinceParticles", &c.since_count, err));
    TRY(read_count(t, "icestreamParticles", &c.count, err));
    TRY(read_digest(t, path, "icestreamSinceDigest", &c.since_digest, err));
    TRY(read_digest(t, path, "icestreamDigest", &c.digest, err));
    *ret_changes = c;
    return STATUS_OK;
}
