#include "stages/refiner/restored.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/mrc.h"

enum { ITERATIONS_MAX = 1000000, GROUPS_MAX = 10000, BOX_MIN = 16, BOX_MAX = 2048 };

int restored_last(const char *folder, int before) {
    return file_last_number(folder, "run_it", "_optimiser.star", before < ITERATIONS_MAX ? before : ITERATIONS_MAX);
}

static enum status part_path(const char *folder, int iteration, const char *part, char *path, struct err *err) {
    char name[64];
    snprintf(name, sizeof name, "run_it%03d_%s", iteration, part);
    return path_join(folder, name, path, PATH_SIZE, err);
}

static enum status open_part(const char *folder, int iteration, const char *part, struct star_file **ret_file,
                             struct err *err) {
    char path[PATH_SIZE];
    TRY(part_path(folder, iteration, part, path, err));
    return star_read(path, ret_file, err);
}

static enum status need_table(struct star_file *file, const char *path, const char *name,
                              struct star_table **ret_table, struct err *err) {
    *ret_table = star_table_find(file, name);
    FAIL_IF(*ret_table == NULL || star_row_count(*ret_table) == 0, err, STATUS_BAD_FORMAT,
            "%s lacks the table data_%s", path, name);
    return STATUS_OK;
}

static enum status value(const struct star_table *t, const char *column, double least, double most, double *ret,
                         struct err *err) {
    return star_need_number(t, 0, column, least, most, ret, err);
}

static enum status whole(const struct star_table *t, const char *column, int least, int most, int *ret,
                         struct err *err) {
    double number;
    TRY(value(t, column, least, most, &number, err));
    *ret = (int)number;
    return STATUS_OK;
}

static int count_groups(struct star_file *file) {
    int groups = 0;
    char name[64];
    do
        snprintf(name, sizeof name, "model_optics_group_%d", groups + 1);
    while (star_table_find(file, name) != NULL && ++groups < GROUPS_MAX);
    return groups;
}

static enum status read_noise(struct restored *r, struct restored_half *h, struct star_file *file, const char *path,
                              struct err *err) {
    size_t shells = (size_t)r->shells;
    TRY(mem_new((size_t)r->groups * shells, sizeof *h->sigma2, "noise spectra", &h->sigma2, err));
    for (int o = 0; o < r->groups; o++) {
        char name[64];
        struct star_table *t;
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(need_table(file, path, name, &t, err));
        FAIL_IF(star_row_count(t) != shells, err, STATUS_BAD_FORMAT, "%s: table data_%s has %zu rows, %zu were expected",
                path, name, star_row_count(t), shells);
        for (size_t s = 0; s < shells; s++) {
            double sigma2;
            TRY(star_need_number(t, s, "rlnSigma2Noise", s > 0 ? 1e-30 : 0, (double)IMAGE_VALUE_MAX, &sigma2, err));
            h->sigma2[(size_t)o * shells + s] = (float)sigma2;
        }
    }
    return STATUS_OK;
}

/* The first half decides on what both must have in common. */
static enum status read_model(struct restored *r, struct restored_half *h, struct star_file *file, const char *path,
                              struct err *err) {
    struct star_table *t;
    int box, groups = count_groups(file);
    double pixel_size;
    TRY(need_table(file, path, "model_general", &t, err));
    TRY(whole(t, "rlnOriginalImageSize", BOX_MIN, BOX_MAX, &box, err));
    TRY(value(t, "rlnPixelSize", 1e-3, 1e4, &pixel_size, err));
    TRY(value(t, "rlnNormCorrectionAverage", 1e-6, 1e6, &h->average_norm, err));
    TRY(value(t, "rlnSigmaOffsetsAngst", 1e-6, 1e6, &h->sigma_offset, err));
    h->sigma_offset /= pixel_size;
    FAIL_IF(groups == 0, err, STATUS_BAD_FORMAT, "%s lacks the table data_model_optics_group_1", path);
    FAIL_IF(box % 2 != 0, err, STATUS_BAD_FORMAT, "%s: rlnOriginalImageSize is %d; it must be even", path, box);
    FAIL_IF(r->box != 0 && (box != r->box || groups != r->groups || fabs(pixel_size / r->pixel_size - 1) > 1e-3), err,
            STATUS_BAD_FORMAT, "%s: %d px of %g Å and %d optics groups, those of the other half are %d px of %g Å and %d",
            path, box, pixel_size, groups, r->box, r->pixel_size, r->groups);
    r->box = box;
    r->shells = box / 2 + 1;
    r->pixel_size = pixel_size;
    r->groups = groups;
    return read_noise(r, h, file, path, err);
}

static enum status read_map(const struct restored *r, struct image *map, const char *path, struct err *err) {
    TRY(mrc_read(path, map, err));
    FAIL_IF(map->nx != r->box || map->ny != r->box || map->nz != r->box ||
                !(fabs(map->pixel_size / r->pixel_size - 1) < 1e-3),
            err, STATUS_BAD_FORMAT, "%s: %d × %d × %d px of %g Å, a cube of %d px of %g Å was expected", path, map->nx,
            map->ny, map->nz, (double)map->pixel_size, r->box, r->pixel_size);
    FAIL_IF(!image_values_fit(map->data, image_count(map)), err, STATUS_BAD_FORMAT, "%s: holds values that are no densities", path);
    return STATUS_OK;
}

static enum status read_half(struct restored *r, const char *folder, int iteration, int half, struct err *err) {
    char part[32], path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    snprintf(part, sizeof part, "half%d_model.star", half + 1);
    TRY(part_path(folder, iteration, part, path, err));
    TRY(star_read(path, &file, err));
    TRY(read_model(r, &r->half[half], file, path, err));
    snprintf(part, sizeof part, "half%d_class001.mrc", half + 1);
    TRY(part_path(folder, iteration, part, path, err));
    return read_map(r, &r->half[half].map, path, err);
}

