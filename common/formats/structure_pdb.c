/* Reads PDB files: rows of fixed columns, counted from 0 here.
 *   0-5 ATOM/HETATM, 12-15 name, 16 alternate location, 17-20 residue, 21 chain, 22-25 its number, 26 insertion code,
 *   30-53 x, y, z, 54-59 occupancy, 60-65 B-factor, 72-75 segment, 76-77 element. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/structure_private.h"

enum { NUMBER_UNREADABLE = -1000000 };

/* Reads one line without its end into reader->text, and skips the rest of a longer line. */
static bool next_line(struct structure_reader *reader, bool *ret_whole) {
    if (fgets(reader->text, sizeof reader->text, reader->stream) == NULL) return false;
    reader->line++;
    size_t length = strlen(reader->text);
    bool whole = length > 0 && reader->text[length - 1] == '\n';
    if (!whole && length == sizeof reader->text - 1) {
        int c;
        while ((c = getc_unlocked(reader->stream)) != EOF && c != '\n')
            continue;
        whole = c == '\n';
    }
    while (length > 0 && (reader->text[length - 1] == '\n' || reader->text[length - 1] == '\r'))
        reader->text[--length] = '\0';
    memset(reader->text + length, 0, sizeof reader->text - length);
    *ret_whole = whole;
    return true;
}

static bool is_record(const char *line, const char *name) {
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == '\0');
}

/* Returns whether a line is the row of an atom. The number of the atom may follow ATOM without a blank. */
static bool is_atom(const char *line) {
    return (strncmp(line, "ATOM", 4) == 0 && (line[4] == ' ' || isdigit((unsigned char)line[4]))) ||
           strncmp(line, "HETATM", 6) == 0;
}

/* Reads the number of a residue: 1 to 9999 in digits, then hybrid-36 (A000 …) or hexadecimal (270f …); or five digits,
 * the last in the column of the insertion code (*ret_five). */
static int32_t residue_number(const char *text, bool *ret_five) {
    char word[8];
    *ret_five = false;
    structure_word(text, 4, word, sizeof word);
    bool negative = word[0] == '-';
    const char *digits = word + negative;
    size_t length = strlen(digits), decimal = strspn(digits, "0123456789");
    if (length == 0) return 0;
    if (decimal == length) {
        int32_t value = 0;
        *ret_five = length == 4 && isdigit((unsigned char)text[4]);
        for (size_t i = 0; i < length + *ret_five; i++)
            value = 10 * value + (i < length ? digits[i] : text[4]) - '0';
        return negative ? -value : value;
    }
    if (negative || length != 4) return NUMBER_UNREADABLE;
    bool first_is_digit = decimal > 0, lower = islower((unsigned char)digits[0]);
    int32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)digits[i];
        if (!isalnum(c) || (first_is_digit && !isxdigit(c))) return NUMBER_UNREADABLE;
        int32_t digit = isdigit(c) ? c - '0' : toupper(c) - 'A' + 10;
        value = value * (first_is_digit ? 16 : 36) + digit;
    }
    if (first_is_digit) return value;
    return value - 10 * 36 * 36 * 36 + 10000 + (lower ? 26 * 36 * 36 * 36 : 0);
}

/* Finds an element that the file does not give: in the name of an atom the symbol ends in the second column. */
static void guess_element(const char name[4], bool hetero, char element[4]) {
    static const char *const two[] = {"CL", "BR", "SE", "FE", "ZN", "MG", "MN", "NA", "CU", "NI", "CO", "CD", "HG"};
    unsigned char first = (unsigned char)name[0], second = (unsigned char)name[1];
    memset(element, 0, 4);
    if (!isalpha(first)) {
        element[0] = (char)toupper(second);
        return;
    }
    for (size_t i = 0; hetero && i < sizeof two / sizeof *two && first != 'H'; i++)
        if (toupper(first) == two[i][0] && toupper(second) == two[i][1]) {
            memcpy(element, two[i], 2);
            return;
        }
    element[0] = (char)toupper(first);
}

