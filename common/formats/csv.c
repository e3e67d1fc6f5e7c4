#include "common/formats/csv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

static const size_t LARGEST = (size_t)1 << 30;

struct reader {
    const char *path;
    char *at;
    int line;
};

/* Reads one cell and shortens it in place. *ret_end: the character after it, a comma, a line end, or '\0' at the end of
 * the text. */
static enum status read_cell(struct reader *r, char **ret_cell, char *ret_end, struct err *err) {
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
    char *cell = r->at, *out = cell;
    int begun = r->line;
    if (*r->at == '"') {
        for (r->at++;; r->at++) {
            FAIL_IF(*r->at == '\0', err, STATUS_BAD_FORMAT,
                    "%s: line %d: the quote that begins on this line is not closed", r->path, begun);
            if (*r->at == '"' && r->at[1] != '"') break;
            if (*r->at == '"') r->at++;
            r->line += *r->at == '\n';
            *out++ = *r->at;
        }
        r->at++;
        while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
            r->at++;
        FAIL_IF(*r->at != ',' && *r->at != '\n' && *r->at != '\0', err, STATUS_BAD_FORMAT,
                "%s: line %d: a comma or the line's end is expected after the closing quote, not '%.20s'", r->path,
                r->line, r->at);
    } else {
        while (*r->at != ',' && *r->at != '\n' && *r->at != '\0')
            r->at++;
        out = r->at;
        while (out > cell && (out[-1] == ' ' || out[-1] == '\t' || out[-1] == '\r'))
            out--;
    }
    *ret_end = *r->at;
    if (*r->at != '\0') r->at++;
    *out = '\0';
    *ret_cell = cell;
    return STATUS_OK;
}

static enum status read_row(struct reader *r, struct csv *csv, size_t *cells, struct err *err) {
    struct csv_row row = {r->line, 0, csv->cells + *cells};
    char *cell = NULL;
    for (char end = ','; end == ',';) {
        TRY(read_cell(r, &cell, &end, err));
        csv->cells[(*cells)++] = cell;
        row.count++;
        r->line += end == '\n';
    }
    if (row.count == 1 && row.cells[0][0] == '\0')
        (*cells)--; /* an empty line */
    else
        csv->rows[csv->count++] = row;
    return STATUS_OK;
}

static enum status read_text(const char *path, struct csv *csv, size_t length, struct err *err) {
    const void *zero = memchr(csv->text, 0, length);
    FAIL_IF(zero != NULL, err, STATUS_BAD_FORMAT,
            "%s: a byte 0 at %zu: a table of text is expected, in UTF-8 where it is not ASCII (not UTF-16)", path,
            (size_t)((const char *)zero - csv->text));
    const char *turn = memchr(csv->text, '\r', length);
    FAIL_IF(turn != NULL && turn + 1 < csv->text + length && memchr(csv->text, '\n', length) == NULL, err,
            STATUS_BAD_FORMAT, "%s: its lines end with a carriage return alone: save it with line feeds", path);
    size_t cells = 1, rows = 1;
    for (size_t i = 0; i < length; i++) {
        cells += csv->text[i] == ',' || csv->text[i] == '\n';
        rows += csv->text[i] == '\n';
    }
    FAIL_IF(rows > INT_MAX - 1, err, STATUS_UNSUPPORTED, "%s: has too many lines", path);
    TRY(mem_new(cells + 1, sizeof *csv->cells, "a table", &csv->cells, err));
    TRY(mem_new(rows + 1, sizeof *csv->rows, "a table", &csv->rows, err));
    struct reader reader = {path, csv->text, 1};
    if (strncmp(reader.at, "\xef\xbb\xbf", 3) == 0) reader.at += 3;
    cells = 0;
    while (*reader.at != '\0')
        TRY(read_row(&reader, csv, &cells, err));
    return STATUS_OK;
}

enum status csv_read(const char *path, struct csv *ret_csv, struct err *err) {
    struct csv csv = {0};
    size_t length;
    TRY(file_read_whole(path, LARGEST, &csv.text, &length, err));
    enum status status = read_text(path, &csv, length, err);
    if (status != STATUS_OK)
        csv_clear(&csv);
    else
        *ret_csv = csv;
    return status;
}

void csv_clear(struct csv *csv) {
    free(csv->rows);
    free(csv->cells);
    free(csv->text);
    *csv = (struct csv){0};
}

void csv_write(FILE *out, const char *cell) {
    size_t length = strlen(cell);
    bool blank = length > 0 && (strchr(" \t", cell[0]) != NULL || strchr(" \t", cell[length - 1]) != NULL);
    if (!blank && strpbrk(cell, ",\"\r\n") == NULL) {
        fputs(cell, out);
        return;
    }
    fputc('"', out);
    for (; *cell != '\0'; cell++) {
        if (*cell == '"') fputc('"', out);
        fputc(*cell, out);
    }
    fputc('"', out);
}
