/* Makes a gain reference of movies that were taken without one.
 *
 * The specimen differs from movie to movie and the detector does not, so the mean of many movies shows the detector.
 * Movies go by turns into two halves. What differs between them is noise, of the electrons' number and of specimens, and
 * the estimate is drawn towards an even detector by as much as its noise is of its variance: fine detail, from pixel to
 * pixel, and slow changes each by its own noise. So a reference of a few movies is noisy in nothing, but incomplete.
 * Pixels with less than a fifth or more than five times the response of those around them are bad and get the gain 0. */
#ifndef ICESTREAM_KERNELS_GAIN_ESTIMATE_GAIN_ESTIMATE_H
#define ICESTREAM_KERNELS_GAIN_ESTIMATE_GAIN_ESTIMATE_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/motion/motion.h"

struct gain_estimate;

enum status gain_estimate_create(int nx, int ny, struct gain_estimate **ret_estimate, struct err *err);
void gain_estimate_destroy(struct gain_estimate **estimate);
/* Returns the bytes that it holds at most. */
size_t gain_estimate_bytes(int nx, int ny);
/* Adds the frames of a movie, without their gain. threads >= 1. STATUS_BAD_FORMAT: they have another shape, or hold no
 * counts. */
enum status gain_estimate_add(struct gain_estimate *estimate, const struct motion_frames *frames, int threads,
                              struct err *err);

struct gain_estimate_report {
    int movies;
    double counts;           /* of a pixel on average, all movies together */
    double variation, noise; /* deviations from pixel to pixel, as parts of 1: of the response; of its estimate */
    size_t bad;              /* pixels */
};
/* Fills gain[ny][nx], which multiplies; its mean is about 1. STATUS_BAD_STATE: fewer than two movies were added. Nothing
 * can be added after it. */
enum status gain_estimate_finish(struct gain_estimate *estimate, float *gain, struct gain_estimate_report *ret_report,
                                 struct err *err);

#endif
