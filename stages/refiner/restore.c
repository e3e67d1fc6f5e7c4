/* Going on from the files of the last whole iteration. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/mrc.h"
#include "stages/refiner/refiner_private.h"

static int last_iteration(const char *folder) {
    DIR *d = opendir(folder);
    int last = 0;
    if (d == NULL) return 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int iteration, end = 0;
        if (sscanf(e->d_name, "run_it%d_optimiser.star%n", &iteration, &end) == 1 && end > 0 && e->d_name[end] == 0 &&
            iteration > last)
            last = iteration;
    }
    closedir(d);
    return last;
}

static enum status open_part(const char *folder, int iteration, const char *part, struct star_file **ret_file,
                             struct err *err) {
    char name[64], path[PATH_SIZE];
    snprintf(name, sizeof name, "run_it%03d_%s", iteration, part);
    TRY(path_join(folder, name, path, sizeof path, err));
    return star_read(path, ret_file, err);
}

static enum status value(const struct star_table *t, const char *column, double *ret, struct err *err) {
    int index;
    TRY(star_column_need(t, column, &index, err));
    return star_get_number(t, 0, index, ret, err);
}

static enum status need_table(struct star_file *file, const char *name, struct star_table **ret_table,
                              struct err *err) {
    *ret_table = star_table_find(file, name);
    FAIL_IF(*ret_table == NULL || star_row_count(*ret_table) == 0, err, STATUS_BAD_FORMAT,
            "the files of the last iteration lack the table %s: remove them to begin anew", name);
    return STATUS_OK;
}

static enum status restore_schedule(struct refiner *r, struct star_file *file, struct star_file *sampling,
                                    struct err *err) {
    struct star_table *t, *grid;
    struct schedule *s = &r->schedule;
    double iteration, order, range, step, increment, large, resolution_gain, changes, shell;
    TRY(need_table(file, "optimiser_general", &t, err));
    TRY(need_table(sampling, "sampling_general", &grid, err));
    schedule_start(r);
    TRY(value(t, "rlnCurrentIteration", &iteration, err));
    TRY(value(grid, "rlnHealpixOrder", &order, err));
    TRY(value(grid, "rlnOffsetRange", &range, err));
    TRY(value(grid, "rlnOffsetStep", &step, err));
    TRY(value(t, "rlnIncrementImageSize", &increment, err));
    TRY(value(t, "rlnHasHighFscAtResolLimit", &large, err));
    TRY(value(t, "rlnNumberOfIterWithoutResolutionGain", &resolution_gain, err));
    TRY(value(t, "rlnNumberOfIterWithoutChangingAssignments", &changes, err));
    TRY(value(t, "icestreamResolutionShell", &shell, err));
    TRY(value(grid, "rlnSamplingPerturbInstance", &s->perturbation, err));
    TRY(value(t, "rlnBestResolutionThusFar", &s->best_resolution, err));
    TRY(value(t, "rlnSmallestChangesOrientations", &s->smallest_angle, err));
    TRY(value(t, "rlnSmallestChangesOffsets", &s->smallest_offset, err));
    TRY(value(t, "rlnAveragePmax", &s->average_pmax, err));
    TRY(value(t, "rlnCurrentResolution", &r->resolution, err));
    FAIL_IF(iteration < 1 || order < 0 || order > SAMPLING_MAX_ORDER || !(step > 0) || !(range >= 0) || shell < 1 ||
                shell >= r->shells || fabs(s->perturbation) > 1,
            err, STATUS_BAD_FORMAT, "the optimiser file of the last iteration holds nonsense: remove it to begin anew");
    s->iteration = (int)iteration;
    s->order = (int)order;
    s->smallest_offset /= r->pixel_size;
    s->offset_range = range / r->pixel_size;
    s->offset_step = step / r->pixel_size;
    s->increment = (int)increment;
    s->large_increment = large != 0;
    s->since_resolution = (int)resolution_gain;
    s->since_changes = (int)changes;
    s->resolution_shell = (int)shell;
    return STATUS_OK;
}

static enum status restore_map(struct refiner *r, const char *folder, int iteration, int half, int k,
                               struct err *err) {
    char name[64], path[PATH_SIZE];
    struct image image = {0};
    if (classifies(r))
        snprintf(name, sizeof name, "run_it%03d_class%03d.mrc", iteration, k + 1);
    else
        snprintf(name, sizeof name, "run_it%03d_half%d_class001.mrc", iteration, half + 1);
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(mrc_read(path, &image, err));
    if (r->box == 0) {
        r->set.box = image.nx;
        r->set.pixel_size = image.pixel_size;
        enum status status = setup_allocate(r, err);
        if (status != STATUS_OK) {
            image_destroy(&image);
            return status;
        }
    }
    bool fits = image.nx == r->box && image.ny == r->box && image.nz == r->box;
    if (fits) memcpy(r->half[half].references[k].map, image.data, image_count(&image) * sizeof(float));
    image_destroy(&image);
    FAIL_IF(!fits, err, STATUS_BAD_FORMAT, "%s is no cube of %d px: remove the files of that iteration to begin anew",
            path, r->box);
    return STATUS_OK;
}

static enum status restore_noise(struct refiner *r, struct half *h, struct star_file *file, int groups,
                                 struct err *err) {
    struct star_table *t;
    TRY(need_table(file, "model_general", &t, err));
    TRY(value(t, "rlnNormCorrectionAverage", &h->average_norm, err));
    TRY(value(t, "rlnSigmaOffsetsAngst", &h->sigma_offset, err));
    h->sigma_offset /= r->pixel_size;
    size_t shells = (size_t)r->shells;
    mem_free(&h->sigma2);
    mem_free(&h->sigma2_sum);
    mem_free(&h->optics_weight);
    TRY(mem_new((size_t)groups * shells, sizeof *h->sigma2, "noise spectra", &h->sigma2, err));
    TRY(mem_new((size_t)groups * shells, sizeof *h->sigma2_sum, "noise spectra", &h->sigma2_sum, err));
    TRY(mem_new((size_t)groups, sizeof *h->optics_weight, "noise spectra", &h->optics_weight, err));
    for (int o = 0; o < groups; o++) {
        char name[64];
        int column;
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(need_table(file, name, &t, err));
        TRY(star_column_need(t, "rlnSigma2Noise", &column, err));
        FAIL_IF(star_row_count(t) != shells, err, STATUS_BAD_FORMAT, "table %s has %zu rows, %zu were expected", name,
                star_row_count(t), shells);
        for (size_t s = 0; s < shells; s++) {
            double sigma2;
            TRY(star_get_number(t, s, column, &sigma2, err));
            FAIL_IF(s > 0 && !(sigma2 > 0), err, STATUS_BAD_FORMAT, "table %s: noise of %g in shell %zu", name, sigma2,
                    s);
            h->sigma2[(size_t)o * shells + s] = (float)sigma2;
        }
    }
    return STATUS_OK;
}

static int count_groups(struct star_file *file) {
    int groups = 0;
    char name[64];
    do
        snprintf(name, sizeof name, "model_optics_group_%d", groups + 1);
    while (star_table_find(file, name) != NULL && ++groups < 10000);
    return groups;
}

/* What part each class has. */
static enum status restore_shares(struct refiner *r, struct star_file *file, struct err *err) {
    struct star_table *t;
    int column;
    TRY(need_table(file, "model_classes", &t, err));
    TRY(star_column_need(t, "rlnClassDistribution", &column, err));
    for (int k = 0; k < r->reference_count; k++)
        TRY(star_get_number(t, (size_t)k, column, &r->half[0].references[k].share, err));
    return STATUS_OK;
}

