/* Arrays as NumPy's files (.npy, version 1.0, C order, little-endian), which most programs read. */
#ifndef ICESTREAM_COMMON_FORMATS_NPY_H
#define ICESTREAM_COMMON_FORMATS_NPY_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

enum npy_type { NPY_FLOAT32, NPY_FLOAT64, NPY_INT32, NPY_INT64 };

enum { NPY_DIMENSIONS_MAX = 4 };

/* What comes before the numbers, for those that are written piece by piece. */
void npy_header(FILE *out, enum npy_type type, int dimensions, const size_t *shape);
/* The whole file, beside its place and renamed (common/files.h). */
enum status npy_write(const char *path, enum npy_type type, int dimensions, const size_t *shape, const void *values,
                      struct err *err);
/* Reads an array of just that type and shape, as npy_write writes it; anything else is STATUS_BAD_FORMAT. */
enum status npy_read(const char *path, enum npy_type type, int dimensions, const size_t *shape, void *ret_values,
                     struct err *err);

#endif
