/* The stage lowpass-picker: micrographs in, picks out. */
#ifndef ICESTREAM_LOWPASS_PICKER_H
#define ICESTREAM_LOWPASS_PICKER_H

#include "common/image.h"
#include "common/params.h"
#include "common/stage.h"
#include "stages/lowpass-picker/pick_picture.h"
#include "stages/lowpass-picker/picker.h"

struct lowpass_picker_params {
    int method; /* −1: template when there are templates, else log */
    char *templates;
    double templates_pixel_size, diameter, lowpass, angle_step;
    char *threshold, *max_stddev_noise; /* a number, or auto */
    double min_distance;
    struct param_floats log_diameter;
    bool invert, ctf, write_png;
    int prune;
};

struct lowpass_picker {
    enum picker_method method;
    double threshold, max_stddev_noise; /* NaN: auto */
    double pixel_size;                  /* of the micrographs that the picker was made for */
    struct image templates;
    double templates_pixel_size;
    struct picker *picker;
    struct pick_picture *picture;
};

struct lowpass_picker_lane {
    struct image micrograph;
    struct pick_list picks;
    struct picture_buffer picture;
};

enum status lowpass_picker_init(struct stage *stage, void *state, struct err *err);
void lowpass_picker_fini(struct stage *stage, void *state);
void lowpass_picker_lane_fini(struct stage *stage, void *state, struct stage_lane *lane);
enum status lowpass_picker_load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
enum status lowpass_picker_reconfigure(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
enum status lowpass_picker_process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
enum status lowpass_picker_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
enum status lowpass_picker_summarise(struct stage *stage, void *state, struct err *err);

/* The stage as main.c and the tests run it. */
extern const struct stage_descriptor lowpass_picker_stage;

#endif
