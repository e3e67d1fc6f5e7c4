/* Parts of a projector. For the files of this folder only. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H

#include <stdbool.h>

#include "common/fft.h"
#include "kernels/projector/projector.h"

enum { PROJECTOR_PAD = 2 };

struct projector {
    int dimensions, box, threads;
    int r_max;             /* px of the unpadded transform; PAD · r_max grid points */
    struct fft_plan *plan; /* this and the next members are the CPU's; NULL before its first map */
    float *padded;         /* (PAD · box)^dimensions */
    float *spectrum;
    float *correction; /* corrects the map, by squared distance from the centre */
    /* Half grid about the origin: [z][y][x] complex, x = 0 .. PAD r_max + 1, y and z = −reach .. reach. reach = PAD
     * r_max + 1, so that every trilinear corner of a point within PAD r_max is inside. */
    float *grid;
    size_t grid_capacity;
    int nx, ny, nz, reach;
    const struct projector_work *work;
    struct workspace *workspace; /* holds the transform; NULL: `grid` does */
    float *device_grid;
};

/* Ops table: what is done with a transform where it lies. projector.c checks the arguments first. */
struct projector_work {
    enum status (*set_map)(struct projector *p, struct workspace *workspace, const float *map, int size,
                           struct err *err);
    enum status (*set_shells)(struct projector *p, const float *map, int last_shell, struct err *err);
    enum status (*to_host)(struct projector *p, struct err *err);
    enum status (*power)(const struct projector *p, float *ret_power, struct err *err);
};
extern const struct projector_work projector_cpu_work;
/* Built with CUDA only. */
extern const struct projector_work projector_cuda_work;

/* Sets the shape for frequencies up to size/2. */
void projector_shape(struct projector *projector, int size);
static inline size_t projector_floats(const struct projector *p) {
    return 2 * (size_t)p->nx * (size_t)p->ny * (size_t)p->nz;
}
/* Reserves host memory for a half grid of this shape. */
enum status projector_reserve(struct projector *projector, struct err *err);

#endif
