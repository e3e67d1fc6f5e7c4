#include "common/formats/star.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/formats/star_private.h"
#include "common/memory.h"
#include "common/text.h"

struct star_chunk {
    struct star_chunk *next;
    size_t used, size;
    char bytes[];
};

/* No program writes nearly as many columns. Each new column is compared with all before it. */
enum { CHUNK_BYTES = 1 << 16, MOST_COLUMNS = 4096 };
static const char EMPTY[] = "";

/* ---- memory ---- */

enum status star_keep(struct star_file *file, const char *text, size_t length, char **ret_copy, struct err *err) {
    struct star_chunk *chunk = file->chunks;
    if (chunk == NULL || chunk->size - chunk->used <= length) {
        size_t size = length < CHUNK_BYTES ? CHUNK_BYTES : length + 1;
        FAIL_IF(length > SIZE_MAX / 2 || (chunk = malloc(sizeof *chunk + size)) == NULL, err, STATUS_NO_MEMORY,
                "%s: no memory for its values", file->path);
        *chunk = (struct star_chunk){.next = file->chunks, .size = size};
        file->chunks = chunk;
    }
    char *copy = chunk->bytes + chunk->used;
    memcpy(copy, text, length);
    copy[length] = '\0';
    chunk->used += length + 1;
    *ret_copy = copy;
    return STATUS_OK;
}

/* Doubles an array of items of `size` bytes. */
static enum status grow(void *address_of_array, size_t *capacity, size_t first, size_t size, const char *path,
                        struct err *err) {
    void *old;
    memcpy(&old, address_of_array, sizeof old);
    size_t count = *capacity == 0 ? first : 2 * *capacity;
    void *grown = count > SIZE_MAX / 2 / size ? NULL : realloc(old, count * size);
    FAIL_IF(grown == NULL, err, STATUS_NO_MEMORY, "%s: no memory for its table", path);
    memcpy(address_of_array, &grown, sizeof grown);
    *capacity = count;
    return STATUS_OK;
}

enum status star_create(struct star_file **ret_file, struct err *err) {
    struct star_file *file = calloc(1, sizeof *file);
    char *path = strdup("new STAR file");
    if (file == NULL || path == NULL) {
        free(file);
        free(path);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a STAR file");
    }
    file->path = path;
    *ret_file = file;
    return STATUS_OK;
}

void star_destroy(struct star_file **file) {
    if (file == NULL || *file == NULL) return;
    struct star_file *f = *file;
    for (size_t i = 0; i < f->table_count; i++) {
        free(f->tables[i]->columns);
        free(f->tables[i]->cells);
        free(f->tables[i]);
    }
    for (struct star_chunk *chunk = f->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(f->tables);
    free(f->text);
    free(f->path);
    mem_free(file);
}

/* ---- tables ---- */

size_t star_table_count(const struct star_file *file) {
    return file->table_count;
}

struct star_table *star_table_at(struct star_file *file, size_t index) {
    return file->tables[index];
}

struct star_table *star_table_find(struct star_file *file, const char *name) {
    for (size_t i = 0; i < file->table_count; i++)
        if (strcmp(file->tables[i]->name, name) == 0) return file->tables[i];
    return NULL;
}

enum status star_table_append(struct star_file *file, const char *name, struct star_table **ret_table,
                              struct err *err) {
    if (file->table_count == file->table_capacity)
        TRY(grow(&file->tables, &file->table_capacity, 4, sizeof(struct star_table *), file->path, err));
    struct star_table *table = calloc(1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "%s: no memory for table data_%s", file->path, name);
    table->file = file;
    table->name = name;
    table->row_count = 1;
    file->tables[file->table_count++] = table;
    *ret_table = table;
    return STATUS_OK;
}

static bool is_word(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ') return false;
    return true;
}

bool star_is_keyword(const char *text) {
    return strncasecmp(text, "data_", 5) == 0 || strcasecmp(text, "loop_") == 0 || strncasecmp(text, "save_", 5) == 0 ||
           strcasecmp(text, "stop_") == 0 || strcasecmp(text, "global_") == 0;
}

enum status star_table_add(struct star_file *file, const char *name, bool is_loop, struct star_table **ret_table,
                           struct err *err) {
    FAIL_IF(!is_word(name), err, STATUS_BAD_ARGUMENT, "\"%s\" cannot name a STAR table: it holds a space", name);
    char *copy = NULL;
    TRY(star_keep(file, name, strlen(name), &copy, err));
    struct star_table *table = NULL;
    TRY(star_table_append(file, copy, &table, err));
    table->is_loop = is_loop;
    table->row_count = is_loop ? 0 : 1;
    *ret_table = table;
    return STATUS_OK;
}

const char *star_table_name(const struct star_table *table) {
    return table->name;
}

bool star_table_is_loop(const struct star_table *table) {
    return table->is_loop;
}

size_t star_row_count(const struct star_table *table) {
    return table->row_count;
}

size_t star_column_count(const struct star_table *table) {
    return table->column_count;
}

const char *star_column_name(const struct star_table *table, size_t column) {
    return table->columns[column].name;
}

int star_column_find(const struct star_table *table, const char *name) {
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0) return (int)i;
    return -1;
}

