/* The background of particle images: the pixels outside the circle of the particle. Normalised images have a background
 * of mean 0 and standard deviation 1 (Scheres 2012: the noise model has no other mean, and one scale). CPU alone: images
 * are normalised as they are read, before any device sees them. */
#ifndef ICESTREAM_KERNELS_PREPARE_BACKGROUND_H
#define ICESTREAM_KERNELS_PREPARE_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Pixels that are background. Constant once it is made: any number of threads may use it. */
struct background;

/* radius: px, of the circle about index box/2; pixels farther away are background. */
enum status background_create(int box, double radius, struct background **ret_background, struct err *err);
void background_destroy(struct background **background);
/* Returns the number of background pixels. */
size_t background_pixels(const struct background *background);

/* Mean and standard deviation of the background. */
struct background_values {
    double mean, deviation;
    bool constant; /* to the precision of the values */
};
struct background_values background_measure(const struct background *background, const float *image);

/* Subtracts the mean of the background from the whole image, or with `ramp` the plane that fits the background best, and
 * divides by the standard deviation that is left. Returns false, and leaves the image as it is, if the background is
 * constant. */
bool background_normalise(const struct background *background, bool ramp, float *image);

/* The state of a sample of images. */
enum background_verdict {
    BACKGROUND_NORMALISED,
    BACKGROUND_NOT_NORMALISED,
    BACKGROUND_CONSTANT, /* in most images, and not at 0: nothing tells the scale of the noise */
};
struct background_judgement {
    enum background_verdict verdict;
    size_t count, off; /* images; those whose mean or deviation is not that of normalised ones */
    double mean, deviation, mean_low, mean_high, deviation_low, deviation_high; /* medians; 5 and 95 % */
};
/* Judges a sample. An image is off if its mean is more than 0.3 deviations from 0, or its deviation is not 0.6 to 1.6:
 * wide enough for images that were normalised in another circle, or have neighbours or ice in the background. More than a
 * tenth must be off, by three standard deviations of what chance gives: a stream is judged in many small samples. Sorts the
 * values. */
struct background_judgement background_judge(struct background_values *values, size_t count);

/* Writes what a message says of a judgement: the ranges, and what was expected. */
void background_describe(const struct background_judgement *judgement, char *text, size_t size);

#endif
