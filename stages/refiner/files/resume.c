/* Continues a refinement from the files of its last complete iteration. */
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/files/kept_state.h"
#include "stages/refiner/setup.h"

static enum status take_side(struct refiner *r, struct side *side, struct kept_side *from, struct err *err) {
    size_t groups = (size_t)r->sigma2_optics;
    TRY(mem_new(groups * (size_t)r->shells, sizeof *side->whole_noise, "noise spectra", &side->whole_noise, err));
    TRY(mem_new(groups * (size_t)r->shells, sizeof *side->sigma2_sum, "noise spectra", &side->sigma2_sum, err));
    TRY(mem_new(groups, sizeof *side->optics_weight, "noise spectra", &side->optics_weight, err));
    TRY(mem_new(groups, sizeof *side->noise_shares, "noise spectra", &side->noise_shares, err));
    for (int k = 0; k < r->reference_count; k++) {
        struct reference *c = &side->references[k];
        memcpy(c->map, from->maps[k].data, image_count(&from->maps[k]) * sizeof *c->map);
        if (classifies(r)) c->share = from->shares[k];
    }
    side->average_norm = from->average_norm;
    side->sigma_offset = from->sigma_offset;
    side->sigma2 = from->sigma2;
    from->sigma2 = NULL;
    return STATUS_OK;
}

static enum status take_all(struct refiner *r, struct kept_state *from, struct err *err) {
    r->set.box = from->box;
    r->set.pixel_size = from->pixel_size;
    r->set.unsettled = true;
    r->set.inverted = from->inverted; /* the mask is read in the same hand */
    TRY(setup_allocate(r, err));
    r->sigma2_optics = from->groups;
    for (int side = 0; side < r->side_count; side++)
        TRY(take_side(r, &r->sides[side], &from->sides[side], err));
    schedule_resume(&r->schedule, &from->schedule);
    r->resolution = from->resolution;
    r->told = from->told;
    r->unresolved = from->unresolved;
    r->signal = from->signal;
    r->normalised = from->normalised;
    r->shared_shell = schedule_shared_shell(&r->schedule.options, r->resolution);
    r->kept_poses = from->data;
    from->data = NULL;
    r->started = true;
    return STATUS_OK;
}

enum status refiner_resume(struct refiner *r, const char *folder, int iteration, struct err *err) {
    struct kept_state kept = {0};
    FAIL_IF(r->box != 0 || r->set.count > 0, err, STATUS_BAD_STATE,
            "a refinement that has begun cannot continue from the files of another one");
    TRY(kept_state_read(folder, iteration, r->reference_count, &kept, err));
    enum status status = take_all(r, &kept, err);
    kept_state_clear(&kept);
    return status;
}

int refiner_last(const char *folder, int before) {
    return kept_state_last(folder, before);
}

static bool all_are_present(const struct refiner *r, const struct star_table *t, int column) {
    for (size_t row = 0; row < star_row_count(t); row++) {
        const struct particle *p = particle_find(&r->set, star_get(t, row, column));
        if (p == NULL || p->source < 0) return false;
    }
    return true;
}

/* Returns whether final maps have the other hand than the reference. Files of older versions do not say so. */
static bool is_inverted(const char *folder) {
    char path[PATH_SIZE];
    double inverted = 0;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    if (path_join(folder, "run_optimiser.star", path, sizeof path, NULL) != STATUS_OK || !file_exists(path) ||
        star_read(path, &file, NULL) != STATUS_OK)
        return false;
    const struct star_table *t = star_table_find(file, "optimiser_general");
    int column = t != NULL && star_row_count(t) > 0 ? star_column_find(t, "icestreamInverted") : -1;
    return column >= 0 && star_get_number(t, 0, column, &inverted, NULL) == STATUS_OK && inverted != 0;
}

bool refiner_is_final(const struct refiner *r, const char *folder) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    if (path_join(folder, "run_data.star", path, sizeof path, NULL) != STATUS_OK || !file_exists(path) ||
        path_join(folder, classifies(r) ? "run_optimiser.star" : "postprocess.star", path, sizeof path, NULL) !=
            STATUS_OK ||
        !file_exists(path) || path_join(folder, "run_data.star", path, sizeof path, NULL) != STATUS_OK ||
        star_read(path, &file, NULL) != STATUS_OK)
        return false;
    const struct star_table *t = star_table_find(file, "particles");
    int column = t != NULL ? star_column_find(t, "rlnImageName") : -1;
    /* A table of its own names the particles that are left out as twins. */
    const struct star_table *twins = star_table_find(file, "twins");
    size_t left_out = twins != NULL ? star_row_count(twins) : 0;
    bool same = column >= 0 && star_row_count(t) + left_out == r->set.present && all_are_present(r, t, column) &&
                (left_out == 0 || all_are_present(r, twins, star_column_find(twins, "icestreamLeftOut")));
    star_destroy(&file);
    return same && is_inverted(folder) == r->inverted_wanted;
}
