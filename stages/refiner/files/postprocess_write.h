/* Writes the files of a post-processed map: postprocess.mrc, the masked map, the mask, and postprocess.star with
 * RELION's tables. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_POSTPROCESS_WRITE_H
#define ICESTREAM_STAGES_REFINER_FILES_POSTPROCESS_WRITE_H

#include "kernels/postprocess/postprocess.h"
#include "stages/refiner/postprocess/directions.h"
#include "stages/refiner/refiner.h"

/* The names in the STAR file: of the half maps, and of the folder of the new maps ("": none). */
struct postprocess_names {
    const char *half1, *half2, *folder;
    /* REFINER_RESOLVED, or the reason: the file then gives 999 Å, and this reason (icestreamUnresolved; of noise
     * icestreamNoise too). */
    enum refiner_unresolved unresolved;
};

/* Writes postprocess.mrc, postprocess.star and, if there is a mask, postprocess_masked.mrc and postprocess_mask.mrc
 * into folder. directions_or_null: for further tables of postprocess.star. */
enum status postprocess_write(const struct postprocess_result *result, const struct postprocess_options *options,
                              const char *folder, const struct postprocess_names *names,
                              const struct map_directions *directions_or_null, struct err *err);

#endif
