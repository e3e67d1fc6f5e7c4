/* Kernels of solvent_workspace_cuda.c. Maps are box³ on the device; work is queued on `stream` (a cudaStream_t),
 * without waiting. */
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
/* Multiplies a half transform by `factor` and by a raised cosine that falls from shell − edge to shell (edge 0: sharp);
 * beyond: multiplies by 1 minus that cosine instead. */
enum status solvent_cuda_filter(int box, double shell, double edge, bool beyond, double factor, float *spectrum,
                                void *stream, struct err *err);
/* spectrum = factor · (inner up to shell `low` + (spectrum − inner) beyond shell `reached`), half transforms; a shell ends
 * half a shell beyond its number. */
enum status solvent_cuda_join(int box, int low, int reached, double factor, const float *inner, float *spectrum,
                              void *stream, struct err *err);
/* a −= b. */
enum status solvent_cuda_subtract(int box, float *a, const float *b, void *stream, struct err *err);
/* Makes the mask of a low-passed map's density: extended, with the inner half of a soft edge. ret_inside: the sum of
 * the mask. Overwrites the map. */
size_t solvent_cuda_scratch(int box);
enum status solvent_cuda_mask(int box, float *map, void *scratch, float *ret_mask, double *ret_inside, void *stream,
                              struct err *err);

#ifdef __cplusplus
}
#endif
#endif
