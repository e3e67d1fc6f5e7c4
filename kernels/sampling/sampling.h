/* Grids of poses: HEALPix directions × in-plane angles × shifts; their children one level finer; the part of a grid
 * near a pose.
 *
 * Linear index of an orientation: direction · psi_count + psi. Directions are the pixel centres of HEALPix order
 * `order`, in NEST order (12·4^order on the sphere). The angle step is 360/(6·2^order) °; for psi it is made to divide
 * 360.
 *
 * Shifts lie on a square grid inside a circle.
 *
 * Children halve every step. An orientation has 8 children (4 NEST children × 2 psi; child = direction · 2 + psi), with
 * index parent · 8 + child. A shift has 4 (child = x · 2 + y).
 *
 * In the plane (2D references) there is one direction, whose matrix at psi 0 is the identity, and an orientation has 2
 * children.
 *
 * Each iteration perturbs the grid by a fraction d of its step, so that no pose stays between grid points for ever:
 * shifts move by d · step and orientations by A ← A · A(e, e, e), e = d · angle step. */
#ifndef ICESTREAM_KERNELS_SAMPLING_SAMPLING_H
#define ICESTREAM_KERNELS_SAMPLING_SAMPLING_H

#include <stdint.h>

#include "common/status.h"
#include "kernels/symmetry/symmetry.h"

enum { SAMPLING_ROTATIONS = 8, SAMPLING_SHIFTS = 4, SAMPLING_MAX_ORDER = 9 };

struct sampling {
    int dimensions; /* 3; 2: in the plane */
    int order, direction_count, psi_count, shift_count;
    double angle_step, psi_step;           /* ° */
    double offset_range, offset_step;      /* of shifts, as given: Å or px */
    long *pixels;                          /* NEST index of each direction */
    double (*frames)[9];                   /* perturbed matrix of each direction at psi 0 */
    double (*bases)[9], (*child_bases)[9]; /* unperturbed frames; those of children, or NULL: computed on demand */
    double (*shifts)[2];                   /* unperturbed */
    double perturbation, tilted[9];        /* d, A(e, e, e) */
};

/* Creates a grid over the asymmetric unit of `symmetry`; NULL: over the whole sphere. STATUS_UNSUPPORTED: more
 * orientations than an int can count, as on the whole sphere at order 9. */
enum status sampling_create(int order, const struct symmetry *symmetry_or_null, double offset_range, double offset_step,
                            struct sampling *ret_sampling, struct err *err);
/* Creates a grid of in-plane angles only. psi_step (°) is made to divide 360. */
enum status sampling_create_plane(double psi_step, double offset_range, double offset_step,
                                  struct sampling *ret_sampling, struct err *err);
/* Creates a list of orientations in place of a grid: orientation i is poses[i]. There is one shift, of 0, and there are
 * no children. It cannot be perturbed. */
enum status sampling_create_list(const double (*poses)[9], int count, struct sampling *ret_sampling, struct err *err);
void sampling_destroy(struct sampling *sampling);

/* Returns the angle step (°) of an order. */
double sampling_angle_step(int order);
/* Returns the number of orientations of an order on the whole sphere. */
double sampling_whole_sphere(int order);
/* Returns the next d from the last d and a number drawn uniformly from [0, 1): d + U(¼, ½), wrapped to (−½, ½). */
double sampling_next_perturbation(double d, double uniform);
/* Perturbs the grid by d. Starts from the grid as it was created, so that the same d always gives the same grid. */
void sampling_perturb(struct sampling *sampling, double d);

/* Returns the number of orientations: directions × psi. */
static inline int sampling_orientation_count(const struct sampling *sampling) {
    return sampling->direction_count * sampling->psi_count;
}
/* Return the number of children of a direction, and of an orientation. */
static inline int sampling_direction_children(const struct sampling *sampling) {
    return sampling->dimensions == 2 ? 1 : SAMPLING_ROTATIONS / 2;
}
static inline int sampling_rotations(const struct sampling *sampling) {
    return 2 * sampling_direction_children(sampling);
}
/* Returns the perturbed matrix of an orientation. */
void sampling_matrix(const struct sampling *sampling, int orientation, double ret_matrix[9]);
/* Returns the perturbed matrix of an orientation's child, 0 to 7. */
void sampling_child_matrix(const struct sampling *sampling, int orientation, int child, double ret_matrix[9]);
/* Returns the perturbed matrix at psi 0 of a direction's child, 0 to 3. */
void sampling_child_frame(const struct sampling *sampling, int direction, int child, double ret_frame[9]);
/* Returns a perturbed shift (x, y), in the unit of offset_step. */
void sampling_shift(const struct sampling *sampling, int shift, double ret_shift[2]);
/* Returns the perturbed shift of a shift's child, 0 to 3. */
void sampling_child_shift(const struct sampling *sampling, int shift, int child, double ret_shift[2]);

/* Orientations near a pose, the natural logarithms of their priors, and which of their children lie beyond the range:
 * bit c of left_out for child c. Starts as {0}. */
struct sampling_subset {
    int count, capacity;
    int *orientations;
    float *log_priors;
    uint8_t *left_out;
};
/* Replaces the contents of `subset` by the orientations near a pose. The prior is a Gaussian of `sigma` ° in direction,
 * times one in psi about the psi that fits the pose best in that direction. Both are cut at 3 sigma; priors sum to 1.
 * The nearest direction with its nearest psi is always included.
 *
 * range: °; 0: none. Orientations and children whose direction, or psi, is farther away are left out. Children need such
 * a limit: near a pole those of one parent differ by up to 45° in the plane. An orientation whose own pose lies beyond
 * the range is included if no other has a child within it; only if there is no such child at all, as in a grid coarser
 * than the range, the nearest orientation with all its children stands for them. */
enum status sampling_near(const struct sampling *sampling, const double pose[9], double sigma, double range,
                          struct sampling_subset *subset, struct err *err);
/* Replaces the contents of `subset` by one orientation. */
enum status sampling_only(int orientation, struct sampling_subset *subset, struct err *err);
void sampling_subset_destroy(struct sampling_subset *subset);

#endif
