/* Memory and plans of a device for the Fourier grids of maps. Given a workspace, kernels/projector and
 * kernels/reconstruct keep a grid there; given NULL, in host memory.
 *
 * Grids are taken from the open scope of the arena, and live as long as that scope. Temporary memory is taken in the
 * iteration's scope, which must be closed when a function is called. Functions finish their work on the device before
 * they return. Use from one thread at a time. */
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

/* Creates a workspace. The arena, the stream (a cudaStream_t) and the timer of its work (common/device_busy_cuda.h;
 * NULL: no timer) belong to the caller and must outlive the workspace. Destroying it loses every grid in it. */
enum status workspace_create(const struct device *device, struct arena *arena, void *stream,
                             struct device_busy *busy_or_null, struct workspace **ret_workspace, struct err *err);
void workspace_destroy(struct workspace **workspace);

/* Gives back all memory of the arena: all grids are lost. */
void workspace_reset(struct workspace *workspace);
/* Returns the bytes of the whole arena. */
size_t workspace_capacity(const struct workspace *workspace);
/* Takes a map of box³ in the workspace's memory, until the workspace is reset. Functions that work in this workspace take
 * and fill such maps as they do maps in host memory, without a transfer. */
enum status workspace_take_map(struct workspace *workspace, int box, float **ret_map, struct err *err);
/* Returns the bytes that fsc_maps and kernels/postprocess/solvent.h need for maps of box³. */
enum status workspace_volumes_bytes(struct workspace *workspace, int box, size_t *ret_bytes, struct err *err);
/* Returns whether the workspace now has room for these bytes; NULL: false. */
enum status workspace_fits_volumes(struct workspace *workspace_or_null, int box, bool *ret_fits, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
