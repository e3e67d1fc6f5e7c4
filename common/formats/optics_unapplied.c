#include "common/formats/optics_unapplied.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller values than these move nothing by a measurable part of a pixel. */
static const double LEAST = 1e-6;

static const struct {
    const char *name;
    double none; /* the value that needs no correction; of each coefficient in a list */
} COLUMNS[] = {{"rlnBeamTiltX", 0},    {"rlnBeamTiltY", 0},    {"rlnMagMat00", 1},     {"rlnMagMat01", 0},
               {"rlnMagMat10", 0},     {"rlnMagMat11", 1},     {"rlnMagMatrix_00", 1}, {"rlnMagMatrix_01", 0},
               {"rlnMagMatrix_10", 0}, {"rlnMagMatrix_11", 1}, {"rlnOddZernike", 0},   {"rlnEvenZernike", 0}};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

/* Returns whether a number, or one of a list in brackets, differs from what needs no correction. */
static bool differs(const char *text, double none) {
    for (const char *at = text; *at != '\0';) {
        char *end;
        double value = strtod(at, &end);
        if (end == at) {
            at++;
            continue;
        }
        if (isfinite(value) && fabs(value - none) > LEAST) return true;
        at = end;
    }
    return false;
}

bool optics_find_unapplied(const struct star_table *table, size_t row, char *text, size_t size) {
    for (int i = 0; i < COLUMN_COUNT; i++) {
        int column = star_column_find(table, COLUMNS[i].name);
        if (column < 0 || !differs(star_get(table, row, column), COLUMNS[i].none)) continue;
        snprintf(text, size, "%s %.100s", COLUMNS[i].name, star_get(table, row, column));
        return true;
    }
    return false;
}
