/* What is particle and what is solvent in a map that is to be a reference, on a CUDA device: what
 * stages/refiner/mstep.c does on the CPU with mask_sphere, a low-pass and postprocess_make_mask, but for rounding. Maps
 * and masks are the host's, box³; workspace_fits_volumes says whether there is room. Results repeat bit for bit. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_H
#define ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"

struct solvent_sphere {
    int box;
    double radius, edge; /* px; radius 0: no sphere */
};

/* The mask made of a map within the sphere and low-passed up to `shell` (raised cosine over two shells), as
 * postprocess_make_mask makes it, but with the inner half of its edge alone. ret_inside: its sum. */
enum status solvent_find_on(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                            double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err);

/* map times the sphere times the mask (NULL: none). shared > 0: what that spreads from the shells up to there into those
 * beyond is taken out again. */
enum status solvent_flatten_on(struct workspace *workspace, const struct solvent_sphere *sphere,
                               const float *mask_or_null, double shared, float *map, struct err *err);

#endif
