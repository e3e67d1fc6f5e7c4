/* Reads SerialEM's .mdoc: data of each image of a tilt series, or of one file of frames, in the order in which the images were taken. A file may
 * still grow while it is read. SubFramePath comes after TiltAngle, so a tilt that is found by its file has its whole
 * angle. Sections are [ZValue = n] of a stack, or [FrameSet = n] of a file of frames. Source: SerialEM's manual, "The
 * .mdoc file". */
#ifndef ICESTREAM_COMMON_FORMATS_MDOC_H
#define ICESTREAM_COMMON_FORMATS_MDOC_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { MDOC_SHOT_SIZE = 24 };

struct mdoc_tilt {
    int z;                     /* ZValue: its image in the stack, from 0 */
    double angle;              /* TiltAngle, °; NaN: not given */
    double dose;               /* ExposureDose, or FrameDosesAndNumber, e⁻/Å²; NaN: not given */
    double prior;              /* PriorRecordDose: before this image, e⁻/Å²; NaN: not given */
    double time;               /* DateTime, s since 1970 by the microscope's clock; NaN: not given */
    double stage_x, stage_y;   /* StagePosition, µm; NaN: not given */
    char *file;                /* SubFramePath as in the file (often a Windows path); NULL: none */
    char shot[MDOC_SHOT_SIZE]; /* MultishotHoleAndPosition, with _ for blanks: hole and place in a pattern; "": none */
};

struct mdoc {
    char *image_file;  /* ImageFile: name of the stack; NULL: none */
    double pixel_size; /* PixelSpacing of the file, or of its first section, Å; NaN: unknown */
    double voltage;    /* Voltage of the file, or of its first section, kV; NaN: unknown */
    double tilt_axis;  /* "Tilt axis angle" of its titles: from the y axis, anticlockwise (x right, y up), °; NaN:
                          unknown */
    bool frames;       /* the .mdoc of one file of frames ([FrameSet]), not of a series */
    bool montage;      /* pieces of a montage: several images of one tilt */
    int count;
    struct mdoc_tilt *tilts;
};

/* Reads a file. */
enum status mdoc_read(const char *path, struct mdoc *ret_mdoc, struct err *err);
/* Parses a text. name: for messages. */
enum status mdoc_parse(const char *name, const char *text, size_t length, struct mdoc *ret_mdoc, struct err *err);
/* Frees the tilts and their texts. */
void mdoc_clear(struct mdoc *mdoc);

/* Returns whether the second of two tilts was taken later: by their times; if one has none, or both are equal, by
 * comes_second, its place in the file. */
bool mdoc_is_later(double first_time, double second_time, bool comes_second);

/* Returns whether a path ends in .mdoc; case does not matter. */
bool mdoc_is_name(const char *path);
/* Writes the name of a tilt series into out[size], cut to fit: the path of its .mdoc or stack without .mdoc and without
 * one ending of a stack ("a/TS_01.mrc.mdoc", "a/TS_01.st" and "a/TS_01.mdoc" give "a/TS_01"). */
void mdoc_series_name(const char *path, char *out, size_t size);

/* Returns the name at the end of a Windows or Unix path; points into path. */
const char *mdoc_file_name(const char *path);
/* Returns the length of a file name without its ending. The point of a number ("TS_01_12.0") does not begin an
 * ending. */
size_t mdoc_stem_length(const char *name);
/* Returns the tilt whose SubFramePath names this file, or -1. Compares whole names first, then names without endings
 * (frames .tif or .eer become .mrc), then names whose points became "_", as some programs change them
 * (TS_01_003_-6.0.tif becomes TS_01_003_-6_0.mrc). A retaken tilt has several: the latest counts. */
int mdoc_find(const struct mdoc *mdoc, const char *file);

#endif
