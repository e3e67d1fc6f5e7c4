/* Exposes the frames of a simulated movie: moves a noise-free image, weighs it by the response of each pixel, and draws
 * the number of electrons that the pixel counts.
 *
 * The image ("canvas") is larger than a frame by a margin on every side, so that a frame that has moved still shows
 * specimen at its borders. A corrected pixel X is the frame's pixel at X − d(X); so the frame's pixel at Y shows the
 * canvas at the X that solves X = Y + d(X). The shift is constant over small tiles (exposure_tile says how small), and
 * the canvas is interpolated with a separable sinc of 12 taps under a Kaiser window: errors stay below 0.5 % of the
 * amplitude up to 3/4 of the Nyquist frequency.
 *
 * Electrons come from a generator that is a function of key and pixel alone, so counts depend neither on the number of
 * threads nor on the order of frames. The devices' counts are equal up to the rounding of the expectation. */
#ifndef ICESTREAM_KERNELS_EXPOSURE_EXPOSURE_H
#define ICESTREAM_KERNELS_EXPOSURE_EXPOSURE_H

#include <stdint.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EXPOSURE_TERMS = 6 };

/* The shift that corrects a frame, px: d = (x, y) + Σ local[axis][i] b_i with b = 1, u, u², v, v², u v (RELION's
 * order), u = X / nx − 0.5, v = Y / ny − 0.5. */
struct exposure_shift {
    double x, y;
    double local[2][EXPOSURE_TERMS];
};
/* Computes d at pixel (x, y) of a frame of nx × ny. */
void exposure_shift_at(const struct exposure_shift *shift, int nx, int ny, double x, double y, double ret_shift[2]);
/* Computes the place X of the specimen that the frame's pixel (x, y) shows. */
void exposure_place_at(const struct exposure_shift *shift, int nx, int ny, double x, double y, double ret_place[2]);

struct exposure_task {
    int nx, ny; /* of a frame, px */
    int margin_x,
        margin_y; /* px of canvas beyond each side of the frame: EXPOSURE_REACH + the largest shift, or more */
    int threads;
    struct device device;
};
enum { EXPOSURE_REACH = 8 };

struct exposure;
enum status exposure_create(const struct exposure_task *task, struct exposure **ret_exposure, struct err *err);
void exposure_destroy(struct exposure **exposure);
/* Takes the image for the frames that follow: canvas[ny + 2 margin_y][nx + 2 margin_x], electrons expected a pixel and
 * frame; response[ny][nx], counts an electron (0: a dead pixel). Both on the host; the CPU keeps the addresses, a
 * device copies the pixels. */
enum status exposure_take(struct exposure *exposure, const float *canvas, const float *response, struct err *err);
/* Fills counts[ny][nx], on the host. STATUS_BAD_ARGUMENT: the shift leads out of the canvas. */
enum status exposure_run(struct exposure *exposure, const struct exposure_shift *shift, uint64_t key, uint16_t *counts,
                         struct err *err);

/* Returns the side of the tiles over which the shift is taken as constant: 4 to 32 px, so that the shift at their
 * borders is off by 0.02 px at most (more only where 4 px are too many). */
int exposure_tile(const struct exposure_shift *shift, int nx, int ny);

#ifdef __cplusplus
}
#endif
#endif
