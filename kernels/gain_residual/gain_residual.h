/* Measures the fixed pattern that the gain reference has left in the frames of a movie.
 *
 * A pixel that responds by a part s too strongly does so in all frames, while the noise of the electrons' number differs
 * between them. So with E and O the sums of even and of odd frames, H the filter [−1 2 −1] along both axes, and means over
 * pixels
 *     s² = ⟨(H E)(H O)⟩ / (36 ⟨E⟩⟨O⟩)
 * where 36 is the sum of squares of H. The noise drops out, whatever the dose. H keeps what differs from pixel to pixel,
 * where a specimen has next to nothing. The frames are read in tiles of 64 px that cover them evenly, a million pixels at
 * most. For n counts in a pixel of the movie, s² is exact to about 3 / (n √pixels): s of 0.01 is seen at 30 counts. */
#ifndef ICESTREAM_KERNELS_GAIN_RESIDUAL_GAIN_RESIDUAL_H
#define ICESTREAM_KERNELS_GAIN_RESIDUAL_GAIN_RESIDUAL_H

#include "kernels/motion/motion.h"

/* Returns s as a part of the mean, after the frames' gain; 0 if there is less than the measurement shows. NaN: there are
 * fewer than two frames, the frames are smaller than 16 px, or their mean is not above 0. Takes no memory. */
double gain_residual(const struct motion_frames *frames);

#endif
