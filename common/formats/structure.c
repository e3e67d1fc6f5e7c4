#include "common/formats/structure.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/files.h"
#include "common/formats/structure_private.h"
#include "common/memory.h"

void structure_model_clear(struct structure_model *model) {
    free(model->atoms);
    free(model->xyz);
    *model = (struct structure_model){0};
}

void structure_model_reset(struct structure_model *model) {
    model->count = 0;
    model->fault_count = 0;
    model->number = 0;
}

enum status structure_model_add(struct structure_model *model, struct structure_atom **ret_atom, float **ret_xyz,
                                struct err *err) {
    if (model->count == model->capacity) {
        size_t capacity = model->capacity > 0 ? 2 * model->capacity : 512;
        struct structure_atom *atoms = realloc(model->atoms, capacity * sizeof *atoms);
        if (atoms != NULL) model->atoms = atoms;
        float *xyz = atoms != NULL ? realloc(model->xyz, capacity * 3 * sizeof *xyz) : NULL;
        if (xyz != NULL) model->xyz = xyz;
        FAIL_IF(xyz == NULL, err, STATUS_NO_MEMORY, "no memory for a structure of more than %zu atoms", model->count);
        model->capacity = capacity;
    }
    *ret_atom = &model->atoms[model->count];
    *ret_xyz = &model->xyz[3 * model->count];
    memset(*ret_atom, 0, sizeof **ret_atom);
    model->count++;
    return STATUS_OK;
}

void structure_model_fault(struct structure_model *model, long line, const char *text) {
    if (model->fault_count == STRUCTURE_FAULTS) return;
    struct structure_fault *fault = &model->faults[model->fault_count++];
    *fault = (struct structure_fault){.atom = model->count - 1, .line = line};
    snprintf(fault->text, sizeof fault->text, "%s", text);
    for (char *c = fault->text; *c != '\0'; c++)
        if (!isprint((unsigned char)*c)) *c = '?';
}

void structure_word(const char *text, size_t width, char *out, size_t size) {
    memset(out, 0, size);
    while (width > 0 && *text == ' ')
        text++, width--;
    while (width > 0 && (text[width - 1] == ' ' || text[width - 1] == '\0'))
        width--;
    memcpy(out, text, width < size ? width : size - 1);
}

/* Reads the usual form of a number without strtod: many times faster, and the same to the last bit. Up to 15 digits and
 * powers of ten up to 22 are exact in a double, so their quotient is rounded once. */
