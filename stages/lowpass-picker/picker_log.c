#include <math.h>

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
    return log_filter_create(p->size, p->work, p->log_diameters, LOG_DIAMETERS, s->threads, &p->log, err);
}

enum status picker_log_run(struct picker *p, struct err *err) {
    (void)err;
    size_t floats = (size_t)p->work * (p->work + 2), pixels = (size_t)p->work * p->work;
    /* Particles are to be bright. */
    if (p->settings.invert)
        for (size_t i = 0; i < floats; i++)
            p->image2[i] = -p->image[i];
    log_filter_run(p->log, p->settings.invert ? p->image2 : p->image, p->merit, p->rotation);
    for (size_t i = 0; i < pixels; i++)
        if (p->rotation[i] < p->log_first || p->rotation[i] > p->log_last) p->merit[i] = 0;
    return STATUS_OK;
}
