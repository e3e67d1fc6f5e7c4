#include "stages/crystal-scorer/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

static const char MAGIC[] = "icestream crystal-scorer model ";
enum { FILE_VERSION = 1 };
static const size_t LARGEST = (size_t)1 << 31;
static const char *const GROUPS[] = {"all", "simple", "statistics"};

/* Fowler, Noll & Vo, 1a. */
static uint64_t hash_of(const char *bytes, size_t length) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3U;
    return hash;
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
    return json_pack("{s:s, s:o, s:o}", "pattern", model->pattern, "prior", numbers(model->series.prior, model->classes),
                     "transition", rows);
}

static json_t *describe(const struct model *model, const char *forest, size_t length) {
    char hash[17];
    json_t *classes = json_array();
    snprintf(hash, sizeof hash, "%016" PRIx64, hash_of(forest, length));
    for (int k = 0; k < model->classes; k++)
        json_array_append_new(classes, json_pack("{s:s, s:I}", "outcome", outcome_name(model->outcomes[k]), "examples",
                                                 (json_int_t)model->examples[k]));
    const struct features_options *f = &model->features;
    return json_pack("{s:{s:i, s:s, s:i, s:i, s:i}, s:o, s:o, s:{s:I, s:s, s:i, s:s}}", "features", "version",
                     FEATURES_VERSION, "groups", GROUPS[f->groups], "diameter", f->diameter, "window", f->window,
                     "stride", f->stride, "classes", classes, "series", describe_series(model), "forest", "bytes",
                     (json_int_t)length, "hash", hash, "features", features_count(f->groups), "xgboost",
                     forest_version());
}

static enum status write_parts(const struct model *model, const char *path, const char *forest, size_t length,
                               struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    json_t *header = describe(model, forest, length);
    FAIL_IF(header == NULL, err, STATUS_NO_MEMORY, "no memory for a model's header");
    enum status status = file_create(path, &output, err);
    if (status == STATUS_OK) {
        FILE *out = file_output_stream(output);
        fprintf(out, "%s%d\n", MAGIC, FILE_VERSION);
        json_dumpf(header, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fputc('\n', out);
        fwrite(forest, 1, length, out); /* what could not be written is reported by the commit */
        status = file_commit(&output, err);
    }
    json_decref(header);
    return status;
}

enum status model_write(const struct model *model, const char *path, struct err *err) {
    _cleanup_(mem_free) char *forest = NULL;
    size_t length;
    TRY(forest_save(model->forest, &forest, &length, err));
    return write_parts(model, path, forest, length, err);
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
        if (strcmp(groups, GROUPS[i]) == 0) {
            out->groups = (enum features_groups)i;
            return read_int(object, "diameter", 16, TEXTURE_DIAMETER, &out->diameter) &&
                   read_int(object, "window", 3, TEXTURE_WINDOW, &out->window) &&
                   read_int(object, "stride", 1, TEXTURE_DIAMETER, &out->stride);
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
    FAIL_IF(version != FEATURES_VERSION, err, STATUS_UNSUPPORTED,
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

static enum status check_forest(const char *path, const json_t *header, const struct model *model, const char *forest,
                                size_t length, struct err *err) {
    const json_t *entry = json_object_get(header, "forest");
    const char *hash = json_string_value(json_object_get(entry, "hash"));
    json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    int features = 0;
    char found[17];
    FAIL_IF(hash == NULL || bytes < 1 || !read_int(entry, "features", 1, FEATURES_MOST, &features) ||
                features != features_count(model->features.groups),
            err, STATUS_BAD_FORMAT, "%s: the model's forest is not described (bytes, hash, features)", path);
    FAIL_IF(length < (size_t)bytes, err, STATUS_TRUNCATED, "%s: the model ends after %zu of its forest's %lld bytes",
            path, length, (long long)bytes);
    snprintf(found, sizeof found, "%016" PRIx64, hash_of(forest, length));
    FAIL_IF(length != (size_t)bytes || strcmp(hash, found) != 0, err, STATUS_BAD_FORMAT,
            "%s: the model's forest is not what was written (hash %s, not %.16s): copy the file again", path, found,
            hash);
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
    FAIL_IF(line == NULL || end == number || *end != '\0', err, STATUS_BAD_FORMAT, "%s: the model's first line is broken",
            path);
    FAIL_IF(version != FILE_VERSION, err, STATUS_UNSUPPORTED,
            "%s: is a model of version %ld, and this program reads version %d: train it again, with --train labels.csv",
            path, version, FILE_VERSION);
    const char *header_text = line + 1, *header_end = memchr(header_text, '\n', length - (size_t)(header_text - bytes));
    FAIL_IF(header_end == NULL, err, STATUS_TRUNCATED, "%s: the model ends inside its header", path);
    json_error_t problem;
    json_t *header = json_loadb(header_text, (size_t)(header_end - header_text), JSON_REJECT_DUPLICATES, &problem);
    FAIL_IF(header == NULL, err, STATUS_BAD_FORMAT, "%s: the model's header is broken: %s", path, problem.text);
    struct model model = {.classes = 0};
    const char *forest = header_end + 1;
    size_t forest_length = length - (size_t)(forest - bytes);
    enum status status = read_header(path, header, &model, err);
    if (status == STATUS_OK) status = check_forest(path, header, &model, forest, forest_length, err);
    json_decref(header);
    TRY(status);
    *ret_model = model;
    *ret_forest = forest;
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
    struct forest_options options = {.classes = model.classes, .features = features_count(model.features.groups),
                                     .threads = threads};
    enum status status = forest_load(&options, forest, forest_length, &model.forest, err);
    if (status != STATUS_OK) return err_context(err, status, "%s", path);
    *ret_model = model;
    return STATUS_OK;
}

void model_clear(struct model *model) {
    forest_destroy(&model->forest);
    model->classes = 0;
}
