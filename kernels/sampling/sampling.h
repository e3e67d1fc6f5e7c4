/* Grids of poses: HEALPix directions × in-plane angles × shifts, their children one level finer, and the part of a grid
 * near a pose.
 *
 * Linear index of an orientation: direction · psi_count + psi. Directions are NEST pixel centres of HEALPix order
 * `order` (12·4^order on the sphere) in NEST order; the angle step is 360/(6·2^order) °, made to divide 360 for psi.
 * Shifts lie on a square grid inside a circle. Children halve every step: an orientation has 8 (4 NEST children × 2
 * psi; child = direction · 2 + psi), a shift has 4 (child = x · 2 + y). Index of a child: parent · 8 + child.
 *
 * In the plane (2-D references) there is one direction, whose matrix at psi 0 is the identity, and an orientation has 2
 * children.
 *
 * A grid is perturbed each iteration by a fraction d of its step: shifts move by d · step and orientations by
 * A ← A · A(e, e, e), e = d · angle step, so that no pose stays between grid points for ever. */
#ifndef ICESTREAM_KERNELS_SAMPLING_SAMPLING_H
#define ICESTREAM_KERNELS_SAMPLING_SAMPLING_H

#include "common/status.h"
#include "kernels/symmetry/symmetry.h"

enum { SAMPLING_ROTATIONS = 8, SAMPLING_SHIFTS = 4, SAMPLING_MAX_ORDER = 9 };

struct sampling {
    int dimensions; /* 3, or 2: in the plane */
    int order, direction_count, psi_count, shift_count;
    double angle_step, psi_step;           /* ° */
    double offset_range, offset_step;      /* of shifts, as given: Å or px */
    long *pixels;                          /* NEST index of each direction */
    double (*frames)[9];                   /* perturbed matrix of each direction at psi 0 */
    double (*bases)[9], (*child_bases)[9]; /* not perturbed; of its children, or NULL: made when they are asked for */
    double (*shifts)[2];                   /* not perturbed */
    double perturbation, tilted[9];        /* d, A(e, e, e) */
};

/* symmetry NULL: the whole sphere, else the directions of its asymmetric unit. STATUS_UNSUPPORTED: more orientations
 * than an int numbers, as the whole sphere has at order 9. */
enum status sampling_create(int order, const struct symmetry *symmetry_or_null, double offset_range, double offset_step,
                            struct sampling *ret_sampling, struct err *err);
/* In-plane angles alone, psi_step ° made to divide 360. */
enum status sampling_create_plane(double psi_step, double offset_range, double offset_step,
                                  struct sampling *ret_sampling, struct err *err);
void sampling_destroy(struct sampling *sampling);

/* Angle step of an order, °; orientations on the whole sphere. */
double sampling_angle_step(int order);
double sampling_whole_sphere(int order);
/* The next d from the last one and a number drawn uniformly from [0, 1): d + U(¼, ½), wrapped to (−½, ½). */
double sampling_next_perturbation(double d, double uniform);
/* From what it was made as, not from what it is: the same d gives the same grid. */
void sampling_perturb(struct sampling *sampling, double d);

static inline int sampling_orientation_count(const struct sampling *sampling) {
    return sampling->direction_count * sampling->psi_count;
}
/* Children of a direction, and of an orientation. */
static inline int sampling_direction_children(const struct sampling *sampling) {
    return sampling->dimensions == 2 ? 1 : SAMPLING_ROTATIONS / 2;
}
static inline int sampling_rotations(const struct sampling *sampling) {
    return 2 * sampling_direction_children(sampling);
}
/* Perturbed matrix of an orientation or (child 0 to 7) of its child; perturbed shift likewise (child 0 to 3). */
void sampling_matrix(const struct sampling *sampling, int orientation, double ret_matrix[9]);
void sampling_child_matrix(const struct sampling *sampling, int orientation, int child, double ret_matrix[9]);
/* Perturbed matrix at psi 0 of a direction's child, 0 to 3. */
void sampling_child_frame(const struct sampling *sampling, int direction, int child, double ret_frame[9]);
void sampling_shift(const struct sampling *sampling, int shift, double ret_shift[2]);
void sampling_child_shift(const struct sampling *sampling, int shift, int child, double ret_shift[2]);

/* The orientations near a pose and the logarithm of their prior: Gaussians of `sigma` ° in direction and, about the
 * psi that fits the pose best in that direction, in psi; both cut at 3 sigma; the sum of priors is 1. The nearest
 * direction and its nearest psi are always in. */
struct sampling_subset {
    int count, capacity;
    int *orientations;
    float *log_priors;
};
enum status sampling_near(const struct sampling *sampling, const double pose[9], double sigma,
                          struct sampling_subset *subset, struct err *err);
void sampling_subset_destroy(struct sampling_subset *subset);

#endif
