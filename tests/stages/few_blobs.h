/* Makes options for tests of the refiner with a few dozen images of blobs. */
#ifndef ICESTREAM_TESTS_STAGES_FEW_BLOBS_H
#define ICESTREAM_TESTS_STAGES_FEW_BLOBS_H

#include "stages/refiner/refiner.h"

/* Returns the options without reference, mask, diameter and memory. */
static inline struct refiner_options few_blobs_options(void) {
    return (struct refiner_options){.initial_lowpass = 50,
                                    .healpix_order = 0,
                                    .symmetry = "C1",
                                    .offset_range = 3,
                                    .offset_step = 1,
                                    .max_significant = 300,
                                    .join_resolution = 40,
                                    .local_order = 4,
                                    .tau_fudge = 1};
}

#endif
