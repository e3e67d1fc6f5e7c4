#include "common/formats/optics.h"

#include <math.h>
#include <stddef.h>

static const struct optics DEFAULTS = {
    .pixel_size = NAN,
    .voltage = 300,
    .spherical_aberration = 2.7,
    .amplitude_contrast = 0.1,
};

static const double SAME = 1e-3, CONFIRMS = 0.01; /* parts by which pixel sizes may differ */

struct optics optics_unknown(void) {
    return (struct optics){NAN, NAN, NAN, NAN};
}

static void fill(double *value, double source) {
    if (isnan(*value)) *value = source;
}

/* Copies the values that `optics` does not know yet. */
static void fill_all(struct optics *optics, const struct optics *source) {
    fill(&optics->pixel_size, source->pixel_size);
    fill(&optics->voltage, source->voltage);
    fill(&optics->spherical_aberration, source->spherical_aberration);
    fill(&optics->amplitude_contrast, source->amplitude_contrast);
}

static void fill_pixel_size(struct optics *optics, double pixel_size) {
    if (pixel_size > 0) fill(&optics->pixel_size, pixel_size);
}

struct optics optics_of_micrograph(const struct optics *session, const struct optics *table, double header_pixel_size) {
    struct optics optics = *session;
    fill_all(&optics, table);
    fill_pixel_size(&optics, header_pixel_size);
    fill_all(&optics, &DEFAULTS);
    return optics;
}

struct optics optics_of_item(const struct optics *item, const struct optics *session) {
    struct optics optics = *item;
    fill_all(&optics, session);
    fill_all(&optics, &DEFAULTS);
    return optics;
}

struct optics optics_of_particle(const struct optics *table, double detector_pixel_size, double session_pixel_size,
                                 double header_pixel_size) {
    const double pixel_sizes[] = {detector_pixel_size, session_pixel_size, header_pixel_size};
    struct optics optics = *table;
    for (size_t i = 0; i < sizeof pixel_sizes / sizeof *pixel_sizes; i++)
        fill_pixel_size(&optics, pixel_sizes[i]);
    fill_all(&optics, &DEFAULTS);
    return optics;
}

double optics_pixel_size_of_detector(double detector, double magnification) {
    bool known = detector > 0 && magnification > 0 && isfinite(detector) && isfinite(magnification);
    return known ? 1e4 * detector / magnification : NAN;
}

bool optics_same_pixel_size(double a, double b) {
    return fabs(a / b - 1) <= SAME;
}

bool optics_pixel_size_confirms(double header, double expected) {
    return fabs(header - expected) <= CONFIRMS * expected;
}
