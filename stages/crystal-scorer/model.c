#include "stages/crystal-scorer/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

static const char MAGIC[] = MODEL_MAGIC;
enum { HASH_DIGITS = 16 };
static const size_t LARGEST = (size_t)1 << 31;

/* The hash of Fowler, Noll & Vo, 1a, of one text after another. */
static uint64_t hash_more(uint64_t hash, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3U;
    return hash;
}

static void hash_of(const char *head, size_t head_length, const char *forest, size_t length,
                    char ret_digits[HASH_DIGITS + 1]) {
    uint64_t hash = hash_more(0xcbf29ce484222325U, head, head_length);
    snprintf(ret_digits, HASH_DIGITS + 1, "%016" PRIx64, hash_more(hash, forest, length));
}

static json_t *numbers(const double *values, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_real(values[i]));
    return array;
}

static json_t *describe_series(const struct model *model) {
    if (!model->has_series) return json_null();
    json_t *rows = json_array();
    for (int a = 0; a < model->classes; a++)
        json_array_append_new(rows, numbers(model->series.transition[a], model->classes));
    return json_pack("{s:s, s:o, s:o}", "pattern", model->pattern, "prior",
                     numbers(model->series.prior, model->classes), "transition", rows);
}

static json_t *describe(const struct model *model, size_t length) {
    json_t *classes = json_array();
    for (int k = 0; k < model->classes; k++)
        json_array_append_new(classes, json_pack("{s:s, s:I}", "outcome", outcome_name(model->outcomes[k]), "examples",
                                                 (json_int_t)model->examples[k]));
    const struct features_options *f = &model->features;
    return json_pack("{s:{s:i, s:s, s:i, s:i, s:i}, s:o, s:o, s:{s:I, s:i, s:s}}", "features", "version",
                     FEATURES_VERSION, "groups", features_groups_name(f->groups), "diameter", f->diameter, "window",
                     f->window, "stride", f->stride, "classes", classes, "series", describe_series(model), "forest",
                     "bytes", (json_int_t)length, "features", features_count(f->groups), "xgboost", forest_version());
}

static enum status write_parts(const char *header, const char *path, const char *forest, size_t length,
                               struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    _cleanup_(mem_free) char *head = NULL;
    char hash[HASH_DIGITS + 1];
    size_t room = sizeof MAGIC + 32 + strlen(header);
    TRY(mem_new(room, 1, "a model's header", &head, err));
    size_t head_length = (size_t)snprintf(head, room, "%s%d\n%s\n", MAGIC, MODEL_VERSION, header);
    hash_of(head, head_length, forest, length, hash);
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fprintf(out, "%s%s\n", head, hash);
    fwrite(forest, 1, length, out); /* the commit reports what could not be written */
    return file_commit(&output, err);
}

enum status model_write(const struct model *model, const char *path, struct err *err) {
    _cleanup_(mem_free) char *forest = NULL;
    size_t length;
    TRY(forest_save(model->forest, &forest, &length, err));
    json_t *header = describe(model, length);
    _cleanup_(mem_free) char *text = header != NULL ? json_dumps(header, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(header);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a model's header");
    return write_parts(text, path, forest, length, err);
}

/* ---- reading ---- */

static bool read_int(const json_t *object, const char *key, int least, int most, int *ret_value) {
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > most) return false;
    *ret_value = (int)number;
    return true;
}

static bool read_features(const json_t *object, struct features_options *out) {
    const char *groups = json_string_value(json_object_get(object, "groups"));
    for (int i = 0; groups != NULL && i < 3; i++)
        if (strcmp(groups, features_groups_name((enum features_groups)i)) == 0) {
            out->groups = (enum features_groups)i;
            return read_int(object, "diameter", 16, FEATURES_DIAMETER, &out->diameter) &&
                   read_int(object, "window", 3, TEXTURE_WINDOW, &out->window) &&
                   read_int(object, "stride", 1, FEATURES_DIAMETER, &out->stride);
        }
    return false;
}

