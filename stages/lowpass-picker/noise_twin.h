/* Makes a micrograph of noise that has the spectrum of a real one: what templates find in it, they would find without
 * any particle. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_TWIN_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_TWIN_H

#include <stdint.h>

#include "common/status.h"

/* Replaces the image [ny][nx], host memory, by one whose Fourier coefficients have the same amplitudes and random
 * phases; the mean stays. The same seed gives the same phases. STATUS_NO_MEMORY: the image is unchanged. */
enum status noise_twin(float *image, int nx, int ny, uint64_t seed, struct err *err);

#endif
