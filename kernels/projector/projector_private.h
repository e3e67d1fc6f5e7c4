/* Defines struct projector for the files of this folder. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_PRIVATE_H

#include <stdbool.h>

#include "common/fft.h"
#include "kernels/fourier/cube.h"
#include "kernels/projector/projector.h"

/* Grid points per pixel of the unpadded transform. */
enum { PROJECTOR_PAD = 2 };

struct projector {
    int dimensions, box, threads;
    int r_max; /* highest frequency, px of the unpadded transform */
    /* cube (3D), plan, padded and spectrum (2D) and correction serve the CPU; empty before its first map. */
    struct fourier_cube cube;
    struct fft_plan *plan;
    float *padded;     /* [(PAD · box)²] the padded map */
    float *spectrum;   /* half-plane transform of `padded` */
    float *correction; /* factors that cancel the interpolation's sinc², by squared distance from the centre in px */
    /* Half grid about the origin: [nz][ny][nx] complex, x = 0 .. reach, y and z = −reach .. reach (2-D: z = 0). The
     * grid contains each trilinear corner of each point within PAD · r_max. */
    float *grid;
    size_t grid_capacity;  /* floats */
    int nx, ny, nz, reach; /* reach = PAD · r_max + 1 */
    const struct projector_work *work;
    struct workspace *workspace; /* whose device_grid holds the transform; NULL: `grid` holds it */
    float *device_grid;          /* the transform in device memory, shaped like `grid` */
};

/* Ops table: implements the functions of the same names in projector.h in the memory that holds the transform.
 * projector.c checks the arguments first. workspace: where set_map puts the transform; NULL on the CPU. */
struct projector_work {
    enum status (*set_map)(struct projector *p, struct workspace *workspace, const float *map, int size,
                           struct err *err);
    enum status (*set_shells)(struct projector *p, const float *map, int last_shell, struct err *err);
    enum status (*to_host)(struct projector *p, struct err *err);
    enum status (*power)(const struct projector *p, float *ret_power, struct err *err);
};
extern const struct projector_work projector_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct projector_work projector_cuda_work;

/* Sets r_max, reach, nx, ny and nz for frequencies up to size/2. */
void projector_shape(struct projector *projector, int size);
/* Returns the floats of the half grid. */
static inline size_t projector_floats(const struct projector *p) {
    return 2 * (size_t)p->nx * (size_t)p->ny * (size_t)p->nz;
}
/* Makes `grid` large enough for the current shape. Values are lost if it grows. */
enum status projector_reserve(struct projector *projector, struct err *err);

#endif
