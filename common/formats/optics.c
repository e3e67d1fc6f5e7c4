#include "common/formats/optics.h"

#include <math.h>

struct optics optics_unknown(void) {
    return (struct optics){NAN, NAN, NAN, NAN};
}

static void fill(double *value, double source) {
    if (isnan(*value)) *value = source;
}

void optics_fill(struct optics *optics, const struct optics *source) {
    fill(&optics->pixel_size, source->pixel_size);
    fill(&optics->voltage, source->voltage);
    fill(&optics->spherical_aberration, source->spherical_aberration);
    fill(&optics->amplitude_contrast, source->amplitude_contrast);
}

void optics_fill_defaults(struct optics *optics) {
    static const struct optics DEFAULTS = {
        .pixel_size = NAN,
        .voltage = 300,
        .spherical_aberration = 2.7,
        .amplitude_contrast = 0.1,
    };
    optics_fill(optics, &DEFAULTS);
}