enum status star_column_need(const struct star_table *table, const char *name, int *ret_column, struct err *err) {
    int column = star_column_find(table, name);
    if (column >= 0) {
        *ret_column = column;
        return STATUS_OK;
    }
    _cleanup_(mem_free) const char **names = calloc(table->column_count + 1, sizeof *names);
    const char *nearest = NULL;
    for (size_t i = 0; names != NULL && i < table->column_count; i++)
        names[i] = table->columns[i].name;
    if (names != NULL) nearest = text_nearest(name, names, table->column_count);
    FAIL(err, STATUS_NOT_FOUND, "%s: table data_%s has no column %s%s%.100s", table->file->path, table->name, name,
         nearest != NULL ? "; the nearest that it has is " : "", nearest != NULL ? nearest : "");
}

/* Makes room for one more column or row; moves the rows when the stride changes. */
static enum status grow_columns(struct star_table *table, struct err *err) {
    size_t stride = table->column_capacity, wider = stride;
    TRY(grow(&table->columns, &wider, 8, sizeof *table->columns, table->file->path, err));
    if (table->row_capacity > 0) {
        const char **cells = wider > SIZE_MAX / 2 / sizeof *cells / table->row_capacity
                                 ? NULL
                                 : realloc(table->cells, table->row_capacity * wider * sizeof *cells);
        FAIL_IF(cells == NULL, err, STATUS_NO_MEMORY, "%s: no memory for its table", table->file->path);
        table->cells = cells;
        for (size_t row = table->row_count; row-- > 1;)
            memmove(cells + row * wider, cells + row * stride, stride * sizeof *cells);
    }
    table->column_capacity = wider;
    return STATUS_OK;
}

static enum status grow_rows(struct star_table *table, struct err *err) {
    size_t size = table->column_capacity * sizeof *table->cells;
    return grow(&table->cells, &table->row_capacity, table->is_loop ? 16 : 1, size, table->file->path, err);
}

enum status star_column_append(struct star_table *table, const char *name, const char *fill, struct err *err) {
    FAIL_IF(table->column_count >= MOST_COLUMNS, err, STATUS_BAD_FORMAT, "%s: table data_%s has more than %d columns",
            table->file->path, table->name, MOST_COLUMNS);
    if (table->column_count == table->column_capacity) TRY(grow_columns(table, err));
    while (table->row_capacity < table->row_count)
        TRY(grow_rows(table, err));
    size_t column = table->column_count++;
    table->columns[column] = (struct star_column){.name = name, .fill = fill};
    for (size_t row = 0; row < table->row_count; row++)
        table->cells[row * table->column_capacity + column] = fill;
    return STATUS_OK;
}

