/* Reads from where the particles of a map are seen. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_READ_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_READ_H

#include <stdint.h>

#include "common/status.h"
#include "pipelines/launcher/api/directions.h"

enum { DIRECTIONS_WHOLE = 32 << 20 }; /* bytes: larger tables are sampled */

struct directions_spread {
    int nside, operations; /* given: directions_group */
    double matrices[DIRECTIONS_OPERATIONS][3][3];
    double *counts;   /* given: 12 nside² numbers that are 0; the views of each direction */
    size_t particles; /* that were read; given: 0 */
};
/* Adds the particles of a STAR file (rlnAngleRot, rlnAngleTilt). NOT_FOUND: it has no directions. */
enum status directions_read(int descriptor, int64_t size, struct directions_spread *spread, struct err *err);

#endif
