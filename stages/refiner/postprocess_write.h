/* Writes the files of a post-processed map: postprocess.mrc and its companions, and postprocess.star with RELION's tables. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_WRITE_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_WRITE_H

#include "kernels/postprocess/postprocess.h"

/* Writes postprocess.mrc, postprocess.star and, where there is a mask, postprocess_masked.mrc and postprocess_mask.mrc below
 * folder. half1_name, half2_name: the names that the STAR file gives the half maps; it names the new maps beside half 1. */
enum status postprocess_write(const struct postprocess_result *result, const struct postprocess_options *options,
                              const char *folder, const char *half1_name, const char *half2_name, struct err *err);

#endif
