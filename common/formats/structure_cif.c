/* Reads mmCIF: the category _atom_site, usually a loop. Columns count by name, not by order. The reader skips all other
 * tokens by the quoting rules of CIF 1.1. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/formats/structure_private.h"

enum field {
    GROUP,
    SYMBOL,
    LABEL_ATOM,
    AUTH_ATOM,
    ALT,
    LABEL_RESIDUE,
    AUTH_RESIDUE,
    LABEL_CHAIN,
    AUTH_CHAIN,
    LABEL_NUMBER,
    AUTH_NUMBER,
    INSERTION,
    X,
    Y,
    Z,
    OCCUPANCY,
    B_FACTOR,
    MODEL,
    FIELDS
};

static const char *const names[FIELDS] = {
    "group_PDB",    "type_symbol",   "label_atom_id", "auth_atom_id", "label_alt_id",   "label_comp_id",
    "auth_comp_id", "label_asym_id", "auth_asym_id",  "label_seq_id", "auth_seq_id",    "pdbx_PDB_ins_code",
    "Cartn_x",      "Cartn_y",       "Cartn_z",       "occupancy",    "B_iso_or_equiv", "pdbx_PDB_model_num"};

static const char PREFIX[] = "_atom_site.";
enum { PREFIX_LENGTH = sizeof PREFIX - 1 };

static int next_char(struct structure_reader *reader) {
    int c = getc_unlocked(reader->stream);
    reader->cif.line_start = c == '\n';
    reader->line += c == '\n';
    return c;
}

static int peek(struct structure_reader *reader) {
    int c = getc_unlocked(reader->stream);
    if (c != EOF) ungetc(c, reader->stream);
    return c;
}

static void put(struct cif_state *cif, size_t *length, int c) {
    if (*length < CIF_TOKEN_MAX - 1) cif->token[(*length)++] = (char)c;
}

static bool is_blank(int c) {
    return c == EOF || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns the number of the current line: line ends read so far, and one. */
static long here(const struct structure_reader *reader) {
    return reader->line + 1;
}

static enum status cut_short(struct structure_reader *reader, const char *where, struct err *err) {
    FAIL(err, STATUS_TRUNCATED, "%s: line %ld: the file ends inside %s: it is cut short", reader->name, here(reader),
         where);
}

/* Reads a text from a semicolon to the next line that begins with a semicolon. */
static enum status read_field(struct structure_reader *reader, size_t *length, struct err *err) {
    for (;;) {
        int c = next_char(reader);
        if (c == EOF) return cut_short(reader, "a text field", err);
        if (c == '\n' && peek(reader) == ';') {
            next_char(reader);
            return STATUS_OK;
        }
        put(&reader->cif, length, c);
    }
}

/* Reads a quoted value up to the same mark with a blank after it. */
static enum status read_quoted(struct structure_reader *reader, int mark, size_t *length, struct err *err) {
    for (;;) {
        int c = next_char(reader);
        FAIL_IF(c == '\n', err, STATUS_BAD_FORMAT, "%s: line %ld: a quoted value has no end on its line", reader->name,
                reader->line);
        if (c == EOF) return cut_short(reader, "a quoted value", err);
        if (c == mark && is_blank(peek(reader))) return STATUS_OK;
        put(&reader->cif, length, c);
    }
}

/* Reads the next token into cif.token, cut to fit; *ret_found is false at the end of the file. */
static enum status next_token(struct structure_reader *reader, bool *ret_found, struct err *err) {
    struct cif_state *cif = &reader->cif;
    size_t length = 0;
    *ret_found = true;
    if (cif->have_token) {
        cif->have_token = false;
        return STATUS_OK;
    }
    int c;
    bool first;
    do {
        first = cif->line_start;
        c = next_char(reader);
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = next_char(reader);
    } while (c != EOF && is_blank(c));
    if (c == EOF) {
        *ret_found = false;
        return STATUS_OK;
    }
    cif->quoted = true;
    if (c == ';' && first)
        TRY(read_field(reader, &length, err));
    else if (c == '\'' || c == '"')
        TRY(read_quoted(reader, c, &length, err));
    else {
        cif->quoted = false;
        put(cif, &length, c);
        while (!is_blank(peek(reader)))
            put(cif, &length, next_char(reader));
    }
    cif->token[length] = '\0';
    return STATUS_OK;
}

/* Returns whether a word ends the values of a loop. */
static bool is_keyword(const struct cif_state *cif) {
    const char *t = cif->token;
    return !cif->quoted &&
           (t[0] == '_' || strncasecmp(t, "data_", 5) == 0 || strncasecmp(t, "save_", 5) == 0 ||
            strcasecmp(t, "loop_") == 0 || strcasecmp(t, "stop_") == 0 || strcasecmp(t, "global_") == 0);
}

static bool is_atom_site(const struct cif_state *cif) {
    return !cif->quoted && strncasecmp(cif->token, PREFIX, PREFIX_LENGTH) == 0;
}

static int field_named(const char *name) {
    for (int field = 0; field < FIELDS; field++)
        if (strcasecmp(name, names[field]) == 0) return field;
    return -1;
}

