#include "common/formats/tilts.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

enum { TEXT_LIMIT = 16 << 20, LINE_NUMBERS = 16 };

static const double SCALE_MAX = 10; /* of lengths; a transform may change areas by its square */

/* The numbers of one line. */
struct line {
    const char *name; /* of the file */
    int number;
    int count;
    double values[LINE_NUMBERS];
};

struct reader {
    const char *name, *what; /* "an angle in degrees" */
    const char *at, *end;
    int line;
};

/* Copies a text for a message: printable characters only, and not all of a long line. */
static void show(const char *text, size_t length, char shown[48]) {
    size_t n = length < 40 ? length : 40;
    for (size_t i = 0; i < n; i++)
        shown[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    shown[n] = '\0';
}

/* Refuses "39,7", which is not 39. A comma between two numbers has a blank behind it. */
static enum status refuse_comma(const struct reader *reader, const char *word, const char *comma, const char *end,
                                struct err *err) {
    char shown[48];
    const char *last = comma + 1;
    while (last < end && isdigit((unsigned char)*last))
        last++;
    if (comma >= end || *comma != ',' || last == comma + 1) return STATUS_OK;
    show(word, (size_t)(last - word), shown);
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: line %d: '%s': a point, not a comma, is expected in a number, and a blank between two", reader->name,
         reader->line, shown);
}

static enum status read_number(const struct reader *reader, const char **at, const char *end, double *ret_value,
                               struct err *err) {
    char word[64], shown[48], *rest;
    size_t length = 0;
    while (*at + length < end && !isspace((unsigned char)(*at)[length]) && (*at)[length] != ',')
        length++;
    TRY(refuse_comma(reader, *at, *at + length, end, err));
    show(*at, length, shown);
    FAIL_IF(length == 0 || length >= sizeof word || memchr(*at, 0, length) != NULL, err, STATUS_BAD_FORMAT,
            "%s: line %d: '%s' stands where %s is expected", reader->name, reader->line, shown, reader->what);
    memcpy(word, *at, length);
    word[length] = '\0';
    double value = strtod(word, &rest);
    bool hexadecimal = strpbrk(word, "xX") != NULL;
    FAIL_IF(*rest != '\0' || hexadecimal, err, STATUS_BAD_FORMAT, "%s: line %d: '%s' stands where %s is expected",
            reader->name, reader->line, shown, reader->what);
    FAIL_IF(!isfinite(value), err, STATUS_BAD_FORMAT,
            "%s: line %d: the value '%s' is not a finite number: %s is expected", reader->name, reader->line, shown,
            reader->what);
    *at += length;
    *ret_value = value;
    return STATUS_OK;
}

/* Skips the byte order mark with which Windows editors begin a text. */
static struct reader reader_of(const char *name, const char *what, const char *text, size_t length) {
    size_t skip = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return (struct reader){name, what, text + skip, text + length, 0};
}

static bool is_gap(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == ',' || c == '\f' || c == '\v';
}

/* Reads the next line that is not empty; count is 0 at the end. */
static enum status next_line(struct reader *reader, struct line *line, struct err *err) {
    line->count = 0;
    while (line->count == 0 && reader->at < reader->end) {
        const char *stop = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        if (stop == NULL) stop = reader->end;
        reader->line++;
        for (const char *at = reader->at;;) {
            while (at < stop && is_gap(*at))
                at++;
            if (at == stop) break;
            FAIL_IF(line->count == LINE_NUMBERS, err, STATUS_BAD_FORMAT,
                    "%s: line %d: more than %d numbers stand where %s is expected", reader->name, reader->line,
                    LINE_NUMBERS, reader->what);
            TRY(read_number(reader, &at, stop, &line->values[line->count], err));
            line->count++;
        }
        reader->at = stop < reader->end ? stop + 1 : stop;
    }
    line->number = reader->line;
    return STATUS_OK;
}

static enum status grow(void *entries, size_t size, int count, int *capacity, struct err *err) {
    if (count < *capacity) return STATUS_OK;
    int more = *capacity > 0 ? 2 * *capacity : 64;
    void *grown = realloc(*(void **)entries, (size_t)more * size);
    FAIL_IF(grown == NULL, err, STATUS_NO_MEMORY, "no memory for %d tilts", more);
    *(void **)entries = grown;
    *capacity = more;
    return STATUS_OK;
}

static enum status refuse_count(const char *name, int count, struct err *err) {
    FAIL_IF(count >= TILTS_MAX, err, STATUS_BAD_FORMAT, "%s: more than %d lines: this is not the file of a tilt series",
            name, TILTS_MAX);
    return STATUS_OK;
}

