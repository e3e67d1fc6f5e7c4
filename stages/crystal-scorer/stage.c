/* The crystal-scorer as a stage: the callbacks that the harness runs for each image of a drop, and the descriptor. */
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/harness/display.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/crystal-scorer/crystal_scorer.h"
#include "stages/crystal-scorer/features.h"
#include "stages/crystal-scorer/kept.h"
#include "stages/crystal-scorer/parameters.h"
#include "stages/crystal-scorer/scores.h"

struct state {
    struct crystal_scorer scorer;
    size_t unreadable; /* scores that the last summary had to leave out */
};

struct lane {
    struct features *features;
    bool started; /* texture is being computed */
    const struct label *label;
};

/* Messages begin with the name of the option that is wrong. */
static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    static const char *const KEYS[] = {"diameter", "window", "stride", "centre", "series", "train", "model"};
    const char *key = "";
    struct err err = {0};
    enum status status = crystal_scorer_check(params, &err);
    for (size_t i = 0; status != STATUS_OK && i < sizeof KEYS / sizeof *KEYS; i++)
        if (strncmp(err.message, KEYS[i], strlen(KEYS[i])) == 0) key = KEYS[i];
    (void)stage_checks_result(checks, key, status, &err);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    struct crystal_scorer_place place = {.folder = stage_folder(stage),
                                         .in_pipeline = stage_in_pipeline(stage),
                                         .threads = stage_flush_threads(stage) > 0 ? stage_flush_threads(stage) : 1};
    return crystal_scorer_begin(&s->scorer, stage_params(stage), &place, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    crystal_scorer_clear(&s->scorer);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    features_destroy(&((struct lane *)stage_lane->state)->features);
}