/* Renames "1HD1" of older files, which put the digit before the name, to HD11. */
static void turn_hydrogen(struct structure_atom *atom) {
    char *name = atom->id.name;
    size_t length = strlen(name);
    if (length < 2 || !isdigit((unsigned char)name[0]) || (name[1] != 'H' && name[1] != 'D')) return;
    char digit = name[0];
    memmove(name, name + 1, length - 1);
    name[length - 1] = digit;
}

/* Returns by how much a row is shifted: some programs write atom numbers of six and more digits, which push the rest to
 * the right. */
static int find_shift(const char *line) {
    for (int shift = 0; shift <= 3; shift++) {
        if (shift > 0 && !isdigit((unsigned char)line[10 + shift])) return 0;
        if (line[34 + shift] == '.' && line[42 + shift] == '.' && line[50 + shift] == '.') return shift;
    }
    return 0;
}

static enum status add_atom(struct structure_reader *reader, struct structure_model *model, struct err *err) {
    struct structure_atom *atom;
    float *xyz;
    TRY(structure_model_add(model, &atom, &xyz, err));
    const char *line = reader->text + find_shift(reader->text);
    bool five;
    atom->hetero = reader->text[0] == 'H';
    structure_word(line + 12, 4, atom->id.name, sizeof atom->id.name);
    structure_word(line + 17, 4, atom->id.residue, sizeof atom->id.residue);
    structure_word(line + 21, 1, atom->id.chain, sizeof atom->id.chain);
    if (atom->id.chain[0] == '\0') structure_word(line + 72, 4, atom->id.chain, sizeof atom->id.chain);
    atom->id.number = residue_number(line + 22, &five);
    if (!five) structure_word(line + 26, 1, atom->id.insertion, sizeof atom->id.insertion);
    atom->altloc = line[16] != '\0' ? line[16] : ' ';
    for (int axis = 0; axis < 3; axis++)
        xyz[axis] = structure_number(line + 30 + 8 * axis, 8);
    if (isnan(xyz[0]) || isnan(xyz[1]) || isnan(xyz[2])) {
        char text[32];
        snprintf(text, sizeof text, "%.24s", line + 30);
        structure_model_fault(model, reader->line, text);
    }
    float occupancy = structure_number(line + 54, 6), b_factor = structure_number(line + 60, 6);
    atom->occupancy = isnan(occupancy) ? 1 : occupancy;
    atom->b_factor = isnan(b_factor) ? 0 : b_factor;
    structure_word(line + 76, 2, atom->element, sizeof atom->element);
    for (char *c = atom->element; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    if (!isalpha((unsigned char)atom->element[0])) guess_element(line + 12, atom->hetero, atom->element);
    turn_hydrogen(atom);
    return STATUS_OK;
}

enum status pdb_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err) {
    enum { COORDINATES_END = 54 };
    bool whole = true;
    model->number = INT_MIN;
    for (;;) {
        if (!reader->has_text && !next_line(reader, &whole)) break;
        reader->has_text = false;
        const char *line = reader->text;
        if (is_atom(line)) {
            size_t length = strlen(line);
            FAIL_IF(length < COORDINATES_END, err, whole ? STATUS_BAD_FORMAT : STATUS_TRUNCATED,
                    "%s: line %ld: this row of an atom has %zu characters, and its coordinates would end at %d%s",
                    reader->name, reader->line, length, COORDINATES_END, whole ? "" : ": the file is cut short");
            TRY(add_atom(reader, model, err));
        } else if (is_record(line, "MODEL")) {
            /* The model before has no ENDMDL. */
            if (model->count > 0) {
                reader->has_text = true;
                break;
            }
            sscanf(line + 5, "%9d", &model->number);
        } else if (model->count > 0 && (is_record(line, "ENDMDL") || is_record(line, "END"))) {
            break;
        }
    }
    if (model->number == INT_MIN) model->number = reader->given + 1;
    *ret_found = model->count > 0;
    return STATUS_OK;
}