static bool read_classes(const json_t *array, struct model *model) {
    size_t count = json_array_size(array);
    double total = 0;
    if (count < 2 || count > OUTCOMES) return false;
    for (size_t k = 0; k < count; k++) {
        const json_t *entry = json_array_get(array, k);
        const char *name = json_string_value(json_object_get(entry, "outcome"));
        json_int_t examples = json_integer_value(json_object_get(entry, "examples"));
        if (name == NULL || !outcome_parse(name, &model->outcomes[k]) || examples < 1) return false;
        if (k > 0 && model->outcomes[k] <= model->outcomes[k - 1]) return false;
        model->examples[k] = (size_t)examples;
        total += (double)examples;
    }
    model->classes = model->series.classes = (int)count;
    for (size_t k = 0; k < count; k++)
        model->series.share[k] = (double)model->examples[k] / total;
    return true;
}

/* Probabilities that add up to 1. */
static bool read_row(const json_t *array, int classes, double *out) {
    double sum = 0;
    if (json_array_size(array) != (size_t)classes) return false;
    for (int k = 0; k < classes; k++) {
        out[k] = json_number_value(json_array_get(array, (size_t)k));
        if (!(out[k] >= 0 && out[k] <= 1)) return false;
        sum += out[k];
    }
    return fabs(sum - 1) < 1e-6;
}

static bool read_series(const json_t *object, struct model *model) {
    model->has_series = false;
    if (json_is_null(object)) return true;
    const char *pattern = json_string_value(json_object_get(object, "pattern"));
    const json_t *rows = json_object_get(object, "transition");
    if (pattern == NULL || series_check(pattern, NULL) != STATUS_OK) return false;
    if (!read_row(json_object_get(object, "prior"), model->classes, model->series.prior)) return false;
    if (json_array_size(rows) != (size_t)model->classes) return false;
    for (int a = 0; a < model->classes; a++)
        if (!read_row(json_array_get(rows, (size_t)a), model->classes, model->series.transition[a])) return false;
    snprintf(model->pattern, sizeof model->pattern, "%s", pattern);
    model->has_series = true;
    return true;
}

static enum status read_header(const char *path, const json_t *header, struct model *model, struct err *err) {
    const json_t *features = json_object_get(header, "features");
    int version = 0;
    FAIL_IF(!read_int(features, "version", 0, 1 << 30, &version), err, STATUS_BAD_FORMAT,
            "%s: the header of the model does not say of which version its features are", path);
    FAIL_IF(
        version != FEATURES_VERSION, err, STATUS_UNSUPPORTED,
        "%s: the model is of version %d of the features, and this program computes version %d: train it again, with "
        "--train labels.csv",
        path, version, FEATURES_VERSION);
    FAIL_IF(!read_features(features, &model->features), err, STATUS_BAD_FORMAT,
            "%s: the model's features (groups, diameter, window, stride) are not what a model has", path);
    FAIL_IF(!read_classes(json_object_get(header, "classes"), model), err, STATUS_BAD_FORMAT,
            "%s: the model's classes are not two or more outcomes in their order, with examples", path);
    FAIL_IF(!read_series(json_object_get(header, "series"), model), err, STATUS_BAD_FORMAT,
            "%s: the model's series is neither null nor a pattern with probabilities", path);
    return STATUS_OK;
}

static enum status read_forest(const char *path, const json_t *header, struct model *model, size_t *ret_bytes,
                               struct err *err) {
    const json_t *entry = json_object_get(header, "forest");
    const char *xgboost = json_string_value(json_object_get(entry, "xgboost"));
    json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    int features = 0;
    FAIL_IF(xgboost == NULL || bytes < 1 || !read_int(entry, "features", 1, FEATURES_MOST, &features) ||
                features != features_count(model->features.groups),
            err, STATUS_BAD_FORMAT, "%s: the model's forest is not described (bytes, features, xgboost)", path);
    snprintf(model->xgboost, sizeof model->xgboost, "%s", xgboost);
    *ret_bytes = (size_t)bytes;
    return STATUS_OK;
}

/* bytes[length] is the file; its hash begins at `at`, and the forest has forest_length bytes. */
static enum status check_whole(const char *path, const char *bytes, size_t length, size_t at, size_t forest_length,
                               struct err *err) {
    char hash[HASH_DIGITS + 1];
    size_t forest = at + HASH_DIGITS + 1, there = length > forest ? length - forest : 0;
    FAIL_IF(there < forest_length, err, STATUS_TRUNCATED, "%s: the model ends after %zu of its forest's %zu bytes",
            path, there, forest_length);
    hash_of(bytes, at, bytes + forest, there, hash);
    FAIL_IF(there != forest_length || memcmp(bytes + at, hash, HASH_DIGITS) != 0 || bytes[forest - 1] != '\n', err,
            STATUS_BAD_FORMAT, "%s: the model is not what was written (hash %s, not %.*s): copy the file again", path,
            hash, HASH_DIGITS, bytes + at);
    return STATUS_OK;
}