/* Finds a column. Starts after the last one found, because callers fill a row in the order of its columns, each by
 * name. */
static int find_after(struct star_table *table, const char *name) {
    size_t count = table->column_count, first = table->last_found + 1;
    for (size_t i = 0; i < count; i++) {
        size_t column = (first + i) % count;
        if (strcmp(table->columns[column].name, name) != 0) continue;
        table->last_found = column;
        return (int)column;
    }
    return -1;
}

enum status star_column_add(struct star_table *table, const char *name, const char *fill, int *ret_column,
                            struct err *err) {
    int column = find_after(table, name);
    if (column < 0) {
        /* A name that begins with an underscore is odd, but files have such names, and they must be written again. */
        FAIL_IF(name[0] == '\0' || !is_word(name), err, STATUS_BAD_ARGUMENT,
                "\"%s\" cannot name a STAR column: a word is expected", name);
        char *kept_name = NULL, *kept_fill = NULL;
        TRY(star_keep(table->file, name, strlen(name), &kept_name, err));
        if (fill != NULL && fill[0] != '\0') TRY(star_keep(table->file, fill, strlen(fill), &kept_fill, err));
        TRY(star_column_append(table, kept_name, kept_fill != NULL ? kept_fill : EMPTY, err));
        column = (int)table->column_count - 1;
    }
    if (ret_column != NULL) *ret_column = column;
    return STATUS_OK;
}

enum status star_row_add(struct star_table *table, size_t *ret_row, struct err *err) {
    size_t row = 0;
    TRY(star_row_append(table, &row, err));
    for (size_t column = 0; column < table->column_count; column++)
        table->cells[row * table->column_capacity + column] = EMPTY;
    if (ret_row != NULL) *ret_row = row;
    return STATUS_OK;
}

enum status star_row_append(struct star_table *table, size_t *ret_row, struct err *err) {
    FAIL_IF(!table->is_loop, err, STATUS_BAD_STATE, "%s: table data_%s holds label-value pairs: its one row is there",
            table->file->path, table->name);
    FAIL_IF(table->column_count == 0, err, STATUS_BAD_STATE, "%s: table data_%s needs a column before its first row",
            table->file->path, table->name);
    if (table->row_count == table->row_capacity) TRY(grow_rows(table, err));
    *ret_row = table->row_count++;
    return STATUS_OK;
}

enum status star_rows_append(struct star_table *table, size_t count, size_t *ret_row, struct err *err) {
    const size_t rows = table->row_count + count;
    if (rows > table->row_capacity) {
        const size_t room = rows > 2 * table->row_capacity ? rows : 2 * table->row_capacity;
        const size_t most = SIZE_MAX / 2 / sizeof *table->cells / table->column_capacity;
        const char **cells =
            room > most ? NULL : realloc(table->cells, room * table->column_capacity * sizeof *table->cells);
        FAIL_IF(cells == NULL, err, STATUS_NO_MEMORY, "%s: no memory for its table", table->file->path);
        table->cells = cells;
        table->row_capacity = room;
    }
    *ret_row = table->row_count;
    table->row_count = rows;
    return STATUS_OK;
}

/* ---- cells ---- */

static bool in_range(const struct star_table *table, size_t row, int column) {
    return row < table->row_count && column >= 0 && (size_t)column < table->column_count;
}

static enum status need_range(const struct star_table *table, size_t row, int column, struct err *err) {
    FAIL_IF(!in_range(table, row, column), err, STATUS_BAD_ARGUMENT,
            "%s: table data_%s has no row %zu with a column %d: it has %zu rows and %zu columns", table->file->path,
            table->name, row, column, table->row_count, table->column_count);
    return STATUS_OK;
}

