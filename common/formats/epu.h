/* Reads the XML that EPU writes beside each image: how an exposure was taken. Source: files of EPU 1 to 3. */
#ifndef ICESTREAM_COMMON_FORMATS_EPU_H
#define ICESTREAM_COMMON_FORMATS_EPU_H

#include <stddef.h>

#include "common/status.h"

/* NaN: the file does not say. */
struct epu_image {
    double pixel_size;       /* Å, of the image that EPU recorded: a movie in super-resolution has smaller pixels */
    double voltage;          /* kV */
    double dose;             /* e⁻/Å², of the whole exposure */
    double shift_x, shift_y; /* of the beam, in the microscope's own unit (about 50 µm) */
    double stage_x, stage_y; /* of the stage, µm */
};

/* Reads a file. STATUS_TRUNCATED: its end is missing, as while it is written. STATUS_BAD_FORMAT: it is not of EPU. */
enum status epu_read(const char *path, struct epu_image *ret_image, struct err *err);
/* Parses a text; any bytes are safe. name: for messages. */
enum status epu_parse(const char *name, const char *text, size_t length, struct epu_image *ret_image, struct err *err);

#endif
