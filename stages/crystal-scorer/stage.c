/* What the harness calls: an image of a drop in, its features, its outcome or, with labels, a model out. */
#include "stages/crystal-scorer/stage.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/crystal-scorer/features.h"
#include "stages/crystal-scorer/kept.h"
#include "stages/crystal-scorer/model.h"
#include "stages/crystal-scorer/outcomes.h"
#include "stages/crystal-scorer/scores.h"
#include "stages/crystal-scorer/training.h"

struct params {
    char *model, *train, *series, *features_from;
    struct param_floats centre;
    int features, diameter, window, stride, folds, trees;
    double likely;
    bool keep_features;
};

#define P(member) offsetof(struct params, member)
static const struct param params[] = {
    {"model", PARAM_PATH, P(model), "", NULL, .begins = MODEL_BEGINS,
     .help = "Model by which outcomes are told apart, as --train makes one"},
    {"train", PARAM_PATH, P(train), "", NULL,
     .help = "Table of path,label: makes a model (--o DIR gets crystals.model) instead of scores; on files alone"},
    {"centre", PARAM_FLOATS, P(centre), "px", NULL, .list_count = 2,
     .help = "Of the drop, x and y, the same for all images; by default it is looked for"},
    {"diameter", PARAM_INT, P(diameter), "px", NULL, 36, FEATURES_DIAMETER,
     .help = "Of the circle that is evaluated; default: the model's, or 200"},
    {"window", PARAM_INT, P(window), "px", NULL, 27, 63,
     .help = "Side of the square around a pixel whose texture is its own, odd; default: the model's, or 31"},
    {"stride", PARAM_INT, P(stride), "px", NULL, 1, FEATURES_DIAMETER,
     .help = "Step along x and y between pixels whose texture is evaluated; default: the model's, or 1, which is all"},
    {"features", PARAM_CHOICE, P(features), "", "auto", .choices = "auto|" FEATURES_GROUPS_CHOICES,
     .help = "What a model is made of: all, all but texture, or statistics of grey levels; auto: the model's, or all"},
    {"keep_features", PARAM_BOOL, P(keep_features), "", "false",
     .help = "Write IMAGE_features.npy (3 numbers of levels, 25 lengths, 13, 3) and IMAGE_simple.npy; needs no model"},
    {"features_from", PARAM_PATH, P(features_from), "", NULL,
     .help = "Folder in which an earlier run with keep_features has left those of the same images: none are computed"},
    {"series", PARAM_STRING, P(series), "", NULL,
     .help = "How names tell drop and time, as {drop}_t{time}: outcomes of a drop's images are judged together"},
    {"likely", PARAM_FLOAT, P(likely), "", "0.2", 0, 1,
     .help = "Least probability of any crystal with which an image is in crystals.csv"},
    {"trees", PARAM_INT, P(trees), "", "500", 1, 10000,
     .help = "Of a new model's forest, for each outcome; rounded up to tens"},
    {"folds", PARAM_INT, P(folds), "", "5", 2, 64, .help = "Parts that are held out in turn to check a new model"},
};
#undef P

struct state {
    struct features_options options;
    bool with_texture, has_centre;
    int centre[2];
    struct model model;
    struct labels labels;
    struct training training;
    size_t unreadable; /* scores that the last summary had to leave out */
};

struct lane {
    struct features *features;
    bool started; /* texture is on its way */
    const struct label *label;
};

/* ---- what was asked for ---- */

static enum status settle_one(const char *name, int set, int of_model, int fallback, bool has_model, int *ret_value,
                              struct err *err) {
    FAIL_IF(has_model && set != INT_MIN && set != of_model, err, STATUS_BAD_ARGUMENT,
            "%s: %d was asked for, and the model is of %s %d: leave %s out, or train a model with it", name, set, name,
            of_model, name);
    *ret_value = has_model ? of_model : set != INT_MIN ? set : fallback;
    return STATUS_OK;
}

