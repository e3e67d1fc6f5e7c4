#include "stages/crystal-scorer/crystal_scorer.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/memory.h"
#include "stages/crystal-scorer/forest.h"
#include "stages/crystal-scorer/kept.h"
#include "stages/crystal-scorer/series.h"

static enum status settle_one(const char *name, int set, int of_model, int fallback, bool has_model, int *ret_value,
                              struct err *err) {
    FAIL_IF(has_model && set != INT_MIN && set != of_model, err, STATUS_BAD_ARGUMENT,
            "%s: %d was asked for, and the model is of %s %d: leave %s out, or train a model with it", name, set, name,
            of_model, name);
    *ret_value = has_model ? of_model : set != INT_MIN ? set : fallback;
    return STATUS_OK;
}

static enum status check_texture(const char *name, const struct crystal_scorer *s, int value, struct err *err) {
    FAIL_IF(s->with_texture && value > TEXTURE_DIAMETER, err, STATUS_BAD_ARGUMENT,
            "%s: texture is evaluated up to %d px, not %d: set less, or leave texture out (--features simple, without "
            "--keep-features)",
            name, TEXTURE_DIAMETER, value);
    return STATUS_OK;
}

static enum status settle_options(struct crystal_scorer *s, struct err *err) {
    const struct crystal_scorer_options *p = s->options;
    const struct features_options *m = &s->model.features;
    bool has = p->model != NULL;
    int groups = p->features - 1; /* auto comes first */
    FAIL_IF(has && groups >= 0 && groups != (int)m->groups, err, STATUS_BAD_ARGUMENT,
            "features: %s was asked for, and the model is of %s: leave features out, or train a model with it",
            features_groups_name((enum features_groups)groups), features_groups_name(m->groups));
    s->features.groups = has ? m->groups : groups >= 0 ? (enum features_groups)groups : FEATURES_ALL;
    TRY(settle_one("diameter", p->diameter, m->diameter, 200, has, &s->features.diameter, err));
    TRY(settle_one("window", p->window, m->window, 31, has, &s->features.window, err));
    TRY(settle_one("stride", p->stride, m->stride, 1, has, &s->features.stride, err));
    FAIL_IF(s->features.window % 2 == 0, err, STATUS_BAD_ARGUMENT, "window: %d is even, and has no pixel in its middle",
            s->features.window);
    FAIL_IF(s->features.diameter <= s->features.window, err, STATUS_BAD_ARGUMENT,
            "diameter: no window of %d px has room in a circle of %d px: set a larger diameter, or a smaller window",
            s->features.window, s->features.diameter);
    s->with_texture = s->features.groups == FEATURES_ALL || p->keep_features;
    TRY(check_texture("diameter", s, s->features.diameter, err));
    TRY(check_texture("stride", s, s->features.stride, err));
    s->has_centre = p->centre.count == 2;
    for (int i = 0; i < 2 && s->has_centre; i++) {
        FAIL_IF(!(p->centre.values[i] >= 0 && p->centre.values[i] < 1e6), err, STATUS_BAD_ARGUMENT,
                "centre: %g is no place in an image (px from the first pixel)", p->centre.values[i]);
        s->centre[i] = (int)lrint(p->centre.values[i]);
    }
    return STATUS_OK;
}

/* Checks that the options make sense together, before anything is read. */
static enum status check_options(const struct crystal_scorer_options *p, bool in_pipeline, struct err *err) {
    FAIL_IF(p->model == NULL && p->train == NULL && !p->keep_features, err, STATUS_BAD_ARGUMENT,
            "there is nothing to do: give --model to score images, --train to make a model, or --keep-features");
    FAIL_IF(p->model != NULL && p->train != NULL, err, STATUS_BAD_ARGUMENT,
            "model and train exclude each other: a model is made first, and then used");
    FAIL_IF(p->train != NULL && in_pipeline, err, STATUS_BAD_ARGUMENT,
            "train: a model is made on files (icestream-crystal-scorer --train labels.csv --o DIR), a session uses it");
    FAIL_IF((p->model != NULL || p->train != NULL) && !forest_available(), err, STATUS_UNSUPPORTED,
            "%s: this build has no random forest, since XGBoost was not there when it was configured: install the "
            "package libxgboost-dev and build again; without, only --keep-features works",
            p->model != NULL ? "model" : "train");
    const char *dot = p->train != NULL ? strrchr(p->train, '.') : NULL; /* --i knows a list by its ending as well */
    FAIL_IF(p->train != NULL && (dot == NULL || strcasecmp(dot, ".csv") != 0), err, STATUS_BAD_ARGUMENT,
            "train: %s: the name of a table of path,label ends in .csv", p->train);
    return p->series != NULL ? series_check(p->series, err) : STATUS_OK;
}

