/* CTF values per micrograph from a STAR file that may still grow, as RELION's CTF job writes it. */
#ifndef ICESTREAM_STAGES_WATCHER_CTF_ROWS_H
#define ICESTREAM_STAGES_WATCHER_CTF_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/edges/item.h"
#include "common/status.h"

struct ctf_rows;

/* Reads the file. */
enum status ctf_rows_open(const char *path, struct ctf_rows **ret_rows, struct err *err);
/* The same of a file that may be away or broken for the moment: *ret_problem says so (else its status is OK), and there
 * are no rows until ctf_rows_refresh has been able to read it. */
enum status ctf_rows_await(const char *path, struct ctf_rows **ret_rows, struct err *ret_problem, struct err *err);
/* Whether it has been read since. */
bool ctf_rows_are_read(const struct ctf_rows *rows);
/* Whether its last row is left out for now: see ctf_rows_refresh. */
bool ctf_rows_may_grow(const struct ctf_rows *rows);
void ctf_rows_close(struct ctf_rows **rows);
/* Reads it again when it has changed on disk. When it cannot be read (it is just being written) the former rows stay,
 * and the status says so, once for each change. A last row without a line break that is younger than 10 s is left out,
 * and looked at again: its last number may have digits to come. */
enum status ctf_rows_refresh(struct ctf_rows *rows, bool *ret_changed, struct err *err);

/* The row of a micrograph: the one whose path is the end of `path` (or the other way round) in most parts, endings left
 * out; the base name alone is enough when it leaves no choice. -1: none, or several that fit equally well. */
long ctf_rows_find(const struct ctf_rows *rows, const char *path);

/* What the optics table says of that row's group (row -1: of the first group), or of columns of the row in older files;
 * NaN where it does not. */
struct ctf_optics {
    char group[128]; /* "" when unnamed */
    double pixel_size, original_pixel_size, voltage, spherical_aberration, amplitude_contrast;
};
void ctf_rows_optics(const struct ctf_rows *rows, long row, struct ctf_optics *ret_optics);
/* Every number of the row under its RELION name into "columns.NAME". */
enum status ctf_rows_columns(const struct ctf_rows *rows, long row, struct item *item, struct err *err);

#endif
