/* Memory and plans of a device, for the Fourier grids of maps: kernels/projector and kernels/reconstruct keep a grid
 * there where they are given a workspace, in the host's memory where that is NULL. Grids are taken from the scope of the
 * arena that is open, and live as long; what is needed for a moment is taken in the iteration's scope, which must be
 * closed then. What a function does there is done when it returns. For one thread at a time. */
#ifndef ICESTREAM_KERNELS_FOURIER_WORKSPACE_H
#define ICESTREAM_KERNELS_FOURIER_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/arena.h"
#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct workspace;
struct device_busy;

/* The arena, the stream (a cudaStream_t) and what times its work (common/device_busy_cuda.h; NULL: nothing does) stay the
 * caller's, and outlive it. Every grid there is lost with it. */
enum status workspace_create(const struct device *device, struct arena *arena, void *stream,
                             struct device_busy *busy_or_null, struct workspace **ret_workspace, struct err *err);
void workspace_destroy(struct workspace **workspace);

/* Gives back all memory of the arena: no grid is there any more. */
void workspace_reset(struct workspace *workspace);
size_t workspace_capacity(const struct workspace *workspace);
/* Bytes that these take there. */
enum status workspace_volumes_bytes(struct workspace *workspace, int box, size_t *ret_bytes, struct err *err);
/* Whether there is room now for what fsc_maps_on and kernels/postprocess/solvent.h do with maps of box³; of NULL: no. */
enum status workspace_fits_volumes(struct workspace *workspace_or_null, int box, bool *ret_fits, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
