/* The first averages, when there is nothing yet to compare particles with. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SEED_H
#define ICESTREAM_STAGES_CLASSIFIER_SEED_H

#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

/* The noise spectrum: power of which[count]. */
enum status seed_noise(struct model *model, struct dataset *dataset, const size_t *which, size_t count,
                       struct err *err);
/* Each particle goes to class (position % class_count) at a random one of `angles` angles: sums for averages. */
enum status seed_sums(struct model *model, struct dataset *dataset, const size_t *which, size_t count, int angles,
                      unsigned seed, struct err *err);

#endif
