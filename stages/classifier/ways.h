/* Brings images of different boxes, pixel sizes and optics to the grid of the classification (kernels/regrid). Images
 * with the same values go the same way. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_WAYS_H
#define ICESTREAM_STAGES_CLASSIFIER_WAYS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/optics_aberrations.h"
#include "common/formats/optics_detector.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/regrid/regrid.h"

struct way {
    int box;                              /* px, of the images */
    double pixel_size;                    /* Å */
    double voltage, spherical_aberration; /* kV, mm */
    double amplitude_contrast;
    struct optics_aberrations aberrations;
    struct optics_detector *detector; /* its MTF; NULL: none is named */
    size_t particles;
    struct aberration *even; /* of CTFs; NULL: none */
    struct regrid *regrid;   /* NULL: images stay as they are */
    bool made;               /* regrid was made */
    bool filtered;           /* it makes the MTF that of another detector, which changes the deviation of noise */
};

/* All 0: empty. The address of a way does not change. */
struct ways {
    struct way **list;
    int count;
};

/* Finds the way of these values, or adds it with a copy of its detector, and counts wanted->particles in. */
enum status ways_find(struct ways *ways, const struct way *wanted, int *ret_index, struct err *err);
void ways_destroy(struct ways *ways);
/* Finds the box and the pixel size of most particles; 0: there are none. */
void ways_most(const struct ways *ways, int *ret_box, double *ret_pixel_size);

/* Completes a CTF for images that come to this grid this way. has_ctf: the particle has one; else it becomes 1. Returns
 * whether images need it. */
bool way_complete_ctf(const struct way *way, int box, double pixel_size, bool has_ctf, struct ctf *ctf);
/* Makes way->regrid for this grid, once. like: the detector to whose MTF images are brought; NULL: none is known. */
enum status way_make(struct way *way, int box, double pixel_size, const struct optics_detector *like, struct err *err);

/* Returns the detector of the first way whose MTF is known; NULL: there is none. */
const struct optics_detector *ways_detector(const struct ways *ways);
/* Returns the name of an MTF that could not be read; NULL: there is none. */
const char *ways_missing_mtf(const struct ways *ways);

#endif
