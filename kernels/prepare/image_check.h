/* Checks images of particles as they are read, and normalises those of a set that is not normalised.
 *
 * A sample of the set decides: how strong an image may be (strength: mean of the squared values), and whether images are
 * normalised (background.h). Until then images are taken as they are. CPU alone. */
#ifndef ICESTREAM_KERNELS_PREPARE_IMAGE_CHECK_H
#define ICESTREAM_KERNELS_PREPARE_IMAGE_CHECK_H

#include "kernels/prepare/background.h"

enum image_check_mode {
    IMAGE_CHECK_AUTO, /* a set that is not normalised is normalised */
    IMAGE_CHECK_RAMP, /* any set is normalised, and a plane is taken from each background */
    IMAGE_CHECK_OFF,  /* images are taken as they are */
};
struct image_check_options {
    int box;           /* px, even */
    double pixel_size; /* Å */
    double diameter;   /* Å: outside this circle is background */
    enum image_check_mode mode;
    /* auto: images were found not to be normalised before: all are normalised, whatever the sample. */
    bool normalised;
    /* Others were taken before: images that cannot be normalised are told and taken as they are. */
    bool goes_on;
    double strongest; /* image_check_strongest of an earlier sample: images as strong as that are good; 0: none */
};

struct image_check;

enum status image_check_create(const struct image_check_options *options, struct image_check **ret_check,
                               struct err *err);
/* Accepts NULL. */
void image_check_destroy(struct image_check **check);

/* Adds an image (box² finite values) to the sample. resampled: the deviation of its background is not that of its file,
 * and says nothing. */
enum status image_check_sample(struct image_check *check, const float *image, bool resampled, struct err *err);
/* The same in two steps. Measures an image (any number of threads); adds what was measured, with a check of the same
 * box, pixel size and diameter or another. */
struct image_measures {
    struct background_values background;
    double strength, about; /* about 0, and about the mean of the background */
};
struct image_measures image_check_measure(const struct image_check *check, const float *image);
enum status image_check_add(struct image_check *check, const struct image_measures *measures, bool resampled,
                            struct err *err);
/* Decides. Half of the sample, at least, must be good: an image may be a hundred times as strong as the median one (1e4
 * in the mean of squares; of a set that is normalised, about the mean of its background). Fails with STATUS_BAD_FORMAT
 * if the set is not normalised and cannot be: backgrounds are constant, or the diameter leaves none; unless goes_on. */
enum status image_check_decide(struct image_check *check, struct err *err);
/* Returns whether images are normalised as they are taken. */
bool image_check_normalises(const struct image_check *check);
/* Returns the mean square above which an image is too strong; 0: it is not decided. */
double image_check_strongest(const struct image_check *check);
/* Returns a warning of images that are not normalised, and what is done; "" if they are. */
const char *image_check_reason(const struct image_check *check);

/* Returns whether an image of finite values can be used: it is not too strong, and if images are normalised its
 * background is not constant. Any number of threads. */
bool image_check_usable(const struct image_check *check, const float *image);
/* Normalises a usable image in place, if images are normalised. Any number of threads. */
void image_check_take(const struct image_check *check, float *image);
/* Makes what the next function needs for a grid, once. No other thread may call that function meanwhile. */
enum status image_check_prepare_other(struct image_check *check, int box, double pixel_size, struct err *err);
/* The two above for an image of another grid (box² finite values, pixel_size Å), if images are normalised. Call it before
 * the image is resampled: a larger box is filled with zeros, which are no background. Fails if the grid is not prepared.
 * Any number of threads. */
enum status image_check_take_other(const struct image_check *check, int box, double pixel_size, float *image,
                                   bool *ret_usable, struct err *err);

#endif
