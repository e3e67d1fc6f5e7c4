/* Templates for picking without templates: Laplacians of Gaussians and high-passed spheres. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_ROUND_TEMPLATES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_ROUND_TEMPLATES_H

#include "common/status.h"
#include "stages/lowpass-picker/geometry.h"
#include "stages/lowpass-picker/templates.h"

/* Draws two round shapes in each of three sizes from `low` to `high` Å into *ret_shapes, which the caller frees, and, if
 * high is at least twice low, ellipses of `high` × `low` in 12 orientations. *ret_templates describes them.
 * STATUS_BAD_ARGUMENT: diameters are not known or in the wrong order, or the largest shape and its background do not fit
 * into the micrograph. */
enum status round_templates_draw(double low, double high, const struct pick_geometry *geometry, float **ret_shapes,
                                 struct picker_templates *ret_templates, struct err *err);

/* Returns the number of shapes that round_templates_draw draws. */
int round_templates_count(double low, double high);

#endif
