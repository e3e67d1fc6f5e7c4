/* Separates particle and solvent in a map that becomes a reference, on a CUDA device. stages/refiner/mstep.c does the
 * same on the CPU with mask_sphere, a low-pass and postprocess_make_mask; both agree except for rounding.
 *
 * Maps and masks are in host memory or on the device, box³. workspace_fits_volumes tells whether the workspace has room.
 * Results repeat bit for bit. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_H
#define ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"

struct solvent_sphere {
    int box;
    double radius, edge; /* px; radius 0: no sphere */
};

/* Makes the mask of a map that is first cut by the sphere and low-passed up to `shell` (raised cosine over two shells).
 * The mask is that of postprocess_make_mask, with only the inner half of its edge. ret_inside: the sum of the mask. */
enum status solvent_find_on(struct workspace *workspace, const struct solvent_sphere *sphere, double pixel_size,
                            double shell, const float *map, float *ret_mask, double *ret_inside, struct err *err);

/* Multiplies map by the sphere and by the mask (NULL: none). If shared > 0, this spreads signal from the shells up to
 * `shared` into the shells beyond; that part is subtracted again. */
enum status solvent_flatten_on(struct workspace *workspace, const struct solvent_sphere *sphere,
                               const float *mask_or_null, double shared, float *map, struct err *err);

/* Parts a map of box³ into its shells up to `shell` and those beyond (|k| < shell + 1/2, sharp). Either result may be the
 * map. On the CPU: part_map of stages/refiner/resample.h. */
enum status solvent_part_on(struct workspace *workspace, int box, int shell, const float *map, float *ret_low,
                            float *ret_high, struct err *err);
/* Makes a map of two bands: the shells up to `low` of `inner`, and the shells beyond `reached` of map − inner. */
enum status solvent_join_on(struct workspace *workspace, int box, int low, int reached, const float *inner, float *map,
                            struct err *err);

#endif
