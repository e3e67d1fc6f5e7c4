/* Scores images of crystallisation trials with a model, or trains a model from labelled images. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_CRYSTAL_SCORER_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_CRYSTAL_SCORER_H

#include <stdbool.h>

#include "common/harness/params.h"
#include "stages/crystal-scorer/features.h"
#include "stages/crystal-scorer/model.h"
#include "stages/crystal-scorer/outcomes.h"
#include "stages/crystal-scorer/scores.h"
#include "stages/crystal-scorer/training.h"

struct stage_descriptor;

/* The options that a user sets (parameters.c). NULL or INT_MIN: not set. */
struct crystal_scorer_options {
    char *model, *train, *series, *features_from;
    struct param_floats centre;   /* px; none, or x and y */
    int features;                 /* 0: auto; else enum features_groups + 1 */
    int diameter, window, stride; /* px */
    int folds, trees;
    double likely; /* probability */
    bool keep_features;
};

/* The surroundings of a scorer. */
struct crystal_scorer_place {
    const char *folder; /* of results */
    bool in_pipeline;   /* false: the program runs on files alone */
    int threads;        /* for training; at least 1 */
};

struct crystal_scorer {
    const struct crystal_scorer_options *options;
    struct features_options features; /* of the model, or as the user set them for training */
    bool with_texture;                /* texture is computed: the features need it, or files keep it */
    bool has_centre;
    int centre[2]; /* px, if has_centre */
    struct model model;
    struct labels labels;
    struct training training;
};

/* Checks that the options make sense together, as far as that shows without the model. */
enum status crystal_scorer_check(const struct crystal_scorer_options *options, struct err *err);
/* Checks the options and reads what they name: the model, kept features, labels. s starts as {0}; options must outlive
 * it. crystal_scorer_clear is needed after a failure too. */
enum status crystal_scorer_begin(struct crystal_scorer *s, const struct crystal_scorer_options *options,
                                 const struct crystal_scorer_place *place, struct err *err);
void crystal_scorer_clear(struct crystal_scorer *s);
/* Returns the drop's centre that the user set for all images, or NULL. */
const int *crystal_scorer_centre(const struct crystal_scorer *s);

/* Finds the label of an image file. Without training *ret_label is NULL. STATUS_REJECTED: the file has no label. */
enum status crystal_scorer_label(const struct crystal_scorer *s, const char *path, const struct label **ret_label,
                                 struct err *err);
/* Scores the features of an image with the model. ret_score->image borrows `image`. */
enum status crystal_scorer_score(const struct crystal_scorer *s, const struct features *features, const char *image,
                                 struct score *ret_score, struct err *err);
/* Trains a model from the examples added to s->training and writes it to `path`, with reports of the cross-validation
 * beside it in `folder`. ret_recall: the macro recall of held-out examples. */
enum status crystal_scorer_train(struct crystal_scorer *s, const char *folder, const char *path, double *ret_recall,
                                 struct err *err);

/* The stage as main.c and the tests run it (stage.c). */
extern const struct stage_descriptor crystal_scorer_stage;

#endif
