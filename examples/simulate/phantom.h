/* Makes a phantom of protein-like density, and its projections and map. The phantom is a chain of residues that avoids
 * itself: helices (3.8 Å from one residue to the next) joined by short loops, packed into several globular domains
 * that touch. It has no symmetry. Each residue is a Gaussian, so projections are exact sums of 2D Gaussians, and
 * nothing is interpolated.
 *
 * Coordinates are in Å about the centre of mass. Projections use Euler angles rot, tilt, psi (ZYZ, degrees): image x
 * and y are rows 1 and 2 of the matrix, the beam goes along row 3. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_PHANTOM_H
#define ICESTREAM_EXAMPLES_SIMULATE_PHANTOM_H

#include <stddef.h>
#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

struct residue {
    double x, y, z; /* Å */
    double weight;
};

struct phantom {
    struct residue *residues;
    size_t count;
    double sigma;  /* of each residue's Gaussian, Å */
    double radius; /* of the sphere that holds all, Å */
};

enum status phantom_create(uint64_t seed, double diameter, struct phantom *ret_phantom, struct err *err);
void phantom_destroy(struct phantom *phantom);

/* Computes rows 1 to 3 of the rotation matrix of the angles (degrees). */
void phantom_rotation(double rot, double tilt, double psi, double ret_rows[3][3]);

/* Adds scale × the projection (per Å²) along the third row, with the centre of mass at pixel (x, y). */
void phantom_project(const struct phantom *phantom, const double rows[3][3], double pixel_size, double x, double y,
                     double scale, struct image *image);

/* Computes the map: density (per Å³) × scale × pixel_size, so that sums along z are projections × scale; centre at
 * box/2. The density is sampled finely and cut to the box's frequencies, so that a coarse pixel does not alias. */
enum status phantom_map(const struct phantom *phantom, int box, double pixel_size, double scale, struct image *map,
                        struct err *err);

/* Filters in place: raised-cosine low-pass at `resolution` Å, two Fourier pixels wide. */
enum status phantom_lowpass(struct image *map, double resolution, struct err *err);

#endif
