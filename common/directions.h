/* Measures how the directions from which particles are seen are spread, and what that does to a map. Directions are
 * pixels of HEALPix in the order of rings (Górski et al. 2005, Astrophys. J. 622:759). */
#ifndef ICESTREAM_COMMON_DIRECTIONS_H
#define ICESTREAM_COMMON_DIRECTIONS_H

/* An efficiency of DIRECTIONS_GOOD or more needs nothing; below DIRECTIONS_POOR more particles of the same views do not
 * help. */
static const double DIRECTIONS_GOOD = 0.8, DIRECTIONS_POOR = 0.5;

/* Returns the pixel of a direction (section 4.1 there). z: cosine of the tilt angle; angle: of rotation, radians.
 * nside: a power of two. */
long directions_pixel(int nside, double z, double angle);
/* Sets the centre of a pixel, a unit vector. */
void directions_centre(int nside, long pixel, double ret_centre[3]);

/* Returns 1 − 2 s/m of the point spread function's radius at half height in all directions, s its standard deviation and
 * m its mean: 1 for views from everywhere, 0 for a single one (the efficiency of Naydenova & Russo 2017, Nat. Commun.
 * 8:629, with an envelope of its own). NaN: no views. counts[12 nside²]: weights of directions. */
double directions_efficiency(int nside, const double *counts);

/* Computes the directions that the same particles would be seen from if the stage were tilted (degrees): in the plane of
 * the ice they lie at any angle, so each direction becomes a ring about itself. */
void directions_tilt(int nside, const double *counts, double tilt, double *ret_counts);
/* Returns the smallest tilt (degrees, of 10, 15 … 40) that would make the efficiency DIRECTIONS_GOOD, or else the one
 * that would make it largest. NaN: no views, or no memory. */
double directions_best_tilt(int nside, const double *counts, double *ret_efficiency);

#endif
