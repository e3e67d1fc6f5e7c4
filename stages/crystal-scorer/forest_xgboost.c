#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xgboost/c_api.h>
#include <xgboost/version_config.h>

#include "common/memory.h"
#include "stages/crystal-scorer/forest.h"

enum { CLASSES_MAX = 64 };

struct forest {
    struct forest_options options;
    BoosterHandle parts[FOREST_PARTS];
};

/* Reports the first line of an XGBoost error; the other lines are its stack. */
#define XGB_TRY(call, err, what)                                                                                       \
    FAIL_IF((call) != 0, err, STATUS_BAD_STATE, "XGBoost: %s: %.*s", what, (int)strcspn(XGBGetLastError(), "\n"),      \
            XGBGetLastError())

bool forest_available(void) {
    return true;
}

const char *forest_version(void) {
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
    return TEXT(XGBOOST_VER_MAJOR) "." TEXT(XGBOOST_VER_MINOR) "." TEXT(XGBOOST_VER_PATCH);
}

void forest_destroy(struct forest **address) {
    struct forest *forest = *address;
    if (forest == NULL) return;
    for (int i = 0; i < FOREST_PARTS; i++)
        if (forest->parts[i] != NULL) XGBoosterFree(forest->parts[i]); /* it fails only for NULL */
    free(forest);
    *address = NULL;
}

enum status forest_create(const struct forest_options *options, struct forest **ret_forest, struct err *err) {
    FAIL_IF(options->classes < 2 || options->classes > CLASSES_MAX || options->features < 1 || options->trees < 0, err,
            STATUS_BAD_ARGUMENT, "no forest has %d classes, %d features and %d trees", options->classes,
            options->features, options->trees);
    struct forest *forest = calloc(1, sizeof *forest);
    FAIL_IF(forest == NULL, err, STATUS_NO_MEMORY, "no memory for a forest");
    forest->options = *options;
    *ret_forest = forest;
    return STATUS_OK;
}

static void free_matrix(DMatrixHandle *matrix) {
    if (*matrix != NULL) XGDMatrixFree(*matrix);
    *matrix = NULL;
}

static void free_booster(BoosterHandle *booster) {
    if (*booster != NULL) XGBoosterFree(*booster);
    *booster = NULL;
}

static enum status set(BoosterHandle booster, const char *name, const char *value, struct err *err) {
    XGB_TRY(XGBoosterSetParam(booster, name, value), err, name);
    return STATUS_OK;
}

static enum status set_number(BoosterHandle booster, const char *name, double value, struct err *err) {
    char text[64];
    snprintf(text, sizeof text, "%.9g", value);
    return set(booster, name, text, err);
}

static enum status create(const struct forest_options *options, const DMatrixHandle *matrix, BoosterHandle *ret_booster,
                          struct err *err) {
    XGB_TRY(XGBoosterCreate(matrix, matrix != NULL, ret_booster), err, "a forest cannot be made");
    TRY(set(*ret_booster, "verbosity", "0", err));
    return set_number(*ret_booster, "nthread", options->threads, err);
}

/* Trees deeper than 12 find nothing to split. Leaves may hold a single example, whose second derivative under the
 * softmax's first guess p = 1/classes is 2 p (1 − p). lambda is small compared with that, so that a pure leaf keeps its
 * certainty. */
static enum status configure(const struct forest_options *o, int part, BoosterHandle booster, struct err *err) {
    double p = 1.0 / o->classes, second = 2 * p * (1 - p);
    TRY(set(booster, "booster", "gbtree", err));
    TRY(set(booster, "objective", "multi:softprob", err));
    TRY(set(booster, "tree_method", "exact", err));
    TRY(set(booster, "learning_rate", "1", err));
    TRY(set(booster, "max_depth", "12", err));
    TRY(set_number(booster, "num_class", o->classes, err));
    TRY(set_number(booster, "num_parallel_tree", (o->trees + FOREST_PARTS - 1) / FOREST_PARTS, err));
    TRY(set_number(booster, "subsample", o->subsample, err));
    TRY(set_number(booster, "colsample_bynode", sqrt((double)o->features) / o->features, err));
    TRY(set_number(booster, "min_child_weight", 0.9 * second, err));
    TRY(set_number(booster, "lambda", second, err));
    return set_number(booster, "seed", FOREST_PARTS * o->seed + part, err);
}

static enum status load_part(struct forest *forest, int part, const char *bytes, size_t length, struct err *err) {
    bst_ulong features = 0;
    _cleanup_(free_booster) BoosterHandle booster = NULL;
    TRY(create(&forest->options, NULL, &booster, err));
    FAIL_IF(XGBoosterLoadModelFromBuffer(booster, bytes, length) != 0, err, STATUS_BAD_FORMAT,
            "XGBoost: the forest cannot be read: %.*s", (int)strcspn(XGBGetLastError(), "\n"), XGBGetLastError());
    XGB_TRY(XGBoosterGetNumFeature(booster, &features), err, "the forest cannot be asked");
    FAIL_IF(features != (bst_ulong)forest->options.features, err, STATUS_BAD_FORMAT,
            "the forest is of %zu features, and there are %d", (size_t)features, forest->options.features);
    forest->parts[part] = booster;
    booster = NULL;
    return STATUS_OK;
}

static enum status save_part(BoosterHandle booster, bst_ulong *ret_length, const char **ret_bytes, struct err *err) {
    XGB_TRY(XGBoosterSaveModelToBuffer(booster, "{\"format\": \"ubj\"}", ret_length, ret_bytes), err,
            "the forest cannot be written down");
    return STATUS_OK;
}

