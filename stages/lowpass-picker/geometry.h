/* The maps of a search, their sizes, and where they lie on their micrograph. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_GEOMETRY_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_GEOMETRY_H

#include <stdbool.h>

#include "kernels/contamination/contamination.h"
#include "kernels/search/search.h"
#include "stages/lowpass-picker/noise_peaks.h"

/* Templates from a stack, or round ones (Laplacians of Gaussians and high-passed spheres). */
enum picker_method { PICKER_TEMPLATE, PICKER_LOG };
/* Products of small primes, or RELION's sizes with its rounding of coordinates. */
enum pick_size_rule { PICK_SIZES_SMOOTH, PICK_SIZES_RELION };
/* Least size of micrographs and maps, px: fewer pixels hold no particle and its background. */
enum { PICK_WORK_LEAST = 16 };
/* Greatest side of micrographs, px. */
enum { PICK_SIDE_MOST = 32000 };

/* Place of maps on their micrograph. With the maps, this is all that the choice needs. */
struct pick_geometry {
    enum picker_method method;
    enum pick_size_rule size_rule;
    int nx, ny;                     /* micrograph, px */
    int size, work;                 /* the square around the micrograph, and the maps, px */
    int band;                       /* of the templates, px of the square's transform */
    int border;                     /* px of the micrograph along its edges where no centre may lie */
    struct contamination_area data; /* the part of the micrograph without filled borders */
    double pixel_size;              /* Å, of the micrograph */
    double radius;                  /* of the particle's circle, px of the micrograph */
    double diameter;                /* of the particle, Å */
    double lowpass, angle_step;     /* Å and °, as the user set them */
    int rotations;                  /* of a full turn */
    bool whiten;                    /* scores are not in units of the local background */
    bool bright;                    /* particles are brighter than the ice */
    struct noise_peaks peaks;       /* of the search in noise */
};

struct pick_maps {
    struct pick_geometry geometry;
    struct search_maps maps;
};

/* Sets size, work and band from nx, ny, pixel_size, lowpass and size_rule. */
void geometry_choose_sizes(struct pick_geometry *geometry);

/* In px of the maps: where pixel (0, 0) of the micrograph lies, and x0 ≤ x < x1, y0 ≤ y < y1 where centres may lie. */
struct pick_area {
    double x, y;
    int x0, y0, x1, y1;
};
/* Returns the area of a geometry. */
struct pick_area geometry_area(const struct pick_geometry *geometry);

#endif
