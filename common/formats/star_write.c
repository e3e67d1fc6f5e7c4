/* Writes STAR files as RELION 3.1 does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/star_private.h"
#include "common/memory.h"

enum how { PLAIN, SINGLE_QUOTES, DOUBLE_QUOTES, TEXT_BLOCK };

/* Returns whether a value may stand between these quotation marks. In STAR a quote ends at its own kind before a space;
 * strictly: RELION ends it at any of its own kind. */
static bool may_quote(const char *text, char quote, bool strictly) {
    for (const char *c = strchr(text, quote); c != NULL; c = strchr(c + 1, quote))
        if (strictly || (unsigned char)c[1] <= ' ') return false;
    return true;
}

static enum how how_to_write(const char *text, size_t length) {
    bool plain = length > 0 && strchr("'\"#;_$[]", text[0]) == NULL;
    bool newline = false;
    for (size_t i = 0; i < length; i++) {
        plain &= (unsigned char)text[i] > ' ';
        newline |= text[i] == '\n';
    }
    /* Most values begin like a number or a path and need no closer look. */
    if (plain && !(strchr("dDlLsSgG", text[0]) != NULL && star_is_keyword(text))) return PLAIN;
    if (newline) return TEXT_BLOCK;
    for (int strictly = 1; strictly >= 0; strictly--) {
        if (may_quote(text, '"', strictly)) return DOUBLE_QUOTES;
        if (may_quote(text, '\'', strictly)) return SINGLE_QUOTES;
    }
    return TEXT_BLOCK;
}

/* Writes a value right-aligned in `width`, with a space before. */
static enum status write_value(FILE *out, const struct star_table *table, size_t row, size_t column, int width,
                               struct err *err) {
    static const char spaces[] = "                ";
    const char *text = table->cells[row * table->column_capacity + column];
    size_t length = strlen(text);
    enum how how = how_to_write(text, length);
    if (how == PLAIN) {
        size_t pad = length < (size_t)width ? (size_t)width - length : 0;
        fwrite_unlocked(spaces, 1, pad + 1, out);
        fwrite_unlocked(text, 1, length, out);
    } else if (how == TEXT_BLOCK) {
        FAIL_IF(strstr(text, "\n;") != NULL || strstr(text, "\r\n") != NULL || text[length - 1] == '\r', err,
                STATUS_BAD_ARGUMENT,
                "%s: table data_%s, row %zu: %s holds a line that begins with \";\" or ends with a carriage return, "
                "which no STAR file can",
                table->file->path, table->name, row + 1, table->columns[column].name);
        fprintf(out, "\n;%s\n;", text);
    } else {
        fprintf(out, how == DOUBLE_QUOTES ? " \"%s\"" : " '%s'", text);
    }
    return STATUS_OK;
}

static bool looks_numeric(const char *text) {
    return (*text >= '0' && *text <= '9') || *text == '-' || *text == '+' || *text == '.';
}

static enum status write_pairs(FILE *out, const struct star_table *table, struct err *err) {
    for (size_t column = 0; column < table->column_count; column++) {
        fprintf(out, "_%-42s", table->columns[column].name);
        TRY(write_value(out, table, 0, column, looks_numeric(star_get(table, 0, (int)column)) ? 12 : 0, err));
        putc_unlocked('\n', out);
    }
    return STATUS_OK;
}

static enum status write_rows(FILE *out, const struct star_table *table, struct err *err) {
    for (size_t row = 0; row < table->row_count; row++) {
        const char *const *cells = table->cells + row * table->column_capacity;
        for (size_t column = 0; column < table->column_count; column++)
            TRY(write_value(out, table, row, column, looks_numeric(cells[column]) ? 12 : 0, err));
        fputs(" \n", out);
    }
    return STATUS_OK;
}

static void write_labels(FILE *out, const struct star_table *table) {
    fputs("loop_ \n", out);
    for (size_t column = 0; column < table->column_count; column++)
        fprintf(out, "_%s #%zu \n", table->columns[column].name, column + 1);
}

enum { BUFFER_BYTES = 1 << 16 };

struct star_writer {
    char *buffer; /* outlives the output, which writes through it */
    struct file_output *output;
    size_t columns; /* of the loop that is open for rows; 0: none */
    bool begun;     /* a table has begun and not ended */
};

static enum status open_output(struct star_writer *writer, const char *path, struct err *err) {
    writer->buffer = malloc(BUFFER_BYTES);
    FAIL_IF(writer->buffer == NULL, err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    TRY(file_create(path, &writer->output, err));
    setvbuf(file_output_stream(writer->output), writer->buffer, _IOFBF, BUFFER_BYTES);
    return STATUS_OK;
}

enum status star_writer_create(const char *path, struct star_writer **ret_writer, struct err *err) {
    struct star_writer *writer = NULL;
    TRY(mem_new(1, sizeof *writer, path, &writer, err));
    enum status status = open_output(writer, path, err);
    if (status != STATUS_OK) {
        star_writer_discard(&writer);
        return status;
    }
    *ret_writer = writer;
    return STATUS_OK;
}

void star_writer_discard(struct star_writer **writer) {
    if (*writer == NULL) return;
    file_discard(&(*writer)->output);
    free((*writer)->buffer);
    mem_free(writer);
}

enum status star_writer_table(struct star_writer *writer, const struct star_table *table, struct err *err) {
    FILE *out = file_output_stream(writer->output);
    if (writer->begun) fputs(" \n", out);
    writer->begun = true;
    writer->columns = table->is_loop ? table->column_count : 0;
    fprintf(out, "\n# version 30001\n\ndata_%s\n\n", table->name);
    if (writer->columns == 0) return write_pairs(out, table, err);
    write_labels(out, table);
    return write_rows(out, table, err);
}

enum status star_writer_rows(struct star_writer *writer, const struct star_table *table, struct err *err) {
    FAIL_IF(writer->columns == 0 || table->column_count != writer->columns, err, STATUS_BAD_ARGUMENT,
            "rows of %zu columns do not go on with a loop of %zu", table->column_count, writer->columns);
    return write_rows(file_output_stream(writer->output), table, err);
}

enum status star_writer_commit(struct star_writer **writer, struct err *err) {
    if ((*writer)->begun) fputs(" \n", file_output_stream((*writer)->output));
    enum status status = file_commit(&(*writer)->output, err);
    star_writer_discard(writer);
    return status;
}

enum status star_write(const struct star_file *file, const char *path, struct err *err) {
    _cleanup_(star_writer_discard) struct star_writer *writer = NULL;
    TRY(star_writer_create(path, &writer, err));
    for (size_t i = 0; i < file->table_count; i++)
        TRY(star_writer_table(writer, file->tables[i], err));
    return star_writer_commit(&writer, err);
}
