/* Leaves out the few picks whose surroundings are far rougher than those of the others: on edges of carbon, and beside
 * gold or dirt. An edge goes on beyond the particle's circle, so it shows in the deviation of the background there. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_ROUGH_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_ROUGH_H

#include "kernels/peaks/peaks.h"

/* Drops peaks of a list; their order stays. sigma: [work][work], the deviation of the background around each pixel of
 * the map. values: scratch for one number of each peak. Where more than one peak in twenty is rough, as in clusters of
 * particles, all stay. */
void rough_drop(struct peak_list *peaks, const float *sigma, int work, float *values);

#endif
