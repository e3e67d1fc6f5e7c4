/* Classifies in 3D: compares all particles with all of several references, without halves. It differs from
 * refinement in the seeds of the classes (and how they come apart: classes_held.c), in the prior (the power of the maps
 * that were compared with), and in a grid that stays as it is. */
#include "stages/refiner/classes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/classes_held.h"
#include "stages/refiner/mstep.h"

enum { CLASSES_MOST = 100 };

bool classes_are_listed(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".star") == 0;
}

static enum status keep_path(struct refiner *r, int index, const char *path, struct err *err) {
    r->map_paths[index] = strdup(path);
    FAIL_IF(r->map_paths[index] == NULL, err, STATUS_NO_MEMORY, "no memory for a path");
    return STATUS_OK;
}

/* Adds the path of a map: relative to the session, or to the folder of the list. A slice of a stack ("000002@stack")
 * is not accepted as a map. */
static enum status add_map(struct refiner *r, int index, const char *name, struct err *err) {
    char path[PATH_SIZE], folder[PATH_SIZE];
    TRY(path_join(r->context.root != NULL ? r->context.root : "", name, path, sizeof path, err));
    if (!file_exists(path)) {
        TRY(path_folder(r->reference_path, folder, sizeof folder, err));
        TRY(path_join(folder, name, path, sizeof path, err));
    }
    FAIL_IF(!file_exists(path), err, STATUS_NOT_FOUND, "%s lists the map %s, which is not there", r->reference_path,
            name);
    return keep_path(r, index, path, err);
}

static enum status find_column(const char *path, struct star_file *file, const struct star_table **ret_table,
                               int *ret_column, struct err *err) {
    const struct star_table *table = NULL;
    int column = -1;
    for (size_t t = 0; t < star_table_count(file) && column < 0; t++) {
        table = star_table_at(file, t);
        column = star_column_find(table, "rlnReferenceImage");
    }
    size_t rows = column >= 0 ? star_row_count(table) : 0;
    FAIL_IF(rows < 1 || rows > CLASSES_MOST, err, STATUS_BAD_FORMAT,
            "%s has %zu maps in a column rlnReferenceImage: 1 to %d were expected", path, rows, CLASSES_MOST);
    *ret_table = table;
    *ret_column = column;
    return STATUS_OK;
}

enum status classes_count_maps(const char *path, int *ret_count, struct err *err) {
    struct star_file *file = NULL;
    const struct star_table *table = NULL;
    int column = -1;
    TRY(star_read(path, &file, err));
    enum status status = find_column(path, file, &table, &column, err);
    if (status == STATUS_OK) *ret_count = (int)star_row_count(table);
    star_destroy(&file);
    return status;
}

static enum status add_maps(struct refiner *r, struct star_file *file, struct err *err) {
    const struct star_table *table = NULL;
    int column = -1;
    TRY(find_column(r->reference_path, file, &table, &column, err));
    size_t rows = star_row_count(table);
    r->map_count = (int)rows;
    TRY(mem_new(rows, sizeof *r->map_paths, "references", &r->map_paths, err));
    for (size_t row = 0; row < rows; row++)
        TRY(add_map(r, (int)row, star_get(table, row, column), err));
    return STATUS_OK;
}

enum status classes_find_maps(struct refiner *r, struct err *err) {
    int asked = r->options.classes > 1 ? r->options.classes : 1;
    r->reference_count = asked;
    if (!classes_are_listed(r->reference_path)) {
        r->map_count = 1;
        TRY(mem_new(1, sizeof *r->map_paths, "references", &r->map_paths, err));
        return keep_path(r, 0, r->reference_path, err);
    }
    struct star_file *file = NULL;
    TRY(star_read(r->reference_path, &file, err));
    enum status status = add_maps(r, file, err);
    star_destroy(&file);
    TRY(status);
    FAIL_IF(asked > 1 && r->map_count > 1 && asked != r->map_count, err, STATUS_BAD_ARGUMENT,
            "%d classes were asked for, but %s lists %d maps: set `classes` to %d, or leave it out", asked,
            r->reference_path, r->map_count, r->map_count);
    if (r->map_count > 1) r->reference_count = r->map_count;
    return STATUS_OK;
}

enum status classes_seed(struct refiner *r, struct err *err) {
    struct side *side = &r->sides[0];
    size_t count = (size_t)side->member_count, placed = 0;
    _cleanup_(mem_free) int *members = NULL;
    TRY(mem_new(count, sizeof *members, "particles", &members, err));
    memcpy(members, side->members, count * sizeof *members);
    for (int k = 0; k < r->reference_count; k++) {
        for (size_t i = 0; i < count; i++) {
            const char *name = r->set.particles[members[i]].name;
            if (particle_hash(name, (unsigned)r->options.seed + 2) % (uint64_t)r->reference_count == (uint64_t)k)
                side->members[placed++] = members[i];
        }
        side->references[k].seed_end = (int)placed;
    }
    r->at.seed_class = 0;
    r->chosen = false; /* the order of the members serves this iteration only */
    return STATUS_OK;
}

/* Makes the map of a class. If the class has lost all its particles there are no sums: its map is empty, as in
 * RELION. */
static enum status reconstruct(struct refiner *r, struct reference *c, struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    if (!(c->weight_sum > 0)) {
        memset(c->map, 0, voxels * sizeof *c->map);
        memset(c->ssnr, 0, (size_t)r->shells * sizeof *c->ssnr);
        return STATUS_OK;
    }
    const struct reconstruct_options options = {
        .tau2 = c->tau2,
        /* The factor is RELION's, for sums weighed by the noise of masked images. */
        .tau_fudge = r->options.tau_fudge / r->mask_share,
        .minres_shell = LEAST_SHELL,
        .threads = r->context.threads};
    TRY(accumulator_finish(c->accumulator, &r->symmetry, r->context.threads, err));
    TRY(accumulator_sigma2(c->accumulator, c->sigma2_reconstruction, err));
    TRY(reconstruct_map(c->accumulator, &options, c->map, c->ssnr, c->completeness, err));
    mstep_flatten(r, r->mask, c->map);
    return STATUS_OK;
}

enum status classes_mstep(struct refiner *r, struct err *err) {
    struct side *side = &r->sides[0];
    double sum = 0;
    for (int k = 0; k < r->reference_count; k++)
        sum += side->references[k].weight_sum;
    for (int k = 0; k < r->reference_count; k++) {
        struct reference *c = &side->references[k];
        c->share = c->weight_sum / sum;
        TRY(reconstruct(r, c, err));
        int shell = schedule_signal_shell(c->ssnr, r->schedule.current_size / 2);
        c->resolution = r->box * r->pixel_size / (shell > 1 ? shell : 1);
    }
    TRY(classes_hold(r, err));
    mstep_parameters(r, side);
    r->at.seed_class = -1;
    timing_spent(&r->timing, REFINER_MAPS);
    return STATUS_OK;
}