static enum status read_schedule(struct restored *r, const char *folder, int iteration, struct err *err) {
    static const double STEPS_MAX = 300; /* shifts are tried so far to each side, at most */
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *t;
    struct schedule *s = &r->schedule;
    double px = r->pixel_size, extent = r->box * px;
    int large;
    TRY(part_path(folder, iteration, "optimiser.star", path, err));
    TRY(star_read(path, &file, err));
    TRY(need_table(file, path, "optimiser_general", &t, err));
    TRY(whole(t, "rlnCurrentIteration", iteration, iteration, &s->iteration, err));
    TRY(whole(t, "rlnHealpixOrder", 0, SAMPLING_MAX_ORDER, &s->order, err));
    TRY(value(t, "rlnOffsetRange", 0, extent, &s->offset_range, err));
    TRY(value(t, "rlnOffsetStep", fmax(s->offset_range / STEPS_MAX, 1e-3 * px), extent, &s->offset_step, err));
    TRY(whole(t, "rlnIncrementImageSize", 0, r->box, &s->increment, err));
    TRY(whole(t, "rlnHasHighFscAtResolLimit", 0, 1, &large, err));
    TRY(whole(t, "rlnNumberOfIterWithoutResolutionGain", 0, ITERATIONS_MAX, &s->since_resolution, err));
    TRY(whole(t, "rlnNumberOfIterWithoutChangingAssignments", 0, ITERATIONS_MAX, &s->since_changes, err));
    TRY(whole(t, "icestreamResolutionShell", 1, r->shells - 1, &s->resolution_shell, err));
    TRY(value(t, "rlnSamplingPerturbInstance", -1, 1, &s->perturbation, err));
    TRY(value(t, "rlnBestResolutionThusFar", 0, 1 / px, &s->best_resolution, err));
    TRY(value(t, "rlnSmallestChangesOrientations", 0, 1e9, &s->smallest_angle, err));
    TRY(value(t, "rlnSmallestChangesOffsets", 0, 1e9, &s->smallest_offset, err));
    TRY(value(t, "rlnAveragePmax", 0, 1.001, &s->average_pmax, err));
    TRY(value(t, "rlnCurrentResolution", 0, 1e9, &r->resolution, err));
    s->offset_range /= px;
    s->offset_step /= px;
    s->large_increment = large != 0;
    return STATUS_OK;
}

static enum status read_all(struct restored *r, const char *folder, int iteration, struct err *err) {
    for (int h = 0; h < 2; h++)
        TRY(read_half(r, folder, iteration, h, err));
    TRY(read_schedule(r, folder, iteration, err));
    return open_part(folder, iteration, "data.star", &r->data, err);
}

enum status restored_read(const char *folder, int iteration, struct restored *ret_restored, struct err *err) {
    struct restored r = {0};
    enum status status = read_all(&r, folder, iteration, err);
    if (status != STATUS_OK) {
        restored_clear(&r);
        return status;
    }
    *ret_restored = r;
    return STATUS_OK;
}

void restored_clear(struct restored *r) {
    for (int h = 0; h < 2; h++) {
        image_destroy(&r->half[h].map);
        mem_free(&r->half[h].sigma2);
    }
    star_destroy(&r->data);
}

enum { NAME, ROT, TILT, PSI, X, Y, NORM, SUBSET, POSE_COLUMNS };

/* A row that no iteration has written tells nothing: its particle is searched for as a new one. */
static void take_pose(const double v[POSE_COLUMNS], const struct particle_set *set, struct particle *p) {
    double extent = set->box * set->pixel_size;
    bool plausible = fabs(v[X]) <= extent && fabs(v[Y]) <= extent && v[NORM] >= 0 && v[NORM] < 1e6 &&
                     (v[SUBSET] == 1 || v[SUBSET] == 2);
    for (int i = ROT; i <= PSI; i++)
        plausible = plausible && fabs(v[i]) <= 1e4;
    if (!plausible) return;
    euler_to_matrix(v[ROT], v[TILT], v[PSI], p->pose);
    p->origin[0] = v[X] / set->pixel_size;
    p->origin[1] = v[Y] / set->pixel_size;
    p->norm = v[NORM] > 1e-6 ? v[NORM] : 1;
    p->half = (int)v[SUBSET] - 1;
    p->aligned = true;
}

void restored_poses(const struct star_file *data, struct particle_set *set) {
    const struct star_table *t = star_table_find((struct star_file *)data, "particles");
    static const char *const NAMES[POSE_COLUMNS] = {"rlnImageName",    "rlnAngleRot",     "rlnAngleTilt",
                                                    "rlnAnglePsi",     "rlnOriginXAngst", "rlnOriginYAngst",
                                                    "rlnNormCorrection", "rlnRandomSubset"};
    int columns[POSE_COLUMNS];
    bool complete = t != NULL;
    for (int i = 0; i < POSE_COLUMNS && complete; i++)
        complete = (columns[i] = star_column_find(t, NAMES[i])) >= 0;
    for (size_t row = 0; complete && row < star_row_count(t); row++) {
        struct particle *p = particle_find(set, star_get(t, row, columns[NAME]));
        double v[POSE_COLUMNS] = {0};
        bool read = p != NULL && !p->aligned;
        for (int i = ROT; i < POSE_COLUMNS && read; i++)
            read = star_get_number(t, row, columns[i], &v[i], NULL) == STATUS_OK;
        if (read) take_pose(v, set, p);
    }
}
