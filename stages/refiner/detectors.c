#include "stages/refiner/detectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/optics.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "stages/refiner/refiner_private.h"

static enum status copy_text(const char *text, char **ret_copy, struct err *err) {
    *ret_copy = strdup(text);
    FAIL_IF(*ret_copy == NULL, err, STATUS_NO_MEMORY, "no memory for a path");
    return STATUS_OK;
}

static enum status fill(struct particle_detector *d, const char *root, const char *star_path, struct err *err) {
    char path[PATH_SIZE];
    const char *at = d->name;
    if (particle_stack_find(root, star_path, d->name, path)) at = path;
    if (!(d->pixel_size > 0) || mtf_read(at, &d->mtf, NULL) != STATUS_OK) return STATUS_OK;
    return copy_text(at, &d->path, err);
}

enum status detectors_find(const char *root, const char *star_path, const char *name, double pixel_size,
                           struct particle_detector **ret_detector, struct err *err) {
    struct particle_detector *d = NULL;
    TRY(mem_new(1, sizeof *d, "a detector", &d, err));
    d->pixel_size = pixel_size;
    enum status status = copy_text(name, &d->name, err);
    if (status == STATUS_OK) status = fill(d, root, star_path, err);
    if (status != STATUS_OK) {
        detectors_free(&d);
        return status;
    }
    *ret_detector = d;
    return STATUS_OK;
}

void detectors_free(struct particle_detector **detector) {
    struct particle_detector *d = *detector;
    if (d == NULL) return;
    mtf_clear(&d->mtf);
    free(d->name);
    free(d->path);
    mem_free(detector);
}

bool detectors_same(const struct particle_detector *d, const char *name, double pixel_size) {
    if (d == NULL || name == NULL) return d == NULL && name == NULL;
    return strcmp(d->name, name) == 0 &&
           (optics_same_pixel_size(d->pixel_size, pixel_size) || (isnan(d->pixel_size) && isnan(pixel_size)));
}

const struct particle_detector *detectors_first(const struct particle_set *set) {
    for (int i = 0; i < set->optics_count; i++)
        if (set->optics[i].detector != NULL && set->optics[i].detector->mtf.count > 0) return set->optics[i].detector;
    return NULL;
}

const char *detectors_missing(const struct particle_set *set) {
    for (int i = 0; i < set->optics_count; i++)
        if (set->optics[i].detector != NULL && set->optics[i].detector->mtf.count == 0)
            return set->optics[i].detector->name;
    return NULL;
}

const char *refiner_mtf(const struct refiner *r, double *ret_detector) {
    const struct particle_detector *d = detectors_first(&r->set);
    if (d == NULL) return NULL;
    *ret_detector = d->pixel_size;
    return d->path;
}

static double value(const struct particle_detector *d, double frequency) {
    return mtf_at(&d->mtf, frequency * d->pixel_size);
}

double detectors_factor(const void *detectors, double frequency) {
    const struct particle_detector *const *d = detectors;
    return value(d[0], frequency) / value(d[1], frequency);
}
