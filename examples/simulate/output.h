/* How a simulated micrograph comes to lie in DIR/micrographs: it is written whole into the unseen DIR/.next, and at its
 * time renamed into place, or, as some cameras do it, grows there bit by bit. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_OUTPUT_H
#define ICESTREAM_EXAMPLES_SIMULATE_OUTPUT_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "common/status.h"

enum output_format { OUTPUT_MRC, OUTPUT_TIFF };
enum output_mode { OUTPUT_FLOAT, OUTPUT_UINT16, OUTPUT_INT8 };

struct output {
    enum output_format format;
    enum output_mode mode;
    const char *folder; /* DIR */
    double counts;      /* mean of the pixels; int8 stores steps of 1/16 of their standard deviation from it */
    bool grow;
    double grow_seconds; /* how long one takes */
};

const char *output_ending(enum output_format format);
enum status output_folders(const char *folder, struct err *err);
/* Writes the unseen file; changes the image's values to those of the number format. */
enum status output_prepare(const struct output *output, const char *name, struct image *image, struct err *err);
enum status output_release(const struct output *output, const char *name, struct err *err);
enum status output_finish(const struct output *output, struct err *err);

#endif
