#include "stages/refiner/detectors.h"

#include "common/formats/particle_table.h"
#include "stages/refiner/refiner_private.h"

enum status detectors_find(const char *root, const char *star_path, const char *name, double pixel_size,
                           struct optics_detector **ret_detector, struct err *err) {
    char path[PATH_SIZE];
    bool found = particle_stack_find(root, star_path, name, path);
    return optics_detector_create(name, found ? path : name, pixel_size, ret_detector, err);
}

const struct optics_detector *detectors_first(const struct particle_set *set) {
    for (int i = 0; i < set->optics_count; i++)
        if (optics_detector_is_known(set->optics[i].detector)) return set->optics[i].detector;
    return NULL;
}

const char *detectors_missing(const struct particle_set *set) {
    for (int i = 0; i < set->optics_count; i++)
        if (set->optics[i].detector != NULL && !optics_detector_is_known(set->optics[i].detector))
            return set->optics[i].detector->name;
    return NULL;
}

const char *refiner_mtf(const struct refiner *r, double *ret_detector) {
    const struct optics_detector *d = detectors_first(&r->set);
    if (d == NULL) return NULL;
    *ret_detector = d->pixel_size;
    return d->path;
}
