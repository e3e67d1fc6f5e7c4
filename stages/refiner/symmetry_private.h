/* symmetry_check.c and symmetry_search.c, the two halves of the check of symmetry, share these. */
#ifndef ICESTREAM_STAGES_REFINER_SYMMETRY_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_SYMMETRY_PRIVATE_H

#include "stages/refiner/refiner_private.h"

enum { SYMMETRY_BLOCKS = 6, SYMMETRY_NEAR = 7 };

/* The particles of a half, ready to be compared. */
struct symmetry_half {
    int count;
    float *data, *weight; /* [count][2·pixels]: CTF/σ² X; [count][pixels]: CTF²/σ² */
    float *mates;         /* [count][operators][9]: the poses to choose from */
    int *choice;          /* [count] */
    float *poses;         /* [count][9]: as chosen */
};

struct symmetry_work {
    struct refiner *r;
    int box, size, operators;       /* px; compared up to size/2 */
    double radius;                  /* px of `box` */
    struct fourier_pixels all, own; /* the same pixels in the particles' box, and in `box` */
    struct symmetry_half halves[2];
    struct accumulator *blocks[SYMMETRY_BLOCKS], *sum;
    struct projector *projector;
    float *map, *other; /* box³ */
    float *slices;      /* [the larger of operators and SYMMETRY_NEAR][2·pixels] */
};

/* Returns which of so many slices of w->slices a particle fits best, at any grey scale. */
int symmetry_choose(const struct symmetry_work *w, const struct symmetry_half *half, int i, int count);
/* Puts the particles of a block, in their poses, into w->blocks[block]. */
enum status symmetry_fill_block(struct symmetry_work *w, const struct symmetry_half *half, int block, struct err *err);
/* Makes w->map, inside the sphere, of the first `blocks` blocks without `block`, with the prior of half h. */
enum status symmetry_map_without(struct symmetry_work *w, int h, int block, int blocks, struct err *err);
/* Finds the poses of a half's particles anew, in C1, from the reference that was given. */
enum status symmetry_search(struct symmetry_work *w, int h, struct err *err);

#endif
