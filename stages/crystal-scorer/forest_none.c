/* The forest of a build without XGBoost. */
#include "stages/crystal-scorer/forest.h"

static enum status refuse(struct err *err) {
    FAIL(err, STATUS_UNSUPPORTED,
         "this build has no random forest, since XGBoost was not there when it was configured: install the package "
         "libxgboost-dev and build again; without, only --keep-features works");
}

bool forest_available(void) {
    return false;
}

const char *forest_version(void) {
    return "";
}

enum status forest_create(const struct forest_options *options, struct forest **ret_forest, struct err *err) {
    (void)options, (void)ret_forest;
    return refuse(err);
}

enum status forest_grow(struct forest *forest, int part, const float *rows, const int *classes, size_t count,
                        struct err *err) {
    (void)forest, (void)part, (void)rows, (void)classes, (void)count;
    return refuse(err);
}

enum status forest_predict(struct forest *forest, const float *row, float *ret_probabilities, struct err *err) {
    (void)forest, (void)row, (void)ret_probabilities;
    return refuse(err);
}

void forest_destroy(struct forest **forest) {
    *forest = NULL;
}

enum status forest_save(struct forest *forest, char **ret_bytes, size_t *ret_length, struct err *err) {
    (void)forest, (void)ret_bytes, (void)ret_length;
    return refuse(err);
}

enum status forest_load(const struct forest_options *options, const char *bytes, size_t length,
                        struct forest **ret_forest, struct err *err) {
    (void)options, (void)bytes, (void)length, (void)ret_forest;
    return refuse(err);
}
