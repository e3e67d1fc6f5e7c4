/* Where noise ends and particles begin, from the merits of a micrograph's peaks alone. */
#ifndef ICESTREAM_THRESHOLD_H
#define ICESTREAM_THRESHOLD_H

#include <stddef.h>

/* scores: peaks after suppression of close ones, best first. Returns the score at and above which peaks are particles;
 * infinity when nothing stands out. scratch: count values. */
float threshold_auto(const float *scores, size_t count, float noise_level, float *scratch);

#endif
