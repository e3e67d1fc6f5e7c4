/* Prepares the images of a series for the reconstruction: turns and shifts them by their transforms, bins them, checks
 * their pixels, brings them to one grey scale and sorts them by angle. The contrast stays as it is. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PROJECTIONS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PROJECTIONS_H

#include <stddef.h>

#include "common/device.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "stages/tilt-reconstructor/series.h"

/* Brings all images to one grey scale.
 *
 * mass: a projection holds the same mass at every tilt, so each image is scaled to the mean of all images. If this mean
 * exceeds the contrast of the images, it is a background (the beam of a bright-field image) or fills the field. No
 * volume of the tomogram's size gives such a mean at every tilt, so it is then subtracted, unless densities must be
 * positive. If means are too near 0 for both (images without their background), each image's own mean is subtracted.
 *
 * mean: each image's own mean is subtracted.
 *
 * variance: mean 0, variance 1. */
enum projections_normalise { PROJECTIONS_AS_THEY_ARE, PROJECTIONS_MASS, PROJECTIONS_MEAN, PROJECTIONS_VARIANCE };
#define PROJECTIONS_NORMALISE_CHOICES "none|mass|mean|variance"

struct projections_options {
    int bin;          /* average over bin × bin px; columns and rows left over at the right and top are cut off */
    double tilt_axis; /* °, from y, anticlockwise: turns images without a transform upright; NaN: they are upright */
    enum projections_normalise normalise;
    bool positive; /* the reconstruction will cut off density below 0 */
    int threads;
};

/* A reader of images that keeps a stack open from one image to the next. Starts as {0}. */
struct projections_source {
    char *path; /* of the open stack */
    struct mrc_reader *reader;
    struct image read, binned; /* memory is kept */
};
void projections_source_clear(struct projections_source *source);

struct projections {
    int nx, ny, count;    /* sides are exchanged if the tilt axis is nearer to x than to y */
    double shift;         /* px from (nx − 1)/2 to the tilt axis: not 0 if binning has cut columns off */
    struct device device; /* copies from `data` to this device are fast; the caller sets it before the first read */
    size_t capacity;
    float *data; /* [tilt][y][x], 64-byte aligned */
    struct projections_source source;
    double *means, *deviations; /* [count] of the images, before their grey scale was changed */
    int means_capacity;
};

/* Frees the memory. */
void projections_clear(struct projections *projections);

/* Computes the size that projections_read will make. */
void projections_size(const struct series *series, const struct projections_options *options, int *ret_nx, int *ret_ny);

/* Reads all images of a series; keeps the memory for the next series. STATUS_BAD_FORMAT: a pixel is NaN, infinite or
 * too large (the message names view, row and column); STATUS_TRUNCATED: the stack ends early. */
enum status projections_read(const struct series *series, const struct projections_options *options,
                             struct projections *projections, struct err *err);
/* Reads one tilt into out[ny][nx], with its own grey scale. */
enum status projections_read_one(const struct series *series, const struct tilt *tilt,
                                 const struct projections_options *options, struct projections_source *source,
                                 float *out, struct err *err);
/* Reads the image of a tilt and checks that all its pixels are finite and below IMAGE_VALUE_MAX. */
enum status projections_check(const struct tilt *tilt, int nx, int ny, struct projections_source *source,
                              struct err *err);
/* Changes the grey scale of projections that were read. */
void projections_normalise(struct projections *projections, const struct projections_options *options);
/* Makes room for `count` images of nx × ny px. STATUS_BAD_ARGUMENT: a side below 1 px. */
enum status projections_resize(struct projections *projections, int nx, int ny, int count, struct err *err);

/* Returns the transform of a tilt: its own, or the rotation by the tilt axis. */
struct tilt_transform projections_transform(const struct tilt *tilt, double tilt_axis);

#endif
