/* icestream-brightness: a template for a stage of your own. It measures how bright and how even each micrograph is,
 * adds that to the item as columns (so that reject_if can look at them) and writes a line of text as its product.
 *
 * A stage is this file, one with the algorithm, and one line in a CMakeLists.txt. */
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "examples/stage-c/brightness.h"

struct parameters {
    double darkest;
};

static const struct param table[] = {
    {"darkest", PARAM_FLOAT, offsetof(struct parameters, darkest), "", NULL, 0, 0, NULL, 0, false,
     "mean below which a micrograph is rejected; by default none is"},
};

/* Kept from item to item: memory is not allocated again unless a larger micrograph comes. */
struct lane_state {
    struct image image;
    struct brightness brightness;
    double *row_sums;
    int rows;
};

static void lane_fini(struct stage *stage, void *state, struct stage_lane *lane) {
    (void)stage, (void)state;
    struct lane_state *own = lane->state;
    image_destroy(&own->image);
    mem_free(&own->row_sums);
}

/* Reads: on an I/O thread. */
static enum status load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    struct lane_state *own = lane->state;
    const char *path;
    char absolute[PATH_SIZE];
    TRY(item_need_string(lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_read_micrograph(absolute, &own->image, err));
    if (own->image.ny > own->rows) {
        mem_free(&own->row_sums);
        own->rows = 0;
        TRY(mem_new((size_t)own->image.ny * 2, sizeof *own->row_sums, "sums of rows", &own->row_sums, err));
        own->rows = own->image.ny;
    }
    return STATUS_OK;
}

/* Computes: on the compute thread, while other lanes read and write. */
static enum status process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct parameters *parameters = stage_params(stage);
    struct lane_state *own = lane->state;
    brightness_measure(&own->image, own->row_sums, &own->brightness);
    TRY(item_set_number(lane->item, "columns.brightnessMean", own->brightness.mean, err));
    TRY(item_set_number(lane->item, "columns.brightnessDeviation", own->brightness.deviation, err));
    /* NaN, which is what "not set" is, makes this false. */
    FAIL_IF(own->brightness.mean < parameters->darkest, err, STATUS_REJECTED, "mean %.6g is below %.6g",
            own->brightness.mean, parameters->darkest);
    return STATUS_OK;
}

/* Writes: on an I/O thread. When it returns, the item goes on. */
static enum status store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct lane_state *own = lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE], line[128];
    TRY(stage_product(stage, lane->item, "_brightness.txt", relative, absolute, err));
    int length =
        snprintf(line, sizeof line, "mean %.6g deviation %.6g\n", own->brightness.mean, own->brightness.deviation);
    TRY(file_write_whole(absolute, line, (size_t)length, err));
    return item_set_string(lane->item, "brightness.text", relative, err);
}

static const struct stage_descriptor descriptor = {
    .name = "brightness",
    .summary = "how bright and how even each micrograph is; the template for a stage of your own",
    .in = "micrograph",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct parameters),
    .lane_size = sizeof(struct lane_state),
    .lane_fini = lane_fini,
    .load = load,
    .process = process,
    .store = store,
};

int main(int argc, char **argv) {
    return stage_main(&descriptor, argc, argv);
}