enum status crystal_scorer_check(const struct crystal_scorer_options *p, struct err *err) {
    struct crystal_scorer scorer = {.options = p};
    TRY(check_options(p, false, err));
    return p->model == NULL ? settle_options(&scorer, err) : STATUS_OK;
}

static enum status begin_training(struct crystal_scorer *s, int threads, struct err *err) {
    const struct crystal_scorer_options *p = s->options;
    TRY(labels_read(p->train, &s->labels, err));
    s->training = (struct training){
        .features = s->features, .pattern = p->series, .folds = p->folds, .trees = p->trees, .threads = threads};
    return STATUS_OK;
}

enum status crystal_scorer_begin(struct crystal_scorer *s, const struct crystal_scorer_options *p,
                                 const struct crystal_scorer_place *place, struct err *err) {
    s->options = p;
    TRY(check_options(p, place->in_pipeline, err));
    if (p->model != NULL) TRY(model_read(p->model, 1, &s->model, err));
    FAIL_IF(p->model != NULL && p->series != NULL && !s->model.has_series, err, STATUS_BAD_ARGUMENT,
            "series: %s was trained without time series, and does not know how drops go on: train it with --series",
            p->model);
    TRY(settle_options(s, err));
    /* On files everything is scored again, so any model may have been there before. */
    if (p->model != NULL && place->in_pipeline) TRY(model_hold(&s->model, p->model, place->folder, err));
    const int *centre = crystal_scorer_centre(s);
    if (p->features_from != NULL) TRY(kept_check(p->features_from, &s->features, centre, err));
    if (p->keep_features) TRY(kept_begin(place->folder, &s->features, centre, err));
    return p->train != NULL ? begin_training(s, place->threads, err) : STATUS_OK;
}

void crystal_scorer_clear(struct crystal_scorer *s) {
    model_clear(&s->model);
    labels_clear(&s->labels);
    training_clear(&s->training);
}

const int *crystal_scorer_centre(const struct crystal_scorer *s) {
    return s->has_centre ? s->centre : NULL;
}

enum status crystal_scorer_label(const struct crystal_scorer *s, const char *path, const struct label **ret_label,
                                 struct err *err) {
    char real[PATH_MAX];
    *ret_label = NULL;
    if (s->options->train == NULL) return STATUS_OK;
    *ret_label = realpath(path, real) != NULL ? labels_find(&s->labels, real) : NULL;
    FAIL_IF(*ret_label == NULL, err, STATUS_REJECTED, "%s has no label in %s", path, s->options->train);
    return STATUS_OK;
}

enum status crystal_scorer_score(const struct crystal_scorer *s, const struct features *features, const char *image,
                                 struct score *ret_score, struct err *err) {
    float of_class[OUTCOMES];
    TRY(forest_predict(s->model.forest, features->vector, of_class, err));
    *ret_score = (struct score){.image = (char *)image};
    score_set(ret_score, &s->model, of_class);
    return STATUS_OK;
}

enum status crystal_scorer_train(struct crystal_scorer *s, const char *folder, const char *path, double *ret_recall,
                                 struct err *err) {
    _cleanup_(mem_free) float *predicted = NULL;
    struct confusion confusion;
    TRY(training_run(&s->training, &s->model, &confusion, &predicted, err));
    TRY(training_report(&s->training, &confusion, predicted, folder, err));
    TRY(model_write(&s->model, path, err));
    *ret_recall = confusion_macro_recall(&confusion);
    return STATUS_OK;
}
