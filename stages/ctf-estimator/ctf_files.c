#include "stages/ctf-estimator/ctf_files.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

enum { CURVES = 4 };

/* Lists the curves of a profile. */
static void curves_of(const struct ctf_fit_profile *profile, float *curves[CURVES]) {
    float *const all[CURVES] = {profile->background, profile->spectrum, profile->fit, profile->agreement};
    memcpy(curves, all, sizeof all);
}

void ctf_record_clear(struct ctf_record *record) {
    float *curves[CURVES];
    curves_of(&record->profile, curves);
    for (int i = 0; i < CURVES; i++)
        free(curves[i]);
    free(record->spectrum);
    free(record->pixels);
    free(record->grid);
    free(record->grid_x);
    free(record->grid_y);
    *record = (struct ctf_record){0};
}

static enum status make_room(struct ctf_record *record, int count, struct err *err) {
    struct ctf_fit_profile *p = &record->profile;
    float **const curves[CURVES] = {&p->background, &p->spectrum, &p->fit, &p->agreement};
    if (count <= record->room) return STATUS_OK;
    record->room = 0;
    for (int i = 0; i < CURVES; i++) {
        mem_free(curves[i]);
        TRY(mem_new((size_t)count, sizeof(float), "the profile of a spectrum", curves[i], err));
    }
    record->room = count;
    return STATUS_OK;
}

static enum status take_spectrum(struct ctf_record *record, const struct ctf_fit *fit, int box, struct err *err) {
    size_t count = (size_t)box * (size_t)(box / 2 + 1);
    if (box != record->box) {
        mem_free(&record->spectrum);
        record->box = 0;
        TRY(mem_new(count, sizeof(float), "the picture of a spectrum", &record->spectrum, err));
        record->box = box;
    }
    memcpy(record->spectrum, ctf_fit_spectrum(fit), count * sizeof(float));
    return STATUS_OK;
}

enum status ctf_record_take(struct ctf_record *record, const struct ctf_fit *fit, const struct ctf_fit_result *result,
                            int box, bool picture, struct err *err) {
    const struct ctf_fit_profile *from = ctf_fit_profile(fit);
    float *to_curves[CURVES], *from_curves[CURVES];
    TRY(make_room(record, from->count, err));
    curves_of(&record->profile, to_curves);
    curves_of(from, from_curves);
    for (int i = 0; i < CURVES; i++)
        memcpy(to_curves[i], from_curves[i], (size_t)from->count * sizeof(float));
    record->profile.count = from->count;
    record->profile.step = from->step;
    record->result = *result;
    return picture ? take_spectrum(record, fit, box, err) : STATUS_OK;
}

static int put_curve(json_t *object, const char *name, const float *values, int count) {
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |=
            json_array_append_new(array, json_real(isfinite(values[i]) ? round((double)values[i] * 1e5) / 1e5 : 0));
    return failed | json_object_set_new(object, name, array);
}

/* Fills the object; returns 0, or −1 without memory. */
static int fill(const struct ctf_record *record, json_t *object) {
    const struct ctf_fit_result *r = &record->result;
    const struct ctf_fit_profile *p = &record->profile;
    json_t *frequencies = json_array();
    int failed = 0;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"defocus_u", r->defocus_u},   {"defocus_v", r->defocus_v},
                   {"angle", r->angle},           {"phase_shift", r->phase_shift},
                   {"figure_of_merit", r->score}, {"significance", r->significance},
                   {"resolution", r->resolution}, {"ice", r->ice}};
    failed |= json_object_set_new(object, "v", json_integer(1));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        failed |= json_object_set_new(object, numbers[i].name,
                                      isfinite(numbers[i].value) ? json_real(numbers[i].value) : json_null());
    for (int i = 0; i < p->count; i++)
        failed |= json_array_append_new(frequencies, json_real(round((i + 0.5) * p->step * 1e7) / 1e7));
    if (record->tilted)
        failed |= json_object_set_new(object, "tilt",
                                      json_pack("{s:b,s:f,s:f,s:f,s:f}", "significant", record->significant, "angle",
                                                record->tilt, "axis", record->axis, "gain", record->gain, "chance",
                                                record->chance));
    if (record->reason != NULL) failed |= json_object_set_new(object, "reason", json_string(record->reason));
    failed |= json_object_set_new(object, "k", frequencies);
    failed |= put_curve(object, "background", p->background, p->count);
    failed |= put_curve(object, "data", p->spectrum, p->count);
    failed |= put_curve(object, "fit", p->fit, p->count);
    return failed | put_curve(object, "score", p->agreement, p->count);
}

enum status ctf_record_write(const struct ctf_record *record, const char *path, struct err *err) {
    json_t *object = json_object();
    char *text = object != NULL && fill(record, object) == 0 ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory for the numbers of a fit", path);
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}
