#include "pipelines/launcher/alarms/exposures.h"
#include "pipelines/launcher/numbers.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

enum { INTERVALS = 101 };

/* Columns by RELION's names, where it has one. */
static const struct {
    const char *first, *second;
    double factor;
} COLUMNS[QUANTITIES] = {
    [QUANTITY_DEFOCUS] = {"rlnDefocusU", "rlnDefocusV", 1e-4},
    [QUANTITY_ASTIGMATISM] = {"rlnCtfAstigmatism", NULL, 1},
    [QUANTITY_RESOLUTION] = {"rlnCtfMaxResolution", NULL, 1},
    [QUANTITY_MOTION] = {"icestreamMotionTotal", NULL, 1}, /* Å; RELION's column is in pixels of the movie */
    [QUANTITY_ICE] = {"rlnCtfIceRingDensity", NULL, 1},
    [QUANTITY_PICKS] = {"picks.count", NULL, 1},
    [QUANTITY_GAIN] = {"icestreamGainResidualSd", NULL, 1},
    [QUANTITY_GAIN_SPREAD] = {"icestreamGainResidualSpread", NULL, 1},
    [QUANTITY_GAIN_MAXIMUM] = {"icestreamGainResidualMaximum", NULL, 1},
};

struct exposures_column exposures_column(const struct view *view, enum alarm_quantity quantity) {
    const char *second = COLUMNS[quantity].second;
    return (struct exposures_column){.first = view_column_find(view, COLUMNS[quantity].first),
                                     .second = second != NULL ? view_column_find(view, second) : -1,
                                     .factor = COLUMNS[quantity].factor};
}

double exposures_value(const struct view *view, struct exposures_column column, size_t row) {
    if (column.first < 0) return NAN;
    const double value = view_value(view, row, (size_t)column.first);
    if (column.second < 0) return column.factor * value;
    const double other = view_value(view, row, (size_t)column.second);
    return column.factor * (isnan(other) ? value : (value + other) / 2);
}

size_t exposures_recent(const struct view *view, struct exposures_column column, size_t most, double *values) {
    size_t count = 0;
    if (column.first < 0) return 0;
    for (size_t row = view_row_count(view); row-- > 0 && count < most;) {
        const double value = exposures_value(view, column, row);
        if (!isnan(value)) values[count++] = value;
    }
    return count;
}

double exposures_last(const struct view *view) {
    double last = NAN;
    const size_t count = view_row_count(view);
    /* Rows stand in the order in which they were first seen, but two sources may have two clocks. */
    for (size_t row = count > INTERVALS ? count - INTERVALS : 0; row < count; row++)
        last = fmax(last, view_row(view, row)->time_found);
    return last;
}

size_t exposures_within(const struct view *view, double now, double span) {
    size_t count = 0;
    for (size_t row = view_row_count(view); row-- > 0;) {
        if (view_row(view, row)->time_found <= now - span) break;
        count++;
    }
    return count;
}

double exposures_interval(const struct view *view) {
    double steps[INTERVALS];
    size_t count = 0;
    const size_t rows = view_row_count(view);
    for (size_t row = rows > INTERVALS ? rows - INTERVALS : 1; row < rows; row++)
        steps[count++] = fmax(0, view_row(view, row)->time_found - view_row(view, row - 1)->time_found);
    numbers_sort(steps, count);
    return count < 2 ? NAN : numbers_quantile(steps, count, 0.5);
}

void exposures_reason(const char *reason, char *text, size_t size) {
    static const char mark[] = " (reject_if)";
    const size_t length = strlen(reason), tail = sizeof mark - 1, column = strcspn(reason, " ");
    if (length > tail && strcmp(reason + length - tail, mark) == 0 && reason[column] != '\0') {
        const char *value = reason + column + 1, *rest = strchr(value, ' ');
        if (rest != NULL && (size_t)(rest - reason) < length - tail) {
            snprintf(text, size, "%.*s%.*s", (int)column, reason, (int)(length - tail - (size_t)(rest - reason)), rest);
            text_trim(text);
            return;
        }
    }
    /* "PATH: what is wrong" */
    if (reason[column] == ' ' && column > 1 && reason[column - 1] == ':' && memchr(reason, '.', column) != NULL)
        reason += column + 1;
    size_t at = 0;
    for (size_t i = 0; reason[i] != '\0' && at + 1 < size;) {
        const bool digit = isdigit((unsigned char)reason[i]);
        text[at++] = digit ? 'N' : reason[i++];
        while (digit && (isdigit((unsigned char)reason[i]) || reason[i] == '.'))
            i++;
    }
    text[at] = '\0';
    text_trim(text);
}
