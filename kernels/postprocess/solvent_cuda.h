/* Kernels of solvent_workspace_cuda.c. Maps are box³ of the device; work is queued on `stream` (a cudaStream_t) and not
 * waited for. */
#ifndef ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_CUDA_H
#define ICESTREAM_KERNELS_POSTPROCESS_SOLVENT_CUDA_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/postprocess/solvent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = map · sphere · mask (NULL: none); out may be map. */
enum status solvent_cuda_multiply(const struct solvent_sphere *sphere, const float *map, const float *mask_or_null,
                                  float *out, void *stream, struct err *err);
/* Half transform times `factor`, and times a raised cosine from shell − edge to shell (edge 0: sharp); beyond: times what
 * is not kept so. */
enum status solvent_cuda_filter(int box, double shell, double edge, bool beyond, double factor, float *spectrum,
                                void *stream, struct err *err);
/* a −= b. */
enum status solvent_cuda_subtract(int box, float *a, const float *b, void *stream, struct err *err);
/* mask: of the density of a low-passed map, extended, with a soft edge of which the inner half is kept; ret_inside: its
 * sum. The map is lost. */
size_t solvent_cuda_scratch(int box);
enum status solvent_cuda_mask(int box, float *map, void *scratch, float *ret_mask, double *ret_inside, void *stream,
                              struct err *err);

#ifdef __cplusplus
}
#endif
#endif
