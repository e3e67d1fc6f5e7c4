/* Makes the files of the local resolution from the final files: locres.mrc, in Å, and locres_filtered.mrc, the mean of
 * the half maps, sharpened as postprocess.mrc is, and low-passed at each voxel by its resolution. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_LOCAL_RESOLUTION_WRITE_H
#define ICESTREAM_STAGES_REFINER_FILES_LOCAL_RESOLUTION_WRITE_H

#include "common/formats/image.h"
#include "kernels/fourier/workspace.h"

struct local_maps {
    struct image resolution, filtered;
    double finest, median, coarsest; /* Å: 5, 50 and 95 % of the voxels inside the mask of postprocess.mrc */
    double bound;                    /* Å: no voxel is told a finer one; 0: there is no bound */
};

/* Computes the maps from the half maps, the B-factor and the bound of what is told that lie below folder, on the
 * workspace's device if it has room; NULL: on the CPU. mtf_or_null: by shell, as in postprocess_options. */
enum status local_maps_make(const char *folder, const float *mtf_or_null, struct workspace *workspace_or_null,
                            struct local_maps *ret_maps, struct err *err);
struct local_maps_options {
    double bfactor;    /* Å² */
    const float *mtf;  /* by shell, as in postprocess_options; NULL: none */
    const float *mask; /* box³, for the quantiles; NULL: all voxels */
    int last_shell;    /* no voxel is told a finer one; 0: there is no bound */
};
/* Like local_maps_make, from half maps that are in memory. */
enum status local_maps_from(const struct image *half1, const struct image *half2,
                            const struct local_maps_options *options, struct workspace *workspace_or_null,
                            struct local_maps *ret_maps, struct err *err);
/* Writes the maps below folder. locres.mrc comes last: it means that both are there. */
enum status local_maps_write(struct local_maps *maps, const char *folder, struct err *err);
void local_maps_destroy(struct local_maps *maps);

/* Returns whether the maps are there. */
bool local_maps_exist(const char *folder);
/* Returns whether postprocess.star below folder tells a resolution; also if it cannot be read, which local_maps_make tells. */
bool local_maps_wanted(const char *folder);
/* Removes locres.mrc, before the final files change. */
enum status local_maps_remove(const char *folder, struct err *err);

#endif
