#include "stages/refiner/files/local_resolution_write.h"

#include <math.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/memory.h"
#include "kernels/local_resolution/local_resolution.h"
#include "kernels/quantile/quantile.h"

static const char RESOLUTION[] = "locres.mrc", FILTERED[] = "locres_filtered.mrc";

/* Reads the B-factor, and the bound of what is told: Å, 0 if there is none. */
static enum status read_told(const char *folder, double *ret_bfactor, double *ret_bound, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(path_join(folder, "postprocess.star", path, sizeof path, err));
    TRY(star_read(path, &file, err));
    const struct star_table *t = star_table_find(file, "general");
    FAIL_IF(t == NULL || star_row_count(t) == 0, err, STATUS_BAD_FORMAT, "%s lacks the table data_general", path);
    *ret_bound = 0;
    if (star_column_find(t, "icestreamResolutionBound") >= 0)
        TRY(star_need_number(t, 0, "icestreamResolutionBound", 1e-3, 1e6, ret_bound, err));
    return star_need_number(t, 0, "rlnBfactorUsedForSharpening", -1e5, 1e5, ret_bfactor, err);
}

/* Reads a map of a cubic box; box: 0, or the side that it must have. */
static enum status read_cube(const char *folder, const char *name, int box, struct image *map, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(mrc_read(path, map, err));
    if (box == 0) box = map->nx;
    FAIL_IF(map->nx != box || map->ny != box || map->nz != box || !(map->pixel_size > 0), err, STATUS_BAD_FORMAT,
            "%s is a map of %d × %d × %d px of %g Å, not of %d px on each side", path, map->nx, map->ny, map->nz,
            (double)map->pixel_size, box);
    return STATUS_OK;
}

/* Sums up the resolution where the mask, if there is one, is more than a half. */
static enum status sum_up(const float *mask_or_null, struct local_maps *maps, struct err *err) {
    const size_t side = (size_t)maps->resolution.nx, voxels = side * side * side;
    _cleanup_(mem_free) float *inside = NULL;
    TRY(mem_new_unset(voxels, sizeof *inside, "a map", &inside, err));
    size_t count = 0;
    for (size_t i = 0; i < voxels; i++)
        if (mask_or_null == NULL || mask_or_null[i] > 0.5f) inside[count++] = maps->resolution.data[i];
    if (count == 0) return STATUS_OK;
    maps->finest = (double)quantile_rank(inside, count, count / 20);
    maps->median = (double)quantile_rank(inside, count, count / 2);
    maps->coarsest = (double)quantile_rank(inside, count, count - 1 - count / 20);
    return STATUS_OK;
}

static enum status make(const struct local_resolution_options *options, const struct image *half1,
                        const struct image *half2, struct workspace *workspace_or_null, struct local_maps *maps,
                        struct err *err) {
    const int box = options->box;
    struct err device = {0};
    bool fits;
    TRY(image_resize(&maps->resolution, box, box, box, err));
    TRY(image_resize(&maps->filtered, box, box, box, err));
    maps->resolution.pixel_size = maps->filtered.pixel_size = half1->pixel_size;
    TRY(local_resolution_fits(workspace_or_null, box, &fits, err));
    float *resolution = maps->resolution.data, *filtered = maps->filtered.data;
    /* Files that wait for nothing else are worth a second try, without the device. */
    if (!fits || local_resolution_run(workspace_or_null, options, half1->data, half2->data, resolution, filtered,
                                      &device) != STATUS_OK)
        TRY(local_resolution_run(NULL, options, half1->data, half2->data, resolution, filtered, err));
    return STATUS_OK;
}

enum status local_maps_from(const struct image *half1, const struct image *half2, const struct local_maps_options *o,
                            struct workspace *workspace_or_null, struct local_maps *ret_maps, struct err *err) {
    const struct local_resolution_options options = {.box = half1->nx,
                                                     .pixel_size = (double)half1->pixel_size,
                                                     .bfactor = o->bfactor,
                                                     .mtf = o->mtf,
                                                     .last_shell = o->last_shell};
    *ret_maps = (struct local_maps){0};
    enum status status = make(&options, half1, half2, workspace_or_null, ret_maps, err);
    if (status == STATUS_OK) status = sum_up(o->mask, ret_maps, err);
    if (status != STATUS_OK) local_maps_destroy(ret_maps);
    return status;
}

/* Reads the mask of the final files; an empty image if there is none. */
static enum status read_mask(const char *folder, int box, struct image *mask, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, "postprocess_mask.mrc", path, sizeof path, err));
    return file_exists(path) ? read_cube(folder, "postprocess_mask.mrc", box, mask, err) : STATUS_OK;
}

enum status local_maps_make(const char *folder, const float *mtf_or_null, struct workspace *workspace_or_null,
                            struct local_maps *ret_maps, struct err *err) {
    struct image halves[2] = {{0}}, mask = {0};
    struct local_maps_options options = {.mtf = mtf_or_null};
    double bound;
    *ret_maps = (struct local_maps){0};
    enum status status = read_told(folder, &options.bfactor, &bound, err);
    if (status == STATUS_OK) status = read_cube(folder, "run_half1_class001_unfil.mrc", 0, &halves[0], err);
    if (status == STATUS_OK) status = read_cube(folder, "run_half2_class001_unfil.mrc", halves[0].nx, &halves[1], err);
    if (status == STATUS_OK) status = read_mask(folder, halves[0].nx, &mask, err);
    options.mask = mask.data;
    if (status == STATUS_OK && bound > 0)
        options.last_shell = (int)fmax(1, lround(halves[0].nx * (double)halves[0].pixel_size / bound));
    if (status == STATUS_OK)
        status = local_maps_from(&halves[0], &halves[1], &options, workspace_or_null, ret_maps, err);
    if (status == STATUS_OK) ret_maps->bound = bound;
    for (int h = 0; h < 2; h++)
        image_destroy(&halves[h]);
    image_destroy(&mask);
    return status;
}

enum status local_maps_write(struct local_maps *maps, const char *folder, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, FILTERED, path, sizeof path, err));
    TRY(mrc_write(path, &maps->filtered, MRC_VOLUME, MRC_FLOAT32, err));
    TRY(path_join(folder, RESOLUTION, path, sizeof path, err));
    return mrc_write(path, &maps->resolution, MRC_VOLUME, MRC_FLOAT32, err);
}

void local_maps_destroy(struct local_maps *maps) {
    image_destroy(&maps->resolution);
    image_destroy(&maps->filtered);
}

bool local_maps_exist(const char *folder) {
    char path[PATH_SIZE];
    return path_join(folder, RESOLUTION, path, sizeof path, NULL) == STATUS_OK && file_exists(path);
}

bool local_maps_wanted(const char *folder) {
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    if (path_join(folder, "postprocess.star", path, sizeof path, NULL) != STATUS_OK ||
        star_read(path, &file, NULL) != STATUS_OK)
        return true;
    const struct star_table *t = star_table_find(file, "general");
    return t == NULL || star_column_find(t, "icestreamUnresolved") < 0;
}

enum status local_maps_remove(const char *folder, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, RESOLUTION, path, sizeof path, err));
    return file_exists(path) ? file_remove(path, err) : STATUS_OK;
}
