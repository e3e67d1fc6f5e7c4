/* The images of a series as the reconstruction wants them: turned and shifted by their transforms, binned, checked, on
 * one grey scale, in order of angle. Contrast is left as it is. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PROJECTIONS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PROJECTIONS_H

#include <stddef.h>

#include "common/device.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "stages/tilt-reconstructor/series.h"

/* mass: a projection holds the same mass at every tilt, so each image is multiplied to the mean of all of them. Where
 * that mean is more than the images' contrast it is a background (the beam of a bright-field image) or fills the field,
 * and no slice of the tomogram's size gives it at every tilt: it is then taken off, unless densities are to be
 * positive. Where means are too near zero for either (images without their background) each has its own mean taken off.
 * mean: that in any case. variance: mean 0, variance 1. */
enum projections_normalise { PROJECTIONS_AS_THEY_ARE, PROJECTIONS_MASS, PROJECTIONS_MEAN, PROJECTIONS_VARIANCE };
#define PROJECTIONS_NORMALISE_CHOICES "none|mass|mean|variance"

struct projections_options {
    int bin; /* images are averaged over bin × bin px; what is left over at the right and top is cut off */
    double
        tilt_axis; /* °, from y, anticlockwise: turned upright, of images that have no transform; NaN: it is upright */
    enum projections_normalise normalise;
    bool positive; /* density below 0 will be cut off */
    int threads;
};

/* Where pixels come from: the stack stays open from one image to the next. Starts as {0}. */
struct projections_source {
    char *path; /* of the reader's */
    struct mrc_reader *reader;
    struct image read, binned; /* kept */
};
void projections_source_clear(struct projections_source *source);

struct projections {
    int nx, ny, count;    /* where the tilt axis lies nearer to x than to y, the sides of the images are exchanged */
    double shift;         /* of the tilt axis from (nx − 1)/2, px: where binning has cut columns off */
    struct device device; /* whose memory the data are fast for: set by the caller before the first read */
    size_t capacity;
    float *data; /* [tilt][y][x], 64-byte aligned */
    struct projections_source source;
    double *means, *deviations; /* [count] of the images before the grey scale was changed */
    int means_capacity;
};

void projections_clear(struct projections *projections);

/* Size of what projections_read will make. */
void projections_size(const struct series *series, const struct projections_options *options, int *ret_nx, int *ret_ny);

/* All of a series; memory is kept from one to the next. STATUS_BAD_FORMAT: a pixel that is no number, named by view,
 * row and column; STATUS_TRUNCATED: the stack ends early. */
enum status projections_read(const struct series *series, const struct projections_options *options,
                             struct projections *projections, struct err *err);
/* One tilt of it, before the grey scale: out[ny][nx]. */
enum status projections_read_one(const struct series *series, const struct tilt *tilt,
                                 const struct projections_options *options, struct projections_source *source,
                                 float *out, struct err *err);
/* Reads the tilt's image, and looks whether all its pixels are numbers. */
enum status projections_check(const struct tilt *tilt, int nx, int ny, struct projections_source *source,
                              struct err *err);
/* The grey scale of projections that were read. */
void projections_normalise(struct projections *projections, const struct projections_options *options);
enum status projections_resize(struct projections *projections, int nx, int ny, int count, struct err *err);

/* The transform of a tilt: its own, or the turn by the tilt axis. */
struct tilt_transform projections_transform(const struct tilt *tilt, double tilt_axis);

#endif
