/* The micrograph of a search: read, checked, and brought to where the search takes it. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_INPUT_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_INPUT_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "common/harness/stage.h"
#include "kernels/contamination/contamination.h"
#include "kernels/intake/intake.h"
#include "kernels/search/search.h"

/* Starts as {0}, and keeps its memory from micrograph to micrograph. */
struct picker_input {
    int nx, ny;                     /* px */
    double pixel_size;              /* Å, of the file's header; 0: it does not say */
    struct contamination_area data; /* the micrograph without filled borders */
    struct search_input search;
    struct image image;           /* the pixels on the host; none if the device alone has them */
    struct device_copy *uploaded; /* on a CUDA device: as they lie in the file, or as in `image` */
    struct intake *intake;
};

/* Host memory through which the pixels of a file pass that go to the device as they lie there (device_upload_parts). */
enum { PICKER_STREAM_BYTES = 8 << 20 };
/* Finds out whether picker_input_read takes the pixels of a file past the host. info: of image_probe. host: as below. */
enum status picker_input_streams(struct stage *stage, const char *absolute, const struct image_info *info, bool host,
                                 bool *ret_streams, struct err *err);
/* Reads a micrograph. STATUS_BAD_FORMAT: it holds no image (pixels.h). path: for messages. host: the pixels are needed in
 * `image`. Otherwise those of an MRC file go to a CUDA device as they lie in the file, and become float32 there. */
enum status picker_input_read(struct stage *stage, const char *path, bool host, struct picker_input *input,
                              struct err *err);
/* Brings the pixels of `image` to the device again, after they have been changed. */
enum status picker_input_again(struct stage *stage, struct picker_input *input, struct err *err);
void picker_input_destroy(struct picker_input *input);

#endif
