#include "common/harness/template_set.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

enum { RECORD_MOST = 1 << 16, EPOCH_MOST = 1000000, BOX_LEAST = 8, BOX_MOST = 8192 };

static char *record_text(const struct template_set *set) {
    json_t *classes = json_array();
    for (int i = 0; i < set->images.nz; i++)
        json_array_append_new(classes, json_integer(set->classes[i]));
    json_t *record = json_pack("{s:i, s:i, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:i, s:o}}", "v", 1, "epoch", set->epoch,
                               "file", set->file, "count", set->images.nz, "box", set->images.nx, "pixel_size",
                               (double)set->images.pixel_size, "particles", set->particles, "from", "stage", set->stage,
                               "iteration", set->iteration, "classes", classes);
    char *text = record != NULL ? json_dumps(record, JSON_INDENT(1)) : NULL;
    json_decref(record);
    return text;
}

enum status template_set_write(const char *folder, struct template_set *set, struct err *err) {
    char path[PATH_SIZE];
    FAIL_IF(set->images.nz < 1 || set->images.nz > TEMPLATE_SET_MOST, err, STATUS_BAD_ARGUMENT,
            "%d templates: 1 to %d make a set", set->images.nz, TEMPLATE_SET_MOST);
    snprintf(set->file, sizeof set->file, "templates_e%03d.mrcs", set->epoch);
    TRY(path_join(folder, set->file, path, sizeof path, err));
    TRY(mrc_write(path, &set->images, MRC_STACK, MRC_FLOAT32, err));
    _cleanup_(mem_free) char *text = record_text(set);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a record of templates");
    TRY(path_join(folder, TEMPLATE_SET_RECORD, path, sizeof path, err));
    return file_write_whole(path, text, strlen(text), err);
}

/* Takes the values of a record that lie in their limits. Returns whether all do. */
static bool take_record(json_t *record, struct template_set *set, int *ret_count, int *ret_box, double *ret_pixel) {
    const char *file = NULL, *stage = NULL;
    json_t *classes = NULL;
    if (json_unpack(record, "{s:i, s:s, s:i, s:i, s:F, s:F, s:{s:s, s:i, s:o}}", "epoch", &set->epoch, "file", &file,
                    "count", ret_count, "box", ret_box, "pixel_size", ret_pixel, "particles", &set->particles, "from",
                    "stage", &stage, "iteration", &set->iteration, "classes", &classes) != 0)
        return false;
    if (set->epoch < 1 || set->epoch > EPOCH_MOST || *ret_count < 1 || *ret_count > TEMPLATE_SET_MOST ||
        *ret_box < BOX_LEAST || *ret_box > BOX_MOST || *ret_box % 2 != 0 || !(*ret_pixel > 0) || *ret_pixel > 1000 ||
        !(set->particles >= 0) || strchr(file, '/') != NULL || strlen(file) >= sizeof set->file ||
        strlen(stage) >= sizeof set->stage || json_array_size(classes) != (size_t)*ret_count)
        return false;
    for (int i = 0; i < *ret_count; i++)
        set->classes[i] = (int)json_integer_value(json_array_get(classes, (size_t)i));
    memcpy(set->file, file, strlen(file) + 1);
    memcpy(set->stage, stage, strlen(stage) + 1);
    return true;
}

static enum status read_set(const char *folder, struct template_set *set, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    int count = 0, box = 0;
    double pixel_size = 0;
    TRY(path_join(folder, TEMPLATE_SET_RECORD, path, sizeof path, err));
    TRY(file_read_whole(path, RECORD_MOST, &text, NULL, err));
    json_t *record = json_loads(text, 0, NULL);
    bool good = take_record(record, set, &count, &box, &pixel_size);
    json_decref(record);
    FAIL_IF(!good, err, STATUS_BAD_FORMAT, "%s: expected a record of templates", path);
    TRY(path_join(folder, set->file, path, sizeof path, err));
    TRY(mrc_read(path, &set->images, err));
    FAIL_IF(set->images.nx != box || set->images.ny != box || set->images.nz != count, err, STATUS_BAD_FORMAT,
            "%s: %d × %d × %d px; %d images of %d px were expected", path, set->images.nx, set->images.ny,
            set->images.nz, count, box);
    FAIL_IF(!image_values_fit(set->images.data, image_count(&set->images)), err, STATUS_BAD_FORMAT,
            "%s: has pixels that are NaN, infinite or far too large", path);
    set->images.pixel_size = (float)pixel_size;
    return STATUS_OK;
}

enum status template_set_read(const char *folder, struct template_set *ret_set, struct err *err) {
    struct template_set set = {0};
    enum status status = read_set(folder, &set, err);
    if (status != STATUS_OK) {
        template_set_clear(&set);
        return status;
    }
    *ret_set = set;
    return STATUS_OK;
}

void template_set_clear(struct template_set *set) {
    image_destroy(&set->images);
    *set = (struct template_set){0};
}

/* Part of the mask's radius over which it ends. */
static const double MASK_EDGE = 0.1;

bool template_normalise(float *image, int box, double radius) {
    double edge = fmax(MASK_EDGE * radius, 2), weights = 0, sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                float *value = image + (size_t)y * (size_t)box + (size_t)x;
                double over = (hypot(x - box / 2, y - box / 2) - radius + edge) / edge;
                double weight = over <= 0 ? 1 : over >= 1 ? 0 : 0.5 + 0.5 * cos(M_PI * over);
                if (pass == 0) {
                    weights += weight;
                    sum += weight * *value;
                    squares += weight * *value * *value;
                } else {
                    double mean = sum / weights, variance = squares / weights - mean * mean;
                    *value = variance > 0 ? (float)(weight * (*value - mean) / sqrt(variance)) : 0;
                }
            }
    return weights > 0 && squares / weights > sum * sum / (weights * weights);
}
