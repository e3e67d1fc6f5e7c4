/* Estimates how accurately poses are known. */
#ifndef ICESTREAM_STAGES_REFINER_ACCURACY_H
#define ICESTREAM_STAGES_REFINER_ACCURACY_H

#include "stages/refiner/refiner_private.h"

/* Tables give these for accuracies that are not known, in ° and Å, as RELION does. */
#define ACCURACY_UNKNOWN 999.0

/* Sets accuracy_angle and accuracy_offset of a half whose E-step is done and whose reference is still in place. */
enum status accuracy_of_half(struct refiner *refiner, struct side *half, struct err *err);

/* Sets accuracy_angle and accuracy_offset of each class of a classification, likewise, from its own particles. */
enum status accuracy_of_classes(struct refiner *refiner, struct side *side, struct err *err);

#endif
