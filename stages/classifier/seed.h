/* Makes the sums for the first averages, before there are references. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SEED_H
#define ICESTREAM_STAGES_CLASSIFIER_SEED_H

#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

/* Sets the noise spectrum to the mean power of which[count]. */
enum status seed_noise(struct model *model, struct dataset *dataset, const size_t *which, size_t count,
                       struct err *err);
/* Adds each particle to the sums of class (position % class_count), at a random one of `angles` angles. */
enum status seed_sums(struct model *model, struct dataset *dataset, const size_t *which, size_t count, int angles,
                      unsigned seed, struct err *err);

#endif
