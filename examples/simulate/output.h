/* Writes simulated micrographs as cameras do. A micrograph is first written whole into the hidden folder DIR/.next. At
 * its time it is renamed into DIR/micrographs, or grows there bit by bit; movies into DIR/movies. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_OUTPUT_H
#define ICESTREAM_EXAMPLES_SIMULATE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

#include "common/formats/image.h"
#include "common/status.h"

enum output_format { OUTPUT_MRC, OUTPUT_TIFF };
enum output_mode { OUTPUT_FLOAT, OUTPUT_UINT16, OUTPUT_INT8 };

struct output {
    enum output_format format;
    enum output_mode mode;
    const char *folder; /* DIR */
    const char *names;  /* folder in DIR that fills: "micrographs" or "movies" */
    const char *ending; /* of the files, with its dot */
    double counts;      /* mean of the pixels; int8 stores steps of 1/16 of their standard deviation from it */
    bool grow;
    double grow_seconds; /* that a file takes to grow */
};

const char *output_ending(enum output_format format);
enum status output_folders(const struct output *output, struct err *err);
/* Returns the path of the hidden file, for what output_prepare does not write. */
enum status output_hidden(const struct output *output, const char *name, char ret_path[PATH_MAX], struct err *err);
/* Writes the hidden file. Rounds the image's values to those of the number format. */
enum status output_prepare(const struct output *output, const char *name, struct image *image, struct err *err);
/* Waits until the monotonic clock shows this time, s. */
void output_wait(double moment);
/* Brings the file into its folder. */
enum status output_release(const struct output *output, const char *name, struct err *err);
/* Removes the hidden folder. */
enum status output_finish(const struct output *output, struct err *err);

#endif