static enum status check_classes(const struct refiner *r, struct star_file *file, const char *folder,
                                 struct err *err) {
    struct star_table *t;
    TRY(need_table(file, "model_classes", &t, err));
    FAIL_IF(star_row_count(t) != (size_t)r->reference_count, err, STATUS_BAD_STATE,
            "the last iteration in %s has %zu classes, %d are asked for: set `classes` to %zu, or remove its files",
            folder, star_row_count(t), r->reference_count, star_row_count(t));
    return STATUS_OK;
}

static enum status restore_half(struct refiner *r, const char *folder, int iteration, int half, struct err *err) {
    char part[32] = "model.star";
    struct star_file *file = NULL;
    if (!classifies(r)) snprintf(part, sizeof part, "half%d_model.star", half + 1);
    TRY(open_part(folder, iteration, part, &file, err));
    int groups = count_groups(file);
    enum status status = check_classes(r, file, folder, err);
    for (int k = 0; status == STATUS_OK && k < r->reference_count; k++)
        status = restore_map(r, folder, iteration, half, k, err);
    if (status == STATUS_OK) status = restore_noise(r, &r->half[half], file, groups, err);
    if (status == STATUS_OK && classifies(r)) status = restore_shares(r, file, err);
    star_destroy(&file);
    r->sigma2_optics = groups;
    return status;
}

