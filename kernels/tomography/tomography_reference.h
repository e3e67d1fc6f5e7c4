/* Runs SIRT by its formulas, voxel by voxel and in double, as the reference for tests of CPU and CUDA. Slow. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_REFERENCE_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_REFERENCE_H

#include "kernels/tomography/tomography.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes ret_projections[tilt][y][x] = W c from coefficients[z][y][x]. Weights come from the footprint itself, not
 * from a table. */
void tomography_reference_project(const struct tomography_geometry *geometry, enum tomography_basis basis,
                                  const double *coefficients, double *ret_projections);
/* Computes ret_coefficients[z][y][x] = Wᵀ p from projections[tilt][y][x]. */
void tomography_reference_back_project(const struct tomography_geometry *geometry, enum tomography_basis basis,
                                       const double *projections, double *ret_coefficients);
/* Runs SIRT with the iterations, relaxation, start, non_negative and mask of the options. ret_volume[z][y][x]: Σ c b.
 * ret_residuals[iterations]: as in struct tomography_report. */
enum status tomography_reference_run(const struct tomography_options *options, const float *projections,
                                     double *ret_volume, double *ret_residuals, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
