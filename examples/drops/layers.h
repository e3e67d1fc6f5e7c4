/* Paints the contents of drops. Each function adds to plane[size][size], in units of about one at its strongest, around
 * (x, y) within `radius`. */
#ifndef ICESTREAM_EXAMPLES_DROPS_LAYERS_H
#define ICESTREAM_EXAMPLES_DROPS_LAYERS_H

#include "examples/simulate/random.h"

struct layer {
    int size;
    float x, y, radius; /* px: the drop */
    float *plane;
    float *scratch[3]; /* each a plane */
};

/* Blurs by a separable Gaussian, sigma in px; borders repeat the last pixel. */
void layer_blur(float *plane, float *scratch, int size, float sigma);
void layer_noise(float *plane, int size, struct random *random); /* normal, variance 1 */

void layer_grains(struct layer *layer, struct random *random, float amplitude);      /* precipitate */
void layer_crystals(struct layer *layer, struct random *random, float amplitude);    /* polygons with straight edges */
void layer_droplets(struct layer *layer, struct random *random, float amplitude);    /* phase separation */
void layer_folds(struct layer *layer, struct random *random, float amplitude);       /* skin */
void layer_junk(struct layer *layer, struct random *random, float amplitude);        /* hairs, lumps, bubbles */
void layer_spherulites(struct layer *layer, struct random *random, float amplitude); /* discs of radial fibres */
void layer_specks(struct layer *layer, struct random *random, int count);            /* dust, in any drop */

#endif
