/* Filters maps, for tests of kernels. */
#ifndef ICESTREAM_TESTS_KERNELS_FILTER_H
#define ICESTREAM_TESTS_KERNELS_FILTER_H

#include "common/fft.h"
#include "tests/kernels/chance.h"

static inline size_t voxels_of(int box) {
    return (size_t)box * (size_t)box * (size_t)box;
}

/* Multiplies the transform of a map by gain(frequency, in shells; context). */
static inline void filter_voxels(int box, float *map, double (*gain)(int kx, int ky, int kz, const void *context),
                                 const void *context) {
    struct err err = {0};
    struct fft_options options = {
        .rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    struct fft_plan *to = NULL, *back = NULL;
    must(fft_create(&options, &to, &err), &err);
    options.direction = FFT_INVERSE;
    must(fft_create(&options, &back, &err), &err);
    float *spectrum = host_new(fft_complex_floats(to), sizeof *spectrum), *value = spectrum;
    fft_run(to, map, spectrum);
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x <= box / 2; x++, value += 2) {
                int kz = z <= box / 2 ? z : z - box, ky = y <= box / 2 ? y : y - box;
                double keep = gain(x, ky, kz, context);
                for (int c = 0; c < 2; c++)
                    value[c] *= (float)(keep / (double)voxels_of(box));
            }
    fft_run(back, spectrum, map);
    fft_destroy(&to);
    fft_destroy(&back);
    mem_free(&spectrum);
}

struct radial_gain {
    double (*of)(double r, const void *context);
    const void *context;
};

static inline double radial_gain_at(int kx, int ky, int kz, const void *context) {
    const struct radial_gain *gain = context;
    return gain->of(sqrt(kx * kx + ky * ky + kz * kz), gain->context);
}

/* Multiplies the transform of a map by gain(distance from the origin, in shells; context). */
static inline void filter_map(int box, float *map, double (*gain)(double r, const void *context), const void *context) {
    const struct radial_gain radial = {.of = gain, .context = context};
    filter_voxels(box, map, radial_gain_at, &radial);
}

#endif
