/* Marks the places on the maps of a search where no particle may have its centre. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_CONTAMINATED_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_CONTAMINATED_H

#include "stages/lowpass-picker/choose.h"

/* Fills scratch->bad[work²]: not 0 where no centre may be. ret_part: contaminated part of the micrograph, 0 to 1. */
enum status contaminated_mark(const struct pick_maps *maps, const struct pick_rules *rules,
                              struct pick_scratch *scratch, double *ret_part, struct err *err);

#endif
