#include "stages/lowpass-picker/templates.h"

#include <math.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "kernels/template_spectra/template_spectra.h"
#include "kernels/views/views.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/template_map.h"

/* Templates wider than this part of their box are not masked. Their background is that of the outermost rings, and
 * their circle holds this part of the power. */
static const double MASKED = 0.98, MOST_POWER = 0.95;
enum { RIM = 2 };

/* Returns the width of the non-zero part of the central row, px, averaged over the templates: masked templates end at
 * zero. */
static double masked_width(const struct picker_templates *t) {
    double width = 0;
    for (int i = 0; i < t->count; i++) {
        const float *row = t->data + ((size_t)i * t->box + t->box / 2) * t->box;
        int first = 0, last = t->box - 1;
        while (first < last && row[first] == 0)
            first++;
        while (last > first && row[last] == 0)
            last--;
        width += last - first + 1;
    }
    return width / t->count;
}

/* Adds the power of a template to the rings, relative to the average of the outermost rings. */
static void add_rings(const float *image, int box, double *rings) {
    int centre = box / 2;
    double rim = 0, pixels = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                int ring = (int)hypot(x - centre, y - centre);
                double value = image[(size_t)y * box + x];
                if (ring >= centre) continue;
                if (pass == 1) rings[ring] += (value - rim) * (value - rim);
                if (pass == 0 && ring >= centre - RIM) {
                    rim += value;
                    pixels++;
                }
            }
        if (pass == 0) rim /= pixels;
    }
}

enum status templates_diameter(const struct picker_templates *t, double *ret_diameter, struct err *err) {
    double width = masked_width(t), total = 0, sum = 0;
    *ret_diameter = width * t->pixel_size;
    if (width < MASKED * t->box) return STATUS_OK;
    _cleanup_(mem_free) double *rings = NULL;
    int ring = 0, count = t->box / 2;
    TRY(mem_new((size_t)count, sizeof *rings, "templates", &rings, err));
    for (int i = 0; i < t->count; i++)
        add_rings(t->data + (size_t)i * t->box * t->box, t->box, rings);
    for (int r = 0; r < count; r++)
        total += rings[r];
    while (ring < count && sum + rings[ring] < MOST_POWER * total)
        sum += rings[ring++];
    *ret_diameter = 2 * (ring + 0.5) * t->pixel_size;
    return STATUS_OK;
}

enum status templates_resize(const struct picker_templates *templates, const struct pick_geometry *g, int *ret_box,
                             float **ret_data, struct err *err) {
    double ratio = templates->pixel_size / g->pixel_size;
    bool same = optics_same_pixel_size(templates->pixel_size, g->pixel_size);
    int box = same ? templates->box : 2 * (int)lround(templates->box / 2 * ratio);
    FAIL_IF(box < 8, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, g->pixel_size);
    FAIL_IF(box >= g->nx || box >= g->ny, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px and do not fit into its "
            "%d × %d px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, g->pixel_size, g->nx, g->ny);
    TRY(mem_new((size_t)templates->count * box * box, sizeof(float), "templates", ret_data, err));
    *ret_box = box;
    if (same) {
        memcpy(*ret_data, templates->data, (size_t)templates->count * box * box * sizeof(float));
        return STATUS_OK;
    }
    TRY(template_resize(templates->data, templates->box, templates->count, box, *ret_data, err));
    /* White noise that was normalised in large pixels is stronger in small pixels, where its particles are fainter
     * beside it. As in RELION, whose figures of merit these are, the opposite case is left unchanged. */
    float factor = box > templates->box ? (float)templates->box / (float)box : 1;
    for (size_t i = 0; i < (size_t)templates->count * box * box; i++)
        (*ret_data)[i] *= factor;
    return STATUS_OK;
}

enum status templates_check(const struct picker_templates *templates, struct err *err) {
    FAIL_IF(templates == NULL || templates->count < 1 || templates->box < 8 || templates->box % 2, err,
            STATUS_BAD_ARGUMENT, "templates are square images of an even size of at least 8 px");
    FAIL_IF(!(templates->pixel_size > 0), err, STATUS_BAD_ARGUMENT,
            "the templates' pixel size is not known: set templates_pixel_size");
    return STATUS_OK;
}

/* Replaces a map by its projections. */
static enum status project_map(struct image *images, const char *symmetry, int threads, struct err *err) {
    _cleanup_(mem_free) float *views = NULL;
    int n = images->nx, count = 0;
    TRY(views_project(images->data, n, symmetry, threads, &views, &count, err));
    TRY(image_resize(images, n, n, count, err));
    memcpy(images->data, views, image_count(images) * sizeof *views);
    return STATUS_OK;
}

enum status templates_read(const struct lowpass_picker_options *options, int threads, struct image *images,
                           double *ret_pixel_size, struct err *err) {
    const char *path = options->templates;
    TRY(image_read_micrograph(path, images, err));
    FAIL_IF(images->nx != images->ny || images->nx < 8, err, STATUS_BAD_FORMAT,
            "%s: templates of %d × %d px; expected square images of at least 8 px", path, images->nx, images->ny);
    FAIL_IF(images->nx % 2, err, STATUS_BAD_FORMAT, "%s: templates of %d px; expected an even size", path, images->nx);
    for (size_t i = 0; i < image_count(images); i++)
        FAIL_IF(!isfinite(images->data[i]), err, STATUS_BAD_FORMAT,
                "%s: pixel %zu is not a finite number; expected grey values of normalised particles", path, i);
    if (template_map_is_one(path, images))
        TRY(project_map(images, options->symmetry, threads, err));
    else
        FAIL_IF(strcmp(options->symmetry, "C1") != 0, err, STATUS_BAD_ARGUMENT,
                "symmetry is %s, but %s holds %d images: symmetry is of a map that is projected", options->symmetry,
                path, images->nz);
    double pixel_size = isnan(options->templates_pixel_size) ? images->pixel_size : options->templates_pixel_size;
    FAIL_IF(!(pixel_size > 0), err, STATUS_BAD_ARGUMENT, "%s does not say its pixel size: set templates_pixel_size",
            path);
    double width = images->nx * pixel_size;
    FAIL_IF(options->diameter > width, err, STATUS_BAD_ARGUMENT,
            "diameter is %g Å, but %s is only %g Å wide (%d px of %g Å): check diameter and templates_pixel_size",
            options->diameter, path, width, images->nx, pixel_size);
    *ret_pixel_size = pixel_size;
    return STATUS_OK;
}
