/* Point groups Cn, Dn, T, O, I (I1-I4), and Euler angles (ZYZ; rows of the matrix: image x, image y, view direction).
 *
 * Axes are oriented as in RELION. Matrices are row-major double[9]. Angles are in degrees. */
#ifndef ICESTREAM_KERNELS_SYMMETRY_SYMMETRY_H
#define ICESTREAM_KERNELS_SYMMETRY_SYMMETRY_H

#include <stdbool.h>

#include "common/status.h"

struct symmetry {
    char name[8];
    int count;             /* operators, identity first */
    double (*matrices)[9]; /* rotations R; a symmetric volume V has V(R x) = V(x) */
};

/* Creates the group named "C1", "d2", "O", "I1"…. The error names the value and lists the known groups. */
enum status symmetry_create(const char *name, struct symmetry *ret_symmetry, struct err *err);
void symmetry_destroy(struct symmetry *symmetry);
/* Returns whether a view direction lies in the asymmetric unit. Exactly one of its symmetry mates does; on a boundary
 * at least one does. */
bool symmetry_in_unit(const struct symmetry *symmetry, const double direction[3]);

/* Return the matrix of Euler angles (°), and the Euler angles of a matrix. */
void euler_to_matrix(double rot, double tilt, double psi, double ret_matrix[9]);
void matrix_to_euler(const double matrix[9], double *ret_rot, double *ret_tilt, double *ret_psi);
/* Returns the angular distance (°): the mean over the three rows of acos(row·row'), smallest over the symmetry
 * mates. */
double symmetry_distance(const struct symmetry *symmetry, const double a[9], const double b[9]);
/* Averages map[n³] in real space over its copies rotated by all operators, with trilinear interpolation. */
enum status symmetry_average_map(const struct symmetry *symmetry, int box, float *map, struct err *err);

#endif
