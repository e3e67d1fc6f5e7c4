/* Connects texture.c, which is the same for all devices, with the work of each kind of device. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_PRIVATE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_PRIVATE_H

#include "kernels/texture/texture.h"
#include "kernels/texture/texture_terms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A displacement, and its rounded length. Displacements of one rounded length differ in length by less than 1. Only
 * the first of two opposite displacements, in reading order, is used. */
struct texture_displacement {
    int dx, dy, length;
};

/* The geometry: everything that does not depend on the image. Evaluated pixels stand `stride` apart on a grid of
 * positions −steps … steps in x and in y around the centre. The plane is the square of pixels that their windows cover;
 * its origin is the centre − half. Position (x, y) of 0 … 2 steps has the window whose first pixel is plane pixel (x ·
 * stride, y · stride). */
struct texture_geometry {
    struct texture_options options;
    struct texture_displacement *displacements; /* by length */
    int first[TEXTURE_LENGTHS + 2]; /* displacements of length L are first[L] … first[L + 1] − 1; none has length 0 */
    int steps, positions;           /* positions of a row: 2 steps + 1 */
    int *reach;     /* [positions]: row y has pixels x = steps − reach[y] … steps + reach[y]; columns likewise */
    int pixels;     /* number of evaluated pixels */
    int half, side; /* of the plane */
    struct texture_tables *tables;
};

/* Returns the number of pairs in a window for a displacement. */
static inline int texture_pairs(const struct texture_geometry *g, const struct texture_displacement *d) {
    int dx = d->dx < 0 ? -d->dx : d->dx, dy = d->dy < 0 ? -d->dy : d->dy;
    return (g->options.window - dx) * (g->options.window - dy);
}

/* Computes the geometry and its tables. STATUS_BAD_ARGUMENT as texture_create. */
enum status texture_geometry_create(const struct texture_options *options, struct texture_geometry *ret_geometry,
                                    struct err *err);
void texture_geometry_destroy(struct texture_geometry *geometry);
/* Fills ret_planes[TEXTURE_QUANTISATIONS][side][side] with grey levels. STATUS_BAD_ARGUMENT as texture_start. */
enum status texture_quantise(const struct texture_geometry *geometry, const struct texture_image *image,
                             uint8_t *ret_planes, struct err *err);

/* The work of one kind of device on its own state. */
struct texture_work {
    /* geometry: kept by the caller. */
    enum status (*create)(const struct texture_geometry *geometry, void **ret_state, struct err *err);
    /* Takes a state, never NULL. */
    void (*destroy)(void *state);
    /* Returns host memory for the grey levels of an image in this slot, as texture_quantise fills it. */
    uint8_t *(*planes)(void *state, int slot);
    /* Starts on the slot's grey levels; a device may go on with it after the call returns. */
    enum status (*start)(void *state, int slot, struct err *err);
    enum status (*finish)(void *state, int slot, struct texture_features *ret_features, struct err *err);
};
extern const struct texture_work texture_cpu_work;
extern const struct texture_work texture_cuda_work; /* only in builds with CUDA */

/* For tests: computes the running sums of one displacement in one plane, as texture_quantise fills it, into
 * ret_sums[positions²]; positions that are not evaluated stay unchanged. state: of texture_cpu_work. */
void texture_cpu_sums(void *state, const uint8_t *plane, int displacement, struct texture_sums *ret_sums);
/* Returns the geometry, owned by the texture. */
const struct texture_geometry *texture_geometry(const struct texture *texture);

#ifdef __cplusplus
}
#endif
#endif
