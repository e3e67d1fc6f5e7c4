/* Writes simulated micrographs as cameras do. A micrograph is first written whole into the hidden folder DIR/.next. At
 * its time it is renamed into DIR/micrographs, or grows there bit by bit. */
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
    double grow_seconds; /* that a file takes to grow */
};

const char *output_ending(enum output_format format);
enum status output_folders(const char *folder, struct err *err);
/* Writes the hidden file. Rounds the image's values to those of the number format. */
enum status output_prepare(const struct output *output, const char *name, struct image *image, struct err *err);
/* Brings the file into DIR/micrographs. */
enum status output_release(const struct output *output, const char *name, struct err *err);
/* Removes the hidden folder. */
enum status output_finish(const struct output *output, struct err *err);

#endif
