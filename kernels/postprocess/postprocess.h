/* Mask-corrected FSC, B-factor sharpening and FSC weighting of two unfiltered half maps. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_POSTPROCESS_H
#define ICESTREAM_KERNELS_POSTPROCESS_POSTPROCESS_H

#include <stdbool.h>

#include "common/status.h"

struct postprocess_options {
    int box;
    double pixel_size;
    const float *mask;       /* 0..1; NULL: made from the maps (low-pass 15 Å, threshold, extend 3 px, edge 6 px) */
    bool automatic_mask;     /* if mask is NULL: make a mask; false: use no mask */
    const double *held;      /* [box/2 + 1]: part of a shell's signal (kernels/fsc/coverage.h); NULL: all */
    int last_shell;          /* the halves agree no further: a mask adds nothing beyond; 0: no bound */
    double randomise_at_fsc; /* default 0.8 */
    double bfactor_low;      /* Å, default 10: coarsest shell of the Guinier fit; no fit if the map is not finer */
    double adhoc_bfactor;    /* Å²; NaN: fitted */
    unsigned seed;
};

struct postprocess_result {
    double resolution; /* Å, FSC 0.143 (fsc_even where a part of the signal is not held) */
    double bfactor;    /* Å², as applied; 0 if nothing could be fitted */
    double guinier_slope, guinier_intercept, guinier_correlation; /* r², as in RELION; NaN without a fit */
    double randomise_from; /* Å; 0 without mask, or if no phases were randomised: see postprocess_run */
    double mask_fraction;  /* fraction of the box with mask > 0.5; 1 without mask */
    bool unmasked_curve;   /* fsc is the unmasked curve, because it reaches further */
    float *fsc, *fsc_unmasked, *fsc_masked, *fsc_randomised; /* box/2+1; owned */
    /* ln of the mean amplitude per shell: of the mean of the halves; after FSC weighting; after sharpening.
     * POSTPROCESS_NO_AMPLITUDE where there is no amplitude; box/2+1; owned */
    float *guinier_original, *guinier_weighted, *guinier_sharpened;
    float *map, *map_masked, *mask; /* box³; owned; map_masked and mask are NULL without mask */
};

#define POSTPROCESS_NO_AMPLITUDE (-99.0f)

/* Postprocesses two half maps. If the unmasked curve never falls below randomise_at_fsc, phase randomisation cannot
 * tell how much of the masked correlation comes from the mask; then fsc is the unmasked curve. A mask with values
 * outside 0..1 is an error. */
enum status postprocess_run(const struct postprocess_options *options, const float *half1, const float *half2,
                            struct postprocess_result *ret_result, struct err *err);
/* Makes a mask from a map: low-pass 15 Å, threshold between solvent and density (Otsu's, halved towards the solvent),
 * extended by 3 px, edge 6 px. ret_mask: box³. */
enum status postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask, struct err *err);
void postprocess_result_destroy(struct postprocess_result *result);

#endif