enum status tilts_parse_angles(const char *name, const char *text, size_t length, double **ret_angles, int *ret_count,
                               struct err *err) {
    struct reader reader = reader_of(name, "an angle in degrees", text, length);
    struct line line = {.name = name};
    _cleanup_(mem_free) double *angles = NULL;
    int count = 0, capacity = 0;
    for (;;) {
        TRY(next_line(&reader, &line, err));
        if (line.count == 0) break;
        TRY(refuse_count(name, count, err));
        FAIL_IF(fabs(line.values[0]) > TILT_ANGLE_MAX, err, STATUS_BAD_FORMAT,
                "%s: line %d: a tilt of %g° lies beyond ±90°: one angle in degrees is expected on each line", name,
                line.number, line.values[0]);
        TRY(grow(&angles, sizeof *angles, count, &capacity, err));
        angles[count++] = line.values[0];
    }
    FAIL_IF(count == 0, err, STATUS_BAD_FORMAT, "%s: there is no angle in it: one a line is expected", name);
    *ret_angles = angles;
    *ret_count = count;
    angles = NULL;
    return STATUS_OK;
}

enum status tilts_read_angles(const char *path, double **ret_angles, int *ret_count, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    TRY(file_read_whole(path, TEXT_LIMIT, &text, &length, err));
    return tilts_parse_angles(path, text, length, ret_angles, ret_count, err);
}

static enum status check_transform(const struct line *line, struct err *err) {
    const double *v = line->values;
    FAIL_IF(line->count != 6, err, STATUS_BAD_FORMAT,
            "%s: line %d holds %d numbers: six are expected, A11 A12 A21 A22 DX DY", line->name, line->number,
            line->count);
    double area = fabs(v[0] * v[3] - v[1] * v[2]);
    FAIL_IF(!(area >= 1 / SCALE_MAX / SCALE_MAX && area <= SCALE_MAX * SCALE_MAX) || fabs(v[0]) > SCALE_MAX ||
                fabs(v[1]) > SCALE_MAX || fabs(v[2]) > SCALE_MAX || fabs(v[3]) > SCALE_MAX,
            err, STATUS_BAD_FORMAT,
            "%s: line %d: the matrix %g %g %g %g changes areas %g-fold: a rotation with a change of scale below 10 is "
            "expected",
            line->name, line->number, v[0], v[1], v[2], v[3], area);
    FAIL_IF(fabs(v[4]) > 1e6 || fabs(v[5]) > 1e6, err, STATUS_BAD_FORMAT,
            "%s: line %d: a shift of %g, %g px leads out of any image", line->name, line->number, v[4], v[5]);
    return STATUS_OK;
}

enum status tilts_parse_transforms(const char *name, const char *text, size_t length,
                                   struct tilt_transform **ret_transforms, int *ret_count, struct err *err) {
    struct reader reader = reader_of(name, "a number of a transform", text, length);
    struct line line = {.name = name};
    _cleanup_(mem_free) struct tilt_transform *transforms = NULL;
    int count = 0, capacity = 0;
    for (;;) {
        TRY(next_line(&reader, &line, err));
        if (line.count == 0) break;
        TRY(refuse_count(name, count, err));
        TRY(check_transform(&line, err));
        TRY(grow(&transforms, sizeof *transforms, count, &capacity, err));
        const double *v = line.values;
        transforms[count++] = (struct tilt_transform){v[0], v[1], v[2], v[3], v[4], v[5]};
    }
    FAIL_IF(count == 0, err, STATUS_BAD_FORMAT, "%s: there is no transform in it: six numbers a line are expected",
            name);
    *ret_transforms = transforms;
    *ret_count = count;
    transforms = NULL;
    return STATUS_OK;
}

enum status tilts_read_transforms(const char *path, struct tilt_transform **ret_transforms, int *ret_count,
                                  struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    TRY(file_read_whole(path, TEXT_LIMIT, &text, &length, err));
    return tilts_parse_transforms(path, text, length, ret_transforms, ret_count, err);
}

static bool parse_view(const char **at, int *ret_view) {
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    long view = strtol(*at, &end, 10);
    if (view < 1 || view > TILTS_MAX) return false;
    *at = end;
    *ret_view = (int)view;
    return true;
}

static const char *skip_blanks(const char *at) {
    return at + strspn(at, " \t");
}

enum status tilts_parse_list(const char *where, const char *text, bool *listed, int *ret_greatest, struct err *err) {
    memset(listed, 0, (TILTS_MAX + 1) * sizeof *listed);
    int greatest = 0;
    for (const char *at = skip_blanks(text); *at != '\0';) {
        int first = 0, last = 0;
        bool good = parse_view(&at, &first);
        last = first;
        at = skip_blanks(at);
        if (good && *at == '-') {
            at = skip_blanks(at + 1);
            good = parse_view(&at, &last) && last >= first;
            at = skip_blanks(at);
        }
        FAIL_IF(
            !good || (*at != ',' && *at != '\0'), err, STATUS_BAD_ARGUMENT,
            "%s: '%.80s' is not a list of views: numbers from 1 (the first image of the stack) and ranges of them are "
            "expected, as 3,7-9",
            where, text);
        for (int view = first; view <= last; view++)
            listed[view] = true;
        greatest = last > greatest ? last : greatest;
        at = skip_blanks(*at == ',' ? at + 1 : at);
    }
    *ret_greatest = greatest;
    return STATUS_OK;
}
