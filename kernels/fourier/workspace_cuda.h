/* A workspace (kernels/fourier/workspace.h) from within, for the kernels that keep grids there. */
#ifndef ICESTREAM_KERNELS_FOURIER_WORKSPACE_CUDA_H
#define ICESTREAM_KERNELS_FOURIER_WORKSPACE_CUDA_H

#include <stdbool.h>

#include "kernels/fourier/padded_cuda.h"
#include "kernels/fourier/volume_cuda.h"
#include "kernels/fourier/workspace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct workspace {
    struct device device;
    struct arena *arena;
    void *stream; /* a cudaStream_t */
    struct device_busy *busy;
    bool timed;                 /* since workspace_cuda_begin */
    struct padded_cuda *padded; /* of the maps that came last; NULL: none did */
    struct volume_cuda *volume; /* the same of whole transforms */
};

/* Makes the device the thread's. */
enum status workspace_cuda_adopt(const struct workspace *workspace, struct err *err);
/* That, and plans for maps of this kind where the last were of another. */
enum status workspace_cuda_plan(struct workspace *workspace, int dimensions, int box, struct padded_cuda **ret_padded,
                                struct err *err);
enum status workspace_cuda_volume(struct workspace *workspace, int box, struct volume_cuda **ret_volume,
                                  struct err *err);

/* Memory for a moment: until the scope that `open` is declared in ends, as
 * `_cleanup_(workspace_cuda_end) struct workspace *open = NULL;`. */
enum status workspace_cuda_begin(struct workspace *workspace, struct workspace **open, struct err *err);
void workspace_cuda_end(struct workspace **open);

/* Queued. */
enum status workspace_cuda_zero(struct workspace *workspace, void *to, size_t bytes, struct err *err);
enum status workspace_cuda_put(struct workspace *workspace, void *to, const void *host, size_t bytes, struct err *err);
enum status workspace_cuda_get(struct workspace *workspace, void *host, const void *from, size_t bytes,
                               struct err *err);
/* Until all of it is done. From workspace_cuda_begin to here the device is said to be at work. */
enum status workspace_cuda_wait(struct workspace *workspace, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
