/* Reads the CTF values of each micrograph from a STAR file that may still grow, such as RELION's CTF job writes. */
#ifndef ICESTREAM_STAGES_WATCHER_CTF_ROWS_H
#define ICESTREAM_STAGES_WATCHER_CTF_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/edges/item.h"
#include "common/status.h"

struct ctf_rows;

/* Reads the file. */
enum status ctf_rows_open(const char *path, struct ctf_rows **ret_rows, struct err *err);
/* As ctf_rows_open, for a file that may be away or broken for the moment: *ret_problem then says why (else its status
 * is OK), and no rows exist until ctf_rows_refresh can read the file. */
enum status ctf_rows_await(const char *path, struct ctf_rows **ret_rows, struct err *ret_problem, struct err *err);
/* Returns whether the file has been read. */
bool ctf_rows_are_read(const struct ctf_rows *rows);
/* Returns whether the last row is left out for now (see ctf_rows_refresh). */
bool ctf_rows_may_grow(const struct ctf_rows *rows);
void ctf_rows_close(struct ctf_rows **rows);
/* Reads the file again when it has changed on disk. When the file cannot be read (it is just being written), the former
 * rows stay and the status says why, once for each change. A last row without a line break in a file younger than 10 s
 * is left out until a later call: digits of its last number may still be missing. */
enum status ctf_rows_refresh(struct ctf_rows *rows, bool *ret_changed, struct err *err);

/* Returns the row of a micrograph: the one whose path agrees with `path` in the most parts from the end, without
 * endings. The base name alone is enough when only one row has it. -1: no row, or several rows fit equally well. */
long ctf_rows_find(const struct ctf_rows *rows, const char *path);

/* Optics of a row's group (row -1: of the first group), or of the row's own columns in older files; NaN: not given. */
struct ctf_optics {
    char group[128]; /* "" when unnamed */
    double pixel_size, original_pixel_size, voltage, spherical_aberration, amplitude_contrast;
};
/* Reads the optics of a row. */
void ctf_rows_optics(const struct ctf_rows *rows, long row, struct ctf_optics *ret_optics);
/* Copies each number of the row into the item, as "columns.NAME" with its RELION name. */
enum status ctf_rows_columns(const struct ctf_rows *rows, long row, struct item *item, struct err *err);

#endif
