/* Reads the CTF values of each micrograph from a STAR file that may still grow, such as RELION's CTF job writes. */
#ifndef ICESTREAM_STAGES_WATCHER_CTF_ROWS_H
#define ICESTREAM_STAGES_WATCHER_CTF_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/edges/item.h"
#include "common/formats/optics_aberrations.h"
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
/* Returns the number of rows, 0 while the file has not been read. */
size_t ctf_rows_count(const struct ctf_rows *rows);
/* Returns when the file last changed, s since 1970, as it was last read; 0: it was not there. */
double ctf_rows_time(const struct ctf_rows *rows);
void ctf_rows_close(struct ctf_rows **rows);
/* Reads the file again when it has changed on disk. When the file cannot be read (it is just being written), the former
 * rows stay and the status says why, once for each change. A last row without a line break in a file younger than 10 s
 * is left out until a later call: digits of its last number may still be missing. */
enum status ctf_rows_refresh(struct ctf_rows *rows, bool *ret_changed, struct err *err);

/* Returns the row whose path agrees with `path` in the most parts from the end, without endings; the latest of rows of
 * one name. -1: no row has the base name, or several rows of different names fit equally well (*ret_several).
 * ctf_match.h decides whether the row belongs to the file. */
long ctf_rows_find(const struct ctf_rows *rows, const char *path, bool *ret_several);
/* Returns how well a row fits a path: the greater, the more parts agree. 0: another base name. */
int ctf_rows_fit(const struct ctf_rows *rows, long row, const char *path);
/* Returns whether all parts of the row's path, or of the file's, agree. */
bool ctf_rows_fits_whole(int fit);
/* Returns an earlier row of the same name, or -1. */
long ctf_rows_earlier(const struct ctf_rows *rows, long row);
/* Returns the name of the micrograph of a row. */
const char *ctf_rows_name(const struct ctf_rows *rows, long row);
/* Returns the path of the file. */
const char *ctf_rows_path(const struct ctf_rows *rows);

/* List the broken cells ("nan", a text where a number belongs) of a row, or of the optics table, for a message; "" if
 * there are none. Returns whether one of the row's is part of its CTF. */
bool ctf_rows_broken(const struct ctf_rows *rows, long row, char *ret_text, size_t size);
void ctf_rows_broken_optics(const struct ctf_rows *rows, char *ret_text, size_t size);

/* Optics of a row's group (row -1: of the first group), or of the row's own columns in older files; NaN: not given. */
struct ctf_optics {
    char group[128]; /* "" when unnamed */
    double pixel_size, original_pixel_size, voltage, spherical_aberration, amplitude_contrast;
    char aberrations[OPTICS_ABERRATIONS_TEXT]; /* columns and cells (optics_aberrations_list); "": none */
};
/* Reads the optics of a row. */
void ctf_rows_optics(const struct ctf_rows *rows, long row, struct ctf_optics *ret_optics);
/* Copies each number of the row into the item, as "columns.NAME" with its RELION name. Broken cells are left out; with
 * a broken cell in it the whole CTF is. */
enum status ctf_rows_columns(const struct ctf_rows *rows, long row, struct item *item, struct err *err);

#endif