/* What the files are of: a classification does not go on from a refinement, nor with another number of classes. */
static enum status check_kind(const struct refiner *r, struct star_file *file, const char *folder, struct err *err) {
    struct star_table *t;
    TRY(need_table(file, "optimiser_general", &t, err));
    double refined;
    TRY(value(t, "rlnDoAutoRefine", &refined, err));
    FAIL_IF((refined != 0) == classifies(r), err, STATUS_BAD_STATE,
            "%s holds the iterations of a %s, but `classes` is %d: remove its files to begin anew", folder,
            refined != 0 ? "refinement" : "classification", r->reference_count);
    return STATUS_OK;
}

static enum status restore_all(struct refiner *r, const char *folder, int iteration, struct star_file *optimiser,
                               struct star_file *sampling, struct err *err) {
    struct star_table *t;
    double whole, particles;
    TRY(check_kind(r, optimiser, folder, err));
    for (int h = 0; h < r->half_count; h++)
        TRY(restore_half(r, folder, iteration, h, err));
    TRY(restore_schedule(r, optimiser, sampling, err));
    if (!classifies(r)) return STATUS_OK;
    TRY(need_table(optimiser, "optimiser_general", &t, err));
    TRY(value(t, "icestreamWholeIterations", &whole, err));
    TRY(value(t, "icestreamWholeParticles", &particles, err));
    r->whole_iterations = (int)fmax(whole, 0);
    r->whole_particles = (size_t)fmax(particles, 0);
    return STATUS_OK;
}

enum status refiner_restore(struct refiner *r, const char *folder, bool *ret_found, struct err *err) {
    int iteration = last_iteration(folder);
    *ret_found = false;
    if (iteration == 0) return STATUS_OK;
    _cleanup_(star_destroy) struct star_file *file = NULL, *sampling = NULL;
    TRY(open_part(folder, iteration, "optimiser.star", &file, err));
    TRY(open_part(folder, iteration, "sampling.star", &sampling, err));
    TRY(restore_all(r, folder, iteration, file, sampling, err));
    TRY(open_part(folder, iteration, "data.star", &r->restored, err));
    r->started = true;
    *ret_found = true;
    return STATUS_OK;
}

bool refiner_is_final(const struct refiner *r, const char *folder) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    if (path_join(folder, "run_data.star", path, sizeof path, NULL) != STATUS_OK || !file_exists(path) ||
        path_join(folder, classifies(r) ? "run_optimiser.star" : "postprocess.star", path, sizeof path, NULL) !=
            STATUS_OK ||
        !file_exists(path) ||
        path_join(folder, "run_data.star", path, sizeof path, NULL) != STATUS_OK ||
        star_read(path, &file, NULL) != STATUS_OK)
        return false;
    const struct star_table *t = star_table_find(file, "particles");
    int column = t != NULL ? star_column_find(t, "rlnImageName") : -1;
    bool same = column >= 0 && star_row_count(t) == r->set.present;
    for (size_t row = 0; same && row < star_row_count(t); row++) {
        struct particle *p = particle_find(&r->set, star_get(t, row, column));
        same = p != NULL && p->source >= 0;
    }
    star_destroy(&file);
    return same;
}
