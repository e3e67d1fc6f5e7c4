/* The small text files of a tilt series: angles, transforms, and lists of views. They are read whole and checked line
 * by line: a message names file and line. Numbering of views is IMOD's: 1 is the first image of the stack. */
#ifndef ICESTREAM_COMMON_FORMATS_TILTS_H
#define ICESTREAM_COMMON_FORMATS_TILTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { TILTS_MAX = 10000 }; /* more views than any series has: what is longer is another kind of file */

/* A tilt angle lies within ±90°. */
#define TILT_ANGLE_MAX 90.0

/* IMOD's .xf: X' = A (X − C) + D + C', in px of the image as it is in the stack, C and C' the centres (size/2 from the
 * lower left corner, so index (n − 1)/2) of the image and of the aligned one. */
struct tilt_transform {
    double a11, a12, a21, a22;
    double dx, dy; /* px */
};

/* .tlt, .rawtlt: an angle a line, in degrees; what follows it on the line must be numbers too and does not count. Empty
 * lines are passed over. ret_angles is freed by the caller. */
enum status tilts_read_angles(const char *path, double **ret_angles, int *ret_count, struct err *err);
/* name: for messages. */
enum status tilts_parse_angles(const char *name, const char *text, size_t length, double **ret_angles, int *ret_count,
                               struct err *err);

/* .xf: A11 A12 A21 A22 DX DY a line. A must be invertible and neither enlarge nor shrink more than tenfold. */
enum status tilts_read_transforms(const char *path, struct tilt_transform **ret_transforms, int *ret_count,
                                  struct err *err);
enum status tilts_parse_transforms(const char *name, const char *text, size_t length,
                                   struct tilt_transform **ret_transforms, int *ret_count, struct err *err);

/* "3,7-9": views by their numbers, 1 to TILTS_MAX. listed[n] is set for view n; TILTS_MAX + 1 entries. `where` begins
 * the message ("exclude"). *ret_greatest: the greatest number, 0 for an empty list. */
enum status tilts_parse_list(const char *where, const char *text, bool *listed, int *ret_greatest, struct err *err);

#endif
