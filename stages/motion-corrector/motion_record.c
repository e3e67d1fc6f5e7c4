#include "stages/motion-corrector/motion_record.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"

static json_t *rounded(double value) {
    return isfinite(value) ? json_real(round(value * 1e4) / 1e4) : json_null();
}

/* Functions that fill JSON return 0, or another number without memory. */
static int put_floats(json_t *object, const char *name, const float *values, int count) {
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |= json_array_append_new(array, rounded((double)values[i]));
    return failed | json_object_set_new(object, name, array);
}

/* Puts where the specimen is, Å: opposite to the shifts that correct its motion. */
static int put_track(json_t *object, const char *name, const float *shifts, int count, double pixel_size) {
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |= json_array_append_new(array, rounded(0 - (double)shifts[i] * pixel_size));
    return failed | json_object_set_new(object, name, array);
}

static int put_model(json_t *object, const struct motion_model *model) {
    if (!model->local) return json_object_set_new(object, "local", json_null());
    json_t *axes = json_array();
    int failed = 0;
    for (int axis = 0; axis < 2; axis++) {
        json_t *array = json_array();
        for (int i = 0; i < MOTION_COEFFICIENTS; i++)
            failed |= json_array_append_new(array, json_real(model->coefficients[axis][i]));
        failed |= json_array_append_new(axes, array);
    }
    return failed | json_object_set_new(object, "local", axes);
}

static int put_patches(json_t *object, const struct motion_report *report) {
    json_t *patches = json_array();
    int failed = 0;
    for (int i = 0; i < report->patches; i++) {
        const struct motion_patch *from = &report->patch[i];
        json_t *patch = json_object();
        failed |= json_object_set_new(patch, "x", rounded(from->x));
        failed |= json_object_set_new(patch, "y", rounded(from->y));
        failed |= json_object_set_new(patch, "used", json_boolean(from->used));
        failed |= put_floats(patch, "shift_x", from->shift_x, report->groups);
        failed |= put_floats(patch, "shift_y", from->shift_y, report->groups);
        failed |= json_array_append_new(patches, patch);
    }
    return failed | json_object_set_new(object, "patches", patches);
}

static int fill(const struct corrected *c, const struct exposure *e, size_t bad_pixels, json_t *object) {
    int failed = 0;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"pixel_size", e->pixel_size},     {"dose_per_frame", e->dose_per_frame},
                   {"pre_exposure", e->pre_exposure}, {"total", c->lengths.total},
                   {"early", c->lengths.early},       {"late", c->lengths.late},
                   {"rmsd", c->report.rmsd},          {"gain_residual", c->gain_residual}};
    failed |= json_object_set_new(object, "v", json_integer(1));
    failed |= json_object_set_new(object, "frames", json_integer(c->model.frames));
    failed |= json_object_set_new(object, "first_frame", json_integer(e->first_frame));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        failed |= json_object_set_new(object, numbers[i].name, rounded(numbers[i].value));
    failed |= json_object_set_new(object, "converged", json_boolean(c->report.converged));
    failed |= json_object_set_new(object, "bad_pixels", json_integer((json_int_t)bad_pixels));
    failed |= put_track(object, "x", c->model.x, c->model.frames, e->pixel_size);
    failed |= put_track(object, "y", c->model.y, c->model.frames, e->pixel_size);
    failed |= put_floats(object, "shift_x", c->model.x, c->model.frames);
    failed |= put_floats(object, "shift_y", c->model.y, c->model.frames);
    failed |= put_model(object, &c->model);
    return failed | put_patches(object, &c->report);
}

enum status motion_record_write(const struct corrected *corrected, const struct exposure *exposure, size_t bad_pixels,
                                const char *path, struct err *err) {
    json_t *object = json_object();
    char *text = object != NULL && fill(corrected, exposure, bad_pixels, object) == 0
                     ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10))
                     : NULL;
    json_decref(object);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory for the motion of a movie", path);
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}
