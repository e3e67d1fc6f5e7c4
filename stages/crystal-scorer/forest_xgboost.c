#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xgboost/c_api.h>

#include "common/memory.h"
#include "stages/crystal-scorer/forest.h"

struct forest {
    struct forest_options options;
    BoosterHandle booster;
};

#define XGB_TRY(call, err, what)                                                                                       \
    FAIL_IF((call) != 0, err, STATUS_BAD_STATE, "XGBoost: %s: %.400s", what, XGBGetLastError())

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
    if (forest->booster != NULL) XGBoosterFree(forest->booster); /* it can fail for NULL alone */
    free(forest);
    *address = NULL;
}

static void free_matrix(DMatrixHandle *matrix) {
    if (*matrix != NULL) XGDMatrixFree(*matrix);
    *matrix = NULL;
}

static enum status set(struct forest *forest, const char *name, const char *value, struct err *err) {
    XGB_TRY(XGBoosterSetParam(forest->booster, name, value), err, name);
    return STATUS_OK;
}

static enum status set_number(struct forest *forest, const char *name, double value, struct err *err) {
    char text[64];
    snprintf(text, sizeof text, "%.9g", value);
    return set(forest, name, text, err);
}

static enum status create(const struct forest_options *options, const DMatrixHandle *matrix, struct forest **ret_forest,
                          struct err *err) {
    _cleanup_(forest_destroy) struct forest *forest = calloc(1, sizeof *forest);
    FAIL_IF(forest == NULL, err, STATUS_NO_MEMORY, "no memory for a forest");
    forest->options = *options;
    XGB_TRY(XGBoosterCreate(matrix, matrix != NULL, &forest->booster), err, "a forest cannot be made");
    TRY(set(forest, "verbosity", "0", err));
    TRY(set_number(forest, "nthread", options->threads, err));
    *ret_forest = forest;
    forest = NULL;
    return STATUS_OK;
}

/* Deeper trees than 12 find nothing to split. Leaves may hold a single example, whose second derivative under the
 * softmax's first guess p = 1/classes is 2 p (1 − p); lambda is small beside that, so that a pure leaf says what it is
 * sure of. */
static enum status configure(struct forest *forest, struct err *err) {
    const struct forest_options *o = &forest->options;
    double p = 1.0 / o->classes, second = 2 * p * (1 - p);
    TRY(set(forest, "booster", "gbtree", err));
    TRY(set(forest, "objective", "multi:softprob", err));
    TRY(set(forest, "tree_method", "exact", err));
    TRY(set(forest, "learning_rate", "1", err));
    TRY(set(forest, "max_depth", "12", err));
    TRY(set_number(forest, "num_class", o->classes, err));
    TRY(set_number(forest, "num_parallel_tree", o->trees, err));
    TRY(set_number(forest, "subsample", o->subsample, err));
    TRY(set_number(forest, "colsample_bynode", sqrt((double)o->features) / o->features, err));
    TRY(set_number(forest, "min_child_weight", 0.9 * second, err));
    TRY(set_number(forest, "lambda", second, err));
    return set_number(forest, "seed", o->seed, err);
}

enum status forest_train(const struct forest_options *options, const float *rows, const int *classes, size_t count,
                         struct forest **ret_forest, struct err *err) {
    _cleanup_(forest_destroy) struct forest *forest = NULL;
    _cleanup_(free_matrix) DMatrixHandle matrix = NULL;
    _cleanup_(mem_free) float *labels = NULL;
    TRY(mem_new(count, sizeof *labels, "labels", &labels, err));
    for (size_t i = 0; i < count; i++)
        labels[i] = (float)classes[i];
    XGB_TRY(XGDMatrixCreateFromMat_omp(rows, count, (bst_ulong)options->features, NAN, &matrix, options->threads), err,
            "the features cannot be taken in");
    XGB_TRY(XGDMatrixSetFloatInfo(matrix, "label", labels, count), err, "the labels cannot be taken in");
    TRY(create(options, &matrix, &forest, err));
    TRY(configure(forest, err));
    XGB_TRY(XGBoosterUpdateOneIter(forest->booster, 0, matrix), err, "the forest cannot be grown");
    /* A forest that has its examples at hand answers in another way, by what it remembers of them: it is put down and
     * picked up, so that what is checked is what is saved. */
    char *bytes = NULL;
    size_t length;
    TRY(forest_save(forest, &bytes, &length, err));
    enum status status = forest_load(options, bytes, length, ret_forest, err);
    free(bytes);
    return status;
}

enum status forest_predict(struct forest *forest, const float *rows, size_t count, float *ret_probabilities,
                           struct err *err) {
    static const char config[] = "{\"type\": 0, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
                                 "\"strict_shape\": true, \"missing\": NaN, \"cache_id\": 0}";
    const struct forest_options *o = &forest->options;
    char values[256];
    bst_ulong const *shape;
    bst_ulong dimensions;
    const float *result;
    snprintf(values, sizeof values,
             "{\"data\": [%zu, true], \"shape\": [%zu, %d], \"typestr\": \"<f4\", \"version\": 3}", (size_t)rows, count,
             o->features);
    XGB_TRY(XGBoosterPredictFromDense(forest->booster, values, config, NULL, &shape, &dimensions, &result), err,
            "the forest cannot be asked");
    FAIL_IF(dimensions != 2 || shape[0] != count || shape[1] != (bst_ulong)o->classes, err, STATUS_BAD_FORMAT,
            "XGBoost: the forest answers for another number of classes than %d", o->classes);
    memcpy(ret_probabilities, result, count * (size_t)o->classes * sizeof *result);
    return STATUS_OK;
}

enum status forest_save(struct forest *forest, char **ret_bytes, size_t *ret_length, struct err *err) {
    bst_ulong length;
    const char *bytes;
    XGB_TRY(XGBoosterSaveModelToBuffer(forest->booster, "{\"format\": \"ubj\"}", &length, &bytes), err,
            "the forest cannot be written down");
    char *copy = malloc(length > 0 ? length : 1);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for a forest of %zu bytes", (size_t)length);
    memcpy(copy, bytes, length);
    *ret_bytes = copy;
    *ret_length = length;
    return STATUS_OK;
}

enum status forest_load(const struct forest_options *options, const char *bytes, size_t length,
                        struct forest **ret_forest, struct err *err) {
    _cleanup_(forest_destroy) struct forest *forest = NULL;
    bst_ulong features = 0;
    TRY(create(options, NULL, &forest, err));
    XGB_TRY(XGBoosterLoadModelFromBuffer(forest->booster, bytes, length), err, "the forest cannot be read");
    XGB_TRY(XGBoosterGetNumFeature(forest->booster, &features), err, "the forest cannot be asked");
    FAIL_IF(features != (bst_ulong)options->features, err, STATUS_BAD_FORMAT,
            "the forest is of %zu features, and there are %d", (size_t)features, options->features);
    *ret_forest = forest;
    forest = NULL;
    return STATUS_OK;
}
