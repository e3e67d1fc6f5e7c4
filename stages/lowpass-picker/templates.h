/* Templates of the search: read from a file, measured, and brought to the micrograph's pixel size. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATES_H

#include "common/formats/image.h"
#include "common/status.h"
#include "stages/lowpass-picker/geometry.h"

struct picker_templates {
    const float *data; /* [count][box][box] */
    int box, count;
    double pixel_size; /* Å */
};

/* The user's settings for a file of templates. */
struct lowpass_picker_options;

/* Reads a stack of templates, or the projections of a map (kernels/views), into ret_images. Uses the options templates,
 * symmetry (of a map), templates_pixel_size and diameter, which must fit into the templates. ret_pixel_size: Å.
 * STATUS_BAD_FORMAT: no finite square images of an even size of at least 8 px. */
enum status templates_read(const struct lowpass_picker_options *options, int threads, struct image *ret_images,
                           double *ret_pixel_size, struct err *err);

/* Checks templates. STATUS_BAD_ARGUMENT: no templates, an odd size, a size below 8 px, or no pixel size. */
enum status templates_check(const struct picker_templates *templates, struct err *err);

/* Resizes the templates to the pixel size of the geometry's micrograph: ret_data[count][ret_box][ret_box], which the
 * caller frees. STATUS_BAD_ARGUMENT: they become smaller than 8 px or do not fit into the micrograph. */
enum status templates_resize(const struct picker_templates *templates, const struct pick_geometry *geometry,
                             int *ret_box, float **ret_data, struct err *err);

/* Measures the particle's diameter in Å: the width of the mask, or, if the templates are not masked, of the circle that
 * holds most of their power. */
enum status templates_diameter(const struct picker_templates *templates, double *ret_diameter, struct err *err);

#endif