const char *star_get(const struct star_table *table, size_t row, int column) {
    return in_range(table, row, column) ? table->cells[row * table->column_capacity + (size_t)column] : EMPTY;
}

enum status star_get_number(const struct star_table *table, size_t row, int column, double *ret_value,
                            struct err *err) {
    TRY(need_range(table, row, column, err));
    const char *text = star_get(table, row, column);
    char *end = NULL;
    if (text_decimal(text, ret_value)) return STATUS_OK;
    double value = strtod(text, &end);
    FAIL_IF(end == text || *end != '\0', err, STATUS_BAD_FORMAT,
            "%s: table data_%s, row %zu: %s is \"%.100s\"; a number is expected", table->file->path, table->name,
            row + 1, table->columns[column].name, text);
    *ret_value = value;
    return STATUS_OK;
}

enum status star_need_number(const struct star_table *table, size_t row, const char *name, double least, double most,
                             double *ret_value, struct err *err) {
    int column = -1;
    double value = 0;
    TRY(star_column_need(table, name, &column, err));
    TRY(star_get_number(table, row, column, &value, err));
    FAIL_IF(!(value >= least && value <= most), err, STATUS_BAD_FORMAT,
            "%s: table data_%s, row %zu: %s is %g; %g to %g is expected", table->file->path, table->name, row + 1, name,
            value, least, most);
    *ret_value = value;
    return STATUS_OK;
}

enum status star_get_integer(const struct star_table *table, size_t row, int column, long *ret_value, struct err *err) {
    TRY(need_range(table, row, column, err));
    const char *text = star_get(table, row, column);
    char *end = NULL;
    double decimal;
    if (text_decimal(text, &decimal) && decimal == floor(decimal)) {
        *ret_value = (long)decimal;
        return STATUS_OK;
    }
    errno = 0;
    long value = strtol(text, &end, 10);
    bool whole = end != text && *end == '\0' && errno == 0;
    if (!whole) {
        /* Some programs write whole numbers as 3.000000. */
        double number = strtod(text, &end);
        whole = end != text && *end == '\0' && number == floor(number) && fabs(number) < 9e15;
        value = whole ? (long)number : 0;
    }
    FAIL_IF(!whole, err, STATUS_BAD_FORMAT, "%s: table data_%s, row %zu: %s is \"%.100s\"; a whole number is expected",
            table->file->path, table->name, row + 1, table->columns[column].name, text);
    *ret_value = value;
    return STATUS_OK;
}

enum status star_set(struct star_table *table, size_t row, int column, const char *value, struct err *err) {
    TRY(need_range(table, row, column, err));
    const char **cell = &table->cells[row * table->column_capacity + (size_t)column];
    size_t length = strlen(value);
    /* A value that fits overwrites the old one in place. Shared texts are never changed. */
    if (*cell != EMPTY && *cell != table->columns[column].fill && strlen(*cell) >= length) {
        memmove((char *)(uintptr_t)*cell, value, length + 1);
        return STATUS_OK;
    }
    char *copy = NULL;
    TRY(star_keep(table->file, value, length, &copy, err));
    *cell = copy;
    return STATUS_OK;
}

enum status star_set_number(struct star_table *table, size_t row, int column, double value, struct err *err) {
    TRY(need_range(table, row, column, err));
    FAIL_IF(isnan(value), err, STATUS_BAD_ARGUMENT, "%s: table data_%s, row %zu: %s would become NaN",
            table->file->path, table->name, row + 1, table->columns[column].name);
    char text[64];
    double size = fabs(value);
    bool fixed = size == 0 || (size >= 1e-3 && size < 1e6);
    if (fixed)
        (void)text_six_decimals(value, text);
    else
        snprintf(text, sizeof text, "%.9g", value);
    return star_set(table, row, column, text, err);
}

enum status star_set_integer(struct star_table *table, size_t row, int column, long value, struct err *err) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    return star_set(table, row, column, text, err);
}
