/* Reads STAR files line by line. The reader ends each value in place, in one copy of the text, and copies no value.
 *
 * One line is one row of a loop, as in RELION; only a text block of several lines (";") continues a row below. Lines
 * that can only be rows are divided among threads, which changes neither the table nor an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/star_private.h"
#include "common/memory.h"
#include "common/together.h"

/* Larger than any STAR file of a session, and small enough to refuse a stack of micrographs given by mistake. */
static const size_t LARGEST = (size_t)1 << 33;

struct parser {
    struct star_file *file;
    char *next, *end;         /* the text not read yet; *end is 0 */
    size_t line;              /* number of the current line */
    bool last_line_unended;   /* no newline ends the file: a writer may still be at work */
    bool after_blank;         /* the line before the current one was empty */
    char *cursor;             /* in the current line */
    struct star_table *table; /* NULL before the first block */
    const char *block;        /* the name of the table */
    bool in_loop, has_rows;
};

static enum status bad(const struct parser *p, const char *what, const char *detail, struct err *err) {
    FAIL(err, STATUS_BAD_FORMAT, "%s: line %zu: %s%s%.120s%s", p->file->path, p->line, what,
         detail != NULL ? " (\"" : "", detail != NULL ? detail : "", detail != NULL ? "\")" : "");
}

/* Ends the next line in place. */
static bool next_line(struct parser *p) {
    if (p->next >= p->end) return false;
    char *start = p->next, *newline = memchr(start, '\n', (size_t)(p->end - start));
    p->last_line_unended = newline == NULL;
    char *stop = newline != NULL ? newline : p->end;
    p->next = newline != NULL ? newline + 1 : p->end;
    while (stop > start && stop[-1] == '\r')
        stop--;
    *stop = '\0';
    p->cursor = start;
    p->line++;
    return true;
}

/* Returns the next value of the line and ends it in place; NULL at the end of the line or at a comment. */
static enum status next_token(struct parser *p, char **ret_token, bool *ret_quoted, struct err *err) {
    char *c = p->cursor;
    while (*c != '\0' && (unsigned char)*c <= ' ')
        c++;
    *ret_quoted = false;
    if (*c == '\0' || *c == '#') {
        *c = '\0';
        p->cursor = c;
        *ret_token = NULL;
        return STATUS_OK;
    }
    char *start = c;
    if (*c == '\'' || *c == '"') {
        char quote = *c;
        start = ++c;
        /* A quote inside a word ('it's') does not end the value. */
        while (*c != '\0' && !(*c == quote && (unsigned char)c[1] <= ' '))
            c++;
        if (*c == '\0') return bad(p, "a quote is not closed", start - 1, err);
        *ret_quoted = true;
    } else {
        while ((unsigned char)*c > ' ')
            c++;
    }
    p->cursor = *c == '\0' ? c : c + 1;
    *c = '\0';
    *ret_token = start;
    return STATUS_OK;
}

/* Reads a text block after a line that begins with ";": all text up to the next line that begins with ";". Leaves the
 * cursor behind that semicolon. */
static enum status text_block(struct parser *p, char **ret_text, struct err *err) {
    char *start = p->cursor + 1;
    char *to = start + strlen(start);
    size_t first = p->line;
    while (next_line(p)) {
        if (*p->cursor == ';') {
            *to = '\0';
            p->cursor++;
            *ret_text = start;
            return STATUS_OK;
        }
        size_t length = strlen(p->cursor);
        *to++ = '\n';
        memmove(to, p->cursor, length);
        to += length;
    }
    FAIL(err, STATUS_TRUNCATED, "%s: ends inside the text that begins in line %zu", p->file->path, first);
}

/* Begins a table with the name of the block: a block can hold pairs and loops, and each is a table. */
static enum status begin_table(struct parser *p, struct err *err) {
    if (p->in_loop && p->table->column_count == 0) return bad(p, "the loop before this has no labels", NULL, err);
    p->in_loop = p->has_rows = false;
    return star_table_append(p->file, p->block, &p->table, err);
}

static enum status begin_loop(struct parser *p, struct err *err) {
    if (p->table == NULL) return bad(p, "loop_ before any data block", NULL, err);
    if (p->in_loop && p->table->column_count == 0) return bad(p, "the loop before this one has no labels", NULL, err);
    if (p->table->column_count > 0) TRY(begin_table(p, err));
    p->table->is_loop = p->in_loop = true;
    p->table->row_count = 0;
    return STATUS_OK;
}

static enum status end_of_row(const struct parser *p, size_t found, struct err *err) {
    enum status status = p->last_line_unended ? STATUS_TRUNCATED : STATUS_BAD_FORMAT;
    FAIL(err, status, "%s: line %zu: %zu values where data_%s has %zu columns", p->file->path, p->line, found,
         p->table->name, p->table->column_count);
}

