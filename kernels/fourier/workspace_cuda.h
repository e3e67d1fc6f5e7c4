/* Defines struct workspace (kernels/fourier/workspace.h) for the kernels that keep grids in a workspace. */
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
    bool timed;                 /* `busy` is measuring since workspace_cuda_count */
    struct padded_cuda *padded; /* plans for the dimensions and box used last; NULL before the first map */
    struct volume_cuda *volume; /* plans for the box used last; NULL before the first whole transform */
};

/* Ops table of the functions of workspace.h that need CUDA. close: frees the plans. */
struct workspace_work {
    void (*close)(struct workspace *workspace);
    enum status (*volumes_bytes)(struct workspace *workspace, int box, size_t *ret_bytes, struct err *err);
};
/* Defined only in builds with CUDA. */
extern const struct workspace_work workspace_cuda_work;

/* Makes the workspace's device current in this thread. */
enum status workspace_cuda_adopt(const struct workspace *workspace, struct err *err);
/* Adopt the device, and return plans for maps of this kind; new plans replace those of another kind. */
enum status workspace_cuda_plan(struct workspace *workspace, int dimensions, int box, struct padded_cuda **ret_padded,
                                struct err *err);
enum status workspace_cuda_volume(struct workspace *workspace, int box, struct volume_cuda **ret_volume,
                                  struct err *err);

/* Opens a scope for temporary memory. It ends with the C scope of `open`, declared as
 *   `_cleanup_(workspace_cuda_end) struct workspace *open = NULL;`. */
enum status workspace_cuda_begin(struct workspace *workspace, struct workspace **open, struct err *err);
void workspace_cuda_end(struct workspace **open);

/* Queue a transfer or a clear on the stream. host: may be memory of the device too (workspace_take_map). */
enum status workspace_cuda_zero(struct workspace *workspace, void *to, size_t bytes, struct err *err);
enum status workspace_cuda_put(struct workspace *workspace, void *to, const void *host, size_t bytes, struct err *err);
enum status workspace_cuda_get(struct workspace *workspace, void *host, const void *from, size_t bytes,
                               struct err *err);
/* Begins to count work of the device, unless it is counted already. workspace_cuda_begin does so, too; call it before more
 * work is queued after a wait. */
enum status workspace_cuda_count(struct workspace *workspace, struct err *err);
/* Waits for all queued work. The time since workspace_cuda_begin, or workspace_cuda_count, counts as work of the device. */
enum status workspace_cuda_wait(struct workspace *workspace, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
