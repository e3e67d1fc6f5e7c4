#include "common/formats/optics_aberrations.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/formats/star_cells.h"
#include "common/memory.h"

static const double LEAST = 1e-6;

/* Names of one column; older versions wrote the second one. */
static const struct {
    const char *name, *older;
} TILT[2] = {{"rlnBeamTiltX", NULL}, {"rlnBeamTiltY", NULL}}, MATRIX[4] = {{"rlnMagMat00", "rlnMagMatrix_00"},
                                                                           {"rlnMagMat01", "rlnMagMatrix_01"},
                                                                           {"rlnMagMat10", "rlnMagMatrix_10"},
                                                                           {"rlnMagMat11", "rlnMagMatrix_11"}};
static const char EVEN[] = "rlnEvenZernike", ODD[] = "rlnOddZernike", MTF[] = "rlnMtfFileName";

struct optics_aberrations optics_aberrations_none(void) {
    return (struct optics_aberrations){.magnification = {1, 0, 0, 1}};
}

static int find(const struct star_table *table, const char *name, const char *older) {
    int column = star_column_find(table, name);
    return column >= 0 || older == NULL ? column : star_column_find(table, older);
}

bool optics_aberrations_stated(const struct star_table *table) {
    bool stated = star_column_find(table, EVEN) >= 0 || star_column_find(table, ODD) >= 0;
    for (int i = 0; i < 2; i++)
        stated = stated || find(table, TILT[i].name, TILT[i].older) >= 0;
    for (int i = 0; i < 4; i++)
        stated = stated || find(table, MATRIX[i].name, MATRIX[i].older) >= 0;
    return stated;
}

static bool is_empty(const char *text) {
    return *text == '\0' || strcasecmp(text, "nan") == 0 || strcasecmp(text, "none") == 0;
}

static enum status bad(const struct star_table *table, size_t row, int column, const char *path, const char *expected,
                       struct err *err) {
    FAIL(err, STATUS_BAD_FORMAT, "%s: data_%s, row %zu: %s is \"%.100s\"; %s expected", path, star_table_name(table),
         row + 1, star_column_name(table, (size_t)column), star_get(table, row, column), expected);
}

static enum status read_number(const struct star_table *table, size_t row, int column, const char *path, double *value,
                               struct err *err) {
    if (column < 0 || is_empty(star_get(table, row, column))) return STATUS_OK;
    char *end;
    double number = strtod(star_get(table, row, column), &end);
    if (*end != '\0' || !isfinite(number)) return bad(table, row, column, path, "a number is", err);
    *value = number;
    return STATUS_OK;
}

/* Reads "[1,2,3]"; brackets may be missing. */
static enum status read_list(const struct star_table *table, size_t row, const char *name, const char *path, int most,
                             double *values, int *ret_count, struct err *err) {
    int column = star_column_find(table, name), count = 0;
    *ret_count = 0;
    if (column < 0 || is_empty(star_get(table, row, column))) return STATUS_OK;
    for (const char *at = star_get(table, row, column); *at != '\0';) {
        if (strchr("[],;", *at) != NULL || isspace((unsigned char)*at)) {
            at++;
            continue;
        }
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value))
            return bad(table, row, column, path, "coefficients in brackets, as [0,0,0.1], are", err);
        FAIL_IF(count == most && fabs(value) > LEAST, err, STATUS_UNSUPPORTED,
                "%s: data_%s, row %zu: %s has more than %d coefficients: shorten it to these, or set ignore_optics to "
                "go on without",
                path, star_table_name(table), row + 1, name, most);
        if (count < most) values[count++] = value;
        at = end;
    }
    *ret_count = count;
    return STATUS_OK;
}

enum status optics_aberrations_read(const struct star_table *table, size_t row, const char *path,
                                    struct optics_aberrations *ret, struct err *err) {
    struct optics_aberrations a = optics_aberrations_none();
    for (int i = 0; i < 2; i++)
        TRY(read_number(table, row, find(table, TILT[i].name, TILT[i].older), path, &a.tilt[i], err));
    for (int i = 0; i < 4; i++)
        TRY(read_number(table, row, find(table, MATRIX[i].name, MATRIX[i].older), path, &a.magnification[i], err));
    TRY(read_list(table, row, EVEN, path, OPTICS_EVEN_MOST, a.even, &a.even_count, err));
    TRY(read_list(table, row, ODD, path, OPTICS_ODD_MOST, a.odd, &a.odd_count, err));
    const double *m = a.magnification;
    double determinant = m[0] * m[3] - m[1] * m[2];
    FAIL_IF(!(determinant > 0.25 && determinant < 4 && m[0] > 0.5 && m[3] > 0.5), err, STATUS_BAD_FORMAT,
            "%s: data_%s, row %zu: the magnification matrix %g, %g; %g, %g (rlnMagMat00 to rlnMagMat11) is impossible "
            "for a microscope: one near 1, 0; 0, 1 is expected",
            path, star_table_name(table), row + 1, m[0], m[1], m[2], m[3]);
    *ret = a;
    return STATUS_OK;
}