/* Reads one row, whose first value was read already. had_text: the first value was a text block. */
static enum status read_row(struct parser *p, char *token, bool had_text, struct err *err) {
    struct star_table *table = p->table;
    size_t row = 0, count = table->column_count, found = 0;
    bool quoted;
    if (count == 0) return bad(p, "a value where a label is expected", token, err);
    TRY(star_row_append(table, &row, err));
    for (;;) {
        if (token == NULL) {
            if (found == count) break;
            /* At the end of a line the row continues in a text block, or on the line after one. */
            bool text_follows = p->next < p->end && *p->next == ';';
            if (!(text_follows || had_text) || !next_line(p)) return end_of_row(p, found, err);
            if (text_follows) {
                TRY(text_block(p, &token, err));
                had_text = true;
            }
        }
        if (token != NULL) {
            if (found < count) table->cells[row * table->column_capacity + found] = token;
            found++;
        }
        TRY(next_token(p, &token, &quoted, err));
    }
    if (found > count) return end_of_row(p, found, err);
    p->has_rows = true;
    return STATUS_OK;
}

/* Lines that are rows by themselves, in pieces for several threads. */
enum { PIECE_ROWS = 2048, PIECES = 256 };

struct lines {
    const struct parser *parser; /* before the first line */
    char *starts[PIECES];        /* of each piece */
    size_t count;                /* lines */
    char *end;                   /* behind the last line */
    size_t first_row;            /* in the table */
};

/* Returns whether the line, which a newline ends, is a row whatever its values are. */
static bool is_row(const char *line) {
    const char *c = line;
    while (*c != '\n' && *c != '\0' && (unsigned char)*c <= ' ')
        c++;
    return *line != ';' && *c != '\n' && *c != '\0' && *c != '#' && *c != '_' && strncasecmp(c, "data_", 5) != 0 &&
           strncasecmp(c, "loop_", 5) != 0;
}

/* Finds the next lines that are rows, each by itself: a row goes on in a text block below. */
static void find_lines(const struct parser *p, struct lines *lines) {
    char *line = lines->end = p->next;
    while (line < p->end && lines->count < (size_t)PIECES * PIECE_ROWS && is_row(line)) {
        char *newline = memchr(line, '\n', (size_t)(p->end - line));
        if (newline == NULL || newline[1] == ';') return;
        if (lines->count % PIECE_ROWS == 0) lines->starts[lines->count / PIECE_ROWS] = line;
        lines->count++;
        line = lines->end = newline + 1;
    }
}

/* Reads a row that is the rest of the line. */
static enum status read_values(struct parser *p, const char **cells, struct err *err) {
    size_t found = 0;
    for (;;) {
        char *token;
        bool quoted;
        TRY(next_token(p, &token, &quoted, err));
        if (token == NULL) break;
        if (found < p->table->column_count) cells[found] = token;
        found++;
    }
    return found == p->table->column_count ? STATUS_OK : end_of_row(p, found, err);
}

static enum status read_piece(void *context, size_t index, struct err *err) {
    const struct lines *lines = context;
    const struct star_table *table = lines->parser->table;
    const size_t before = index * PIECE_ROWS, left = lines->count - before;
    struct parser p = *lines->parser;
    p.next = lines->starts[index];
    p.line += before;
    for (size_t i = 0; i < left && i < PIECE_ROWS; i++) {
        (void)next_line(&p);
        TRY(read_values(&p, table->cells + (lines->first_row + before + i) * table->column_capacity, err));
    }
    return STATUS_OK;
}

/* Reads the rows that follow the present line, as far as each is a line by itself. */
static enum status read_rows(struct parser *p, struct err *err) {
    if (!p->in_loop || !p->has_rows || p->next >= p->end || !is_row(p->next)) return STATUS_OK;
    struct lines lines = {.parser = p};
    find_lines(p, &lines);
    if (lines.count == 0) return STATUS_OK;
    const size_t pieces = (lines.count + PIECE_ROWS - 1) / PIECE_ROWS;
    TRY(star_rows_append(p->table, lines.count, &lines.first_row, err));
    TRY(work_together(pieces, TOGETHER_FILE, read_piece, &lines, err));
    p->next = lines.end;
    p->line += lines.count;
    p->after_blank = p->last_line_unended = false;
    return STATUS_OK;
}

