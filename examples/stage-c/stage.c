/* The stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <stdio.h>

#include "brightness.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "parameters.h"

/* A lane keeps this from item to item: it allocates again only when a larger micrograph comes. */
struct brightness_lane {
    struct image image;
    struct brightness brightness;
    double *row_sums;
    int rows;
};

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct brightness_lane *lane = stage_lane->state;
    image_destroy(&lane->image);
    mem_free(&lane->row_sums);
}

/* Reads, on an I/O thread. */
static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct brightness_lane *lane = stage_lane->state;
    const char *path;
    char absolute[PATH_SIZE];
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_read_micrograph(absolute, &lane->image, err));
    if (lane->image.ny > lane->rows) {
        mem_free(&lane->row_sums);
        lane->rows = 0;
        TRY(mem_new((size_t)lane->image.ny * 2, sizeof *lane->row_sums, "sums of rows", &lane->row_sums, err));
        lane->rows = lane->image.ny;
    }
    return STATUS_OK;
}

/* Computes, on the compute thread, while other lanes read and write. */
static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    const struct brightness_options *options = stage_params(stage);
    struct brightness_lane *lane = stage_lane->state;
    brightness_measure(&lane->image, lane->row_sums, &lane->brightness);
    TRY(item_set_number(stage_lane->item, "columns.brightnessMean", lane->brightness.mean, err));
    TRY(item_set_number(stage_lane->item, "columns.brightnessDeviation", lane->brightness.deviation, err));
    /* When `darkest` is not set, it is NaN and this comparison is false. */
    FAIL_IF(lane->brightness.mean < options->darkest, err, STATUS_REJECTED, "mean %.6g is below %.6g",
            lane->brightness.mean, options->darkest);
    return STATUS_OK;
}

/* Writes, on an I/O thread. After it returns, the harness sends the item on. */
static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    const struct brightness_lane *lane = stage_lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE], line[128];
    TRY(stage_product(stage, stage_lane->item, "_brightness.txt", relative, absolute, err));
    int length =
        snprintf(line, sizeof line, "mean %.6g deviation %.6g\n", lane->brightness.mean, lane->brightness.deviation);
    TRY(file_write_whole(absolute, line, (size_t)length, err));
    return item_set_string(stage_lane->item, "brightness.text", relative, err);
}

const struct stage_descriptor brightness_stage = {
    .name = "brightness",
    .summary = "Measures how bright and how even each micrograph is; the template for a stage of your own",
    .in = "micrograph",
    .out = "micrograph",
    .params = brightness_parameters,
    .param_count = BRIGHTNESS_PARAMETERS,
    .params_size = sizeof(struct brightness_options),
    .lane_size = sizeof(struct brightness_lane),
    .revisions = true,
    .lane_fini = lane_fini,
    .load = load,
    .process = process,
    .store = store,
};
