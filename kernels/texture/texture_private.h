/* What texture.c, which both devices share, gives them and asks of them. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_PRIVATE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_PRIVATE_H

#include "kernels/texture/texture.h"
#include "kernels/texture/texture_terms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Displacements of one length differ in length by less than 1; of two, the one that comes first in reading order. */
struct texture_displacement {
    int dx, dy, length;
};

/* All that does not depend on the image. Evaluated pixels stand `stride` apart on a grid of positions −steps … steps in
 * x and in y around the centre. The plane is the square of pixels that their windows cover, its origin at the centre −
 * half: position (x, y) of 0 … 2 steps has the window whose first pixel is plane pixel (x · stride, y · stride). */
struct texture_geometry {
    struct texture_options options;
    struct texture_displacement *displacements; /* by length */
    int first[TEXTURE_LENGTHS + 2]; /* displacements of length L are first[L] … first[L + 1] − 1; none has length 0 */
    int steps, positions;           /* positions of a row: 2 steps + 1 */
    int *reach;     /* [positions]: of row y, x from steps − reach[y] to steps + reach[y]; columns alike */
    int pixels;     /* evaluated */
    int half, side; /* of the plane */
    struct texture_tables *tables;
};

/* How many pairs a window has for a displacement. */
static inline int texture_pairs(const struct texture_geometry *g, const struct texture_displacement *d) {
    int dx = d->dx < 0 ? -d->dx : d->dx, dy = d->dy < 0 ? -d->dy : d->dy;
    return (g->options.window - dx) * (g->options.window - dy);
}

enum status texture_geometry_create(const struct texture_options *options, struct texture_geometry *ret_geometry,
                                    struct err *err);
void texture_geometry_destroy(struct texture_geometry *geometry);
/* ret_planes[TEXTURE_QUANTISATIONS][side][side]: levels. STATUS_BAD_ARGUMENT as texture_start. */
enum status texture_quantise(const struct texture_geometry *geometry, const struct texture_image *image,
                             uint8_t *ret_planes, struct err *err);

struct texture_cpu;
/* geometry: kept by the caller. */
enum status texture_cpu_create(const struct texture_geometry *geometry, struct texture_cpu **ret_cpu, struct err *err);
void texture_cpu_destroy(struct texture_cpu **cpu);
void texture_cpu_run(struct texture_cpu *cpu, const uint8_t *planes, struct texture_features *ret_features);

/* Built where CUDA is. */
struct texture_cuda;
enum status texture_cuda_create(const struct texture_geometry *geometry, struct texture_cuda **ret_cuda,
                                struct err *err);
void texture_cuda_destroy(struct texture_cuda **cuda);
/* Page-locked memory of a slot, as texture_quantise fills it. */
uint8_t *texture_cuda_planes(struct texture_cuda *cuda, int slot);
enum status texture_cuda_start(struct texture_cuda *cuda, int slot, struct err *err);
enum status texture_cuda_finish(struct texture_cuda *cuda, int slot, struct texture_features *ret_features,
                                struct err *err);

/* For tests: the sums of the matrices of one displacement, of one plane as above, at positions [positions²]; what is
 * not evaluated stays as it was. */
void texture_cpu_sums(struct texture_cpu *cpu, const uint8_t *plane, int displacement, struct texture_sums *ret_sums);
const struct texture_geometry *texture_geometry(const struct texture *texture);

#ifdef __cplusplus
}
#endif
#endif
