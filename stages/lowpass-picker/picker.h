/* Picking with one set of templates in micrographs of one shape, in two steps: the search, which computes (kernels/search),
 * and the choice (choose.h), which takes picks from the search's maps. Here: shapes, sizes, and the templates, from a
 * stack (PICKER_TEMPLATE) or round ones (PICKER_LOG: Laplacians of Gaussians and high-passed spheres).
 * Lengths in Å unless said. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/contamination/contamination.h"
#include "kernels/search/search.h"

enum picker_method { PICKER_TEMPLATE, PICKER_LOG };
/* Products of small primes, or RELION's sizes with its rounding of coordinates. */
enum pick_size_rule { PICK_SIZES_SMOOTH, PICK_SIZES_RELION };
/* Fewer pixels hold no particle and its background. */
enum { PICK_WORK_LEAST = 16 };

struct picker_settings {
    enum picker_method method;
    double pixel_size;
    double diameter; /* of the particle; template mode: NaN takes it from the templates */
    double lowpass;  /* 0: none */
    enum pick_size_rule size_rule;
    double angle_step; /* ° */
    double log_minimum, log_maximum;
    bool invert;       /* particles darker than the ice, templates white */
    bool whiten;       /* weight resolutions alike (kernels/search) */
    bool per_template; /* maps of each template as well */
    int threads;
    struct device device;
};

struct picker_templates {
    const float *data; /* [count][box][box] */
    int box, count;
    double pixel_size;
};

/* Where maps lie on their micrograph; with the maps, all that the choice needs. */
struct pick_geometry {
    enum picker_method method;
    enum pick_size_rule size_rule;
    int nx, ny;                     /* micrograph, px */
    int size, work;                 /* its square, and the maps, px */
    int band;                       /* of the templates, px of the square's transform */
    int border;                     /* px of the micrograph in which no centre lies */
    struct contamination_area data; /* of the micrograph, without filled borders */
    double pixel_size;              /* Å, of the micrograph */
    double radius;                  /* px of the micrograph, of the particle's circle */
    double diameter;                /* Å, of the particle */
    double lowpass, angle_step;     /* as they were asked for */
    int rotations;
    bool whiten; /* scores are not in units of the local background */
    bool bright; /* particles are brighter than the ice */
};

struct pick_maps {
    struct pick_geometry geometry;
    struct search_maps maps;
};

struct picker;

/* templates: NULL in LoG mode; not needed any more when the call returns. */
enum status picker_create(const struct picker_settings *settings, const struct picker_templates *templates, int nx,
                          int ny, struct picker **ret_picker, struct err *err);
void picker_destroy(struct picker **picker);
/* Å: as set, or as taken from the templates. */
double picker_diameter(const struct picker *picker);

/* input: ny × nx; ctf may be NULL (LoG mode does without); seed: for the noise around a micrograph that is not square.
 * `maps` starts as {0} and keeps its memory. */
enum status picker_search(struct picker *picker, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                          struct pick_maps *maps, struct err *err);

#endif
