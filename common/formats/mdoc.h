/* SerialEM's .mdoc: what is known of each image of a tilt series, in the order in which they were taken. A file may
 * still grow while it is read; SubFramePath comes after TiltAngle, so a tilt that is found by its file has its whole
 * angle. Sections are [ZValue = n] of a stack, or [FrameSet = n] of a file of frames. See SerialEM's manual, "The .mdoc
 * file". */
#ifndef ICESTREAM_COMMON_FORMATS_MDOC_H
#define ICESTREAM_COMMON_FORMATS_MDOC_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct mdoc_tilt {
    int z;        /* ZValue: its image in the stack, from 0 */
    double angle; /* TiltAngle, °; NaN: the section does not say */
    double dose;  /* ExposureDose, e⁻/Å²; NaN: the section does not say */
    double time;  /* DateTime, s since 1970 by the microscope's clock; NaN: the section does not say */
    char *file;   /* SubFramePath, as it is written (often a path of Windows); NULL: none */
};

struct mdoc {
    char *image_file;  /* ImageFile: name of the stack; NULL: none */
    double pixel_size; /* PixelSpacing of the file, or of its first section, Å; NaN: unknown */
    double tilt_axis;  /* "Tilt axis angle" of its titles: from the y axis, anticlockwise (x right, y up), °; NaN:
                          unknown */
    bool frames;       /* of one file of frames ([FrameSet]): it tells nothing of the series */
    bool montage;      /* pieces of a montage: several images of one tilt */
    int count;
    struct mdoc_tilt *tilts;
};

enum status mdoc_read(const char *path, struct mdoc *ret_mdoc, struct err *err);
/* name: for messages. */
enum status mdoc_parse(const char *name, const char *text, size_t length, struct mdoc *ret_mdoc, struct err *err);
void mdoc_clear(struct mdoc *mdoc);

/* Whether of two tilts the second was taken later: by their times, or where one has none (or both the same) as it comes
 * second in the file. */
bool mdoc_is_later(double first_time, double second_time, bool comes_second);

/* Returns whether a path ends in .mdoc; case does not matter. */
bool mdoc_is_name(const char *path);
/* Writes the name of a tilt series into out[size], cut to fit: the path of its .mdoc or stack without .mdoc and without
 * one ending of a stack ("a/TS_01.mrc.mdoc", "a/TS_01.st" and "a/TS_01.mdoc" give "a/TS_01"). */
void mdoc_series_name(const char *path, char *out, size_t size);

/* Name of a path of Windows or Unix without its folders; points into path. */
const char *mdoc_file_name(const char *path);
/* Length of a file's name without its ending; a number's point ("TS_01_12.0") begins none. */
size_t mdoc_stem_length(const char *name);
/* The tilt whose SubFramePath has the name of this file: the whole name; else the name without endings (frames .tif or
 * .eer become .mrc); else that with points become _, as programs between the microscope and here make them
 * (TS_01_003_-6.0.tif becomes TS_01_003_-6_0.mrc). Of several, which a retaken tilt has, the latest. -1: none. */
int mdoc_find(const struct mdoc *mdoc, const char *file);

#endif
