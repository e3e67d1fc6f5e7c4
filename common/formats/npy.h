/* Reads and writes arrays as NumPy files (.npy, version 1.0, C order, little-endian), which most programs read. */
#ifndef ICESTREAM_COMMON_FORMATS_NPY_H
#define ICESTREAM_COMMON_FORMATS_NPY_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

enum npy_type { NPY_FLOAT32, NPY_FLOAT64, NPY_INT32, NPY_INT64 };

enum { NPY_DIMENSIONS_MAX = 4 };

/* Writes the header alone, for a caller that writes the numbers piece by piece. */
void npy_header(FILE *out, enum npy_type type, int dimensions, const size_t *shape);
/* Writes a whole file under another name and renames it (common/files.h). */
enum status npy_write(const char *path, enum npy_type type, int dimensions, const size_t *shape, const void *values,
                      struct err *err);
/* Reads an array of exactly this type and shape, as npy_write writes it; any other file is STATUS_BAD_FORMAT. */
enum status npy_read(const char *path, enum npy_type type, int dimensions, const size_t *shape, void *ret_values,
                     struct err *err);

#endif
