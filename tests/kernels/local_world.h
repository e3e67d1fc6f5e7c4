/* Half maps whose detail differs between two sides, for tests of the local resolution. */
#ifndef ICESTREAM_TESTS_KERNELS_LOCAL_WORLD_H
#define ICESTREAM_TESTS_KERNELS_LOCAL_WORLD_H

#include "tests/kernels/filter.h"

/* Makes white noise; a sum of four uniform numbers is normal enough, and cheap. */
static inline float *noise_map(int box, double deviation) {
    float *map = host_new(voxels_of(box), sizeof *map);
    for (size_t i = 0; i < voxels_of(box); i++)
        map[i] = (float)(deviation * sqrt(3) * (uniform() + uniform() + uniform() + uniform() - 2));
    return map;
}

struct lowpass {
    int box;
    double limit, fall; /* shells */
};

static inline double lowpass_gain(double r, const void *context) {
    const struct lowpass *f = context;
    double over = r - (f->limit - 1), keep = over <= 0 ? 1 : over >= 2 ? 0 : 0.5 + 0.5 * cos(M_PI * over / 2);
    if (f->limit >= f->box / 2) keep = r < f->limit + 0.5;
    return f->fall > 0 ? keep / (1 + r * r / (f->fall * f->fall)) : keep;
}

/* Low-passes a map by a raised cosine over two shells about the limit, and divides amplitudes by 1 + (k/fall)² (0: not).
 * Half a box passes everything up to that shell. */
static inline void lowpass(int box, float *map, double limit, double fall) {
    const struct lowpass f = {.box = box, .limit = limit, .fall = fall};
    filter_map(box, map, lowpass_gain, &f);
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
