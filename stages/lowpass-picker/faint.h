/* Threshold for particles that stand out little from the noise. The heights of a micrograph's peaks are a mixture of
 * the known heights of noise (noise_peaks.h) and of particles' heights. All mixtures are weighted by how well they
 * explain the heights, and the threshold has the greatest expected F1: the harmonic mean of the share of particles
 * that are picked and the share of picks that are particles. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_FAINT_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_FAINT_H

#include <stdbool.h>
#include <stddef.h>

#include "stages/lowpass-picker/noise_peaks.h"

/* Returns the threshold of scores whose noise is known. If the heights are those of noise, it is one that a twentieth of
 * a peak of such noise exceeds. scores: count values, sorted falling. noise: the standard deviation of scores of noise
 * alone; it may be wrong by up to the factor `scale`. */
float faint_threshold(const float *scores, size_t count, float noise, double scale, const struct noise_peaks *peaks);

/* Finds the threshold of the best scores of templates whose peaks in noise are known. Returns whether the background is
 * such noise, apart from a factor near 1. */
bool faint_threshold_of_templates(const float *scores, size_t count, float noise, const struct noise_peaks *peaks,
                                  float *ret_threshold);

/* Finds the threshold of the best scores of many templates and rotations: the heights of noise are not known, but the
 * best of many draws has a known shape. Returns whether the heights have that shape, apart from particles. */
bool faint_threshold_of_best(const float *scores, size_t count, float noise, float *ret_threshold);

#endif
