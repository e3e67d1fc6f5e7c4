/* Shared by the devices of the periodogram. */
#ifndef ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_PRIVATE_H
#define ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_PRIVATE_H

#include "kernels/periodogram/periodogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The window of a tile. */
struct periodogram_window {
    float *values; /* [box] along a side */
    double power;  /* sum of its squares over a tile */
};

/* The operations of a device. The window outlives the state. */
struct periodogram_work {
    enum status (*create)(const struct periodogram_task *task, const struct periodogram_window *window,
                          void **ret_state, struct err *err);
    void (*destroy)(void *state); /* also of a state that is half made; never NULL */
    /* Fills power with the sum over tiles, and counts the tiles in it. */
    enum status (*run)(void *state, const float *micrograph, const void *on_device, float *power, int *ret_used,
                       struct err *err);
};

extern const struct periodogram_work periodogram_cpu_work, periodogram_cuda_work; /* cuda: in builds with CUDA */

#ifdef __cplusplus
}
#endif
#endif
