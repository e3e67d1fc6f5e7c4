#include "stages/lowpass-picker/contaminated.h"

#include <math.h>
#include <string.h>

#include "kernels/normalise/normalise.h"

/* Returns the pixels of the maps that lie in an area of the micrograph, at least `margin` px of it away from the area's
 * edges. */
static struct contamination_area on_maps(const struct pick_geometry *g, double margin) {
    double scale = (double)g->work / g->size;
    int x = normalise_offset(g->size, g->nx), y = normalise_offset(g->size, g->ny);
    struct contamination_area a = {.x0 = (int)ceil((x + g->data.x0 + margin) * scale),
                                   .y0 = (int)ceil((y + g->data.y0 + margin) * scale),
                                   .x1 = (int)floor((x + g->data.x1 - 1 - margin) * scale) + 1,
                                   .y1 = (int)floor((y + g->data.y1 - 1 - margin) * scale) + 1};
    if (a.x1 > g->work) a.x1 = g->work;
    if (a.y1 > g->work) a.y1 = g->work;
    return a;
}

/* Returns how strong particles of one kind may be, in thresholds of contamination. The contrast of a particle grows with
 * its thickness, and the box mean's signal to noise with its width. Particles of SMALL Å that are as clear as the noise
 * of a pixel reach STRONG. */
static double strongest(double diameter) {
    static const double SMALL = 140, STRONG = 2.5;
    double relative = fmax(diameter / SMALL, 1);
    return STRONG * relative * relative;
}

/* Makes a plan for these maps; keeps the last one if it fits. */
static enum status fit(const struct pick_geometry *g, const struct pick_rules *rules, struct pick_scratch *scratch,
                       struct err *err) {
    struct contamination_options options = {.work = g->work,
                                            .diameter = g->diameter / g->pixel_size * g->work / g->size,
                                            .threshold = rules->contamination_threshold,
                                            .particles = strongest(g->diameter),
                                            .bright = g->bright};
    const struct contamination_options *have =
        scratch->contamination ? contamination_options(scratch->contamination) : NULL;
    if (have && have->work == options.work && have->diameter == options.diameter &&
        have->threshold == options.threshold && have->particles == options.particles && have->bright == options.bright)
        return STATUS_OK;
    contamination_destroy(&scratch->contamination);
    return contamination_create(&options, &scratch->contamination, err);
}

/* Marks centres of particles that would reach into filled borders of the micrograph. */
static void mark_borders(const struct pick_geometry *g, uint8_t *bad) {
    if (g->data.x0 == 0 && g->data.y0 == 0 && g->data.x1 == g->nx && g->data.y1 == g->ny) return;
    struct contamination_area a = on_maps(g, g->diameter / g->pixel_size / 2);
    size_t work = (size_t)g->work;
    for (int y = 0; y < g->work; y++)
        for (int x = 0; x < g->work; x++)
            if (x < a.x0 || x >= a.x1 || y < a.y0 || y >= a.y1) bad[(size_t)y * work + (size_t)x] = 1;
}

enum status contaminated_mark(const struct pick_maps *maps, const struct pick_rules *rules,
                              struct pick_scratch *scratch, double *ret_part, struct err *err) {
    const struct pick_geometry *g = &maps->geometry;
    size_t pixels = (size_t)g->work * (size_t)g->work;
    bool automatic = isnan(rules->max_stddev_noise) && rules->mask_contamination;
    *ret_part = 0;
    memset(scratch->bad, 0, pixels);
    if (automatic) {
        struct contamination_area area = on_maps(g, 0);
        TRY(fit(g, rules, scratch, err));
        *ret_part = contamination_run(scratch->contamination, maps->maps.image, &area, scratch->bad);
        mark_borders(g, scratch->bad);
    } else if (rules->max_stddev_noise > 0) {
        for (size_t i = 0; i < pixels; i++)
            scratch->bad[i] = maps->maps.sigma[i] > rules->max_stddev_noise;
    }
    return STATUS_OK;
}
