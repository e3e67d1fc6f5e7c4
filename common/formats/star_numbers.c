#include "common/formats/star_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

static bool ends(const char *name, const char *end) {
    size_t length = strlen(name), wanted = strlen(end);
    return length >= wanted && strcmp(name + length - wanted, end) == 0;
}

/* Returns whether RELION keeps texts in a column of this name. */
static bool names_text(const char *name) {
    static const char *const ENDS[] = {"Name", "NoDW", "Image", "Spectrum", "File", "Coordinates", "Star", "Metadata"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (ends(name, ENDS[i])) return true;
    return false;
}

/* Returns whether RELION keeps numbers in a column of this name. */
static bool names_number(const char *name) {
    static const char *const STARTS[] = {"rlnDefocus",
                                         "rlnCtf",
                                         "rlnPhaseShift",
                                         "rlnVoltage",
                                         "rlnSphericalAberration",
                                         "rlnAmplitudeContrast",
                                         "rlnAngle",
                                         "rlnOrigin",
                                         "rlnCoordinate",
                                         "rlnMagnification",
                                         "rlnDetectorPixelSize",
                                         "rlnAccumMotion",
                                         "rlnBeamTilt",
                                         "rlnAutopick",
                                         "rlnMicrographPixelSize",
                                         "rlnMicrographOriginalPixelSize",
                                         "rlnImagePixelSize"};
    if (names_text(name)) return false;
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
        if (begins(name, STARTS[i])) return true;
    return false;
}

enum star_cell_kind star_cell_read(const struct star_table *table, size_t row, int column, double *ret_value) {
    const char *name = star_column_name(table, (size_t)column);
    double value;
    bool parsed = star_get_number(table, row, column, &value, NULL) == STATUS_OK;
    if (parsed && isfinite(value)) {
        *ret_value = value;
        return STAR_CELL_NUMBER;
    }
    bool broken = parsed ? !names_text(name) : names_number(name);
    return broken ? STAR_CELL_BROKEN : STAR_CELL_TEXT;
}

void star_cell_problem(const struct star_table *table, size_t row, int column, char ret_text[STAR_CELL_PROBLEM]) {
    snprintf(ret_text, STAR_CELL_PROBLEM, "row %zu of data_%.80s: %.80s is \"%.80s\"", row + 1, star_table_name(table),
             star_column_name(table, (size_t)column), star_get(table, row, column));
}

bool star_column_is_ctf(const char *name) {
    static const char *const NAMES[] = {"rlnDefocusU",   "rlnDefocusV",   "rlnDefocusAngle",
                                        "rlnPhaseShift", "rlnCtfBfactor", "rlnCtfScalefactor"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

const char *star_missing(const char *name) {
    static const char *const WHOLE[] = {"rlnOpticsGroup",
                                        "rlnClassNumber",
                                        "rlnGroupNumber",
                                        "rlnRandomSubset",
                                        "rlnHelicalTubeID",
                                        "rlnBeamTiltClass",
                                        "rlnImageSize",
                                        "rlnImageDimensionality",
                                        "rlnTomoSubTomogram",
                                        "rlnImageId",
                                        "rlnMicrographFrameNumber",
                                        "rlnNrOfSignificantSamples",
                                        "rlnCtfDataAreCtfPremultiplied"};
    for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++)
        if (strcmp(name, WHOLE[i]) == 0) return "0";
    /* Aberrations of other optics groups. NaN would spoil each image of this one in RELION, which adds the beam tilt to
     * the first six odd coefficients. */
    static const char *const NONE[][2] = {
        {"rlnBeamTiltX", "0"},     {"rlnBeamTiltY", "0"}, {"rlnOddZernike", "[0,0,0,0,0,0]"},
        {"rlnEvenZernike", "[0]"}, {"rlnMagMat00", "1"},  {"rlnMagMat01", "0"},
        {"rlnMagMat10", "0"},      {"rlnMagMat11", "1"}};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++)
        if (strcmp(name, NONE[i][0]) == 0) return NONE[i][1];
    return names_text(name) ? "None" : "nan";
}
