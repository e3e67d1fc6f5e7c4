/* What the halves share, and how far it reaches.
 *
 * Both halves begin with one reference and go on sharing their low shells (join_resolution). What is shared makes them
 * agree wherever it chooses poses by the noise of an image, which is back-projected alike in both: particles of nothing
 * but noise agreed to twice the resolution that was shared, more of them farther. Five ways led beyond the shared shells:
 * masks, of images and of references, mix shells; so do zeros at the edge of a shifted image, and the cuts of a map out
 * of a padded one and into one; a slice's
 * pixel lies between grid points, a back-projected one is scattered to them; and a mask made of both halves' map keeps
 * what both happen to have. So, up to shell S and beyond it, while the halves show nothing far beyond by themselves:
 *
 * - An image is shifted around, and masked in two bands, up to shell S (|k| < S + 1/2) and beyond it, each by itself
 *   (kernels/prepare).
 * - So is a reference, and what the mask carries out of its lower band is left out (mstep.c).
 * - The lower band's map is made from its sums by itself, and cut off at S; the higher one's is made of sums from S + 1
 *   on, and of the transform as well the part up to S is the lower one's alone (projector_set_shells). Half a shell on
 *   either side of S + 1/2 is for interpolation: it reaches 0.87 shells, with next to no weight in the last third.
 * - What the cut of the unfiltered half maps carries out of the lower band is left out of these too, so that their FSC
 *   is that of what was found beyond.
 * - There is no mask but a sphere, or the user's.
 *
 * Beyond S a pixel of an image is then compared with what its own half says and with nothing else, and noise agrees by
 * chance alone. Once the halves agree half as far again, all is one band: what shared shells carry beyond is little
 * beside a signal that goes so far, and to such a map a mask that fits is worth much. That mask is made of both halves'
 * map and masks both references: from then on they share its shape too (auto_mask: no, and they do not). */
#include "stages/refiner/bands.h"
#include "common/memory.h"
#include "stages/refiner/resample.h"

enum status bands_set_reference(struct refiner *r, const struct reference *c, struct err *err) {
    int size = r->pixels.size, shared = r->shared_shell;
    if (shared == 0) return projector_set_map_on(c->projector, r->placement.workspace, c->map, size, err);
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    _cleanup_(mem_free) float *low = NULL;
    _cleanup_(mem_free) float *high = NULL;
    TRY(mem_new_unset(voxels, sizeof *low, "a map", &low, err));
    TRY(mem_new_unset(voxels, sizeof *high, "a map", &high, err));
    TRY(part_map(c->map, r->box, shared, low, high, err));
    TRY(projector_set_map_on(c->projector, r->placement.workspace, high, size, err));
    return projector_set_shells(c->projector, low, shared, err);
}
