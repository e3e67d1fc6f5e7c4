/* Keeps the shells that halves share apart from those beyond (schedule_shared_shell, bands.c). */
#ifndef ICESTREAM_STAGES_REFINER_BANDS_H
#define ICESTREAM_STAGES_REFINER_BANDS_H

#include "stages/refiner/refiner_private.h"

/* Makes projections of the reference's map possible, in one band or two. */
enum status bands_set_reference(struct refiner *refiner, const struct reference *reference, struct err *err);

#endif
