/* Draws the layout of a simulated micrograph, from the seed and its number alone, and paints its pixels.
 *
 * Pixels are electron counts: particles are dark on a bright background, as they come from the camera. Signal and the
 * noise of the ice pass through the CTF. Thickness, contamination and carbon absorb. The counts have noise of √N. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_MICROGRAPH_H
#define ICESTREAM_EXAMPLES_SIMULATE_MICROGRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fft.h"
#include "common/formats/image.h"
#include "common/status.h"
#include "examples/simulate/phantom.h"

enum { LAYOUT_CONTAMINANTS = 32 };

struct scene { /* shared by all micrographs of a session */
    uint64_t seed;
    int nx, ny;                  /* px */
    double pixel_size;           /* Å */
    int particles;               /* on each micrograph, as far as there is room */
    double min_distance, margin; /* px, between centres and from the border */
    double voltage, spherical_aberration, amplitude_contrast, b_factor;
    double defocus_min, defocus_max; /* Å */
    double astigmatism;              /* Å, largest */
    double counts;                   /* electrons a pixel */
    double ice_noise;                /* variance of the ice's own structure, as a fraction of the shot noise's */
    double contamination;            /* mean number on a micrograph */
    bool facetted;                   /* contaminants are crystals: hexagons with sharp rims */
    double carbon;                   /* fraction of micrographs with a carbon edge */
    int drifted;                     /* number of micrographs that drift smears */
    int micrographs;
    bool movies;   /* named mov_, not mic_ */
    double signal; /* factor on a projection (per Å²), in counts */
};

struct particle {
    double x, y; /* px */
    double rot, tilt, psi;
};

struct contaminant {
    double x, y, radius; /* px */
    double depth;        /* fraction of the beam that it absorbs */
    double wobble[2];    /* phases of its outline */
};

struct layout {
    int index;
    char name[32]; /* without ending */
    struct particle *particles;
    int particle_count;
    struct contaminant contaminants[LAYOUT_CONTAMINANTS];
    int contaminant_count;
    bool has_carbon;
    double carbon_x, carbon_y, carbon_offset; /* carbon where x·carbon_x + y·carbon_y < carbon_offset */
    double defocus_u, defocus_v, defocus_angle;
    double drift_x, drift_y; /* px, the whole way */
    double slope_x, slope_y, bow;
};

enum status layout_draw(const struct scene *scene, double particle_radius, int index, struct layout *ret_layout,
                        struct err *err);
/* Moves everything on a micrograph by whole pixels, as if its image began elsewhere. */
void layout_move(struct layout *layout, int dx, int dy);
void layout_destroy(struct layout *layout);

struct painter; /* plans and buffers for one size; all threads transform a large one */
enum status painter_create(int nx, int ny, struct painter **ret_painter, struct err *err);
void painter_destroy(struct painter **painter);

/* Multiplies the image's transform by the layout's CTF, envelope and drift, in place. */
void painter_apply_ctf(struct painter *painter, const struct scene *scene, const struct layout *layout,
                       struct image *image);
/* Paints the electrons expected in each pixel, without their own noise. */
enum status painter_expect(struct painter *painter, const struct scene *scene, const struct phantom *phantom,
                           const struct layout *layout, struct image *image, struct err *err);
enum status painter_paint(struct painter *painter, const struct scene *scene, const struct phantom *phantom,
                          const struct layout *layout, struct image *image, struct err *err);

#endif