/* Finding the drop and its texture work on copies of the image. */
static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    const struct crystal_scorer *scorer = &((struct state *)state)->scorer;
    const struct crystal_scorer_options *p = stage_params(stage);
    const char *name;
    char path[PATH_SIZE];
    struct image_info info;
    const struct label *label;
    if (p->features_from != NULL) return STATUS_OK;
    TRY(item_need_string(stage_lane->item, "micrograph.path", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    TRY(crystal_scorer_label(scorer, path, &label, err)); /* images without a label are left out, broken or not */
    TRY(image_probe(path, &info, err));
    TRY(features_check_one(path, info.nz, err));
    ret_need->lane = mem_sum(info.bytes, image_bytes(info.nx, info.ny, 2));
    return STATUS_OK;
}

/* Nothing of an item without a lane is under way in features. */
static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    struct lane *lane = stage_lane != NULL ? stage_lane->state : NULL;
    if (lane == NULL || lane->started) return;
    lane_fini(stage, state, stage_lane);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct crystal_scorer *scorer = &((struct state *)state)->scorer;
    const struct crystal_scorer_options *p = stage_params(stage);
    struct lane *lane = stage_lane->state;
    const char *name;
    char path[PATH_SIZE];
    TRY(item_need_string(stage_lane->item, "micrograph.path", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    TRY(crystal_scorer_label(scorer, path, &lane->label, err));
    if (lane->features == NULL)
        TRY(features_create(&scorer->features, scorer->with_texture,
                            stage_threads(stage) > 0 ? stage_threads(stage) : 1, stage_device(stage), &lane->features,
                            err));
    if (lane->started) { /* by an item that failed afterwards */
        lane->started = false;
        TRY(features_finish(lane->features, err));
    }
    if (p->features_from != NULL) return kept_read(p->features_from, item_id(stage_lane->item), lane->features, err);
    TRY(features_load(lane->features, path, crystal_scorer_centre(scorer), err));
    if (lane->features->fills)
        stage_log(stage, LOG_WARN, "no-circle",
                  "%s: shows no edge of a drop: its middle is evaluated; the parameter centre names another place",
                  path);
    return STATUS_OK;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    if (((const struct crystal_scorer_options *)stage_params(stage))->features_from != NULL) return STATUS_OK;
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

static enum status write_score(struct stage *stage, const struct state *s, const struct lane *lane, struct item *item,
                               struct err *err) {
    char relative[PATH_SIZE], path[PATH_SIZE];
    const char *image;
    struct score score;
    TRY(item_need_string(item, "micrograph.path", &image, err));
    TRY(crystal_scorer_score(&s->scorer, lane->features, image, &score, err));
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
    const struct crystal_scorer_options *p = stage_params(stage);
    if (lane->started) { /* once, even if writing is tried again */
        lane->started = false;
        TRY(features_finish(lane->features, err));
    }
    if (p->features_from == NULL) TRY(display_micrograph(stage, item, &lane->features->image, err));
    if (p->keep_features) TRY(keep_features(stage, item, lane->features, err));
    if (p->train != NULL) {
        const char *image = item_string(item, "micrograph.path");
        return training_add(&s->scorer.training, image, item_id(item), lane->label->outcome, lane->features->vector,
                            err);
    }
    return p->model != NULL ? write_score(stage, s, lane, item, err) : STATUS_OK;
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct crystal_scorer *scorer = &((struct state *)state)->scorer;
    char path[PATH_SIZE];
    double recall = 0;
    if (scorer->options->train == NULL) return STATUS_OK;
    TRY(path_join(stage_folder(stage), "crystals.model", path, sizeof path, err));
    stage_note(stage, "growing forests of %zu images", scorer->training.count);
    TRY(crystal_scorer_train(scorer, stage_folder(stage), path, &recall, err));
    static const char *const files[] = {"crystals.model", NULL};
    stage_result(stage, files, "%d outcomes, %zu images; held out, the macro recall is %.3f", scorer->model.classes,
                 scorer->training.count, recall);
    stage_log(stage, LOG_INFO, "model", "%s: %d outcomes, %zu images; held out, the macro recall is %.3f", path,
              scorer->model.classes, scorer->training.count, recall);
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
    struct err own = {0};
    TRY(stage_product(walk->stage, item, "_score.csv", relative, path, err));
    if (!file_exists(path)) return STATUS_OK;
    enum status status = scores_add(&walk->scores, path, item_id(item), &own);
    if (status_is_of_file(status)) { /* an unreadable file must not stop the others */
        if (walk->unreadable++ == 0) walk->first = own;
        return STATUS_OK;
    }
    if (status != STATUS_OK && err != NULL) *err = own;
    return status;
}

static enum status make_tables(struct stage *stage, struct state *s, struct walk *walk, struct err *err) {
    const struct crystal_scorer_options *p = stage_params(stage);
    TRY(stage_each_done(stage, visit, walk, err));
    if (walk->unreadable > 0 && walk->unreadable != s->unreadable)
        stage_log(stage, LOG_WARN, "scores-unreadable", "%zu scores are left out of scores.csv, the first: %s",
                  walk->unreadable, walk->first.message);
    s->unreadable = walk->unreadable;
    if (p->series != NULL) TRY(scores_smooth(&walk->scores, &s->scorer.model, p->series, err));
    return scores_tables(&walk->scores, stage_folder(stage), p->likely, p->series != NULL, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    const struct crystal_scorer_options *p = stage_params(stage);
    struct walk walk = {.stage = stage};
    if (p->model == NULL) return STATUS_OK;
    static const char *const files[] = {"scores.csv", NULL};
    stage_result(stage, files, "%s", "");
    enum status status = make_tables(stage, state, &walk, err);
    scores_clear(&walk.scores);
    return status;
}

const struct stage_descriptor crystal_scorer_stage = {
    .name = "crystal-scorer",
    .summary = "tells what came of crystallisation trials by images of their drops",
    .in = "micrograph",
    .out = "score",
    .params = crystal_scorer_parameters,
    .param_count = CRYSTAL_SCORER_PARAMETERS,
    .params_size = sizeof(struct crystal_scorer_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .lanes = 10, /* finding drops and their simpler features takes tens of milliseconds of a thread */
    .load_threads = 8,
    .cuda = true,
    .unscaled = true,
    .input = "train",
    .columns = "",
    .check = check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
    .flush = flush,
    .summarise = summarise,
};
