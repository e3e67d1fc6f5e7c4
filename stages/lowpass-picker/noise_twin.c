#include "stages/lowpass-picker/noise_twin.h"

#include <math.h>
#include <stddef.h>

#include "common/fft.h"
#include "common/memory.h"

/* Gives a coefficient (re, im) the phase. factor: on its amplitude. */
static void turn(float *value, double phase, double factor) {
    double amplitude = factor * hypot((double)value[0], (double)value[1]);
    value[0] = (float)(amplitude * cos(phase));
    value[1] = (float)(amplitude * sin(phase));
}

static double draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return 2 * M_PI * ((double)(*seed >> 40) * 0x1p-24);
}

/* Draws a phase for each coefficient of the half plane [ny][nx/2+1]. A coefficient of the first and of the last column
 * (of an even side) has its conjugate in the same column; those that are their own conjugates stay. */
static void scatter(float *half, int nx, int ny, uint64_t seed, double factor) {
    size_t columns = (size_t)nx / 2 + 1;
    for (int y = 0; y < ny; y++)
        for (int x = 0; x <= nx / 2; x++) {
            bool paired = x == 0 || 2 * x == nx;
            int opposite = y == 0 ? 0 : ny - y;
            float *value = half + 2 * ((size_t)y * columns + (size_t)x);
            double phase = draw(&seed);
            if (!paired) {
                turn(value, phase, factor);
            } else if (opposite == y) {
                value[0] *= (float)factor;
                value[1] *= (float)factor;
            } else if (opposite > y) {
                turn(value, phase, factor);
                turn(half + 2 * ((size_t)opposite * columns + (size_t)x), -phase, factor);
            }
        }
}

enum status noise_twin(float *image, int nx, int ny, uint64_t seed, struct err *err) {
    struct fft_options options = {.rank = 2, .shape = {ny, nx}, .direction = FFT_FORWARD};
    struct fft_plan *forward = NULL, *inverse = NULL;
    float *half = mem_aligned((size_t)ny * ((size_t)nx / 2 + 1) * 2, sizeof *half);
    enum status status = STATUS_OK;
    if (half == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a micrograph of noise");
    if (status == STATUS_OK) status = fft_create(&options, &forward, err);
    options.direction = FFT_INVERSE;
    if (status == STATUS_OK) status = fft_create(&options, &inverse, err);
    if (status == STATUS_OK) {
        fft_run(forward, image, half);
        scatter(half, nx, ny, seed, 1 / ((double)nx * ny));
        fft_run(inverse, half, image);
    }
    fft_destroy(&forward);
    fft_destroy(&inverse);
    mem_free(&half);
    return status;
}
