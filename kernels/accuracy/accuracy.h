/* How far a pose must be off before an image of this noise can tell: RELION's estimate (--acc), from which the next
 * sampling follows. Of each particle one Euler angle and one direction of shift, each moved by steps that grow, until
 * Σ c² |P − P'|²/(2σ²) over the pixels is more than −ln 0.01. */
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
    const struct ctf *ctf; /* NULL: 1 */
    int optics;
    int turned;   /* which of the angles */
    bool along_x; /* else along y */
};

struct accuracy_input {
    const struct fourier_pixels *pixels;
    double pixel_size;                 /* Å */
    const struct projector *projector; /* its map set for pixels->size */
    const float *sigma2;               /* [optics groups][box/2 + 1] */
    int optics_count;
    const struct accuracy_particle *particles;
    int count;
    int threads; /* CPU */
};

/* ret_angles[count] (°, to 30), ret_offsets[count] (px, to 10). On the device that the projector's transform lies on,
 * whose workspace it is then, else on the CPU. */
enum status accuracy_estimate(const struct accuracy_input *input, struct workspace *workspace_or_null,
                              double *ret_angles, double *ret_offsets, struct err *err);

#endif
