/* Makes micrographs of white noise under a known CTF, for tests of periodogram and CTF fit. */
#ifndef ICESTREAM_TESTS_KERNELS_SPECTRUM_CASES_H
#define ICESTREAM_TESTS_KERNELS_SPECTRUM_CASES_H

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/ctf/ctf.h"
#include "tests/kernels/chance.h"

/* Returns a number with mean 0 and variance 1, the sum of twelve even ones: quicker than normal(). */
static inline float spectrum_noise(void) {
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(seed >> 40) / (float)(1 << 24);
    }
    return sum;
}

/* Fills out[size][size]: white noise through the CTF, of variance `signal` before that, and noise of variance 1 on top
 * whose spectrum falls towards Nyquist to a half. */
static inline void spectrum_micrograph(int size, double pixel_size, const struct ctf *ctf, double signal,
                                       uint64_t first_seed, float *out) {
    seed = first_seed;
    struct fft_plan *forward = NULL, *inverse = NULL;
    struct fft_options options = {.rank = 2, .shape = {size, size}, .direction = FFT_FORWARD};
    assert_int_equal(fft_create(&options, &forward, NULL), STATUS_OK);
    options.direction = FFT_INVERSE;
    assert_int_equal(fft_create(&options, &inverse, NULL), STATUS_OK);
    size_t pixels = (size_t)size * (size_t)size;
    float *transform = mem_aligned(fft_complex_floats(forward), sizeof *transform);
    float *noise = mem_aligned(fft_complex_floats(forward), sizeof *noise);
    float *values = mem_aligned(pixels, sizeof *values);
    assert_true(transform != NULL && noise != NULL && values != NULL);
    for (size_t i = 0; i < pixels; i++)
        values[i] = spectrum_noise() * (float)sqrt(signal);
    fft_run(forward, values, transform);
    for (size_t i = 0; i < pixels; i++)
        values[i] = spectrum_noise();
    fft_run(forward, values, noise);
    struct ctf_terms terms = ctf_prepare(ctf);
    double step = 1 / (size * pixel_size);
    for (int row = 0; row < size; row++)
        for (int kx = 0; kx <= size / 2; kx++) {
            int ky = row <= size / 2 ? row : row - size;
            size_t at = 2 * ((size_t)row * (size_t)(size / 2 + 1) + (size_t)kx);
            float value = ctf_value(&terms, kx * step, ky * step);
            float fall = 1 - (float)hypot(kx, ky) / (float)size;
            for (int part = 0; part < 2; part++)
                transform[at + (size_t)part] =
                    (transform[at + (size_t)part] * value + noise[at + (size_t)part] * fall) / (float)pixels;
        }
    fft_run(inverse, transform, out);
    fft_destroy(&forward);
    fft_destroy(&inverse);
    free(transform);
    free(noise);
    free(values);
}

#endif