enum status forest_grow(struct forest *forest, int part, const float *rows, const int *classes, size_t count,
                        struct err *err) {
    const struct forest_options *o = &forest->options;
    _cleanup_(free_booster) BoosterHandle booster = NULL;
    _cleanup_(free_matrix) DMatrixHandle matrix = NULL;
    _cleanup_(mem_free) float *labels = NULL;
    bst_ulong length;
    const char *bytes;
    TRY(mem_new(count, sizeof *labels, "labels", &labels, err));
    for (size_t i = 0; i < count; i++)
        labels[i] = (float)classes[i];
    XGB_TRY(XGDMatrixCreateFromMat_omp(rows, count, (bst_ulong)o->features, NAN, &matrix, o->threads), err,
            "XGBoost refuses the features");
    XGB_TRY(XGDMatrixSetFloatInfo(matrix, "label", labels, count), err, "XGBoost refuses the labels");
    if (o->weights != NULL)
        XGB_TRY(XGDMatrixSetFloatInfo(matrix, "feature_weights", o->weights, (bst_ulong)o->features), err,
                "XGBoost refuses the weights of the features");
    TRY(create(o, &matrix, &booster, err));
    TRY(configure(o, part, booster, err));
    XGB_TRY(XGBoosterUpdateOneIter(booster, 0, matrix), err, "the forest cannot be grown");
    /* A booster that still has its examples predicts from cached values. It is saved and loaded again, so that the
     * checked forest is the saved one. */
    TRY(save_part(booster, &length, &bytes, err));
    return load_part(forest, part, bytes, length, err);
}

/* Adds a part's margins (type 1: before the softmax) of a row to sums[classes]. */
static enum status add_margins(const struct forest *forest, int part, const float *row, double *sums, struct err *err) {
    static const char config[] = "{\"type\": 1, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
                                 "\"strict_shape\": true, \"missing\": NaN, \"cache_id\": 0}";
    size_t classes = (size_t)forest->options.classes;
    bst_ulong const *shape;
    bst_ulong dimensions;
    const float *result;
    char values[256];
    snprintf(values, sizeof values, "{\"data\": [%zu, true], \"shape\": [1, %d], \"typestr\": \"<f4\", \"version\": 3}",
             (size_t)row, forest->options.features);
    XGB_TRY(XGBoosterPredictFromDense(forest->parts[part], values, config, NULL, &shape, &dimensions, &result), err,
            "the forest cannot be asked");
    FAIL_IF(dimensions != 2 || shape[0] != 1 || shape[1] != classes, err, STATUS_BAD_FORMAT,
            "XGBoost: the forest answers for another number of classes than %zu", classes);
    for (size_t k = 0; k < classes; k++)
        sums[k] += (double)result[k];
    return STATUS_OK;
}

enum status forest_predict(struct forest *forest, const float *row, float *ret_probabilities, struct err *err) {
    int classes = forest->options.classes;
    double sums[CLASSES_MAX] = {0}, most = -INFINITY, sum = 0;
    for (int part = 0; part < FOREST_PARTS; part++)
        TRY(add_margins(forest, part, row, sums, err));
    for (int k = 0; k < classes; k++)
        most = fmax(most, sums[k]);
    for (int k = 0; k < classes; k++)
        sum += sums[k] = exp((sums[k] - most) / FOREST_PARTS);
    for (int k = 0; k < classes; k++)
        ret_probabilities[k] = (float)(sums[k] / sum);
    return STATUS_OK;
}

/* Writes each part after its length, in eight bytes, the lowest first. */
enum status forest_save(struct forest *forest, char **ret_bytes, size_t *ret_length, struct err *err) {
    char *all = NULL;
    size_t total = 0;
    for (int part = 0; part < FOREST_PARTS; part++) {
        bst_ulong length = 0;
        const char *bytes = NULL;
        enum status status = save_part(forest->parts[part], &length, &bytes, err);
        char *larger = status == STATUS_OK ? realloc(all, total + 8 + length) : NULL;
        if (larger == NULL) {
            free(all);
            if (status != STATUS_OK) return status;
            FAIL(err, STATUS_NO_MEMORY, "no memory for a forest of %zu bytes", total + 8 + (size_t)length);
        }
        all = larger;
        for (int i = 0; i < 8; i++)
            all[total + (size_t)i] = (char)((uint64_t)length >> 8 * i & 0xff);
        memcpy(all + total + 8, bytes, length);
        total += 8 + length;
    }
    *ret_bytes = all;
    *ret_length = total;
    return STATUS_OK;
}

/* XGBoost shows the number of classes of a forest only in its answers. */
static enum status ask_once(struct forest *forest, struct err *err) {
    _cleanup_(mem_free) float *row = NULL;
    float probabilities[CLASSES_MAX];
    TRY(mem_new((size_t)forest->options.features, sizeof *row, "features", &row, err));
    return forest_predict(forest, row, probabilities, err);
}

enum status forest_load(const struct forest_options *options, const char *bytes, size_t length,
                        struct forest **ret_forest, struct err *err) {
    _cleanup_(forest_destroy) struct forest *forest = NULL;
    TRY(forest_create(options, &forest, err));
    for (int part = 0; part < FOREST_PARTS; part++) {
        uint64_t own = 0;
        for (int i = 0; i < 8 && length >= 8; i++)
            own |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
        FAIL_IF(length < 8 || own > length - 8, err, STATUS_BAD_FORMAT, "part %d of the forest's %d is not whole",
                part + 1, FOREST_PARTS);
        TRY(load_part(forest, part, bytes + 8, (size_t)own, err));
        bytes += 8 + own;
        length -= 8 + (size_t)own;
    }
    FAIL_IF(length > 0, err, STATUS_BAD_FORMAT, "%zu bytes follow the forest's last part", length);
    TRY(ask_once(forest, err));
    *ret_forest = forest;
    forest = NULL;
    return STATUS_OK;
}
