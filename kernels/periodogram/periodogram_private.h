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

/* Places at which each tile's power is averaged. */
struct periodogram_cells {
    int count;  /* 0: tiles are not kept */
    int *first; /* [count + 1] cell c has the pixels pixel[first[c]] to pixel[first[c + 1] − 1] */
    int *pixel;
    float *sums; /* [tiles][count] */
};

/* The operations of a device. Window and cells outlive the state. */
struct periodogram_work {
    enum status (*create)(const struct periodogram_task *task, const struct periodogram_window *window,
                          const struct periodogram_cells *cells, void **ret_state, struct err *err);
    void (*destroy)(void *state); /* also of a state that is half made; never NULL */
    /* Fills power with the sum over tiles, and counts the tiles in it; fills cells->sums with the sums of each cell. */
    enum status (*run)(void *state, const float *micrograph, const void *on_device, float *power, int *ret_used,
                       struct err *err);
};

extern const struct periodogram_work periodogram_cpu_work, periodogram_cuda_work; /* cuda: in builds with CUDA */

#ifdef __cplusplus
}
#endif
#endif
