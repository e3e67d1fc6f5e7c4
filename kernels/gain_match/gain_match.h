/* Compares a gain reference with what a detector counted, in all eight turns.
 *
 * A pixel whose gain is high counts few electrons, so the frames' sum is correlated with 1 / gain where the reference
 * lies right. Only differences between a pixel and its four neighbours are compared: specimen and illumination change
 * slowly, the sensitivity from pixel to pixel. At some hundred thousand pixels a correlation of 0.01 is certain, and
 * one movie gives 0.1 and more. */
#ifndef ICESTREAM_KERNELS_GAIN_MATCH_GAIN_MATCH_H
#define ICESTREAM_KERNELS_GAIN_MATCH_GAIN_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/turn.h"

struct gain_match {
    double correlation[TURN_COUNT]; /* by turn_at: how the reference would have to be turned; 0 where it does not fit */
    size_t pixels[TURN_COUNT];      /* compared; 0 where the turned reference has another shape */
};

/* Correlates sum[ny][nx], without gain, with 1 / gain. gain[ny][nx]: the factor, as it is applied now; pixels that are
 * 0 or less are not compared, nor those that are not 0 in bad[ny][nx] (NULL: none). threads >= 1; the result does not
 * depend on it. */
void gain_match(const float *sum, const uint8_t *bad, const float *gain, int nx, int ny, int threads,
                struct gain_match *ret_match);

enum gain_verdict {
    GAIN_UNCERTAIN, /* no correlation: the frames may be corrected already, or the reference is that of another day */
    GAIN_RIGHT,
    GAIN_TURNED,  /* another turn fits */
    GAIN_INVERSE, /* counts should be divided by it, after the turn */
};
/* Judges a comparison. ret_turn: the turn that fits, to be made after the one that is made now. */
enum gain_verdict gain_match_judge(const struct gain_match *match, struct turn *ret_turn);

#endif
