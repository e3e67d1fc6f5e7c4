/* Half maps whose detail differs between two sides, for tests of the local resolution. */
#ifndef ICESTREAM_TESTS_KERNELS_LOCAL_WORLD_H
#define ICESTREAM_TESTS_KERNELS_LOCAL_WORLD_H

#include "common/fft.h"
#include "tests/kernels/chance.h"

static inline size_t voxels_of(int box) {
    return (size_t)box * (size_t)box * (size_t)box;
}

/* Makes white noise; a sum of four uniform numbers is normal enough, and cheap. */
static inline float *noise_map(int box, double deviation) {
    float *map = host_new(voxels_of(box), sizeof *map);
    for (size_t i = 0; i < voxels_of(box); i++)
        map[i] = (float)(deviation * sqrt(3) * (uniform() + uniform() + uniform() + uniform() - 2));
    return map;
}

/* Low-passes a map by a raised cosine over two shells about the limit, and divides amplitudes by 1 + (k/fall)² (0: not).
 * Half a box passes everything up to that shell. */
static inline void lowpass(int box, float *map, double limit, double fall) {
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
                double r = sqrt(x * x + ky * ky + kz * kz), over = r - (limit - 1);
                double keep = over <= 0 ? 1 : over >= 2 ? 0 : 0.5 + 0.5 * cos(M_PI * over / 2);
                if (limit >= box / 2) keep = r < limit + 0.5;
                if (fall > 0) keep /= 1 + r * r / (fall * fall);
                for (int c = 0; c < 2; c++)
                    value[c] *= (float)(keep / (double)voxels_of(box));
            }
    fft_run(back, spectrum, map);
    fft_destroy(&to);
    fft_destroy(&back);
    mem_free(&spectrum);
}

struct world {
    int box;
    float *truth, *halves[2];
};

/* Makes a ball whose density reaches shell `fine` where x is small and shell `coarse` where x is large, and half maps of
 * it with white noise. fall: as for lowpass. */
static inline struct world world_make(int box, double fine, double coarse, double fall, double noise) {
    struct world w = {.box = box, .truth = noise_map(box, 1)};
    float *smooth = host_new(voxels_of(box), sizeof *smooth);
    memcpy(smooth, w.truth, voxels_of(box) * sizeof *smooth);
    lowpass(box, w.truth, fine, fall);
    lowpass(box, smooth, coarse, fall);
    size_t at = 0;
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++, at++) {
                double dx = x - box / 2, dy = y - box / 2, dz = z - box / 2;
                double ball = fmin(fmax((0.38 * box - sqrt(dx * dx + dy * dy + dz * dz)) / 2, 0), 1);
                double left = 1 / (1 + exp(dx / 1.5));
                w.truth[at] = (float)(ball * (left * (double)w.truth[at] + (1 - left) * (double)smooth[at]));
            }
    mem_free(&smooth);
    for (int h = 0; h < 2; h++) {
        w.halves[h] = noise_map(box, noise);
        for (size_t i = 0; i < voxels_of(box); i++)
            w.halves[h][i] += w.truth[i];
    }
    return w;
}

static inline void world_free(struct world *w) {
    mem_free(&w->truth);
    mem_free(&w->halves[0]);
    mem_free(&w->halves[1]);
}

#endif
