#include "stages/motion-corrector/spectrum.h"

#include <math.h>
#include <stddef.h>

#include "kernels/ctf_fit/ctf_fit.h"

/* No CTF is fitted beyond 2.8 Å; RELION cuts there too. */
static const double FINEST_PIXEL = 1.4;

struct spectrum_shape spectrum_shape(int nx, int ny, double pixel_size) {
    struct spectrum_shape shape = {.box = ctf_fit_box(nx, ny, pixel_size)};
    shape.side = shape.box;
    if (pixel_size < FINEST_PIXEL) shape.side = 2 * (int)floor(shape.box * pixel_size / FINEST_PIXEL / 2);
    shape.pixel_size = pixel_size * shape.box / shape.side;
    return shape;
}

void spectrum_fill(const struct spectrum_shape *shape, const float *power, float *picture) {
    int side = shape->side, box = shape->box, columns = box / 2 + 1;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            int kx = x - side / 2, ky = y - side / 2;
            if (kx < 0) {
                kx = -kx;
                ky = -ky;
            }
            float value = power[(size_t)((ky + box) % box) * (size_t)columns + (size_t)kx];
            picture[(size_t)y * (size_t)side + (size_t)x] = value > 0 ? sqrtf(value) : 0;
        }
}
