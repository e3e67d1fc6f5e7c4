/* Ops table of differences.h, and what both devices know. */
#ifndef ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_PRIVATE_H
#define ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_PRIVATE_H

#include "kernels/differences/differences.h"

/* Each device's own struct begins with this one. */
struct differences {
    const struct differences_work *work;
    struct workspace *workspace; /* NULL: on the CPU */
    struct differences_maps of;
    size_t voxels; /* of a map */
};

struct differences_work {
    size_t size;                                                 /* bytes of the device's struct */
    enum status (*open)(struct differences *d, struct err *err); /* close is called after a failure, too */
    void (*close)(struct differences *d);
    enum status (*filter)(struct differences *d, const float *gains, const float *about, float *ret_square,
                          struct err *err);
    enum status (*weigh)(struct differences *d, double noise, struct err *err);
    enum status (*power)(struct differences *d, int k, double *ret_power, struct err *err);
    enum status (*move)(struct differences *d, double part, struct err *err);
};
extern const struct differences_work differences_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct differences_work differences_cuda_work;

#endif
