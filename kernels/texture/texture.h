/* Measures the texture of a circle of a grey image: 13 features of the grey-level co-occurrence matrix (GLCM) at every
 * pixel, for all displacements of length 1 … 25, at three numbers of grey levels (Haralick, Shanmugam & Dinstein 1973;
 * Kotseruba, Cumbaa & Jurisica 2012).
 *
 * Levels. Grey value v becomes level min(Q − 1, ⌊Q (v − low) / (high − low)⌋) of Q, low and high the least and the
 * largest value of the circle (r ≤ diameter / 2), or 0 and 255; values beyond them count as the nearer one. If low =
 * high all pixels have level 0.
 *
 * Matrices. At a pixel, a window × window square around it; for a displacement (dx, dy), every pair of pixels (x, y),
 * (x + dx, y + dy) that both lie in the square counts, both ways round: p(i, j) is symmetric and sums to 1.
 * Displacements are the integer vectors of one half-plane whose length rounds to 1 … lengths: 1,026 for 25. Pixels are
 * those with r ≤ diameter / 2 − window / 2 − 0.24, for which no window leaves the image: 22,325 at the defaults (the
 * paper, which does not say where its circle's centre lies, has 22,305, the area of that circle), so 68.7 million
 * matrices.
 *
 * Features, natural logarithms, 0 log 0 = 0: enum texture_feature. HXY1 = HXY2 = HX + HY, as the marginals are those of
 * p itself.
 *
 * Aggregation. Per pixel the mean and the range (largest − smallest) over the displacements of a length; over pixels
 * the mean of means, the largest range and the smallest range.
 *
 * Nothing is sampled: as a window moves by one pixel, the pairs that leave and enter change running integer sums, from
 * which all features follow. Sums are exact, so their order does not matter: CPU and CUDA have the same integers, and
 * their features differ by the rounding of exp and √ in double. The same call gives the same bits for any number of
 * threads. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum texture_feature {
    TEXTURE_ANGULAR_SECOND_MOMENT,     /* f1  Σ p² */
    TEXTURE_CONTRAST,                  /* f2  Σ (i − j)² p */
    TEXTURE_CORRELATION,               /* f3  (Σ ij p − μ²) / σ²; 1 where σ = 0 */
    TEXTURE_VARIANCE,                  /* f4  Σ (i − μ)² p */
    TEXTURE_INVERSE_DIFFERENCE_MOMENT, /* f5  Σ p / (1 + (i − j)²) */
    TEXTURE_SUM_AVERAGE,               /* f6  Σ k p_{x+y}(k), levels from 0 */
    TEXTURE_SUM_VARIANCE,              /* f7  Σ (k − f6)² p_{x+y}(k) */
    TEXTURE_SUM_ENTROPY,               /* f8  −Σ p_{x+y} ln p_{x+y} */
    TEXTURE_ENTROPY,                   /* f9  HXY = −Σ p ln p */
    TEXTURE_DIFFERENCE_VARIANCE,       /* f10 variance of k over p_{x−y}(k), k = |i − j| */
    TEXTURE_DIFFERENCE_ENTROPY,        /* f11 −Σ p_{x−y} ln p_{x−y} */
    TEXTURE_INFORMATION_1,             /* f12 (HXY − HXY1) / max(HX, HY); 0 where HX = 0 */
    TEXTURE_INFORMATION_2,             /* f13 √(1 − exp(−2 (HXY2 − HXY))) */
    TEXTURE_FEATURES
};
enum texture_aggregate { TEXTURE_MEAN, TEXTURE_LARGEST_RANGE, TEXTURE_SMALLEST_RANGE, TEXTURE_AGGREGATES };

enum {
    TEXTURE_QUANTISATIONS = 3,
    TEXTURE_LENGTHS = 25,    /* at most */
    TEXTURE_LEVELS = 64,     /* at most */
    TEXTURE_WINDOW = 63,     /* at most */
    TEXTURE_DIAMETER = 1024, /* at most */
    TEXTURE_SLOTS = 16       /* at most */
};

/* The features of an image. */
struct texture_features {
    /* In the order of options.levels; lengths from 1; beyond options.lengths all values are 0. */
    float values[TEXTURE_QUANTISATIONS][TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES];
};

struct texture_options {
    int levels[TEXTURE_QUANTISATIONS]; /* Q, 2 … TEXTURE_LEVELS */
    int lengths;                       /* 1 … TEXTURE_LENGTHS */
    int window;                        /* px, odd, more than lengths, at most TEXTURE_WINDOW */
    double diameter;                   /* px, of the circle; at least window + 0.48, which leaves one pixel */
    int stride;                        /* px: evaluate pixels whose distance from the centre is a multiple of this in x
                                          and in y; 1: every pixel */
    bool fixed_range;                  /* levels between 0 and 255 instead of the circle's least and largest value */
    int slots;                         /* images in flight, 1 … TEXTURE_SLOTS */
    int threads;                       /* CPU; at least 1 */
    struct device device;
};
/* 64, 32, 16 levels, lengths to 25, window 31, diameter 200, stride 1, one slot and thread, the CPU. */
struct texture_options texture_defaults(void);

/* Geometry, tables and workspace for images of any size. Used by one thread at a time. */
struct texture;

/* Creates a plan. STATUS_BAD_ARGUMENT: an option is out of its range; STATUS_UNSUPPORTED: a CUDA device in a build
 * without. */
enum status texture_create(const struct texture_options *options, struct texture **ret_texture, struct err *err);
void texture_destroy(struct texture **texture);
/* Return the number of evaluated pixels, and of displacements. */
int texture_pixels(const struct texture *texture);
int texture_displacements(const struct texture *texture);

/* An image [ny][nx] in host memory, rows `pitch` values apart: bytes or floats, whichever is not NULL. */
struct texture_image {
    const uint8_t *bytes;
    const float *floats;
    int nx, ny;
    ptrdiff_t pitch;
    int centre[2]; /* x, y of the circle, px from 0 */
};

/* Starts an image in an empty slot (0 … options.slots − 1); the caller may free the image after the call. A CUDA device
 * queues the work; the CPU does it at once. STATUS_BAD_ARGUMENT, and the slot stays empty: the circle leaves the image
 * by more than half a pixel (not diameter / 2 − 1 ≤ x ≤ nx − diameter / 2, and y alike), or a value in it is NaN or
 * infinite. STATUS_BAD_STATE: the slot is taken. */
enum status texture_start(struct texture *texture, int slot, const struct texture_image *image, struct err *err);
/* Waits for a slot, returns its features and empties it. */
enum status texture_finish(struct texture *texture, int slot, struct texture_features *ret_features, struct err *err);
/* Starts and finishes an image in slot 0. */
enum status texture_run(struct texture *texture, const struct texture_image *image,
                        struct texture_features *ret_features, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
