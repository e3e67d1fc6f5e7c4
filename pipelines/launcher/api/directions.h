/* Counts particles' directions of view, with those that symmetry makes of them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_H

#include <stddef.h>

#include "common/directions.h"

enum { DIRECTIONS_OPERATIONS = 200 };
/* Fills matrices with the operations of a point group, its axes as RELION has them: "C1", "c7", "D2", "T", "O", "I" (as
 * I2), "I1" to "I4". Returns their number; 0: there is no such group. */
int directions_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]);
/* Adds one view to counts[12 nside²], and those that symmetry makes of it. rot and tilt: degrees, as RELION has them. */
void directions_add(int nside, double rot, double tilt, double operations[][3][3], int count, double *counts);

#endif
