/* Mask-corrected FSC, B-factor sharpening and FSC weighting of two unfiltered half maps.
 *
 * A mask can make halves agree that do not. Three signs of that are looked for (enum postprocess_doubt); with any of
 * them the masked curve is not believed, and all that follows (resolution, weights, B-factor) is taken from the unmasked
 * one. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_POSTPROCESS_H
#define ICESTREAM_KERNELS_POSTPROCESS_POSTPROCESS_H

#include <stdbool.h>

#include "common/status.h"

/* The shape of a mask that is made from a map, after a low-pass at 15 Å. */
struct postprocess_mask_shape {
    double threshold; /* on the map's grey scale; NaN: Otsu's between solvent and density, halved towards the solvent */
    double extend, edge; /* px, 0 to POSTPROCESS_MASK_MOST: extended by, and fading out over */
};
enum { POSTPROCESS_MASK_MOST = 64 };
enum { POSTPROCESS_BOX_MOST = 2048 }; /* px, of maps and masks */
/* Automatic, extended by 3 px, edge 6 px. */
extern const struct postprocess_mask_shape postprocess_usual_mask;

struct postprocess_options {
    int box;
    double pixel_size;
    const float *mask;                          /* 0..1; NULL: made from the maps */
    bool automatic_mask;                        /* if mask is NULL: make a mask; false: use no mask */
    const struct postprocess_mask_shape *shape; /* of the mask that is made; NULL: the usual one */
    const float *mtf; /* [box/2 + 1]: part of the signal that the detector passes, by shell; > 0. The mean of the halves
                         is divided by it. NULL: all */
    const double *held;      /* [box/2 + 1]: part of a shell's signal (kernels/fsc/coverage.h); NULL: all */
    int last_shell;          /* nothing is told beyond, with or without a mask; 0: no bound */
    double randomise_at_fsc; /* default 0.8 */
    double bfactor_low;      /* Å, default 10: the Guinier fit reaches from here to the resolution, where chance
                                begins; no fit if the map is not finer */
    double adhoc_bfactor;    /* Å²; NaN: fitted */
    unsigned seed;
};

/* Signs that a mask makes halves agree. */
enum postprocess_doubt {
    POSTPROCESS_TIGHT = 1, /* beyond 0.1, random phases agree in it where the masked maps end: RELION's rule */
    POSTPROCESS_HARD = 2,  /* its edge is narrower than 2 px: it spreads what halves share at low resolution over all */
    POSTPROCESS_BEYOND = 4 /* it claims 1.5 times the frequency to which the unmasked maps agree, or more, and they hold
                              less there than a mask of its volume could bring out */
};

struct postprocess_result {
    double resolution; /* Å, FSC 0.143 (fsc_even where a part of the signal is not held) */
    double claimed;    /* Å: what the masked curve says; the resolution, unless there are doubts */
    int doubts;        /* enum postprocess_doubt, in sum; 0: none */
    double chance;     /* FSC of random phases inside the mask, at `claimed`; 0 without mask */
    double mask_edge;  /* px: mean width of the mask's edge; 0 without mask */
    double bfactor;    /* Å², as applied; 0, the map is filtered and not sharpened, if nothing could be fitted */
    double guinier_slope, guinier_intercept, guinier_correlation; /* r², as in RELION; NaN without a fit */
    double randomise_from; /* Å; 0 without mask, or if no phases were randomised: see postprocess_run */
    double mask_fraction;  /* fraction of the box with mask > 0.5; 1 without mask */
    bool unmasked_curve;   /* fsc is the unmasked curve: it reaches further, or the mask is doubted */
    float *fsc, *fsc_unmasked, *fsc_masked, *fsc_randomised; /* box/2+1; owned */
    /* ln of the mean amplitude per shell: of the mean of the halves; divided by the MTF; after FSC weighting; after
     * sharpening. POSTPROCESS_NO_AMPLITUDE where there is no amplitude; box/2+1; owned */
    float *guinier_original, *guinier_mtf, *guinier_weighted, *guinier_sharpened;
    float *map, *map_masked, *mask; /* box³; owned; map_masked and mask are NULL without mask */
};

#define POSTPROCESS_NO_AMPLITUDE (-99.0f)

/* Postprocesses two half maps. If the unmasked curve never falls below randomise_at_fsc, phase randomisation cannot
 * tell how much of the masked correlation comes from the mask; then fsc is the unmasked curve. A mask with values
 * outside 0..1 is an error. */
enum status postprocess_run(const struct postprocess_options *options, const float *half1, const float *half2,
                            struct postprocess_result *ret_result, struct err *err);
/* Makes the usual mask from a map. ret_mask: box³. */
enum status postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask, struct err *err);
/* Makes a mask of a given shape. */
enum status postprocess_shape_mask(int box, double pixel_size, const struct postprocess_mask_shape *shape,
                                   const float *map, float *ret_mask, struct err *err);
/* Returns the mean width (px) of a mask's edge: the volume between 0.02 and 0.98 over the area of the surface, which is
 * the sum of the gradient. A raised cosine over w px has about 0.8 w, a mask of 0 and 1 has 0; one without edge, and one of more than
 * POSTPROCESS_BOX_MOST px, which is not measured, INFINITY. */
double postprocess_mask_edge(int box, const float *mask);
/* Below this width (px) an edge is hard. */
#define POSTPROCESS_LEAST_EDGE 2.0
/* Finds the doubts about a mask. r: curves and mask; its claimed, doubts, chance and mask_edge are set. */
void postprocess_doubt_mask(const struct postprocess_options *options, struct postprocess_result *r);
void postprocess_result_destroy(struct postprocess_result *result);

#endif
