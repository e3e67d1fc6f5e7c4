/* Point groups Cn, Dn, T, O, I (I1-I4), and Euler angles (ZYZ; rows of the matrix: image x, image y, view direction).
 * Axes as RELION orients them. Matrices are row-major double[9]. Angles in degrees. */
#ifndef ICESTREAM_KERNELS_SYMMETRY_SYMMETRY_H
#define ICESTREAM_KERNELS_SYMMETRY_SYMMETRY_H

#include <stdbool.h>

#include "common/status.h"

struct symmetry {
    char name[8];
    int count;             /* operators, identity first */
    double (*matrices)[9]; /* rotations R; a volume V has V(R x) = V(x) */
};

/* "C1", "d2", "O", "I1"…; the error names the value and lists what there is. */
enum status symmetry_create(const char *name, struct symmetry *ret_symmetry, struct err *err);
void symmetry_destroy(struct symmetry *symmetry);
/* Whether a view direction lies in the asymmetric unit: of its mates exactly one does (boundaries aside, where at least
 * one does). */
bool symmetry_in_unit(const struct symmetry *symmetry, const double direction[3]);

void euler_to_matrix(double rot, double tilt, double psi, double ret_matrix[9]);
void matrix_to_euler(const double matrix[9], double *ret_rot, double *ret_tilt, double *ret_psi);
/* Angular distance (°): mean over the three rows of acos(row·row'), least over the symmetry mates. */
double symmetry_distance(const struct symmetry *symmetry, const double a[9], const double b[9]);
/* Mean over real space: map[n³] becomes the mean over operators of its trilinearly rotated copies. */
enum status symmetry_average_map(const struct symmetry *symmetry, int box, float *map, struct err *err);

#endif
