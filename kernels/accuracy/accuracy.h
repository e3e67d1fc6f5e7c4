/* Estimates how far a pose may be off before an image of this noise shows it. This is RELION's estimate (--acc); the
 * next sampling follows from it.
 *
 * One Euler angle and one direction of shift of each particle are moved by growing steps, until Σ c² |P − P'|²/(2σ²)
 * over the pixels exceeds −ln 0.01. */
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
    int optics;
    int turned;   /* index of the angle that is moved */
    bool along_x; /* shift along x, otherwise along y */
};

struct accuracy_input {
    const struct fourier_pixels *pixels;
    double pixel_size;                 /* Å */
    const struct projector *projector; /* its map is set for pixels->size */
    const float *sigma2;               /* [optics groups][box/2 + 1] */
    int optics_count;
    const struct accuracy_particle *particles;
    int count;
    int threads; /* on the CPU */
};

/* Fills ret_angles[count] (°, at most 30) and ret_offsets[count] (px, at most 10). Runs on the device that holds the
 * projector's transform, otherwise on the CPU. The workspace must be the projector's. */
enum status accuracy_estimate(const struct accuracy_input *input, struct workspace *workspace_or_null,
                              double *ret_angles, double *ret_offsets, struct err *err);

#endif
