#include "stages/extractor/local_ctf.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/formats/star.h"
#include "common/memory.h"

enum { COLUMNS = 5, POINTS_MOST = 1 << 20 };
static const char *const NAMES[COLUMNS] = {"rlnCoordinateX", "rlnCoordinateY", "rlnDefocusU", "rlnDefocusV",
                                           "rlnDefocusAngle"};

void local_ctf_clear(struct local_ctf *local) {
    mem_free(&local->x);
    mem_free(&local->y);
    mem_free(&local->u);
    mem_free(&local->v);
    mem_free(&local->angle);
    *local = (struct local_ctf){0};
}

static enum status make_room(struct local_ctf *local, size_t count, struct err *err) {
    static const char WHAT[] = "the defocus of a micrograph's parts";
    if (count <= local->room) return STATUS_OK;
    local_ctf_clear(local);
    TRY(mem_new(count, sizeof(double), WHAT, &local->x, err));
    TRY(mem_new(count, sizeof(double), WHAT, &local->y, err));
    TRY(mem_new(count, sizeof(double), WHAT, &local->u, err));
    TRY(mem_new(count, sizeof(double), WHAT, &local->v, err));
    TRY(mem_new(count, sizeof(double), WHAT, &local->angle, err));
    local->room = count;
    return STATUS_OK;
}

static enum status read_point(const char *path, const struct star_table *table, size_t row, const int columns[COLUMNS],
                              double values[COLUMNS], struct err *err) {
    for (int k = 0; k < COLUMNS; k++) {
        TRY(star_get_number(table, row, columns[k], &values[k], err));
        FAIL_IF(!isfinite(values[k]), err, STATUS_BAD_FORMAT, "%s: row %zu: %s is %g: a finite number is expected",
                path, row + 1, NAMES[k], values[k]);
    }
    return STATUS_OK;
}

/* Takes point `row` of the table into the grid; false: it is not where the grid goes on. */
static bool take_point(struct local_ctf *local, size_t row, const double values[COLUMNS]) {
    size_t column = row % (size_t)local->columns, line = row / (size_t)local->columns;
    if (line == 0) local->x[column] = values[0];
    if (column == 0) local->y[line] = values[1];
    local->u[row] = values[2];
    local->v[row] = values[3];
    local->angle[row] = values[4];
    return local->x[column] == values[0] && local->y[line] == values[1] &&
           (column == 0 || local->x[column - 1] < values[0]) && (line == 0 || local->y[line - 1] < values[1]);
}

static enum status take_grid(const char *path, const struct star_table *table, const int columns[COLUMNS],
                             struct local_ctf *local, struct err *err) {
    size_t count = star_row_count(table), across = 0;
    double values[COLUMNS], first = 0;
    FAIL_IF(count == 0 || count > POINTS_MOST, err, STATUS_BAD_FORMAT, "%s holds %zu points: 1 to %d are expected",
            path, count, POINTS_MOST);
    TRY(make_room(local, count, err));
    for (; across < count; across++) {
        TRY(read_point(path, table, across, columns, values, err));
        if (across == 0) first = values[1];
        if (values[1] != first) break;
    }
    local->columns = (int)across;
    local->rows = (int)(count / across);
    FAIL_IF(count % across != 0, err, STATUS_BAD_FORMAT,
            "%s: %zu points in rows of %zu: a full grid is expected; run the ctf-estimator again", path, count, across);
    for (size_t row = 0; row < count; row++) {
        TRY(read_point(path, table, row, columns, values, err));
        FAIL_IF(!take_point(local, row, values), err, STATUS_BAD_FORMAT,
                "%s: row %zu: the point (%g, %g) does not continue the grid: rising x within rising y is expected; run "
                "the ctf-estimator again",
                path, row + 1, values[0], values[1]);
    }
    return STATUS_OK;
}

enum status local_ctf_read(const char *path, struct local_ctf *local, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    int columns[COLUMNS];
    local->columns = local->rows = 0;
    TRY(star_read(path, &file, err));
    FAIL_IF(star_table_count(file) == 0, err, STATUS_BAD_FORMAT, "%s holds no table: points with %s are expected", path,
            NAMES[0]);
    const struct star_table *table = star_table_at(file, 0);
    for (int k = 0; k < COLUMNS; k++)
        TRY(star_column_need(table, NAMES[k], &columns[k], err));
    enum status status = take_grid(path, table, columns, local, err);
    if (status != STATUS_OK) local->columns = local->rows = 0;
    return status;
}

/* Returns the place at or before a number, and how far the number is towards the next place, 0 to 1. */
static int before(const double *places, int count, double at, double *ret_share) {
    int i = 0;
    while (i + 2 < count && places[i + 1] <= at)
        i++;
    *ret_share = count > 1 ? fmin(fmax((at - places[i]) / (places[i + 1] - places[i]), 0), 1) : 0;
    return i;
}

struct local_ctf_value local_ctf_at(const struct local_ctf *local, double x, double y) {
    double fx, fy;
    int i = before(local->x, local->columns, x, &fx), k = before(local->y, local->rows, y, &fy);
    int next_i = i + 1 < local->columns ? i + 1 : i, next_k = k + 1 < local->rows ? k + 1 : k;
    size_t low = (size_t)k * (size_t)local->columns, high = (size_t)next_k * (size_t)local->columns;
    const size_t at[4] = {low + (size_t)i, low + (size_t)next_i, high + (size_t)i, high + (size_t)next_i};
    const double share[4] = {(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy};
    struct local_ctf_value value = {0};
    int nearest = 0;
    for (int c = 0; c < 4; c++) {
        value.u += share[c] * local->u[at[c]];
        value.v += share[c] * local->v[at[c]];
        if (share[c] > share[nearest]) nearest = c;
    }
    value.angle = local->angle[at[nearest]];
    return value;
}
