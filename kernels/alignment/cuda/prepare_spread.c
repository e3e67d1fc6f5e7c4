/* Computes the transform of a mask, which tells how masking mixes frequencies, for images that are masked in two bands
 * on a device. */
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/alignment/cuda/alignment.h"

static enum status transform(const struct fft_plan *plan, const float *mask, int box, float *ret_spread,
                             struct err *err) {
    size_t n = (size_t)box, columns = n / 2 + 1;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *half = NULL;
    TRY(mem_new_unset(fft_real_count(plan), sizeof *real, "a mask", &real, err));
    TRY(mem_new_unset(fft_complex_floats(plan), sizeof *half, "a mask's transform", &half, err));
    memcpy(real, mask, n * n * sizeof *real);
    fft_run(plan, real, half);
    for (size_t y = 0; y < n; y++)
        for (size_t x = 0; x < n; x++) {
            size_t row = x < columns ? y : (n - y) % n, column = x < columns ? x : n - x;
            float norm = ((x + y) % 2 == 0 ? 1.0f : -1.0f) / ((float)box * (float)box);
            ret_spread[y * n + x] = norm * half[2 * (row * columns + column)];
        }
    return STATUS_OK;
}

enum status prepare_spread(int box, const float *mask, float *ret_spread, struct err *err) {
    const struct fft_options options = {.rank = 2, .shape = {box, box}, .direction = FFT_FORWARD};
    struct fft_plan *plan = NULL;
    TRY(fft_create(&options, &plan, err));
    enum status status = transform(plan, mask, box, ret_spread, err);
    fft_destroy(&plan);
    return status;
}
