/* Projections of a map that serve as templates: along all directions of its asymmetric unit. */
#ifndef ICESTREAM_KERNELS_VIEWS_VIEWS_H
#define ICESTREAM_KERNELS_VIEWS_VIEWS_H

#include "common/status.h"

enum { VIEWS_MOST = 48 };

/* Projects a map of n³ voxels along all directions: *ret_views gets [*ret_count][n][n], which the caller frees; sums of the
 * map along the view, in px, on the scale of the particles it was reconstructed from. Directions are HEALPix pixels of
 * order 1, about 30° apart, which is as far as a template matches at 20 Å. symmetry: "C1", "D2", … C1 has VIEWS_MOST of
 * them. On the CPU. */
enum status views_project(const float *map, int n, const char *symmetry, int threads, float **ret_views, int *ret_count,
                          struct err *err);

#endif
