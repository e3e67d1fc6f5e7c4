/* Estimates how accurately poses are known. */
#ifndef ICESTREAM_STAGES_REFINER_ACCURACY_H
#define ICESTREAM_STAGES_REFINER_ACCURACY_H

#include "stages/refiner/refiner_private.h"

/* Sets accuracy_angle and accuracy_offset of a half whose E-step is done and whose reference is still in place. */
enum status accuracy_of_half(struct refiner *refiner, struct side *half, struct err *err);

#endif
