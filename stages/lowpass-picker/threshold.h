/* Where noise ends and particles begin, from the scores of a micrograph's peaks alone: the split that leaves the least
 * variance within its two classes (Otsu 1979), over peaks of which close ones are suppressed already, so that noise and
 * particles come in comparable numbers. The best few, gold and ice, are cut to a percentile and pull nothing. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_THRESHOLD_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_THRESHOLD_H

#include <stddef.h>

/* scores: count values, sorted falling. Below `least` nothing is taken for a particle; infinity when no score is at
 * least `least`. */
float threshold_split(const float *scores, size_t count, float least);

/* Of scores on any scale, with the standard deviation that noise alone gives: the split, where the scores are two heaps
 * or particles stand out beyond doubt; where they are one, what does not belong to it. */
float threshold_over_noise(const float *scores, size_t count, float noise);

#endif