float structure_number(const char *text, size_t width) {
    static const double POWERS[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    size_t i = 0;
    while (i < width && text[i] == ' ')
        i++;
    size_t start = i;
    bool negative = i < width && text[i] == '-';
    if (i < width && (text[i] == '-' || text[i] == '+')) i++;
    int64_t mantissa = 0;
    int digits = 0, decimals = 0;
    bool point = false;
    for (; i < width && digits <= 15; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9') break;
        mantissa = 10 * mantissa + (text[i] - '0');
        digits++;
        decimals += point;
    }
    while (i < width && text[i] == ' ')
        i++;
    if (i == width && digits > 0 && digits <= 15) {
        double value = (double)mantissa / POWERS[decimals];
        return (float)(negative ? -value : value);
    }
    /* Other forms: an exponent, many digits, an uncertainty in parentheses. */
    char copy[64], *rest;
    if (width - start >= sizeof copy || digits == 0) return NAN;
    memcpy(copy, text + start, width - start);
    copy[width - start] = '\0';
    if (strpbrk(copy, "xXpP") != NULL) return NAN; /* strtod also reads hexadecimal numbers */
    double value = strtod(copy, &rest);
    if (rest == copy) return NAN;
    if (*rest == '(' && strchr(rest, ')') != NULL) rest = strchr(rest, ')') + 1;
    rest += strspn(rest, " ");
    return *rest == '\0' ? (float)value : NAN;
}

bool structure_is_name(const char *name) {
    static const char *const endings[] = {".pdb", ".ent", ".cif", ".mmcif", ".dcd"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

/* Finds the format by the first bytes of the file. */
static enum status tell_format(const char *name, const unsigned char *head, size_t length, enum structure_format *ret,
                               struct err *err) {
    FAIL_IF(length == 0, err, STATUS_TRUNCATED, "%s: the file is empty", name);
    for (size_t marker = 4; marker <= 8; marker += 4)
        if (length >= marker + 4 && (memcmp(head + marker, "CORD", 4) == 0 || memcmp(head + marker, "VELD", 4) == 0)) {
            *ret = STRUCTURE_DCD;
            return STATUS_OK;
        }
    FAIL_IF(length >= 2 && head[0] == 0x1f && head[1] == 0x8b, err, STATUS_UNSUPPORTED,
            "%s: the file is compressed: unpack it with gunzip", name);
    FAIL_IF(memchr(head, 0, length) != NULL, err, STATUS_BAD_FORMAT,
            "%s: neither text nor a DCD file: a PDB, mmCIF or DCD file was expected", name);
    const char *text = (const char *)head, *end = text + length;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* the mark that Windows puts before UTF-8 */
    while (text < end && (isspace((unsigned char)*text) || *text == '#')) {
        if (*text == '#')
            while (text < end && *text != '\n')
                text++;
        else
            text++;
    }
    *ret = end - text >= 5 && strncasecmp(text, "data_", 5) == 0 ? STRUCTURE_CIF : STRUCTURE_PDB;
    return STATUS_OK;
}

enum { HEAD_BYTES = 4096 };

static enum status begin(struct structure_reader *reader, struct err *err) {
    unsigned char head[HEAD_BYTES];
    size_t length = fread(head, 1, sizeof head, reader->stream);
    FAIL_IF(ferror(reader->stream), err, STATUS_IO, "%s: cannot be read: %s", reader->name, strerror(errno));
    TRY(tell_format(reader->name, head, length, &reader->format, err));
    FAIL_IF(fseeko(reader->stream, 0, SEEK_END) != 0 || (reader->size = ftello(reader->stream)) < 0 ||
                fseeko(reader->stream, 0, SEEK_SET) != 0,
            err, STATUS_IO, "%s: cannot be read from its beginning: %s", reader->name, strerror(errno));
    reader->cif.line_start = true;
    return reader->format == STRUCTURE_DCD ? dcd_begin(reader, err) : STATUS_OK;
}

enum status structure_open_stream(FILE *stream, const char *name, const struct structure_model *topology,
                                  struct structure_reader **ret_reader, struct err *err) {
    struct structure_reader *reader = calloc(1, sizeof *reader);
    char *copy = reader != NULL ? strdup(name) : NULL;
    if (copy == NULL) {
        free(reader);
        fclose(stream);
        FAIL(err, STATUS_NO_MEMORY, "no memory to read %s", name);
    }
    *reader = (struct structure_reader){.stream = stream, .name = copy, .topology = topology};
    enum status status = begin(reader, err);
    if (status != STATUS_OK) {
        structure_close(&reader);
        return status;
    }
    *ret_reader = reader;
    return STATUS_OK;
}

enum status structure_open(const char *path, const struct structure_model *topology,
                           struct structure_reader **ret_reader, struct err *err) {
    int descriptor = -1;
    TRY(file_open_read(path, &descriptor, NULL, err));
    FILE *stream = fdopen(descriptor, "r");
    if (stream == NULL) {
        file_close(&descriptor);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    }
    return structure_open_stream(stream, path, topology, ret_reader, err);
}

void structure_close(struct structure_reader **reader) {
    if (reader == NULL || *reader == NULL) return;
    fclose((*reader)->stream);
    dcd_end(&(*reader)->dcd);
    free((*reader)->name);
    free(*reader);
    *reader = NULL;
}

enum structure_format structure_reader_format(const struct structure_reader *reader) {
    return reader->format;
}

int64_t structure_reader_count(const struct structure_reader *reader) {
    return reader->format == STRUCTURE_DCD ? reader->dcd.frames : 0;
}

enum status structure_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found,
                           struct err *err) {
    bool found = false;
    structure_model_reset(model);
    switch (reader->format) {
    case STRUCTURE_PDB:
        TRY(pdb_next(reader, model, &found, err));
        break;
    case STRUCTURE_CIF:
        TRY(cif_next(reader, model, &found, err));
        break;
    case STRUCTURE_DCD:
        TRY(dcd_next(reader, model, &found, err));
        break;
    }
    FAIL_IF(ferror(reader->stream), err, STATUS_IO, "%s: cannot be read: %s", reader->name, strerror(errno));
    FAIL_IF(
        !found && reader->given == 0, err, STATUS_BAD_FORMAT,
        "%s: there is no atom in it: a PDB file with ATOM rows, an mmCIF file with a loop of _atom_site, or a DCD file "
        "was expected",
        reader->name);
    reader->given += found;
    *ret_found = found;
    return STATUS_OK;
}

enum status structure_read_first(const char *path, struct structure_model *model, struct err *err) {
    _cleanup_(structure_close) struct structure_reader *reader = NULL;
    bool found;
    TRY(structure_open(path, NULL, &reader, err));
    return structure_next(reader, model, &found, err);
}

/* Finds the last line that is not blank, within the last bytes of the file. */
static void last_line(char *tail, size_t length, char line[8]) {
    while (length > 0 && isspace((unsigned char)tail[length - 1]))
        length--;
    size_t begin = length;
    while (begin > 0 && tail[begin - 1] != '\n')
        begin--;
    snprintf(line, 8, "%.*s", (int)(length - begin < 7 ? length - begin : 7), tail + begin);
}

/* Returns whether the last row is of an atom and ends before its coordinates. */
static bool pdb_breaks_off(struct structure_reader *reader) {
    enum { COORDINATES_END = 54 };
    char tail[256];
    int64_t from = reader->size > (int64_t)sizeof tail ? reader->size - (int64_t)sizeof tail : 0;
    if (fseeko(reader->stream, from, SEEK_SET) != 0) return false;
    size_t length = fread(tail, 1, sizeof tail, reader->stream), begin = length;
    while (begin > 0 && tail[begin - 1] != '\n')
        begin--;
    return length - begin >= 6 && length - begin < COORDINATES_END &&
           (strncmp(tail + begin, "ATOM  ", 6) == 0 || strncmp(tail + begin, "HETATM", 6) == 0);
}

/* Returns whether END ends the file: END after the only structure, or after all models. A trajectory has an END after
 * each frame and may go on. */
static bool pdb_ends(struct structure_reader *reader) {
    char tail[256], line[8];
    int64_t from = reader->size > (int64_t)sizeof tail ? reader->size - (int64_t)sizeof tail : 0;
    if (fseeko(reader->stream, from, SEEK_SET) != 0) return false;
    size_t length = fread(tail, 1, sizeof tail, reader->stream);
    if (length == 0 || tail[length - 1] != '\n') return false;
    last_line(tail, length, line);
    if (strcmp(line, "END") != 0 || fseeko(reader->stream, 0, SEEK_SET) != 0) return false;
    bool models = false;
    int ends = 0;
    while (ends < 2 && fgets(reader->text, sizeof reader->text, reader->stream) != NULL) {
        models = models || strncmp(reader->text, "MODEL ", 6) == 0;
        ends += strncmp(reader->text, "END", 3) == 0 &&
                (reader->text[3] == '\0' || isspace((unsigned char)reader->text[3]));
    }
    return ends == 1 || models;
}

enum status structure_probe(const char *path, enum structure_format *ret_format, bool *ret_ends, struct err *err) {
    _cleanup_(structure_close) struct structure_reader *reader = NULL;
    TRY(structure_open(path, NULL, &reader, err));
    *ret_format = reader->format;
    FAIL_IF(reader->format == STRUCTURE_PDB && pdb_breaks_off(reader), err, STATUS_TRUNCATED,
            "%s: its last row, of an atom, ends before the coordinates: the file is cut short", path);
    *ret_ends = reader->format == STRUCTURE_PDB && pdb_ends(reader);
    return STATUS_OK;
}
