/* A model: its features, its classes, the forest, and how drops develop over time. One file:
 *   icestream crystal-scorer model 2\n
 *   {JSON: "features": {"version", "groups", "diameter", "window", "stride"}, "classes": [{"outcome", "examples"}…],
 *          "series": null or {"pattern", "prior", "transition"}, "forest": {"bytes", "features", "xgboost"}}\n
 *   hash of all that comes before and behind this line: FNV-1a of 64 bits, 16 hexadecimal digits\n
 *   the forest, as XGBoost writes it (UBJSON)
 * A model that has changed since it was written is refused before XGBoost reads it. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_MODEL_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_MODEL_H

#include <stdbool.h>

#include "stages/crystal-scorer/features.h"
#include "stages/crystal-scorer/forest.h"
#include "stages/crystal-scorer/series.h"

struct model {
    struct features_options features; /* threads and device are not part of the model */
    int classes;
    enum outcome outcomes[OUTCOMES]; /* of the classes, ascending */
    size_t examples[OUTCOMES];       /* of each class */
    bool has_series;
    char pattern[SERIES_PATTERN_SIZE];
    struct series_model series;
    char xgboost[32]; /* version of XGBoost that wrote the forest */
    char hash[17];    /* identifies the model */
    struct forest *forest;
};

/* The first line of the file. */
#define MODEL_MAGIC "icestream crystal-scorer model "
#define MODEL_VERSION 2
#define MODEL_TEXT_OF(number) #number
#define MODEL_TEXT(number) MODEL_TEXT_OF(number)
#define MODEL_BEGINS MODEL_MAGIC MODEL_TEXT(MODEL_VERSION) "\n"

/* Writes a model with its forest. */
enum status model_write(const struct model *model, const char *path, struct err *err);
/* Reads a model. STATUS_BAD_FORMAT: the file is no model, or was changed. STATUS_UNSUPPORTED: another version. */
enum status model_read(const char *path, int threads, struct model *ret_model, struct err *err);
/* Reads everything but the forest. ret_forest: where the forest begins in bytes[length]. */
enum status model_parse(const char *path, const char *bytes, size_t length, struct model *ret_model,
                        const char **ret_forest, size_t *ret_forest_length, struct err *err);
/* Records in folder/model.txt which model scores into this folder. path: of the model's file. STATUS_BAD_ARGUMENT: the
 * folder has scores of another model. */
enum status model_hold(const struct model *model, const char *path, const char *folder, struct err *err);
void model_clear(struct model *model);

#endif
