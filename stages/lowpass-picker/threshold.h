/* Separates noise from particles by the scores of a micrograph's peaks alone: the split with the least variance within
 * its two classes (Otsu 1979). Close peaks must be suppressed before, so that noise and particles come in comparable
 * numbers. The best few scores, gold and ice, are cut to a percentile, so that they do not shift the split. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_THRESHOLD_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_THRESHOLD_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the split, at least `least`; infinity if no score reaches `least`. scores: count values, sorted falling. */
float threshold_split(const float *scores, size_t count, float least);

/* Returns a threshold for scores on any scale. noise: the standard deviation of scores of noise alone. If the scores
 * form two heaps, or particles stand out beyond doubt, it is the split; if they form one heap, it is the end of that
 * heap. */
float threshold_over_noise(const float *scores, size_t count, float noise);

/* Returns whether that threshold is beyond doubt: the scores form two heaps, or particles stand out. */
bool threshold_is_sure(const float *scores, size_t count, float noise);

#endif