enum status model_parse(const char *path, const char *bytes, size_t length, struct model *ret_model,
                        const char **ret_forest, size_t *ret_forest_length, struct err *err) {
    size_t magic = sizeof MAGIC - 1;
    FAIL_IF(length < magic || memcmp(bytes, MAGIC, magic) != 0, err, STATUS_BAD_FORMAT,
            "%s: is no model of crystal-scorer: one is made with --train labels.csv", path);
    const char *line = memchr(bytes, '\n', length);
    char *end;
    char number[16] = "";
    if (line != NULL && (size_t)(line - bytes) - magic < sizeof number)
        snprintf(number, sizeof number, "%.*s", (int)((size_t)(line - bytes) - magic), bytes + magic);
    long version = strtol(number, &end, 10);
    FAIL_IF(line == NULL || end == number || *end != '\0', err, STATUS_BAD_FORMAT,
            "%s: the model's first line is broken", path);
    FAIL_IF(version != MODEL_VERSION, err, STATUS_UNSUPPORTED,
            "%s: is a model of version %ld, and this program reads version %d: train it again, with --train labels.csv",
            path, version, MODEL_VERSION);
    const char *header_text = line + 1, *header_end = memchr(header_text, '\n', length - (size_t)(header_text - bytes));
    FAIL_IF(header_end == NULL, err, STATUS_TRUNCATED, "%s: the model ends inside its header", path);
    json_error_t problem;
    json_t *header = json_loadb(header_text, (size_t)(header_end - header_text), JSON_REJECT_DUPLICATES, &problem);
    FAIL_IF(header == NULL, err, STATUS_BAD_FORMAT, "%s: the model's header is broken: %s", path, problem.text);
    struct model model = {.classes = 0};
    size_t at = (size_t)(header_end + 1 - bytes), forest_length = 0;
    enum status status = read_header(path, header, &model, err);
    if (status == STATUS_OK) status = read_forest(path, header, &model, &forest_length, err);
    json_decref(header);
    TRY(status);
    TRY(check_whole(path, bytes, length, at, forest_length, err));
    snprintf(model.hash, sizeof model.hash, "%.*s", HASH_DIGITS, bytes + at);
    *ret_model = model;
    *ret_forest = bytes + at + HASH_DIGITS + 1;
    *ret_forest_length = forest_length;
    return STATUS_OK;
}

enum status model_read(const char *path, int threads, struct model *ret_model, struct err *err) {
    _cleanup_(mem_free) char *bytes = NULL;
    size_t length, forest_length;
    const char *forest;
    struct model model;
    TRY(file_read_whole(path, LARGEST, &bytes, &length, err));
    TRY(model_parse(path, bytes, length, &model, &forest, &forest_length, err));
    struct forest_options options = {
        .classes = model.classes, .features = features_count(model.features.groups), .threads = threads};
    enum status status = forest_load(&options, forest, forest_length, &model.forest, err);
    if (status != STATUS_OK)
        return err_context(
            err, status,
            "%s: its forest, which XGBoost %s wrote and %s reads, is broken or of another version: train it again",
            path, model.xgboost, forest_version());
    *ret_model = model;
    return STATUS_OK;
}

enum status model_hold(const struct model *model, const char *path, const char *folder, struct err *err) {
    enum { LONGEST = 4096 };
    _cleanup_(mem_free) char *held = NULL;
    char file[PATH_SIZE];
    TRY(path_join(folder, "model.txt", file, sizeof file, err));
    if (!file_exists(file)) {
        char text[HASH_DIGITS + 2];
        int length = snprintf(text, sizeof text, "%s\n", model->hash);
        return file_write_whole(file, text, (size_t)length, err);
    }
    TRY(file_read_whole(file, LONGEST, &held, NULL, err));
    FAIL_IF(strncmp(held, model->hash, HASH_DIGITS) != 0, err, STATUS_BAD_ARGUMENT,
            "%s: is not the model that has scored images here (%s, hash %.*s; this one: %s): put that one back, or use "
            "another session",
            path, file, (int)strcspn(held, "\n"), held, model->hash);
    return STATUS_OK;
}

void model_clear(struct model *model) {
    forest_destroy(&model->forest);
    model->classes = 0;
}