static enum status check_texture(const char *name, const struct state *s, int value, struct err *err) {
    FAIL_IF(s->with_texture && value > TEXTURE_DIAMETER, err, STATUS_BAD_ARGUMENT,
            "%s: texture is evaluated up to %d px, not %d: set less, or leave texture out (--features simple, without "
            "--keep-features)",
            name, TEXTURE_DIAMETER, value);
    return STATUS_OK;
}

static enum status settle_options(const struct params *p, struct state *s, struct err *err) {
    const struct features_options *m = &s->model.features;
    bool has = p->model != NULL;
    int groups = p->features - 1; /* auto comes first */
    FAIL_IF(has && groups >= 0 && groups != (int)m->groups, err, STATUS_BAD_ARGUMENT,
            "features: %s was asked for, and the model is of %s: leave features out, or train a model with it",
            features_groups_name((enum features_groups)groups), features_groups_name(m->groups));
    s->options.groups = has ? m->groups : groups >= 0 ? (enum features_groups)groups : FEATURES_ALL;
    TRY(settle_one("diameter", p->diameter, m->diameter, 200, has, &s->options.diameter, err));
    TRY(settle_one("window", p->window, m->window, 31, has, &s->options.window, err));
    TRY(settle_one("stride", p->stride, m->stride, 1, has, &s->options.stride, err));
    FAIL_IF(s->options.window % 2 == 0, err, STATUS_BAD_ARGUMENT, "window: %d is even, and has no pixel in its middle",
            s->options.window);
    FAIL_IF(s->options.diameter <= s->options.window, err, STATUS_BAD_ARGUMENT,
            "diameter: no window of %d px has room in a circle of %d px: set a larger diameter, or a smaller window",
            s->options.window, s->options.diameter);
    s->with_texture = s->options.groups == FEATURES_ALL || p->keep_features;
    TRY(check_texture("diameter", s, s->options.diameter, err));
    TRY(check_texture("stride", s, s->options.stride, err));
    s->has_centre = p->centre.count == 2;
    for (int i = 0; i < 2 && s->has_centre; i++) {
        FAIL_IF(!(p->centre.values[i] >= 0 && p->centre.values[i] < 1e6), err, STATUS_BAD_ARGUMENT,
                "centre: %g is no place in an image (px from the first pixel)", p->centre.values[i]);
        s->centre[i] = (int)lrint(p->centre.values[i]);
    }
    return STATUS_OK;
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    const struct params *p = stage_params(stage);
    FAIL_IF(p->model == NULL && p->train == NULL && !p->keep_features, err, STATUS_BAD_ARGUMENT,
            "there is nothing to do: give --model to score images, --train to make a model, or --keep-features");
    FAIL_IF(p->model != NULL && p->train != NULL, err, STATUS_BAD_ARGUMENT,
            "model and train exclude each other: a model is made first, and then used");
    FAIL_IF(p->train != NULL && stage_in_pipeline(stage), err, STATUS_BAD_ARGUMENT,
            "train: a model is made on files (icestream-crystal-scorer --train labels.csv --o DIR), a session uses it");
    FAIL_IF((p->model != NULL || p->train != NULL) && !forest_available(), err, STATUS_UNSUPPORTED,
            "%s: this build has no random forest, since XGBoost was not there when it was configured: install the "
            "package libxgboost-dev and build again; without, only --keep-features works",
            p->model != NULL ? "model" : "train");
    const char *dot = p->train != NULL ? strrchr(p->train, '.') : NULL; /* by which --i knows a list as well */
    FAIL_IF(p->train != NULL && (dot == NULL || strcasecmp(dot, ".csv") != 0), err, STATUS_BAD_ARGUMENT,
            "train: %s: the name of a table of path,label ends in .csv", p->train);
    if (p->series != NULL) TRY(series_check(p->series, err));
    if (p->model != NULL) TRY(model_read(p->model, 1, &s->model, err));
    FAIL_IF(p->model != NULL && p->series != NULL && !s->model.has_series, err, STATUS_BAD_ARGUMENT,
            "series: %s was trained without time series, and does not know how drops go on: train it with --series",
            p->model);
    TRY(settle_options(p, s, err));
    /* On files all is scored anew. */
    if (p->model != NULL && stage_in_pipeline(stage)) TRY(model_hold(&s->model, p->model, stage_folder(stage), err));
    const int *centre = s->has_centre ? s->centre : NULL;
    if (p->features_from != NULL) TRY(kept_check(p->features_from, &s->options, centre, err));
    if (p->keep_features) TRY(kept_begin(stage_folder(stage), &s->options, centre, err));
    if (p->train == NULL) return STATUS_OK;
    TRY(labels_read(p->train, &s->labels, err));
    s->training = (struct training){.features = s->options,
                                    .pattern = p->series,
                                    .folds = p->folds,
                                    .trees = p->trees,
                                    .threads = stage_flush_threads(stage) > 0 ? stage_flush_threads(stage) : 1};
    return STATUS_OK;
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    model_clear(&s->model);
    labels_clear(&s->labels);
    training_clear(&s->training);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    features_destroy(&((struct lane *)stage_lane->state)->features);
}

