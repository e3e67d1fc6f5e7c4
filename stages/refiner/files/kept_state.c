#include "stages/refiner/files/kept_state.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/optics.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/heirs.h"
#include "stages/refiner/twins.h"
#include "stages/refiner/unresolved.h"

enum { ITERATIONS_MAX = 1000000, GROUPS_MAX = 10000, CLASSES_MAX = 1000 };

int kept_state_last(const char *folder, int before) {
    return file_last_number(folder, "run_it", "_optimiser.star", before < ITERATIONS_MAX ? before : ITERATIONS_MAX);
}

static enum status part_path(const char *folder, int iteration, const char *part, char *path, struct err *err) {
    char name[64];
    snprintf(name, sizeof name, "run_it%03d_%s", iteration, part);
    return path_join(folder, name, path, PATH_SIZE, err);
}

static enum status need_table(struct star_file *file, const char *path, const char *name, struct star_table **ret_table,
                              struct err *err) {
    *ret_table = star_table_find(file, name);
    FAIL_IF(*ret_table == NULL || star_row_count(*ret_table) == 0, err, STATUS_BAD_FORMAT, "%s lacks the table data_%s",
            path, name);
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

static enum status read_noise(struct kept_state *r, struct kept_side *side, struct star_file *file, const char *path,
                              struct err *err) {
    size_t shells = (size_t)r->shells;
    TRY(mem_new((size_t)r->groups * shells, sizeof *side->sigma2, "noise spectra", &side->sigma2, err));
    for (int o = 0; o < r->groups; o++) {
        char name[64];
        struct star_table *t;
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(need_table(file, path, name, &t, err));
        FAIL_IF(star_row_count(t) != shells, err, STATUS_BAD_FORMAT,
                "%s: table data_%s has %zu rows, %zu were expected", path, name, star_row_count(t), shells);
        for (size_t s = 0; s < shells; s++) {
            double sigma2;
            TRY(star_need_number(t, s, "rlnSigma2Noise", s > 0 ? 1e-30 : 0, (double)IMAGE_VALUE_MAX, &sigma2, err));
            side->sigma2[(size_t)o * shells + s] = (float)sigma2;
        }
    }
    return STATUS_OK;
}

/* Reads the shares of classes. The file gives the number of classes twice, so that one broken number is not mistaken
 * for another setting. */
static enum status read_classes(const struct kept_state *r, struct kept_side *side, struct star_file *file,
                                const char *path, const struct star_table *general, struct err *err) {
    struct star_table *t;
    int classes;
    TRY(need_table(file, path, "model_classes", &t, err));
    TRY(whole(general, "rlnNrClasses", 1, CLASSES_MAX, &classes, err));
    FAIL_IF(star_row_count(t) != (size_t)classes, err, STATUS_BAD_FORMAT,
            "%s: rlnNrClasses is %d, but table data_model_classes has %zu rows", path, classes, star_row_count(t));
    FAIL_IF(classes != r->classes, err, STATUS_BAD_STATE,
            "%s has %d classes, but `classes` is %d: set it to %d, or remove the files of its folder to begin anew",
            path, classes, r->classes, classes);
    TRY(mem_new((size_t)classes, sizeof *side->shares, "classes", &side->shares, err));
    for (int k = 0; k < classes; k++)
        TRY(star_need_number(t, (size_t)k, "rlnClassDistribution", 0, 1.001, &side->shares[k], err));
    return STATUS_OK;
}

/* Reads a model file. The first side decides on what both sides must have in common. */
static enum status read_model(struct kept_state *r, struct kept_side *side, struct star_file *file, const char *path,
                              struct err *err) {
    struct star_table *t;
    int box, groups = count_groups(file);
    double pixel_size;
    TRY(need_table(file, path, "model_general", &t, err));
    TRY(whole(t, "rlnOriginalImageSize", PARTICLE_BOX_LEAST, PARTICLE_BOX_MOST, &box, err));
    TRY(value(t, "rlnPixelSize", 1e-3, 1e4, &pixel_size, err));
    TRY(value(t, "rlnNormCorrectionAverage", 1e-6, 1e6, &side->average_norm, err));
    TRY(value(t, "rlnSigmaOffsetsAngst", 1e-6, 1e6, &side->sigma_offset, err));
    side->sigma_offset /= pixel_size;
    TRY(read_classes(r, side, file, path, t, err));
    FAIL_IF(groups == 0, err, STATUS_BAD_FORMAT, "%s lacks the table data_model_optics_group_1", path);
    FAIL_IF(box % 2 != 0, err, STATUS_BAD_FORMAT, "%s: rlnOriginalImageSize is %d; it must be even", path, box);
    FAIL_IF(r->box != 0 && (box != r->box || groups != r->groups || !optics_same_pixel_size(pixel_size, r->pixel_size)),
            err, STATUS_BAD_FORMAT,
            "%s: %d px of %g Å and %d optics groups, those of the other half are %d px of %g Å and %d", path, box,
            pixel_size, groups, r->box, r->pixel_size, r->groups);
    r->box = box;
    r->shells = box / 2 + 1;
    r->pixel_size = pixel_size;
    r->groups = groups;
    return read_noise(r, side, file, path, err);
}

static enum status read_map(const struct kept_state *r, struct image *map, const char *path, struct err *err) {
    TRY(mrc_read(path, map, err));
    FAIL_IF(map->nx != r->box || map->ny != r->box || map->nz != r->box ||
                !optics_same_pixel_size((double)map->pixel_size, r->pixel_size),
            err, STATUS_BAD_FORMAT, "%s: %d × %d × %d px of %g Å, a cube of %d px of %g Å was expected", path, map->nx,
            map->ny, map->nz, (double)map->pixel_size, r->box, r->pixel_size);
    FAIL_IF(!image_values_fit(map->data, image_count(map)), err, STATUS_BAD_FORMAT,
            "%s: has voxels that are NaN, infinite or far too large", path);
    return STATUS_OK;
}

static enum status read_side(struct kept_state *r, const char *folder, int iteration, int half, struct err *err) {
    char whose[16] = "", part[64], path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct kept_side *side = &r->sides[half];
    if (r->side_count == 2) snprintf(whose, sizeof whose, "half%d_", half + 1);
    snprintf(part, sizeof part, "%smodel.star", whose);
    TRY(part_path(folder, iteration, part, path, err));
    TRY(star_read(path, &file, err));
    TRY(read_model(r, side, file, path, err));
    TRY(mem_new((size_t)r->classes, sizeof *side->maps, "maps", &side->maps, err));
    for (int k = 0; k < r->classes; k++) {
        snprintf(part, sizeof part, "%sclass%03d.mrc", whose, k + 1);
        TRY(part_path(folder, iteration, part, path, err));
        TRY(read_map(r, &side->maps[k], path, err));
    }
    return STATUS_OK;
}

/* Checks that the files are of the same kind: a classification does not continue a refinement, nor the reverse. The
 * file gives the kind twice as well. */
static enum status check_kind(const struct kept_state *r, const struct star_table *t, const char *path,
                              struct err *err) {
    int refined, halves;
    TRY(whole(t, "rlnDoAutoRefine", 0, 1, &refined, err));
    TRY(whole(t, "rlnDoSplitRandomHalves", 0, 1, &halves, err));
    FAIL_IF(refined != halves, err, STATUS_BAD_FORMAT, "%s: rlnDoAutoRefine is %d, but rlnDoSplitRandomHalves %d", path,
            refined, halves);
    FAIL_IF((refined != 0) != (r->side_count == 2), err, STATUS_BAD_STATE,
            "%s belongs to a %s, but `classes` is %d: remove the files of its folder to begin anew", path,
            refined != 0 ? "refinement" : "classification", r->classes);
    return STATUS_OK;
}

static enum status read_sampling(struct kept_state *r, const char *folder, int iteration, struct err *err) {
    static const double STEPS_MAX = 300; /* the largest number of shift steps to each side */
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *t;
    struct schedule *s = &r->schedule;
    double px = r->pixel_size, extent = r->box * px;
    TRY(part_path(folder, iteration, "sampling.star", path, err));
    TRY(star_read(path, &file, err));
    TRY(need_table(file, path, "sampling_general", &t, err));
    TRY(whole(t, "rlnHealpixOrder", 0, SAMPLING_MAX_ORDER, &s->order, err));
    TRY(value(t, "rlnOffsetRange", 0, extent, &s->offset_range, err));
    TRY(value(t, "rlnOffsetStep", fmax(s->offset_range / STEPS_MAX, 1e-3 * px), extent, &s->offset_step, err));
    TRY(value(t, "rlnSamplingPerturbInstance", -1, 1, &s->perturbation, err));
    s->offset_range /= px;
    s->offset_step /= px;
    return STATUS_OK;
}

static enum status read_schedule(struct kept_state *r, const struct star_table *t, int iteration, struct err *err) {
    struct schedule *s = &r->schedule;
    double px = r->pixel_size;
    int large, sharp = 0, all = 0, normalised = 0, inverted = 0;
    TRY(whole(t, "rlnCurrentIteration", iteration, iteration, &s->iteration, err));
    TRY(whole(t, "rlnIncrementImageSize", 0, r->box, &s->increment, err));
    TRY(whole(t, "rlnHasHighFscAtResolLimit", 0, 1, &large, err));
    TRY(whole(t, "rlnNumberOfIterWithoutResolutionGain", 0, ITERATIONS_MAX, &s->since_resolution, err));
    TRY(whole(t, "rlnNumberOfIterWithoutChangingAssignments", 0, ITERATIONS_MAX, &s->since_changes, err));
    TRY(whole(t, "icestreamResolutionShell", 1, r->shells - 1, &s->resolution_shell, err));
    TRY(value(t, "rlnBestResolutionThusFar", 0, 1 / px, &s->best_resolution, err));
    TRY(value(t, "rlnSmallestChangesOrientations", 0, 1e9, &s->smallest_angle, err));
    TRY(value(t, "rlnSmallestChangesOffsets", 0, 1e9, &s->smallest_offset, err));
    TRY(value(t, "rlnAveragePmax", 0, 1.001, &s->average_pmax, err));
    TRY(value(t, "rlnCurrentResolution", 0, 1e9, &r->told, err));
    /* Files of older versions lack these. */
    r->resolution = r->told;
    if (star_column_find(t, "icestreamHalvesResolution") >= 0)
        TRY(value(t, "icestreamHalvesResolution", 0, 1e9, &r->resolution, err));
    const int unresolved = star_column_find(t, "icestreamUnresolved");
    r->unresolved = unresolved >= 0 ? unresolved_of_word(star_get(t, 0, unresolved)) : REFINER_RESOLVED;
    s->best_pmax = s->average_pmax;
    if (star_column_find(t, "icestreamBestPmax") >= 0) TRY(value(t, "icestreamBestPmax", 0, 1.001, &s->best_pmax, err));
    if (star_column_find(t, "icestreamPosesAreSharp") >= 0) TRY(whole(t, "icestreamPosesAreSharp", 0, 1, &sharp, err));
    if (star_column_find(t, "icestreamComparesAll") >= 0) TRY(whole(t, "icestreamComparesAll", 0, 1, &all, err));
    if (star_column_find(t, "icestreamTurns") >= 0) TRY(whole(t, "icestreamTurns", 0, ITERATIONS_MAX, &s->turns, err));
    if (star_column_find(t, "icestreamNormalised") >= 0) TRY(whole(t, "icestreamNormalised", 0, 1, &normalised, err));
    if (star_column_find(t, "icestreamInverted") >= 0) TRY(whole(t, "icestreamInverted", 0, 1, &inverted, err));
    r->normalised = normalised != 0;
    r->inverted = inverted != 0;
    s->sharp = sharp != 0;
    s->whole = all != 0;
    s->smallest_offset /= px;
    s->large_increment = large != 0;
    return STATUS_OK;
}

/* Files of older versions lack these. */
static enum status read_signal(const struct star_table *t, struct signal *ret_signal, struct err *err) {
    double images = 0, particles = 0, deviations = 0;
    if (star_column_find(t, "icestreamSignal") < 0) return STATUS_OK;
    TRY(value(t, "icestreamSignal", -1e6, 1e6, &deviations, err));
    TRY(value(t, "icestreamSignalImages", 0, 1e12, &images, err));
    TRY(value(t, "icestreamSignalParticles", 0, 1e12, &particles, err));
    *ret_signal = (struct signal){.particles = (size_t)particles, .images = (size_t)images, .deviations = deviations};
    return STATUS_OK;
}

static enum status read_progress(struct kept_state *r, const struct star_table *t, struct err *err) {
    double particles;
    TRY(whole(t, "icestreamWholeIterations", 0, ITERATIONS_MAX, &r->schedule.whole_iterations, err));
    TRY(value(t, "icestreamWholeParticles", 0, 1e12, &particles, err));
    r->schedule.whole_particles = (size_t)particles;
    return STATUS_OK;
}

static enum status read_all(struct kept_state *r, const char *folder, int iteration, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *optimiser = NULL;
    struct star_table *t;
    TRY(part_path(folder, iteration, "optimiser.star", path, err));
    TRY(star_read(path, &optimiser, err));
    TRY(need_table(optimiser, path, "optimiser_general", &t, err));
    TRY(check_kind(r, t, path, err));
    for (int side = 0; side < r->side_count; side++)
        TRY(read_side(r, folder, iteration, side, err));
    TRY(read_schedule(r, t, iteration, err));
    TRY(read_signal(t, &r->signal, err));
    TRY(read_sampling(r, folder, iteration, err));
    if (r->side_count == 1) TRY(read_progress(r, t, err));
    TRY(part_path(folder, iteration, "data.star", path, err));
    TRY(star_read(path, &r->data, err));
    return need_table(r->data, path, "particles", &t, err);
}

enum status kept_state_read(const char *folder, int iteration, int classes, struct kept_state *ret_state,
                            struct err *err) {
    struct kept_state r = {.classes = classes, .side_count = classes > 1 ? 1 : 2};
    enum status status = read_all(&r, folder, iteration, err);
    if (status != STATUS_OK) {
        kept_state_clear(&r);
        return status;
    }
    *ret_state = r;
    return STATUS_OK;
}

void kept_state_clear(struct kept_state *r) {
    for (int side = 0; side < 2; side++) {
        for (int k = 0; r->sides[side].maps != NULL && k < r->classes; k++)
            image_destroy(&r->sides[side].maps[k]);
        mem_free(&r->sides[side].maps);
        mem_free(&r->sides[side].shares);
        mem_free(&r->sides[side].sigma2);
    }
    star_destroy(&r->data);
}

enum { NAME, ROT, TILT, PSI, X, Y, NORM, SUBSET, CLASS, POSE_COLUMNS };

/* Gives a particle its pose. A row that no iteration can have written changes nothing: its particle is searched for
 * as a new one. */
static void take_pose(const double v[POSE_COLUMNS], const struct particle_set *set, int classes, struct particle *p) {
    double extent = set->box * set->pixel_size;
    bool plausible = fabs(v[X]) <= extent && fabs(v[Y]) <= extent && v[NORM] >= 0 && v[NORM] < 1e6 &&
                     (v[SUBSET] == 1 || v[SUBSET] == 2) && (classes == 1 || (v[CLASS] >= 1 && v[CLASS] <= classes));
    for (int i = ROT; i <= PSI; i++)
        plausible = plausible && fabs(v[i]) <= 1e4;
    if (!plausible) return;
    euler_to_matrix(v[ROT], v[TILT], v[PSI], p->pose);
    grids_shift_from_table(set, p, &v[X]);
    p->norm = v[NORM] > 1e-6 ? v[NORM] : 1;
    p->half = (int)v[SUBSET] - 1;
    p->class_index = classes > 1 ? (int)v[CLASS] - 1 : 0;
    p->aligned = p->mapped = true;
}

/* Gives back which images had equal pixels. moved: [particles], those whose names stand for other images now. */
static void take_twins(const struct star_file *data, const bool *moved, struct particle_set *set) {
    const struct star_table *t = star_table_find((struct star_file *)data, "twins");
    if (t == NULL) return;
    int name = star_column_find(t, "icestreamLeftOut"), first = star_column_find(t, "icestreamTwinOf"),
        digest = star_column_find(t, "icestreamDigest");
    for (size_t row = 0; row < star_row_count(t); row++) {
        struct particle *p = particle_find(set, star_get(t, row, name)),
                        *q = particle_find(set, star_get(t, row, first));
        if (p == NULL || q == NULL || moved[p - set->particles] || moved[q - set->particles]) continue;
        twins_restore(set, p, q, star_get(t, row, digest));
    }
}

/* Gives back which particles were marked as junk. The others may not have been compared. */
static void take_junk(const struct star_table *t, int name, const bool *moved, struct particle_set *set) {
    const int column = star_column_find(t, "icestreamJunk");
    double junk;
    for (size_t row = 0; column >= 0 && row < star_row_count(t); row++) {
        struct particle *p = particle_find(set, star_get(t, row, name));
        if (p != NULL && !moved[p - set->particles] && star_get_number(t, row, column, &junk, NULL) == STATUS_OK &&
            junk != 0)
            p->compared = p->junk = true;
    }
    set->marked = set->marked || column >= 0;
}

/* The columns of a table of poses. */
struct pose_columns {
    const struct star_table *rows;
    int columns[POSE_COLUMNS];
};

static bool find_columns(const struct star_table *t, struct pose_columns *c) {
    static const char *const NAMES[POSE_COLUMNS] = {"rlnImageName",      "rlnAngleRot",     "rlnAngleTilt",
                                                    "rlnAnglePsi",       "rlnOriginXAngst", "rlnOriginYAngst",
                                                    "rlnNormCorrection", "rlnRandomSubset", "rlnClassNumber"};
    c->rows = t;
    bool complete = t != NULL;
    for (int i = 0; i < POSE_COLUMNS && complete; i++)
        complete = (c->columns[i] = star_column_find(t, NAMES[i])) >= 0;
    return complete;
}

static void read_pose(const struct pose_columns *c, size_t row, const struct particle_set *set, int classes,
                      struct particle *p) {
    double v[POSE_COLUMNS] = {0};
    bool read = !p->aligned;
    for (int i = ROT; i < POSE_COLUMNS && read; i++)
        read = star_get_number(c->rows, row, c->columns[i], &v[i], NULL) == STATUS_OK;
    if (read) take_pose(v, set, classes, p);
}

/* Gives the poses of particles whose micrographs were picked again to those that lie in their places. Without memory
 * for this they count as new ones. */
static void read_heirs(const struct pose_columns *c, const struct star_table *optics, struct particle_set *set,
                       int classes) {
    _cleanup_(mem_free) int *heir_of = NULL;
    struct particle_places places;
    size_t count = star_row_count(c->rows);
    if (mem_new_unset(count + 1, sizeof *heir_of, "poses", &heir_of, NULL) != STATUS_OK ||
        heirs_of_rows(set, c->rows, optics, heir_of, NULL) != STATUS_OK)
        return;
    particle_places_open(c->rows, optics, &places);
    for (size_t row = 0; row < count; row++) {
        if (heir_of[row] < 0) continue;
        struct particle *p = &set->particles[heir_of[row]];
        read_pose(c, row, set, classes, p);
        const struct particle_place place = heirs_place(set, &places, row);
        if (p->aligned) heirs_settle(set, &place, p);
    }
}

/* Gives back the poses of particles that lie where they lay. Finds those that do not: moved[particles]. */
static void read_poses(const struct pose_columns *c, const struct star_table *optics, struct particle_set *set,
                       int classes, bool *moved) {
    struct particle_places places;
    particle_places_open(c->rows, optics, &places);
    for (size_t row = 0; row < star_row_count(c->rows); row++) {
        struct particle *p = particle_find(set, star_get(c->rows, row, c->columns[NAME]));
        if (p == NULL) continue;
        moved[p - set->particles] = heirs_moved(set, &places, row, p);
        if (!moved[p - set->particles]) read_pose(c, row, set, classes, p);
    }
}

void kept_state_poses(const struct star_file *data, struct particle_set *set, int classes) {
    struct star_file *file = (struct star_file *)data;
    struct pose_columns c;
    _cleanup_(mem_free) bool *moved = NULL;
    /* Without memory all particles count as new ones. */
    if (mem_new(set->count + 1, sizeof *moved, "poses", &moved, NULL) != STATUS_OK) return;
    if (find_columns(star_table_find(file, "particles"), &c)) {
        const struct star_table *optics = star_table_find(file, "optics");
        read_poses(&c, optics, set, classes, moved);
        read_heirs(&c, optics, set, classes);
        take_junk(c.rows, c.columns[NAME], moved, set);
    }
    take_twins(data, moved, set);
}
