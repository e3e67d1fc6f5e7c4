/* Shared by the files of this folder. */
#ifndef ICESTREAM_KERNELS_DEFECTS_DEFECTS_PRIVATE_H
#define ICESTREAM_KERNELS_DEFECTS_DEFECTS_PRIVATE_H

#include "kernels/defects/defects.h"

struct defects {
    int nx, ny;
    uint8_t *mask;
    uint8_t *found; /* of the search that runs: what it adds to the mask at its end */
    float *sum;     /* of the frames, without gain */
    float *scratch; /* rows of the search; NULL before the first */
};

#endif
