/* The stage lowpass-picker: micrographs in, picks out. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_LOWPASS_PICKER_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_LOWPASS_PICKER_H

#include "common/device.h"
#include "common/formats/image.h"
#include "common/harness/params.h"
#include "common/harness/stage.h"
#include "stages/lowpass-picker/choose.h"
#include "stages/lowpass-picker/pick_picture.h"
#include "stages/lowpass-picker/picker.h"

struct lowpass_picker_params {
    int method; /* 0: template when there are templates, else log; 1: template; 2: log */
    char *templates, *symmetry;
    double templates_pixel_size, diameter, lowpass, angle_step;
    char *threshold, *max_stddev_noise; /* a number, or auto */
    double min_distance;
    struct param_floats log_diameter;
    bool invert, ctf, write_png, keep_maps, mask_contamination;
    double contamination_threshold;
    char *from_maps;
    int prune, size_rule, whiten;
};

/* Plans and rotated templates of a few shapes of micrographs, so that sessions of mixed shapes do not make them anew for
 * each micrograph. */
enum { PICKERS_KEPT = 3 };

struct lowpass_picker_kept {
    int shape[3];
    uint64_t used; /* when it was used last */
    struct picker *picker;
};

struct lowpass_picker {
    enum picker_method method;
    struct pick_rules rules;
    struct image templates;
    double templates_pixel_size;
    struct lowpass_picker_kept kept[PICKERS_KEPT];
    struct picker *picker; /* of these, that of the shape that is being searched */
    uint64_t clock;
    double diameter; /* Å, that was taken from the templates and told */
};

struct lowpass_picker_lane {
    struct image micrograph;
    struct contamination_area data; /* its pixels without filled borders */
    struct device_copy *uploaded;   /* the micrograph on the CUDA device */
    struct pick_maps maps;
    struct image stack; /* maps on their way to or from a file */
    struct pick_scratch scratch;
    struct pick_list picks;
    struct pick_picture *picture;
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