/* Returns whether a cell holds a number other than `none`. */
static bool states(const char *text, double none) {
    for (const char *at = text; *at != '\0';) {
        char *end;
        double value = strtod(at, &end);
        if (end != at && isfinite(value) && fabs(value - none) > LEAST) return true;
        at = end != at ? end : at + 1;
    }
    return false;
}

void optics_aberrations_list(const struct star_table *table, size_t row, char *text, size_t size) {
    const struct {
        const char *name, *older;
        double none;
    } columns[] = {{TILT[0].name, TILT[0].older, 0},
                   {TILT[1].name, TILT[1].older, 0},
                   {MATRIX[0].name, MATRIX[0].older, 1},
                   {MATRIX[1].name, MATRIX[1].older, 0},
                   {MATRIX[2].name, MATRIX[2].older, 0},
                   {MATRIX[3].name, MATRIX[3].older, 1},
                   {EVEN, NULL, 0},
                   {ODD, NULL, 0},
                   {MTF, NULL, 0}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        int column = find(table, columns[i].name, columns[i].older);
        const char *cell = column >= 0 ? star_get(table, row, column) : "";
        if (columns[i].name == MTF ? is_empty(cell) || strpbrk(cell, " \t") != NULL : !states(cell, columns[i].none))
            continue;
        if (used + strlen(columns[i].name) + strlen(cell) + 3 > size) {
            text[0] = '\0';
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s ", used > 0 ? " " : "", columns[i].name);
        for (const char *at = cell; *at != '\0'; at++)
            if (!isspace((unsigned char)*at)) text[used++] = *at;
        text[used] = '\0';
    }
}

enum status optics_aberrations_put(struct star_table *table, size_t row, const char *list, struct err *err) {
    _cleanup_(mem_free) char *copy = strdup(list);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for aberrations");
    char *rest = NULL;
    for (char *column = strtok_r(copy, " ", &rest); column != NULL; column = strtok_r(NULL, " ", &rest)) {
        const char *cell = strtok_r(NULL, " ", &rest);
        if (cell != NULL) TRY(star_put_text(table, row, column, cell, err));
    }
    return STATUS_OK;
}

bool optics_aberrations_same_rows(const struct star_table *a, size_t row_a, const struct star_table *b, size_t row_b) {
    char first[OPTICS_ABERRATIONS_TEXT], second[OPTICS_ABERRATIONS_TEXT];
    optics_aberrations_list(a, row_a, first, sizeof first);
    optics_aberrations_list(b, row_b, second, sizeof second);
    return strcmp(first, second) == 0;
}

static bool all_zero(const double *values, int count) {
    for (int i = 0; i < count; i++)
        if (fabs(values[i]) > LEAST) return false;
    return true;
}

static bool magnifies(const struct optics_aberrations *a) {
    const double *m = a->magnification;
    return fabs(m[0] - 1) > LEAST || fabs(m[1]) > LEAST || fabs(m[2]) > LEAST || fabs(m[3] - 1) > LEAST;
}

bool optics_aberrations_are_none(const struct optics_aberrations *a) {
    return all_zero(a->tilt, 2) && !magnifies(a) && all_zero(a->even, a->even_count) && all_zero(a->odd, a->odd_count);
}

void optics_shift_to_image(const struct optics_aberrations *a, const double shift[2], double ret_shift[2]) {
    const double *m = a->magnification, x = shift[0], y = shift[1];
    ret_shift[0] = m[0] * x + m[2] * y;
    ret_shift[1] = m[1] * x + m[3] * y;
}

void optics_shift_from_image(const struct optics_aberrations *a, const double shift[2], double ret_shift[2]) {
    const double *m = a->magnification, determinant = m[0] * m[3] - m[1] * m[2], x = shift[0], y = shift[1];
    ret_shift[0] = (m[3] * x - m[2] * y) / determinant;
    ret_shift[1] = (m[0] * y - m[1] * x) / determinant;
}

static bool same(const double *a, const double *b, int count) {
    for (int i = 0; i < count; i++)
        if (fabs(a[i] - b[i]) > 0) return false;
    return true;
}

/* Coefficients beyond the counts are 0. */
bool optics_aberrations_same(const struct optics_aberrations *a, const struct optics_aberrations *b) {
    return same(a->tilt, b->tilt, 2) && same(a->magnification, b->magnification, 4) &&
           same(a->even, b->even, OPTICS_EVEN_MOST) && same(a->odd, b->odd, OPTICS_ODD_MOST);
}

const char *optics_aberrations_name(const struct optics_aberrations *a, char *text, size_t size) {
    const double *m = a->magnification;
    char tilt[64] = "", matrix[96] = "";
    if (!all_zero(a->tilt, 2)) snprintf(tilt, sizeof tilt, "; beam tilt %g, %g mrad", a->tilt[0], a->tilt[1]);
    if (magnifies(a)) snprintf(matrix, sizeof matrix, "; magnification %g, %g; %g, %g", m[0], m[1], m[2], m[3]);
    char all[256];
    snprintf(all, sizeof all, "%s%s%s%s", tilt, matrix, all_zero(a->odd, a->odd_count) ? "" : "; odd Zernike",
             all_zero(a->even, a->even_count) ? "" : "; even Zernike");
    snprintf(text, size, "%s", strlen(all) > 2 ? all + 2 : "none");
    return text;
}
