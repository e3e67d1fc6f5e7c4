/* Measures how well a search tells particles from the rest of a micrograph, by the heights of its peaks alone. The heights are
 * taken as a mixture of two normal distributions, whatever the scale of the scores is: searches with other templates can
 * be compared on one micrograph. No model of noise is needed, so denoised micrographs can be compared as well. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_SEPARATION_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_SEPARATION_H

#include <stddef.h>

struct separation {
    double sure; /* particles above the height at which one in twenty peaks is none; 0: there is no such height */
    double f1;   /* of the best threshold, as expected: 1 where the two parts do not overlap */
};

/* Separates heights: count values, sorted falling, of peaks no closer than particles are. {0} for fewer than 32. */
struct separation separation_of(const float *heights, size_t count);

#endif
