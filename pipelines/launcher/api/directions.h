/* Measures how particles' directions of view are spread, and what that does to a map. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_DIRECTIONS_H

#include <stddef.h>

/* Returns the HEALPix pixel of a direction, in the order of rings (Górski et al. 2005, section 4.1). z: cosine of the
 * tilt angle; angle: of rotation, radians. nside: a power of two. */
long directions_pixel(int nside, double z, double angle);
/* Sets the centre of a pixel, a unit vector. */
void directions_centre(int nside, long pixel, double ret_centre[3]);

enum { DIRECTIONS_OPERATIONS = 200 };
/* Fills matrices with the operations of a point group, its axes as RELION has them: "C1", "c7", "D2", "T", "O", "I" (as
 * I2), "I1" to "I4". Returns their number; 0: there is no such group. */
int directions_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]);
/* Adds one view to counts[12 nside²], and those that symmetry makes of it. rot and tilt: degrees, as RELION has them. */
void directions_add(int nside, double rot, double tilt, double operations[][3][3], int count, double *counts);

/* Returns 1 − 2 s/m of the point spread function's radius in all directions, s its standard deviation and m its mean: 1
 * for views from everywhere, about 0.8 where a good map is likely, below 0.5 where it is not (the efficiency of
 * Naydenova & Russo 2017, Nat. Commun. 8:629, which this follows with an envelope of its own). NaN: no views.
 * counts[12 nside²]: weights of directions. */
double directions_efficiency(int nside, const double *counts);

#endif
