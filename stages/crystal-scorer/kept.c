#include "stages/crystal-scorer/kept.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/npy.h"
#include "common/memory.h"

static const size_t TEXTURE_SHAPE[] = {TEXTURE_QUANTISATIONS, TEXTURE_LENGTHS, TEXTURE_FEATURES, TEXTURE_AGGREGATES};
static const size_t SIMPLE_SHAPE[] = {DROP_FEATURES_COUNT};

enum { CENTRE_SIZE = 32 };

static void write_centre(const int centre[2], char ret_text[CENTRE_SIZE]) {
    if (centre == NULL)
        snprintf(ret_text, CENTRE_SIZE, "found");
    else
        snprintf(ret_text, CENTRE_SIZE, "%d,%d", centre[0], centre[1]);
}

enum status kept_begin(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err) {
    char path[PATH_SIZE], text[256], place[CENTRE_SIZE];
    TRY(path_join(folder, "features.json", path, sizeof path, err));
    write_centre(centre, place);
    int length = snprintf(text, sizeof text,
                          "{\"version\": %d, \"diameter\": %d, \"window\": %d, \"stride\": %d, \"centre\": \"%s\"}\n",
                          FEATURES_VERSION, options->diameter, options->window, options->stride, place);
    return file_write_whole(path, text, (size_t)length, err);
}

static enum status check_one(const char *path, const json_t *root, const char *key, int expected, struct err *err) {
    const json_t *value = json_object_get(root, key);
    FAIL_IF(!json_is_integer(value) || json_integer_value(value) != expected, err, STATUS_BAD_ARGUMENT,
            "%s: the features that are kept there are of %s %lld, and those of %s %d are needed: compute them anew",
            path, key, (long long)json_integer_value(value), key, expected);
    return STATUS_OK;
}

static enum status check_centre(const char *path, const json_t *root, const int centre[2], struct err *err) {
    const char *kept = json_string_value(json_object_get(root, "centre"));
    char expected[CENTRE_SIZE];
    write_centre(centre, expected);
    FAIL_IF(kept == NULL || strcmp(kept, expected) != 0, err, STATUS_BAD_ARGUMENT,
            "%s: the features that are kept there are of centre %s, and those of centre %s are needed (found: without "
            "--centre): compute them anew",
            path, kept != NULL ? kept : "?", expected);
    return STATUS_OK;
}

enum status kept_check(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err) {
    enum { LARGEST = 4096 };
    _cleanup_(mem_free) char *text = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, "features.json", path, sizeof path, err));
    TRY(file_read_whole(path, LARGEST, &text, NULL, err));
    json_t *root = json_loads(text, 0, NULL);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "%s: is not what --keep-features writes", path);
    enum status status = check_one(path, root, "version", FEATURES_VERSION, err);
    if (status == STATUS_OK) status = check_one(path, root, "diameter", options->diameter, err);
    if (status == STATUS_OK) status = check_one(path, root, "window", options->window, err);
    if (status == STATUS_OK) status = check_one(path, root, "stride", options->stride, err);
    if (status == STATUS_OK) status = check_centre(path, root, centre, err);
    json_decref(root);
    return status;
}

enum status kept_write(const char *texture, const char *simple, const struct features *f, struct err *err) {
    TRY(npy_write(texture, NPY_FLOAT32, 4, TEXTURE_SHAPE, f->of_texture.values, err));
    return npy_write(simple, NPY_FLOAT32, 1, SIMPLE_SHAPE, f->vector, err);
}

enum status kept_read(const char *folder, const char *id, struct features *f, struct err *err) {
    char stem[PATH_SIZE], path[PATH_SIZE];
    TRY(path_stem(id, path, sizeof path, err));
    TRY(path_join(folder, path, stem, sizeof stem, err));
    FAIL_IF(strlen(stem) + 16 > sizeof path, err, STATUS_BAD_ARGUMENT, "the path '%.80s…' is too long", stem);
    snprintf(path, sizeof path, "%.*s_simple.npy", PATH_SIZE - 16, stem);
    TRY(npy_read(path, NPY_FLOAT32, 1, SIMPLE_SHAPE, f->vector, err));
    if (!f->with_texture) return STATUS_OK;
    snprintf(path, sizeof path, "%.*s_features.npy", PATH_SIZE - 16, stem);
    TRY(npy_read(path, NPY_FLOAT32, 4, TEXTURE_SHAPE, f->of_texture.values, err));
    memcpy(f->vector + DROP_FEATURES_COUNT, f->of_texture.values, sizeof f->of_texture.values);
    return STATUS_OK;
}
