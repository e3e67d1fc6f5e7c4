/* Reads the small text files of a tilt series: angles, transforms, and lists of views. Messages name file and line.
 * Views are numbered as in IMOD: 1 is the first image of the stack. */
#ifndef ICESTREAM_COMMON_FORMATS_TILTS_H
#define ICESTREAM_COMMON_FORMATS_TILTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { TILTS_MAX = 10000 }; /* more views than any series has: a longer file is of another kind */

/* A tilt angle lies within ±90°. */
#define TILT_ANGLE_MAX 90.0

/* A transform of IMOD's .xf: X' = A (X − C) + D + C', in px of the image in the stack. C and C' are the centres of the
 * image and of the aligned image (size/2 from the lower left corner, so index (n − 1)/2). */
struct tilt_transform {
    double a11, a12, a21, a22;
    double dx, dy; /* px */
};

/* Reads .tlt or .rawtlt: an angle a line, in degrees. Further numbers on a line are ignored; other text is an error.
 * Empty lines are skipped. The caller frees *ret_angles. */
enum status tilts_read_angles(const char *path, double **ret_angles, int *ret_count, struct err *err);
/* Parses a text. name: for messages. */
enum status tilts_parse_angles(const char *name, const char *text, size_t length, double **ret_angles, int *ret_count,
                               struct err *err);

/* Reads .xf: A11 A12 A21 A22 DX DY a line. A must be invertible and change the scale by less than a factor of 10. The
 * caller frees *ret_transforms. */
enum status tilts_read_transforms(const char *path, struct tilt_transform **ret_transforms, int *ret_count,
                                  struct err *err);
/* Parses a text. name: for messages. */
enum status tilts_parse_transforms(const char *name, const char *text, size_t length,
                                   struct tilt_transform **ret_transforms, int *ret_count, struct err *err);

/* Reads a list of views such as "3,7-9", numbers 1 to TILTS_MAX. Sets listed[n] for view n; listed has TILTS_MAX + 1
 * entries. `where` begins a message ("exclude"). *ret_greatest: the greatest number, 0 for an empty list. */
enum status tilts_parse_list(const char *where, const char *text, bool *listed, int *ret_greatest, struct err *err);

#endif
