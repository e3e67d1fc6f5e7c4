#include <math.h>

#include "common/memory.h"
#include "stages/lowpass-picker/picker_private.h"

enum status picker_log_create(struct picker *p, struct err *err) {
    const struct picker_settings *s = &p->settings;
    double low = s->log_minimum / s->pixel_size, high = s->log_maximum / s->pixel_size;
    FAIL_IF(!(low > 0) || !(high >= low), err, STATUS_BAD_ARGUMENT,
            "without templates the particle's diameter is needed: set diameter, or log_diameter to the least and the "
            "greatest, in Å");
    p->diameter = isnan(s->diameter) ? (low + high) / 2 : s->diameter / s->pixel_size;
    p->template_count = 1;
    p->border = (int)lround(low / 2);
    /* Much smaller and much larger discs compete, so that grains and thickness gradients are not taken for particles. */
    const double list[LOG_DIAMETERS] = {low / 5,  low / 4,  low / 3,  low / 2,  low,     (low + high) / 2,
                                        high, 2 * high, 3 * high, 4 * high, 5 * high};
    for (int i = 0; i < LOG_DIAMETERS; i++)
        p->log_diameters[i] = list[i];
    p->log_first = 4;
    p->log_last = 6;
    FAIL_IF(2 * p->border >= p->nx || 2 * p->border >= p->ny, err, STATUS_BAD_ARGUMENT,
            "particles of %.3g Å (%.0f px) do not fit into a micrograph of %d × %d px: check pixel_size and diameter",
            s->log_minimum, low, p->nx, p->ny);
    TRY(picker_allocate(p, err));
    TRY(mem_new((size_t)p->work * p->work, sizeof *p->decoy, "LoG response", &p->decoy, err));
    TRY(mem_new((size_t)p->work * p->work, sizeof *p->decoy_size, "LoG response", &p->decoy_size, err));
    return log_filter_create(p->size, p->work, p->log_diameters, LOG_DIAMETERS, s->threads, &p->log, err);
}

/* The response to one contrast; what fits no particle size counts for nothing. */
static void respond(struct picker *p, const float *image, float *response, uint16_t *which) {
    size_t pixels = (size_t)p->work * p->work;
    log_filter_run(p->log, image, response, which);
    for (size_t i = 0; i < pixels; i++)
        if (which[i] < p->log_first || which[i] > p->log_last) response[i] = 0;
}

enum status picker_log_run(struct picker *p, struct err *err) {
    (void)err;
    size_t floats = (size_t)p->work * (p->work + 2);
    for (size_t i = 0; i < floats; i++)
        p->image2[i] = -p->image[i];
    bool dark = p->settings.invert;
    respond(p, dark ? p->image2 : p->image, p->merit, p->rotation);
    if (isnan(p->settings.threshold)) respond(p, dark ? p->image : p->image2, p->decoy, p->decoy_size);
    return STATUS_OK;
}
