/* Heights of the peaks that noise alone gives, after close peaks are suppressed. They are the same in every micrograph,
 * in units of the noise's standard deviation. Found once, by a search of white noise. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_PEAKS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_PEAKS_H

#include <stdbool.h>
#include <stddef.h>

/* Two halves of normal distributions that meet at the mode. All 0: not known. */
struct noise_peaks {
    double mode;         /* standard deviations of the scores of noise */
    double below, above; /* deviation of the lower and of the upper half */
};

static inline bool noise_peaks_known(const struct noise_peaks *peaks) {
    return peaks->below > 0 && peaks->above > 0;
}
/* Returns the part of the peaks above a height. shift: added to the mode. */
double noise_peaks_share(const struct noise_peaks *peaks, double shift, double height);
/* Returns the factor on the heights of the model that makes `heights` most likely. */
double noise_peaks_scale(const struct noise_peaks *peaks, const float *heights, size_t count);
/* Fits the distribution of greatest likelihood to heights, sorted falling. Not known if there are fewer than 16. */
struct noise_peaks noise_peaks_fit(const float *heights, size_t count);

#endif
