/* Estimates the accuracy of poses: the smallest error of an angle or of a shift that changes an image by more than its
 * noise. This is RELION's estimate (--acc); the refiner chooses the next sampling from it.
 *
 * One Euler angle and one direction of shift of each particle are moved by growing steps, until Σ c² |P − P'|²/(2σ²)
 * over the pixels exceeds −ln 0.01. c is the CTF, P the slice at the particle's pose, P' the slice at the moved pose,
 * and σ² the power of the noise. */
#ifndef ICESTREAM_KERNELS_ACCURACY_ACCURACY_H
#define ICESTREAM_KERNELS_ACCURACY_ACCURACY_H

#include <stdbool.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"
#include "kernels/projector/projector.h"

struct accuracy_particle {
    double angles[3];      /* °: rot, tilt, psi */
    const struct ctf *ctf; /* NULL: CTF 1 */
    int optics;            /* optics group, from 0: row of sigma2 */
    int turned;            /* index (0, 1, 2) of the angle that is moved */
    bool along_x;          /* the shift is moved along x, otherwise along y */
};

struct accuracy_input {
    const struct fourier_pixels *pixels;
    double pixel_size;                 /* Å */
    const struct projector *projector; /* its map is set for pixels->size */
    const float *sigma2;               /* [optics_count][box/2 + 1] power of the noise per shell */
    int optics_count;
    const struct accuracy_particle *particles;
    int count;
    int threads; /* on the CPU */
};

/* Estimates ret_angles[count] (°, at most 30) and ret_offsets[count] (px, at most 10). Runs on the device that holds
 * the projector's transform, otherwise on the CPU. workspace_or_null: of the projector; STATUS_BAD_ARGUMENT if it is
 * another one. */
enum status accuracy_estimate(const struct accuracy_input *input, struct workspace *workspace_or_null,
                              double *ret_angles, double *ret_offsets, struct err *err);

#endif
