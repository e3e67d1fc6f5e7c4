/* What picker.c, picker_template.c and picker_log.c share. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_PRIVATE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_PRIVATE_H

#include "stages/lowpass-picker/picker.h"

struct picker {
    struct picker_settings settings;
    struct pick_geometry geometry;
    struct search *search;
};

/* Fills what the geometry still lacks (diameter, border) and makes the search. */
enum status picker_template_create(struct picker *picker, const struct picker_templates *templates, struct err *err);
/* Blobs are picked as templates of round shapes are. */
enum status picker_log_create(struct picker *picker, struct err *err);

#endif
