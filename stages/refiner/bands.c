/* Keeps what the halves share apart from what each half finds by itself.
 *
 * Both halves begin with one reference and continue to share their low shells (join_resolution). The shared shells make
 * the halves agree beyond themselves too: where they choose a pose by the noise of an image, this noise is
 * back-projected alike in both halves. Particles of pure noise agreed to twice the resolution that was shared, and
 * further with more particles. Five ways led beyond the shared shells:
 * - The masks of images and of references mix shells.
 * - Zeros at the edge of a shifted image mix shells.
 * - Cutting a map out of a padded one, or padding it, mixes shells.
 * - A pixel of a slice lies between grid points, and back-projection spreads a pixel over several grid points.
 * - A mask made from the map of both halves keeps what both happen to have.
 *
 * Therefore the shells up to shell S (schedule_shared_shell) and the shells beyond form two bands, until the halves
 * agree far beyond S by themselves:
 * - Images are shifted periodically. They are masked in two bands, up to shell S (|k| < S + 1/2) and beyond, each band
 *   by itself (kernels/prepare).
 * - References are masked in the same way: the part of the lower band that the mask carries out of it is removed
 *   (mstep.c).
 * - The map of the lower band is made from its sums alone and cut off at S. The map of the higher band is made from the
 *   sums from S + 1 on. In the transform too, the part up to S comes from the lower band alone (projector_set_shells).
 *   Half a shell on either side of S + 1/2 is left for interpolation, which reaches 0.87 shells, with almost no weight
 *   in the last third.
 * - The part that cutting carries out of the lower band is removed from the unfiltered half maps too. Their FSC beyond
 *   S then compares only signal that was found beyond S.
 * - The only mask is a sphere, or the user's.
 *
 * A pixel beyond S is then compared with the map of its own half and with nothing else, and noise agrees by chance
 * alone. Once the halves agree half as far again as they share (schedule.c), all shells are one band: the part that
 * shared shells carry beyond S is small beside a signal that reaches so far, and such a map gains much from a mask that
 * fits. This mask is made from the map of both halves and masks both references. From then on, the halves share its
 * shape too (not with auto_mask: no). */
#include "stages/refiner/bands.h"

#include "kernels/postprocess/solvent.h"
#include "stages/refiner/resample.h"

enum status bands_reserve(struct refiner *r, float *ret_bands[2], struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    for (int i = 0; i < 2; i++) {
        if (!r->placement.maps_on_device && r->bands[i] == NULL)
            TRY(device_host_new(&r->context.device, voxels, sizeof *r->bands[i], "a map", &r->bands[i], err));
        ret_bands[i] = r->placement.maps_on_device ? r->placement.bands[i] : r->bands[i];
    }
    return STATUS_OK;
}

enum status bands_set_reference(struct refiner *r, const struct reference *c, struct err *err) {
    int size = r->compared_size, shared = r->shared_shell;
    if (shared == 0) return projector_set_map_on(c->projector, r->placement.workspace, c->map, size, err);
    bool fits;
    float *bands[2];
    TRY(bands_reserve(r, bands, err));
    float *low = bands[0], *high = bands[1];
    TRY(workspace_fits_volumes(r->placement.workspace, r->box, &fits, err));
    if (fits)
        TRY(solvent_part_on(r->placement.workspace, r->box, shared, c->map, low, high, err));
    else
        TRY(part_map(c->map, r->box, shared, low, high, err));
    TRY(projector_set_map_on(c->projector, r->placement.workspace, high, size, err));
    return projector_set_shells(c->projector, low, shared, err);
}
