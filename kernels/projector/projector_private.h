/* What a projector is made of: for the files of this folder only. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H

#include <stdbool.h>

#include "common/fft.h"
#include "kernels/projector/projector.h"

enum { PROJECTOR_PAD = 2 };

struct projector {
    int dimensions, box, threads;
    int r_max;             /* px of the unpadded transform; PAD · r_max grid points */
    struct fft_plan *plan; /* of the CPU, like what follows; NULL before its first map */
    float *padded;         /* (PAD · box)^dimensions */
    float *spectrum;
    float *correction; /* of the map, by squared distance from the centre */
    /* The half grid about the origin: [z][y][x] complex, x = 0 .. PAD r_max + 1, y and z = −reach .. reach, where
     * reach = PAD r_max + 1, so that every trilinear corner of a point within PAD r_max is inside. */
    float *grid;
    size_t grid_capacity;
    int nx, ny, nz, reach;
    struct workspace *workspace; /* where the transform is; NULL: `grid` */
    float *device_grid;
};

/* Of the shape that it has for frequencies up to size/2. */
void projector_shape(struct projector *projector, int size);
static inline size_t projector_floats(const struct projector *p) {
    return 2 * (size_t)p->nx * (size_t)p->ny * (size_t)p->nz;
}
/* Room for the shape's half grid on the host. */
enum status projector_reserve(struct projector *projector, struct err *err);

enum status projector_cpu_set_map(struct projector *projector, const float *map, int size, struct err *err);
enum status projector_cpu_set_shells(struct projector *projector, const float *map, int last_shell, struct err *err);
void projector_cpu_power(const struct projector *projector, float *ret_power);

/* Built where CUDA is. */
enum status projector_device_set_map(struct projector *projector, struct workspace *workspace, const float *map,
                                     int size, struct err *err);
enum status projector_device_set_shells(struct projector *projector, const float *map, int last_shell, struct err *err);
enum status projector_device_get(struct projector *projector, struct err *err);
enum status projector_device_power(const struct projector *projector, float *ret_power, struct err *err);

#endif
