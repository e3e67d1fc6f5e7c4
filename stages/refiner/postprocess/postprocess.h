/* Post-processes two half maps of any program, with the files that a refinement ends with. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_POSTPROCESS_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_POSTPROCESS_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/postprocess/postprocess.h"

/* The parameters that a user sets (parameters.c). */
struct wishes {
    char *folder;          /* for the files */
    double pixel_size;     /* Å; NaN: that of the maps */
    char *mask;            /* path; NULL: made */
    bool auto_mask;        /* make one */
    double threshold;      /* NaN: found */
    double extend, soft;   /* px */
    char *mtf;             /* path; NULL: none */
    double mtf_pixel_size; /* Å; NaN: that of the maps */
    double bfactor;        /* Å²; NaN: fitted */
    double bfactor_low;    /* Å */
    double randomise_at_fsc;
    bool local_resolution;
    int seed;
};

/* Writes postprocess.star, postprocess.mrc, postprocess_masked.mrc, postprocess_mask.mrc, postprocess.png, locres.mrc and
 * locres_filtered.mrc below the folder, and says on `out` what was found, on `warnings` what is to be doubted. */
enum status postprocess_halves(const struct wishes *wishes, const char *half1, const char *half2, FILE *out,
                               FILE *warnings, struct err *err);

#endif
