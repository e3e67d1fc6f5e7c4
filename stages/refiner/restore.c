/* Going on from the files of the last whole iteration. */
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/restored.h"

static enum status take_half(struct refiner *r, struct half *h, struct restored_half *from, struct err *err) {
    size_t groups = (size_t)r->sigma2_optics;
    TRY(mem_new(groups * (size_t)r->shells, sizeof *h->sigma2_sum, "noise spectra", &h->sigma2_sum, err));
    TRY(mem_new(groups, sizeof *h->optics_weight, "noise spectra", &h->optics_weight, err));
    for (int k = 0; k < r->reference_count; k++) {
        struct reference *c = &h->references[k];
        memcpy(c->map, from->maps[k].data, image_count(&from->maps[k]) * sizeof *c->map);
        if (classifies(r)) c->share = from->shares[k];
    }
    h->average_norm = from->average_norm;
    h->sigma_offset = from->sigma_offset;
    h->sigma2 = from->sigma2;
    from->sigma2 = NULL;
    return STATUS_OK;
}

static void take_schedule(struct refiner *r, const struct schedule *from) {
    struct schedule *s = &r->schedule;
    schedule_start(r);
    s->iteration = from->iteration;
    s->order = from->order;
    s->offset_range = from->offset_range;
    s->offset_step = from->offset_step;
    s->increment = from->increment;
    s->large_increment = from->large_increment;
    s->since_resolution = from->since_resolution;
    s->since_changes = from->since_changes;
    s->resolution_shell = from->resolution_shell;
    s->perturbation = from->perturbation;
    s->best_resolution = from->best_resolution;
    s->smallest_angle = from->smallest_angle;
    s->smallest_offset = from->smallest_offset;
    s->average_pmax = from->average_pmax;
    s->best_pmax = from->best_pmax;
    s->sharp = from->sharp;
}

static enum status take_all(struct refiner *r, struct restored *from, struct err *err) {
    r->set.box = from->box;
    r->set.pixel_size = from->pixel_size;
    TRY(setup_allocate(r, err));
    r->sigma2_optics = from->groups;
    for (int h = 0; h < r->half_count; h++)
        TRY(take_half(r, &r->half[h], &from->half[h], err));
    take_schedule(r, &from->schedule);
    r->resolution = from->resolution;
    r->shared_shell = bands_shared(r);
    r->whole_iterations = from->whole_iterations;
    r->whole_particles = from->whole_particles;
    r->restored = from->data;
    from->data = NULL;
    r->started = true;
    return STATUS_OK;
}

enum status refiner_restore(struct refiner *r, const char *folder, int iteration, struct err *err) {
    struct restored restored = {0};
    FAIL_IF(r->box != 0 || r->set.count > 0, err, STATUS_BAD_STATE,
            "a refinement that has begun cannot go on from another one's files");
    TRY(restored_read(folder, iteration, r->reference_count, &restored, err));
    enum status status = take_all(r, &restored, err);
    restored_clear(&restored);
    return status;
}

int refiner_last(const char *folder, int before) {
    return restored_last(folder, before);
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
    bool same = column >= 0 && star_row_count(t) == r->set.present;
    for (size_t row = 0; same && row < star_row_count(t); row++) {
        struct particle *p = particle_find(&r->set, star_get(t, row, column));
        same = p != NULL && p->source >= 0;
    }
    star_destroy(&file);
    return same;
}