static enum status set_word(struct structure_reader *reader, enum field field, char *out, size_t size,
                            struct err *err) {
    const struct cif_state *cif = &reader->cif;
    size_t length = strlen(cif->token);
    FAIL_IF(length >= size, err, STATUS_BAD_FORMAT, "%s: line %ld: %s%s '%.40s' has more than %zu characters",
            reader->name, here(reader), PREFIX, names[field], cif->token, size - 1);
    memset(out, 0, size);
    memcpy(out, cif->token, length);
    return STATUS_OK;
}

static void set_coordinate(struct structure_reader *reader, int axis) {
    struct cif_state *cif = &reader->cif;
    cif->row_xyz[axis] = structure_number(cif->token, strlen(cif->token));
    if (isfinite(cif->row_xyz[axis])) return;
    cif->row_xyz[axis] = NAN;
    snprintf(cif->row_text, sizeof cif->row_text, "%.30s", cif->token);
}

static int32_t integer(const char *text) {
    long value = strtol(text, NULL, 10);
    return value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

/* Takes one value of a row. The author's name wins over the dictionary's if both are given. */
static enum status set_value(struct structure_reader *reader, enum field field, struct err *err) {
    struct cif_state *cif = &reader->cif;
    struct structure_atom *atom = &cif->row;
    bool none = !cif->quoted && (strcmp(cif->token, ".") == 0 || strcmp(cif->token, "?") == 0);
    if (none && field != X && field != Y && field != Z) return STATUS_OK;
    float number = NAN;
    if (field == OCCUPANCY || field == B_FACTOR) number = structure_number(cif->token, strlen(cif->token));
    switch (field) {
    case GROUP:
        atom->hetero = strcasecmp(cif->token, "HETATM") == 0;
        break;
    case SYMBOL:
        snprintf(atom->element, sizeof atom->element, "%s", cif->token);
        for (char *c = atom->element; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        break;
    case LABEL_ATOM:
    case AUTH_ATOM:
        return set_word(reader, field, atom->id.name, sizeof atom->id.name, err);
    case LABEL_RESIDUE:
    case AUTH_RESIDUE:
        return set_word(reader, field, atom->id.residue, sizeof atom->id.residue, err);
    case LABEL_CHAIN:
    case AUTH_CHAIN:
        return set_word(reader, field, atom->id.chain, sizeof atom->id.chain, err);
    case LABEL_NUMBER:
    case AUTH_NUMBER:
        atom->id.number = integer(cif->token);
        break;
    case INSERTION:
        return set_word(reader, field, atom->id.insertion, sizeof atom->id.insertion, err);
    case ALT:
        atom->altloc = cif->token[0];
        break;
    case X:
        set_coordinate(reader, 0);
        break;
    case Y:
        set_coordinate(reader, 1);
        break;
    case Z:
        set_coordinate(reader, 2);
        break;
    case OCCUPANCY:
        atom->occupancy = isnan(number) ? 1 : number;
        break;
    case B_FACTOR:
        atom->b_factor = isnan(number) ? 0 : number;
        break;
    case MODEL:
        cif->model = integer(cif->token);
        break;
    case FIELDS:
        break;
    }
    return STATUS_OK;
}

static void begin_row(struct structure_reader *reader) {
    struct cif_state *cif = &reader->cif;
    cif->row = (struct structure_atom){.altloc = ' ', .occupancy = 1};
    cif->model = 1;
    cif->row_text[0] = '\0';
    cif->row_line = here(reader);
    for (int axis = 0; axis < 3; axis++)
        cif->row_xyz[axis] = NAN;
}

static enum status need_columns(const struct structure_reader *reader, struct err *err) {
    static const int needed[] = {X, Y, Z};
    const struct cif_state *cif = &reader->cif;
    for (size_t i = 0; i < 3; i++)
        FAIL_IF(cif->place[needed[i]] < 0, err, STATUS_BAD_FORMAT, "%s: line %ld: its atoms have no %s%s", reader->name,
                here(reader), PREFIX, names[needed[i]]);
    FAIL_IF(cif->place[LABEL_ATOM] < 0 && cif->place[AUTH_ATOM] < 0, err, STATUS_BAD_FORMAT,
            "%s: line %ld: its atoms have neither %sauth_atom_id nor %slabel_atom_id", reader->name, here(reader),
            PREFIX, PREFIX);
    return STATUS_OK;
}

/* Ignores a name of the dictionary if the author's exists too, whichever comes first. */
static void prefer_author(struct cif_state *cif) {
    static const int pairs[][2] = {
        {LABEL_ATOM, AUTH_ATOM}, {LABEL_RESIDUE, AUTH_RESIDUE}, {LABEL_CHAIN, AUTH_CHAIN}, {LABEL_NUMBER, AUTH_NUMBER}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (cif->place[pairs[i][0]] >= 0 && cif->place[pairs[i][1]] >= 0) cif->field_of[cif->place[pairs[i][0]]] = -1;
}

static void forget_columns(struct cif_state *cif) {
    cif->column_count = 0;
    for (int field = 0; field < FIELDS; field++)
        cif->place[field] = -1;
}

static enum status add_column(struct structure_reader *reader, struct err *err) {
    struct cif_state *cif = &reader->cif;
    FAIL_IF(cif->column_count == CIF_COLUMNS_MAX, err, STATUS_BAD_FORMAT,
            "%s: line %ld: atoms with more than %d columns", reader->name, here(reader), CIF_COLUMNS_MAX);
    int field = field_named(cif->token + PREFIX_LENGTH);
    if (field >= 0 && cif->place[field] >= 0) field = -1; /* a column given twice: the first counts */
    if (field >= 0) cif->place[field] = cif->column_count;
    cif->field_of[cif->column_count++] = field;
    return STATUS_OK;
}

/* Reads the columns after loop_, if they are columns of atoms. */
static enum status read_header(struct structure_reader *reader, struct err *err) {
    struct cif_state *cif = &reader->cif;
    bool found;
    forget_columns(cif);
    TRY(next_token(reader, &found, err));
    for (; found && is_atom_site(cif);) {
        TRY(add_column(reader, err));
        TRY(next_token(reader, &found, err));
    }
    cif->have_token = found;
    if (cif->column_count == 0) return STATUS_OK;
    if (!found) return cut_short(reader, "the loop of atoms", err);
    TRY(need_columns(reader, err));
    prefer_author(cif);
    cif->in_rows = true;
    return STATUS_OK;
}

/* Reads a category of one row, written without a loop as pairs of name and value. */
static enum status read_single(struct structure_reader *reader, struct err *err) {
    struct cif_state *cif = &reader->cif;
    bool found = true;
    forget_columns(cif);
    begin_row(reader);
    while (found && is_atom_site(cif)) {
        int field = field_named(cif->token + PREFIX_LENGTH);
        int author = field == LABEL_ATOM      ? AUTH_ATOM
                     : field == LABEL_RESIDUE ? AUTH_RESIDUE
                     : field == LABEL_CHAIN   ? AUTH_CHAIN
                     : field == LABEL_NUMBER  ? AUTH_NUMBER
                                              : -1;
        if (field >= 0) cif->place[field] = 0;
        TRY(next_token(reader, &found, err));
        if (!found) return cut_short(reader, "the row of an atom", err);
        if (field >= 0 && (author < 0 || cif->place[author] < 0)) TRY(set_value(reader, (enum field)field, err));
        TRY(next_token(reader, &found, err));
    }
    cif->have_token = found;
    TRY(need_columns(reader, err));
    cif->have_row = true;
    return STATUS_OK;
}

/* Reads the next row into cif.row; *ret_found is false after the last row of the loop. */
static enum status read_row(struct structure_reader *reader, bool *ret_found, struct err *err) {
    struct cif_state *cif = &reader->cif;
    begin_row(reader);
    for (int column = 0; column < cif->column_count; column++) {
        bool found;
        TRY(next_token(reader, &found, err));
        if (!found || is_keyword(cif)) {
            FAIL_IF(column > 0, err, found ? STATUS_BAD_FORMAT : STATUS_TRUNCATED,
                    "%s: line %ld: the last row of atoms has %d of %d values%s", reader->name, here(reader), column,
                    cif->column_count, found ? "" : ": the file is cut short");
            cif->have_token = found;
            cif->in_rows = false;
            *ret_found = false;
            return STATUS_OK;
        }
        if (column == 0) cif->row_line = here(reader);
        if (cif->field_of[column] >= 0) TRY(set_value(reader, (enum field)cif->field_of[column], err));
    }
    *ret_found = true;
    return STATUS_OK;
}

static enum status add_row(struct structure_reader *reader, struct structure_model *model, struct err *err) {
    struct cif_state *cif = &reader->cif;
    struct structure_atom *atom;
    float *xyz;
    TRY(structure_model_add(model, &atom, &xyz, err));
    *atom = cif->row;
    memcpy(xyz, cif->row_xyz, sizeof cif->row_xyz);
    if (isnan(xyz[0]) || isnan(xyz[1]) || isnan(xyz[2])) structure_model_fault(model, cif->row_line, cif->row_text);
    model->number = cif->model;
    return STATUS_OK;
}

enum status cif_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err) {
    struct cif_state *cif = &reader->cif;
    for (;;) {
        if (cif->have_row) {
            if (model->count > 0 && cif->model != model->number) break;
            TRY(add_row(reader, model, err));
            cif->have_row = false;
        } else if (cif->in_rows) {
            TRY(read_row(reader, &cif->have_row, err));
        } else {
            bool found;
            TRY(next_token(reader, &found, err));
            if (!found) break;
            /* Another block is another structure. */
            if (!cif->quoted && strncasecmp(cif->token, "data_", 5) == 0 && model->count > 0) break;
            if (!cif->quoted && strcasecmp(cif->token, "loop_") == 0)
                TRY(read_header(reader, err));
            else if (is_atom_site(cif))
                TRY(read_single(reader, err));
        }
    }
    *ret_found = model->count > 0;
    return STATUS_OK;
}
