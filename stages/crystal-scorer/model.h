/* A model: which features it is of, which classes it knows, the forest, and how drops go on. One file:
 *   icestream crystal-scorer model 2\n
 *   {JSON: "features": {"version", "groups", "diameter", "window", "stride"}, "classes": [{"outcome", "examples"}…],
 *          "series": null or {"pattern", "prior", "transition"}, "forest": {"bytes", "features", "xgboost"}}\n
 *   hash of all that comes before and behind this line: FNV-1a of 64 bits, 16 hexadecimal digits\n
 *   the forest, as XGBoost writes it (UBJSON)
 * A model that is not as it was written is refused before XGBoost sees it. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_MODEL_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_MODEL_H

#include <stdbool.h>

#include "stages/crystal-scorer/features.h"
#include "stages/crystal-scorer/forest.h"
#include "stages/crystal-scorer/series.h"

struct model {
    struct features_options features; /* threads and device are not of the model */
    int classes;
    enum outcome outcomes[OUTCOMES]; /* of the classes, ascending */
    size_t examples[OUTCOMES];       /* of each class */
    bool has_series;
    char pattern[SERIES_PATTERN_SIZE];
    struct series_model series;
    char xgboost[32]; /* the version that wrote the forest; of a model that was read, as is */
    char hash[17];    /* which model it is */
    struct forest *forest;
};

/* What the file begins with. */
#define MODEL_MAGIC "icestream crystal-scorer model "
#define MODEL_VERSION 2
#define MODEL_TEXT_OF(number) #number
#define MODEL_TEXT(number) MODEL_TEXT_OF(number)
#define MODEL_BEGINS MODEL_MAGIC MODEL_TEXT(MODEL_VERSION) "\n"

enum status model_write(const struct model *model, const char *path, struct err *err);
/* STATUS_BAD_FORMAT: no model, or a broken one; STATUS_UNSUPPORTED: of another version. */
enum status model_read(const char *path, int threads, struct model *ret_model, struct err *err);
/* All but the forest, for a look at the file; ret_forest: where it begins in bytes[length]. */
enum status model_parse(const char *path, const char *bytes, size_t length, struct model *ret_model,
                        const char **ret_forest, size_t *ret_forest_length, struct err *err);
/* Writes into folder/model.txt which model has scored, path being its file; STATUS_BAD_ARGUMENT where another one has. */
enum status model_hold(const struct model *model, const char *path, const char *folder, struct err *err);
void model_clear(struct model *model);

#endif
