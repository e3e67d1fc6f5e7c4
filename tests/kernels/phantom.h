/* Defines a phantom without symmetry: Gaussian blobs, whose projections and transforms are known exactly. For tests
 * only. */
#ifndef ICESTREAM_TESTS_KERNELS_PHANTOM_H
#define ICESTREAM_TESTS_KERNELS_PHANTOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { PHANTOM_BLOBS = 5 };

/* x, y, z (fraction of the box, from the centre), standard deviation (px), height. */
struct phantom_blob {
    double x, y, z, sigma, height;
};

static const struct phantom_blob phantom_blobs[PHANTOM_BLOBS] = {
    {0.20, 0.03, -0.05, 1.6, 1.0},  {-0.06, 0.18, 0.08, 1.3, 0.8}, {0.05, -0.12, 0.21, 1.5, 1.2},
    {-0.17, -0.1, -0.13, 1.8, 0.9}, {0.02, 0.04, 0.015, 2.0, 0.7},
};

/* Makes the phantom's map. Beyond ten standard deviations a blob is 0 in single precision. */
static inline void phantom_map(int box, float *map) {
    for (size_t i = 0; i < (size_t)box * (size_t)box * (size_t)box; i++)
        map[i] = 0;
    for (int b = 0; b < PHANTOM_BLOBS; b++) {
        const struct phantom_blob *p = &phantom_blobs[b];
        const double place[3] = {p->x, p->y, p->z};
        int low[3], high[3];
        double centre[3];
        for (int i = 0; i < 3; i++) {
            centre[i] = box / 2 + place[i] * box;
            low[i] = (int)fmax(0, floor(centre[i] - 10 * p->sigma));
            high[i] = (int)fmin(box, ceil(centre[i] + 10 * p->sigma));
        }
        for (int z = low[2]; z < high[2]; z++)
            for (int y = low[1]; y < high[1]; y++)
                for (int x = low[0]; x < high[0]; x++) {
                    double dx = x - centre[0], dy = y - centre[1], dz = z - centre[2];
                    map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] +=
                        (float)(p->height * exp(-(dx * dx + dy * dy + dz * dz) / (2 * p->sigma * p->sigma)));
                }
    }
}

/* Returns the transform at (kx, ky) of the projection with rows 1 and 2 of `matrix` as image axes: factor 1/box², phase
 * origin at the centre. dimensions 2: the image is the phantom's plane z = 0 (blobs flattened). */
static inline void phantom_slice(int box, int dimensions, const float matrix[9], int kx, int ky, double *re,
                                 double *im) {
    *re = *im = 0;
    for (int b = 0; b < PHANTOM_BLOBS; b++) {
        const struct phantom_blob *p = &phantom_blobs[b];
        double z = dimensions == 3 ? p->z : 0;
        double x = ((double)matrix[0] * p->x + (double)matrix[1] * p->y + (double)matrix[2] * z) * box;
        double y = ((double)matrix[3] * p->x + (double)matrix[4] * p->y + (double)matrix[5] * z) * box;
        double variance = p->sigma * p->sigma, k2 = (double)(kx * kx + ky * ky) / ((double)box * box);
        double mass = p->height * pow(2 * M_PI * variance, dimensions == 3 ? 1.5 : 1.0) / ((double)box * box);
        double amplitude = mass * exp(-2 * M_PI * M_PI * variance * k2);
        double phase = -2 * M_PI * (kx * x + ky * y) / box;
        *re += amplitude * cos(phase);
        *im += amplitude * sin(phase);
    }
}

static inline double phantom_uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static inline double phantom_normal(uint64_t *state) {
    double u = 1 - phantom_uniform(state);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * phantom_uniform(state));
}

#endif
