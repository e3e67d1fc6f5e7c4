/* Writes the files of a post-processed map: postprocess.mrc, the masked map, the mask, and postprocess.star with
 * RELION's tables. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_POSTPROCESS_WRITE_H
#define ICESTREAM_STAGES_REFINER_FILES_POSTPROCESS_WRITE_H

#include "kernels/postprocess/postprocess.h"

/* Writes postprocess.mrc, postprocess.star and, if there is a mask, postprocess_masked.mrc and postprocess_mask.mrc
 * into folder. half1_name, half2_name: the names of the half maps in the STAR file, which names the new maps beside
 * half 1. */
enum status postprocess_write(const struct postprocess_result *result, const struct postprocess_options *options,
                              const char *folder, const char *half1_name, const char *half2_name, struct err *err);

#endif
