/* SIRT exactly by its formulas, voxel by voxel and in double: the reference for tests of CPU and CUDA. Slow. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_REFERENCE_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_REFERENCE_H

#include "kernels/tomography/tomography.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ret_projections [tilt][y][x] = W c, coefficients [z][y][x]. Weights from the footprint itself, not from a table. */
void tomography_reference_project(const struct tomography_geometry *geometry, enum tomography_basis basis,
                                  const double *coefficients, double *ret_projections);
/* ret_coefficients = Wᵀ p. */
void tomography_reference_back_project(const struct tomography_geometry *geometry, enum tomography_basis basis,
                                       const double *projections, double *ret_coefficients);
/* A run of SIRT: iterations, relaxation, start, non_negative and mask of the options; ret_volume [z][y][x] is Σ c b,
 * ret_residuals [iterations] as tomography_report's. */
enum status tomography_reference_run(const struct tomography_options *options, const float *projections,
                                     double *ret_volume, double *ret_residuals, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
