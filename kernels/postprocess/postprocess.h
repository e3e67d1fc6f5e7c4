/* Mask-corrected FSC, B-factor sharpening and FSC weighting of two unfiltered half maps; postprocess.mrc and .star. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_H
#define ICESTREAM_KERNELS_POSTPROCESS_H

#include <stdbool.h>

#include "common/status.h"

struct postprocess_options {
    int box;
    double pixel_size;
    const float *mask;        /* 0..1, or NULL: made from the maps (low-pass 15 Å, threshold, extend 3 px, edge 6 px) */
    bool automatic_mask;      /* with mask NULL: make one; false: no mask at all */
    double randomise_at_fsc;  /* 0.8 */
    double bfactor_low;       /* Å, 10: coarsest shell of the Guinier fit; no fit when the map is not finer */
    double adhoc_bfactor;     /* Å², NaN: fitted */
    unsigned seed;
};

struct postprocess_result {
    double resolution; /* Å, FSC 0.143 */
    double bfactor, guinier_slope, guinier_intercept, guinier_correlation;
    double randomise_from;  /* Å */
    double mask_fraction;
    float *fsc, *fsc_unmasked, *fsc_masked, *fsc_randomised; /* box/2+1; owned */
    float *map, *map_masked, *mask;                          /* box³; owned */
};

enum status postprocess_run(const struct postprocess_options *options, const float *half1, const float *half2,
                            struct postprocess_result *ret_result, struct err *err);
void postprocess_result_destroy(struct postprocess_result *result);
/* Files as RELION names them below folder: postprocess.mrc, postprocess_masked.mrc, postprocess_mask.mrc, .star. */
enum status postprocess_write(const struct postprocess_result *result, const struct postprocess_options *options,
                              const char *folder, const char *half1_name, const char *half2_name, struct err *err);

#endif
