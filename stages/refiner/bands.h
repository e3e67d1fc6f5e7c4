/* Keeps the shells that halves share apart from those beyond (schedule_shared_shell, bands.c). */
#ifndef ICESTREAM_STAGES_REFINER_BANDS_H
#define ICESTREAM_STAGES_REFINER_BANDS_H

#include "stages/refiner/refiner_private.h"

/* Finds memory for two maps, in which a map is parted: on the device if the maps of the iteration lie there, else
 * refiner->bands, which the device copies from and to at full speed and which stays: fresh pages for a map of 360 px
 * take longer than the map. */
enum status bands_reserve(struct refiner *refiner, float *ret_bands[2], struct err *err);
/* Makes projections of the reference's map possible, in one band or two. */
enum status bands_set_reference(struct refiner *refiner, const struct reference *reference, struct err *err);

#endif
