#include <math.h>

#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "stages/ctf-estimator/ctf_files.h"

static enum status make_room(struct ctf_record *r, int columns, int rows, struct err *err) {
    size_t count = (size_t)columns * (size_t)rows;
    r->grid_columns = r->grid_rows = 0;
    if (count <= r->grid_room) return STATUS_OK;
    mem_free(&r->grid);
    mem_free(&r->grid_x);
    mem_free(&r->grid_y);
    r->grid_room = 0;
    TRY(mem_new(count, sizeof *r->grid, "the defocus on a grid", &r->grid, err));
    TRY(mem_new(count, sizeof *r->grid_x, "the defocus on a grid", &r->grid_x, err));
    TRY(mem_new(count, sizeof *r->grid_y, "the defocus on a grid", &r->grid_y, err));
    r->grid_room = count;
    return STATUS_OK;
}

/* Puts the borders before and behind the middles of tiles. */
static void with_borders(const double *middles, int count, int side, double *out) {
    out[0] = 0;
    for (int i = 0; i < count; i++)
        out[i + 1] = middles[i];
    out[count + 1] = side - 1;
}

enum status ctf_record_take_local(struct ctf_record *r, const struct ctf_local_result *local, int nx, int ny,
                                  struct err *err) {
    int columns = local->columns + 2, rows = local->rows + 2;
    r->tilted = local->columns > 0;
    r->tilt = local->tilt;
    r->axis = local->axis;
    r->significant = local->significant;
    r->gain = local->gain;
    r->chance = local->chance;
    TRY(make_room(r, columns, rows, err));
    if (!r->tilted) return STATUS_OK;
    with_borders(local->x, local->columns, nx, r->grid_x);
    with_borders(local->y, local->rows, ny, r->grid_y);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            r->grid[(size_t)row * (size_t)columns + (size_t)column] =
                ctf_local_at(local, r->grid_x[column], r->grid_y[row]);
    r->grid_columns = columns;
    r->grid_rows = rows;
    return STATUS_OK;
}

enum status ctf_record_write_local(const struct ctf_record *r, const char *path, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "local_ctf", true, &table, err));
    for (int row = 0; row < r->grid_rows; row++)
        for (int column = 0; column < r->grid_columns; column++) {
            double offset = r->grid[(size_t)row * (size_t)r->grid_columns + (size_t)column];
            const struct star_cell cells[] = {{.column = "rlnCoordinateX", .value = r->grid_x[column]},
                                              {.column = "rlnCoordinateY", .value = r->grid_y[row]},
                                              {.column = "rlnDefocusU", .value = r->result.defocus_u + offset},
                                              {.column = "rlnDefocusV", .value = r->result.defocus_v + offset},
                                              {.column = "rlnDefocusAngle", .value = r->result.angle}};
            TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
        }
    return star_write(file, path, err);
}