static enum status read_label(struct parser *p, const char *label, struct err *err) {
    struct star_table *table = p->table;
    if (table == NULL) return bad(p, "a label before any data block", label, err);
    if (label[1] == '\0') return bad(p, "a label without a name", label, err);
    if (p->in_loop && p->has_rows) {
        TRY(begin_table(p, err));
        table = p->table;
    }
    if (star_column_find(table, label + 1) >= 0) return bad(p, "the label is there twice in its table", label, err);
    char *value = NULL, *more = NULL;
    bool quoted;
    TRY(next_token(p, &value, &quoted, err));
    if (p->in_loop) {
        if (value != NULL) return bad(p, "a loop's label is followed by a value", value, err);
        return star_column_append(table, label + 1, "", err);
    }
    if (value == NULL && p->next < p->end && *p->next == ';') {
        next_line(p);
        TRY(text_block(p, &value, err));
    }
    if (value == NULL)
        FAIL(err, p->last_line_unended ? STATUS_TRUNCATED : STATUS_BAD_FORMAT, "%s: line %zu: %s has no value",
             p->file->path, p->line, label);
    TRY(next_token(p, &more, &quoted, err));
    if (more != NULL)
        return bad(p, "a label is followed by more than one value; text with spaces needs quotes", more, err);
    return star_column_append(table, label + 1, value, err);
}

/* Returns whether a line is a keyword. "data_x" and "loop_" must stand alone: the first value of a row may be
 * data_1/mic.mrc. */
static bool alone(const struct parser *p) {
    const char *c = p->cursor;
    while (*c != '\0' && (unsigned char)*c <= ' ')
        c++;
    return *c == '\0' || *c == '#';
}

static enum status read_line(struct parser *p, struct err *err) {
    char *token = NULL;
    bool quoted = false;
    if (*p->cursor == ';') {
        if (!p->in_loop) return bad(p, "text that belongs to no label", p->cursor, err);
        TRY(text_block(p, &token, err));
        return read_row(p, token, true, err);
    }
    TRY(next_token(p, &token, &quoted, err));
    if (token == NULL) {
        p->after_blank = true;
        return STATUS_OK;
    }
    bool after_blank = p->after_blank;
    p->after_blank = false;
    if (!quoted && strncasecmp(token, "data_", 5) == 0 && alone(p)) {
        p->block = token + 5;
        return begin_table(p, err);
    }
    if (!quoted && strcasecmp(token, "loop_") == 0 && alone(p)) return begin_loop(p, err);
    if (!quoted && token[0] == '_' && (!p->has_rows || after_blank)) return read_label(p, token, err);
    if (p->table == NULL) return bad(p, "not a STAR file: data_NAME is expected before anything else", token, err);
    if (!p->in_loop) return bad(p, "a value that belongs to no label", token, err);
    return read_row(p, token, false, err);
}

static enum status parse(struct star_file *file, size_t length, struct err *err) {
    struct parser p = {.file = file, .next = file->text, .end = file->text + length};
    if (length >= 3 && memcmp(file->text, "\xEF\xBB\xBF", 3) == 0) p.next += 3;
    const char *zero = memchr(file->text, 0, length);
    FAIL_IF(zero != NULL, err, STATUS_BAD_FORMAT, "%s: not a STAR file: it is not text (byte %td is 0)", file->path,
            zero - file->text);
    while (next_line(&p)) {
        TRY(read_line(&p, err));
        TRY(read_rows(&p, err));
    }
    FAIL_IF(file->table_count == 0, err, STATUS_TRUNCATED, "%s: holds no data block%s", file->path,
            length == 0 ? ": it is empty" : "");
    FAIL_IF(p.in_loop && p.table->column_count == 0, err, STATUS_TRUNCATED, "%s: ends after loop_, before its labels",
            file->path);
    return STATUS_OK;
}

enum status star_parse_taken(const char *name, char **own, size_t length, struct star_file **ret_file,
                             struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char *text = *own;
    *own = NULL;
    char *path = strdup(name);
    enum status status = path == NULL ? STATUS_NO_MEMORY : star_create(&file, err);
    if (status != STATUS_OK) {
        free(path);
        free(text);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory to read it", name);
    }
    free(file->path);
    file->path = path;
    file->text = text;
    TRY(parse(file, length, err));
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

enum status star_parse(const char *name, const char *text, size_t length, struct star_file **ret_file,
                       struct err *err) {
    char *copy = length < LARGEST ? malloc(length + 1) : NULL;
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", name);
    if (length > 0) memcpy(copy, text, length);
    copy[length] = '\0';
    return star_parse_taken(name, &copy, length, ret_file, err);
}

enum status star_read(const char *path, struct star_file **ret_file, struct err *err) {
    char *text = NULL;
    size_t length = 0;
    TRY(file_read_whole(path, LARGEST, &text, &length, err));
    return star_parse_taken(path, &text, length, ret_file, err);
}