/* ---- an image ---- */

static enum status find_label(const struct params *p, const struct state *s, const char *path, struct lane *lane,
                              struct err *err) {
    char real[PATH_MAX];
    if (p->train == NULL) return STATUS_OK;
    lane->label = realpath(path, real) != NULL ? labels_find(&s->labels, real) : NULL;
    FAIL_IF(lane->label == NULL, err, STATUS_REJECTED, "%s has no label in %s", path, p->train);
    return STATUS_OK;
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    const char *name;
    char path[PATH_SIZE];
    TRY(item_need_string(stage_lane->item, "micrograph.path", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    TRY(find_label(stage_params(stage), s, path, lane, err));
    if (lane->features == NULL)
        TRY(features_create(&s->options, s->with_texture, stage_threads(stage) > 0 ? stage_threads(stage) : 1,
                            stage_device(stage), &lane->features, err));
    if (lane->started) { /* of an item that went no further */
        lane->started = false;
        TRY(features_finish(lane->features, err));
    }
    const struct params *p = stage_params(stage);
    if (p->features_from != NULL) return kept_read(p->features_from, item_id(stage_lane->item), lane->features, err);
    TRY(features_load(lane->features, path, s->has_centre ? s->centre : NULL, err));
    if (lane->features->fills)
        stage_log(stage, LOG_WARN, "no-circle",
                  "%s: shows no edge of a drop: its middle is taken (centre says where else)", path);
    return STATUS_OK;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    if (((const struct params *)stage_params(stage))->features_from != NULL) return STATUS_OK;
    TRY(features_start(lane->features, err));
    lane->started = true;
    return STATUS_OK;
}

static enum status keep_features(struct stage *stage, const struct item *item, const struct features *f,
                                 struct err *err) {
    char relative[PATH_SIZE], texture[PATH_SIZE], simple[PATH_SIZE];
    TRY(stage_product(stage, item, "_features.npy", relative, texture, err));
    TRY(stage_product(stage, item, "_simple.npy", relative, simple, err));
    return kept_write(texture, simple, f, err);
}

static enum status write_score(struct stage *stage, struct state *s, struct lane *lane, struct item *item,
                               struct err *err) {
    float of_class[OUTCOMES];
    char relative[PATH_SIZE], path[PATH_SIZE];
    const char *image;
    TRY(item_need_string(item, "micrograph.path", &image, err));
    TRY(forest_predict(s->model.forest, lane->features->vector, of_class, err));
    struct score score = {.image = (char *)image};
    score_set(&score, &s->model, of_class);
    TRY(stage_product(stage, item, "_score.csv", relative, path, err));
    TRY(score_write(&score, path, err));
    TRY(item_set_string(item, "score.csv", relative, err));
    TRY(item_set_string(item, "score.outcome", outcome_name(score.outcome), err));
    return item_set_number(item, "score.crystal", score_crystal(score.probability), err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    struct item *item = stage_lane->item;
    const struct params *p = stage_params(stage);
    if (lane->started) { /* once, also where writing is tried again */
        lane->started = false;
        TRY(features_finish(lane->features, err));
    }
    if (p->keep_features) TRY(keep_features(stage, item, lane->features, err));
    if (p->train != NULL) {
        const char *image = item_string(item, "micrograph.path");
        return training_add(&s->training, image, item_id(item), lane->label->outcome, lane->features->vector, err);
    }
    return p->model != NULL ? write_score(stage, s, lane, item, err) : STATUS_OK;
}

/* ---- all of them ---- */

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    const struct params *p = stage_params(stage);
    _cleanup_(mem_free) float *predicted = NULL;
    struct confusion confusion;
    char path[PATH_SIZE];
    if (p->train == NULL) return STATUS_OK;
    TRY(path_join(stage_folder(stage), "crystals.model", path, sizeof path, err));
    stage_note(stage, "growing forests of %zu images", s->training.count);
    TRY(training_run(&s->training, &s->model, &confusion, &predicted, err));
    TRY(training_report(&s->training, &confusion, predicted, stage_folder(stage), err));
    TRY(model_write(&s->model, path, err));
    stage_log(stage, LOG_INFO, "model", "%s: %d outcomes, %zu images; held out, the macro recall is %.3f", path,
              s->model.classes, s->training.count, confusion_macro_recall(&confusion));
    return STATUS_OK;
}

struct walk {
    struct stage *stage;
    struct scores scores;
    size_t unreadable;
    struct err first;
};

static enum status visit(const struct item *item, void *context, struct err *err) {
    struct walk *walk = context;
    char relative[PATH_SIZE], path[PATH_SIZE];
    struct err mine = {0};
    TRY(stage_product(walk->stage, item, "_score.csv", relative, path, err));
    if (!file_exists(path)) return STATUS_OK;
    enum status status = scores_add(&walk->scores, path, item_id(item), &mine);
    if (status_is_of_file(status)) { /* one that a disk has lost does not take the others with it */
        if (walk->unreadable++ == 0) walk->first = mine;
        return STATUS_OK;
    }
    if (status != STATUS_OK && err != NULL) *err = mine;
    return status;
}

static enum status make_tables(struct stage *stage, struct state *s, struct walk *walk, struct err *err) {
    const struct params *p = stage_params(stage);
    TRY(stage_each_done(stage, visit, walk, err));
    if (walk->unreadable > 0 && walk->unreadable != s->unreadable)
        stage_log(stage, LOG_WARN, "scores-unreadable", "%zu scores are left out of scores.csv, the first: %s",
                  walk->unreadable, walk->first.message);
    s->unreadable = walk->unreadable;
    if (p->series != NULL) TRY(scores_smooth(&walk->scores, &s->model, p->series, err));
    return scores_tables(&walk->scores, stage_folder(stage), p->likely, p->series != NULL, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    const struct params *p = stage_params(stage);
    struct walk walk = {.stage = stage};
    if (p->model == NULL) return STATUS_OK;
    enum status status = make_tables(stage, state, &walk, err);
    scores_clear(&walk.scores);
    return status;
}

const struct stage_descriptor crystal_scorer_stage = {
    .name = "crystal-scorer",
    .summary = "tells what came of crystallisation trials by images of their drops",
    .in = "micrograph",
    .out = "score",
    .params = params,
    .param_count = sizeof params / sizeof *params,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .lanes = 10, /* finding drops and their simpler features takes tens of milliseconds of a thread */
    .load_threads = 8,
    .cuda = true,
    .unscaled = true,
    .input = "train",
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .load = load,
    .process = process,
    .store = store,
    .flush = flush,
    .summarise = summarise,
};
