#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/template_spectra/template_spectra.h"
#include "stages/lowpass-picker/picker_private.h"

/* Rotated templates are kept up to here; more are rotated as they are used, which costs a fifth of the transform. */
static const size_t ROTATED_LIMIT = (size_t)512 << 20, ROTATED_LIMIT_CUDA = (size_t)1200 << 20;
/* RELION's reduction of the mask radius, px. */
enum { SHRINK_MASK = 2 };
/* Templates that are wider than this part of their box are not masked; the background of such is that of the outermost
 * rings, and their circle holds this part of the power. */
static const double MASKED = 0.98, MOST_POWER = 0.95;
enum { RIM = 2 };
/* z-scores beyond this are dead pixels and gold. */
static const double OUTLIERS = 8;

/* Width of what is not zero on the central row, px, averaged over the templates: masked templates end at zero. */
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

/* Adds the power of a template to the rings, over what the outermost of them holds on average. */
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

/* Å. Of templates that are not masked, the circle that holds most of their power. */
static enum status diameter_of(const struct picker_templates *t, double *ret_diameter, struct err *err) {
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

static enum status resized(struct picker *p, const struct picker_templates *templates, int *ret_box, float **ret_data,
                           struct err *err) {
    double ratio = templates->pixel_size / p->settings.pixel_size;
    bool same = fabs(templates->pixel_size - p->settings.pixel_size) <= 1e-3;
    int box = same ? templates->box : 2 * (int)lround(templates->box / 2 * ratio);
    FAIL_IF(box < 8, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, p->settings.pixel_size);
    FAIL_IF(box >= p->geometry.nx || box >= p->geometry.ny, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px and do not fit into its "
            "%d × %d px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, p->settings.pixel_size, p->geometry.nx, p->geometry.ny);
    TRY(mem_new((size_t)templates->count * box * box, sizeof(float), "templates", ret_data, err));
    *ret_box = box;
    if (same) {
        memcpy(*ret_data, templates->data, (size_t)templates->count * box * box * sizeof(float));
        return STATUS_OK;
    }
    TRY(template_resize(templates->data, templates->box, templates->count, box, *ret_data, err));
    /* White noise that was normalised in large pixels is stronger in small ones, where its particles are fainter beside
     * it. As in RELION, whose figures of merit these are, the other way round is left alone. */
    float factor = box > templates->box ? (float)templates->box / (float)box : 1;
    for (size_t i = 0; i < (size_t)templates->count * box * box; i++)
        (*ret_data)[i] *= factor;
    return STATUS_OK;
}

enum status picker_template_create(struct picker *p, const struct picker_templates *templates, struct err *err) {
    const struct picker_settings *s = &p->settings;
    struct pick_geometry *g = &p->geometry;
    FAIL_IF(templates == NULL || templates->count < 1 || templates->box < 8 || templates->box % 2, err,
            STATUS_BAD_ARGUMENT, "templates are square images of an even size of at least 8 px");
    FAIL_IF(!(templates->pixel_size > 0), err, STATUS_BAD_ARGUMENT,
            "the templates' pixel size is not known: set templates_pixel_size");
    _cleanup_(mem_free) float *data = NULL;
    int box = 0;
    TRY(resized(p, templates, &box, &data, err));
    g->diameter = s->diameter;
    if (isnan(g->diameter)) TRY(diameter_of(templates, &g->diameter, err));
    double radius = lround(g->diameter / s->pixel_size / 2) - SHRINK_MASK;
    FAIL_IF(radius < 2, err, STATUS_BAD_ARGUMENT, "a diameter of %.3g Å is only %.1f px of %.3g Å: check pixel_size",
            g->diameter, g->diameter / s->pixel_size, s->pixel_size);
    /* Unmasked templates without a diameter: the largest circle that leaves a background. */
    if (isnan(s->diameter) && radius > box / 2 - SHRINK_MASK) radius = box / 2 - SHRINK_MASK;
    g->radius = radius;
    /* A whole particle, whatever room its template has around it. */
    g->border = s->size_rule == PICK_SIZES_RELION ? box / 2 : (int)ceil(g->diameter / s->pixel_size / 2);
    struct search_options options = {
        .nx = g->nx,
        .ny = g->ny,
        .size = g->size,
        .work = g->work,
        .band = g->band,
        .pixel_size = s->pixel_size,
        .box = box,
        .radius = radius,
        .count = templates->count,
        .rotations = g->rotations,
        .invert = s->invert,
        .whiten = s->whiten,
        .per_template = s->per_template,
        .clip = OUTLIERS,
        .memory_limit = s->device.kind == DEVICE_CPU ? ROTATED_LIMIT : ROTATED_LIMIT_CUDA,
        .threads = s->threads,
        .device = s->device,
    };
    return search_create(&options, data, &p->search, err);
}
