#include "common/formats/optics_detector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/optics.h"
#include "common/memory.h"

static enum status copy_text(const char *text, char **ret_copy, struct err *err) {
    *ret_copy = strdup(text);
    FAIL_IF(*ret_copy == NULL, err, STATUS_NO_MEMORY, "no memory for a path");
    return STATUS_OK;
}

static enum status fill(struct optics_detector *d, const char *name, const char *path, struct err *err) {
    TRY(copy_text(name, &d->name, err));
    if (path == NULL || !(d->pixel_size > 0) || mtf_read(path, &d->mtf, NULL) != STATUS_OK) return STATUS_OK;
    return copy_text(path, &d->path, err);
}

enum status optics_detector_create(const char *name, const char *path, double pixel_size,
                                   struct optics_detector **ret_detector, struct err *err) {
    struct optics_detector *d = NULL;
    TRY(mem_new(1, sizeof *d, "a detector", &d, err));
    d->pixel_size = pixel_size;
    enum status status = fill(d, name, path, err);
    if (status != STATUS_OK) {
        optics_detector_destroy(&d);
        return status;
    }
    *ret_detector = d;
    return STATUS_OK;
}

void optics_detector_destroy(struct optics_detector **detector) {
    struct optics_detector *d = *detector;
    if (d == NULL) return;
    mtf_clear(&d->mtf);
    free(d->name);
    free(d->path);
    mem_free(detector);
}

bool optics_detector_is_known(const struct optics_detector *d) {
    return d != NULL && d->mtf.count > 0;
}

bool optics_detector_is(const struct optics_detector *d, const char *name, double pixel_size) {
    if (d == NULL || name == NULL) return d == NULL && name == NULL;
    return strcmp(d->name, name) == 0 &&
           (optics_same_pixel_size(d->pixel_size, pixel_size) || (isnan(d->pixel_size) && isnan(pixel_size)));
}

static double value(const struct optics_detector *d, double frequency) {
    return mtf_at(&d->mtf, frequency * d->pixel_size);
}

double optics_detector_factor(const void *detectors, double frequency) {
    const struct optics_detector *const *d = detectors;
    return value(d[0], frequency) / value(d[1], frequency);
}
