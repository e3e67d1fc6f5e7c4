/* The defocus of the parts of a micrograph, as the ctf-estimator writes it with `local`. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_LOCAL_CTF_H
#define ICESTREAM_STAGES_EXTRACTOR_LOCAL_CTF_H

#include <stddef.h>

#include "common/status.h"

/* A grid of points; begins as {0}. columns 0: the micrograph has one defocus for all. */
struct local_ctf {
    int columns, rows;
    double *x, *y;         /* [columns], [rows] px, rising */
    double *u, *v, *angle; /* [rows][columns] Å, °; one allocation each */
    size_t room;
};

struct local_ctf_value {
    double u, v, angle; /* Å, ° */
};

/* Reads MIC_local.star: rlnCoordinateX, rlnCoordinateY, rlnDefocusU, rlnDefocusV, rlnDefocusAngle of the points of a grid,
 * row by row. Reuses the memory. STATUS_BAD_FORMAT: the points are no grid. */
enum status local_ctf_read(const char *path, struct local_ctf *local, struct err *err);
void local_ctf_clear(struct local_ctf *local);
/* Returns the CTF at a point (px): defoci bilinear between the four points round it, the angle that of the nearest. Beyond
 * the grid that of its border. */
struct local_ctf_value local_ctf_at(const struct local_ctf *local, double x, double y);

#endif
