/* Tests the parts of the crystal scorer that need no image: names of time series, the hidden Markov model against
 * values computed by hand, the forest, and model files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/crystal-scorer/model.h"
#include "stages/crystal-scorer/scores.h"
#include "stages/crystal-scorer/training.h"
#include "tests/common/scratch.h"

static void name_is(const char *pattern, const char *id, const char *drop, const char *time) {
    struct series_name name = {{0}, {0}};
    if (!series_parse(pattern, id, &name)) {
        if (drop != NULL) fail_msg("%s does not fit %s", id, pattern);
        return;
    }
    if (drop == NULL) fail_msg("%s fits %s: %s, %s", id, pattern, name.drop, name.time);
    assert_string_equal(name.drop, drop);
    assert_string_equal(name.time, time);
}

static void names_of_series(void **state) {
    (void)state;
    struct err err = {0};
    name_is("{drop}_t{time}", "plate7/A01_t03", "plate7/A01", "03");
    name_is("{drop}_t{time}", "a_t_t2", "a_t", "2");
    name_is("{drop}_t{time}", "A01", NULL, NULL);
    name_is("{drop}_t{time}", "_t3", NULL, NULL);
    name_is("{drop}{time}", "A01x12", "A01x", "12");
    name_is("{drop}{time}", "A01x", NULL, NULL);
    name_is("{time}/{drop}", "2026-11-22/A01", "A01", "2026-11-22");
    name_is("{time}-{drop}", "plate7/3-A01", "plate7/A01", "3");
    name_is("well_{drop}_{time}_end", "x/well_H12_7_end", "x/H12", "7");
    name_is("well_{drop}_{time}_end", "x/wall_H12_7_end", NULL, NULL);
    name_is("{drop}/{time}", "plate/A01/007", "plate/A01", "007");
    name_is("{time}/{drop}", "plate7/3/A01", "plate7/A01", "3");
    assert_int_equal(series_check("{drop}_{time}", &err), STATUS_OK);
    assert_int_equal(series_check("{drop}_{tim}", &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(series_check("{drop}{drop}_{time}", &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(series_check("{time}{drop}", &err), STATUS_BAD_ARGUMENT);
    struct series_name a = {"A", "9"}, b = {"A", "10"}, c = {"B", "1"};
    assert_true(series_compare(&a, &b) < 0 && series_compare(&b, &c) < 0 && series_compare(&c, &a) > 0);
}

/* Two classes; the drops have the outcomes 0 0 1, 0 1 and 1. So the first images are 0, 0, 1, and the transitions are
 * 0→0 once and 0→1 twice. */
static void transitions_are_counted(void **state) {
    (void)state;
    static const int classes[] = {0, 0, 1, 0, 1, 1};
    static const bool begins[] = {true, false, false, true, false, true};
    struct series_model m;
    series_learn(2, classes, begins, 6, &m);
    assert_true(fabs(m.prior[0] - 2.5 / 4) < 1e-12 && fabs(m.prior[1] - 1.5 / 4) < 1e-12);
    assert_true(fabs(m.transition[0][0] - 1.5 / 4) < 1e-12 && fabs(m.transition[0][1] - 2.5 / 4) < 1e-12);
    /* No transition starts from class 1: each class gets half of the one pseudo-image. */
    assert_true(fabs(m.transition[1][0] - 0.5) < 1e-12 && fabs(m.transition[1][1] - 0.5) < 1e-12);
    assert_true(fabs(m.share[0] - 0.5) < 1e-12 && fabs(m.share[1] - 0.5) < 1e-12);
}

/* Values computed by hand over all paths. Prior (0.6, 0.4), transitions 0→(0.7, 0.3) and 1→(0.4, 0.6), shares (0.5,
 * 0.5). The forest gives the two images (0.2, 0.8) and (0.9, 0.1). Weights of the paths 00: 0.6·0.2·0.7·0.9 = 0.0756,
 * 01: 0.6·0.2·0.3·0.1 = 0.0036, 10: 0.4·0.8·0.4·0.9 = 0.1152, 11: 0.4·0.8·0.6·0.1 = 0.0192; sum 0.2136. */
static void forward_and_backward(void **state) {
    (void)state;
    const struct series_model m = {
        .classes = 2, .prior = {0.6, 0.4}, .transition = {{0.7, 0.3}, {0.4, 0.6}}, .share = {0.5, 0.5}};
    static const float seen[] = {0.2F, 0.8F, 0.9F, 0.1F};
    float known[4];
    assert_int_equal(series_smooth(&m, seen, 2, known, NULL), STATUS_OK);
    assert_true(fabs((double)known[0] - 0.0792 / 0.2136) < 1e-6 && fabs((double)known[1] - 0.1344 / 0.2136) < 1e-6);
    assert_true(fabs((double)known[2] - 0.1908 / 0.2136) < 1e-6 && fabs((double)known[3] - 0.0228 / 0.2136) < 1e-6);
    /* With shares of 3 to 1, the probabilities (0.75, 0.25) carry no information: the result is the prior. */
    struct series_model uneven = m;
    uneven.share[0] = 0.75, uneven.share[1] = 0.25;
    static const float nothing[] = {0.75F, 0.25F};
    assert_int_equal(series_smooth(&uneven, nothing, 1, known, NULL), STATUS_OK);
    assert_true(fabs((double)known[0] - 0.6) < 1e-6);
    /* Probabilities of a long series neither underflow nor overflow, and images with a probability of 0 do not exclude
     * the other outcomes. */
    enum { LONG = 20000 };
    float *many = malloc(2 * LONG * sizeof *many);
    for (int i = 0; i < LONG; i++) {
        many[2 * i] = i % 100 == 0 ? 0 : 0.9F;
        many[2 * i + 1] = 1 - many[2 * i];
    }
    assert_int_equal(series_smooth(&m, many, LONG, many, NULL), STATUS_OK);
    for (int i = 0; i < LONG; i++)
        assert_true(fabsf(many[2 * i] + many[2 * i + 1] - 1) < 1e-5F);
    free(many);
}

/* A transition of probability 0 stays impossible: crystals do not become clear. */
static void what_cannot_follow(void **state) {
    (void)state;
    const struct series_model m = {
        .classes = 2, .prior = {0.5, 0.5}, .transition = {{0.5, 0.5}, {0, 1}}, .share = {0.5, 0.5}};
    static const float seen[] = {0.01F, 0.99F, 0.6F, 0.4F, 0.01F, 0.99F};
    float known[6];
    assert_int_equal(series_smooth(&m, seen, 3, known, NULL), STATUS_OK);
    assert_true(known[3] > 0.97F);
}

static const enum outcome outcomes[] = {OUTCOME_CLEAR, OUTCOME_CRYSTAL, OUTCOME_SKIN};

/* Smooths rows of scores that come in any order: drop by drop, in the order of their times. */
static void scores_are_smoothed(void **state) {
    (void)state;
    static const struct {
        const char *id;
        float clear, known;
    } rows[] = {{"A_t10", 0.9F, 0.1908F / 0.2136F}, /* the second of two images, as computed by hand above */
                {"other", 0.5F, 0.6F},              /* no series: a drop of its own, which gets the prior */
                {"B_t2", 0.5F, 0.6F},
                {"A_t9", 0.2F, 0.0792F / 0.2136F}};
    const struct model model = {
        .classes = 2,
        .outcomes = {OUTCOME_CLEAR, OUTCOME_SKIN},
        .has_series = true,
        .series = {.classes = 2, .prior = {0.6, 0.4}, .transition = {{0.7, 0.3}, {0.4, 0.6}}, .share = {0.5, 0.5}}};
    struct scores scores = {0};
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("score.csv", path);
    for (int i = 0; i < 4; i++) {
        const float of_class[2] = {rows[i].clear, 1 - rows[i].clear};
        struct score score = {.image = (char *)rows[i].id};
        score_set(&score, &model, of_class);
        assert_ok(score_write(&score, path, &err));
        assert_ok(scores_add(&scores, path, rows[i].id, &err));
    }
    assert_ok(scores_smooth(&scores, &model, "{drop}_t{time}", &err));
    for (int i = 0, k; i < 4; i++) {
        for (k = 0; strcmp(rows[k].id, scores.rows[i].id) != 0; k++)
            ;
        const float *known = scores.rows[i].smoothed;
        if (!(fabsf(known[OUTCOME_CLEAR] - rows[k].known) < 1e-5F))
            fail_msg("%s: %g", rows[k].id, known[OUTCOME_CLEAR]);
        assert_true(fabsf(known[OUTCOME_CLEAR] + known[OUTCOME_SKIN] - 1) < 1e-5F);
    }
    scores_clear(&scores);
}

static uint64_t next(uint64_t *noise) {
    *noise = *noise * 6364136223846793005U + 1442695040888963407U;
    return *noise >> 40;
}

/* Makes examples of three classes. Two of the thirty features distinguish the classes, the others are noise. Each call
 * makes the same examples. */
static void fill(struct training *t, size_t each) {
    float vector[DROP_FEATURES_GRADIENT];
    uint64_t noise = 99;
    for (size_t i = 0; i < 3 * each; i++) {
        char id[32], name[40];
        for (int k = 0; k < DROP_FEATURES_GRADIENT; k++)
            vector[k] = (float)next(&noise) * 0x1p-24F;
        vector[3] += i % 3 == 0 ? 0.8F : 0;
        vector[7] += i % 3 == 1 ? 0.8F : 0;
        snprintf(id, sizeof id, "d%03zu_t%zu", i / 6, i % 6);
        snprintf(name, sizeof name, "%s.png", id);
        assert_int_equal(training_add(t, name, id, outcomes[i % 3], vector, NULL), STATUS_OK);
    }
}

static void train(struct training *t, struct model *model, struct confusion *confusion, float **predicted) {
    struct err err = {0};
    *t = (struct training){.features = {FEATURES_STATISTICS, 200, 31, 1},
                           .pattern = "{drop}_t{time}",
                           .folds = 5,
                           .trees = 60,
                           .threads = 2};
    fill(t, 60);
    if (training_run(t, model, confusion, predicted, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void forests_learn_and_are_repeated(void **state) {
    (void)state;
    if (!forest_available()) skip();
    struct training t;
    struct model model, again, read;
    struct confusion confusion, second;
    float *predicted = NULL, *predicted_again = NULL;
    struct err err = {0};
    char path[PATH_SIZE], other[PATH_SIZE];
    train(&t, &model, &confusion, &predicted);
    printf("macro recall %.3f\n", confusion_macro_recall(&confusion));
    assert_true(confusion_macro_recall(&confusion) > 0.8);
    assert_int_equal(model.classes, 3);
    assert_true(model.has_series && model.outcomes[1] == OUTCOME_CRYSTAL);
    for (int i = 0; i < 180; i++)
        assert_true(fabsf(predicted[3 * i] + predicted[3 * i + 1] + predicted[3 * i + 2] - 1) < 1e-5F);
    scratch_path("a.model", path);
    scratch_path("b.model", other);
    assert_ok(model_write(&model, path, &err));
    training_clear(&t);
    train(&t, &again, &second, &predicted_again);
    assert_memory_equal(predicted, predicted_again, 540 * sizeof *predicted);
    assert_ok(model_write(&again, other, &err));
    assert_int_equal(scratch_shell("cmp %s %s", path, other), 0);
    assert_ok(model_read(path, 1, &read, &err));
    float p[OUTCOMES], q[OUTCOMES];
    for (size_t i = 0; i < t.count; i++) {
        assert_ok(forest_predict(model.forest, t.rows + i * DROP_FEATURES_GRADIENT, p, &err));
        assert_ok(forest_predict(read.forest, t.rows + i * DROP_FEATURES_GRADIENT, q, &err));
        assert_memory_equal(p, q, 3 * sizeof *p);
    }
    assert_string_equal(read.pattern, "{drop}_t{time}");
    assert_true(fabs(read.series.transition[0][1] - model.series.transition[0][1]) < 1e-15);
    model_clear(&model), model_clear(&again), model_clear(&read);
    training_clear(&t);
    free(predicted), free(predicted_again);
}

/* The weights of each kind of features sum to 1. */
static void kinds_of_features_weigh_alike(void **state) {
    (void)state;
    static float weights[FEATURES_MOST];
    double texture = 0, statistics = 0, all = 0;
    features_weights(FEATURES_ALL, weights);
    for (int i = 0; i < FEATURES_MOST; i++) {
        all += (double)weights[i];
        statistics += i < DROP_FEATURES_GRADIENT ? (double)weights[i] : 0;
        texture += i >= DROP_FEATURES_COUNT ? (double)weights[i] : 0;
    }
    assert_true(fabs(statistics - 1) < 1e-4 && fabs(texture - 1) < 1e-4 && fabs(all - 6) < 1e-4);
}

/* Returns the share of its own training examples that a forest recognises. One of forty features distinguishes the two
 * classes; the others are noise. The forest has few trees, and each tree sees at most one example in five, so that the
 * trees cannot memorise the examples. */
static double recognised(float weight) {
    enum { FEATURES = 40, COUNT = 200 };
    static float rows[COUNT][FEATURES];
    static int classes[COUNT];
    float weights[FEATURES], p[2];
    uint64_t noise = 5;
    int right = 0;
    struct err err = {0};
    struct forest *forest = NULL;
    for (int k = 0; k < FEATURES; k++)
        weights[k] = k == 3 ? weight : 1;
    for (int i = 0; i < COUNT; i++) {
        classes[i] = i % 2;
        for (int k = 0; k < FEATURES; k++) {
            noise = noise * 6364136223846793005U + 1442695040888963407U;
            rows[i][k] = k == 3 ? (float)(i % 2) : (float)(noise >> 40) * 0x1p-24F;
        }
    }
    const struct forest_options options = {
        .classes = 2, .features = FEATURES, .trees = 10, .subsample = 0.2, .seed = 1, .threads = 1, .weights = weights};
    assert_ok(forest_create(&options, &forest, &err));
    for (int part = 0; part < FOREST_PARTS; part++)
        assert_ok(forest_grow(forest, part, rows[0], classes, COUNT, &err));
    for (int i = 0; i < COUNT; i++) {
        assert_ok(forest_predict(forest, rows[i], p, &err));
        right += p[classes[i]] > 0.5F;
    }
    forest_destroy(&forest);
    return (double)right / COUNT;
}

static void forests_try_features_by_weight(void **state) {
    (void)state;
    if (!forest_available()) skip();
    double often = recognised(100), seldom = recognised(1e-6F);
    printf("recognised: %.3f if the trees try the feature that distinguishes the classes, %.3f if not\n", often,
           seldom);
    assert_true(often == 1 && seldom < 0.95);
}

/* Trains on drops with random outcomes; all images of a drop are equal. A held-out drop can then be recognised only by
 * chance, or because training saw an image of the drop. Returns the share of images that are recognised. */
static double share_recognised(size_t drops, size_t images, const char *pattern) {
    struct training t = {
        .features = {FEATURES_STATISTICS, 200, 31, 1}, .pattern = pattern, .folds = 5, .trees = 60, .threads = 2};
    struct model model;
    struct confusion confusion;
    float *predicted = NULL, vector[DROP_FEATURES_GRADIENT];
    struct err err = {0};
    uint64_t noise = 7;
    for (size_t d = 0; d < drops; d++) {
        enum outcome outcome = outcomes[next(&noise) % 3];
        for (int k = 0; k < DROP_FEATURES_GRADIENT; k++)
            vector[k] = (float)next(&noise) * 0x1p-24F;
        for (size_t i = 0; i < images; i++) {
            char id[32];
            snprintf(id, sizeof id, "d%03zu_t%zu", d, i);
            assert_ok(training_add(&t, id, id, outcome, vector, &err));
        }
    }
    assert_ok(training_run(&t, &model, &confusion, &predicted, &err));
    size_t right = 0;
    for (int k = 0; k < 3; k++)
        right += confusion.counts[k][k];
    model_clear(&model);
    training_clear(&t);
    free(predicted);
    return (double)right / (double)(drops * images);
}

/* Chance gives 1/3, with a standard deviation of 0.024 over 400 images and of 0.043 over 120 drops. */
static void what_is_held_out_is_not_known(void **state) {
    (void)state;
    if (!forest_available()) skip();
    double alone = share_recognised(400, 1, NULL), drops = share_recognised(120, 4, "{drop}_t{time}"),
           torn = share_recognised(120, 4, NULL);
    printf("random outcomes: recognised %.3f of images, %.3f of drops, %.3f if the images of a drop are separated\n",
           alone, drops, torn);
    assert_true(alone > 0.2 && alone < 0.43);
    assert_true(drops > 0.15 && drops < 0.48);
    assert_true(torn > 0.9); /* the pattern exists to prevent this */
}

/* forest_load checks the number of classes. Without this check a wrong forest would fail only at the first image. */
static void forests_of_other_classes_are_refused(void **state) {
    (void)state;
    if (!forest_available()) skip();
    struct training t;
    struct model model;
    struct confusion confusion;
    struct forest *forest = NULL;
    struct err err = {0};
    float *predicted = NULL;
    char *bytes = NULL;
    size_t length;
    train(&t, &model, &confusion, &predicted);
    assert_ok(forest_save(model.forest, &bytes, &length, &err));
    struct forest_options options = {.classes = 2, .features = DROP_FEATURES_GRADIENT, .threads = 1};
    assert_int_equal(forest_load(&options, bytes, length, &forest, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "another number of classes than 2"));
    options.classes = 3;
    options.features = DROP_FEATURES_GRADIENT + 1;
    assert_int_equal(forest_load(&options, bytes, length, &forest, &err), STATUS_BAD_FORMAT);
    options.features = DROP_FEATURES_GRADIENT;
    assert_ok(forest_load(&options, bytes, length, &forest, &err));
    forest_destroy(&forest);
    model_clear(&model);
    training_clear(&t);
    free(bytes), free(predicted);
}

static void too_little_is_refused(void **state) {
    (void)state;
    struct training t = {.features = {FEATURES_STATISTICS, 200, 31, 1}, .folds = 5, .trees = 5, .threads = 1};
    struct model model;
    struct confusion confusion;
    float *predicted = NULL, vector[DROP_FEATURES_GRADIENT] = {0};
    struct err err = {0};
    assert_int_equal(training_run(&t, &model, &confusion, &predicted, &err), STATUS_NOT_FOUND);
    assert_ok(training_add(&t, "a", "a", OUTCOME_CLEAR, vector, &err));
    assert_ok(training_add(&t, "b", "b", OUTCOME_CLEAR, vector, &err));
    assert_int_equal(training_run(&t, &model, &confusion, &predicted, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "two outcomes or more"));
    assert_ok(training_add(&t, "c", "c", OUTCOME_JUNK, vector, &err));
    assert_int_equal(training_run(&t, &model, &confusion, &predicted, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "only one image of 'junk'"));
    training_clear(&t);
}

static void refused(const char *text, const char *says) {
    struct model model;
    const char *forest;
    size_t length;
    struct err err = {0};
    assert_int_not_equal(model_parse("m", text, strlen(text), &model, &forest, &length, &err), STATUS_OK);
    if (strstr(err.message, says) == NULL) fail_msg("'%s' is not in: %s", says, err.message);
}

#define MODEL "icestream crystal-scorer model 2\n"
#define FEATURES "{\"features\":{\"version\":1,\"groups\":\"simple\",\"diameter\":200,\"window\":31,\"stride\":1}"
#define CLASSES ",\"classes\":[{\"outcome\":\"clear\",\"examples\":3},{\"outcome\":\"crystal\",\"examples\":2}]"
#define TURNED ",\"classes\":[{\"outcome\":\"crystal\",\"examples\":2},{\"outcome\":\"clear\",\"examples\":2}]"
#define SERIES ",\"series\":{\"pattern\":\"{drop}{time}\",\"prior\":[1,1],\"transition\":[[1,0],[0,1]]}"
#define FOREST ",\"series\":null,\"forest\":"
#define DESCRIBED "{\"bytes\":2,\"features\":225,\"xgboost\":\"1.7.4\"}}\n"
#define ZEROS "0000000000000000\n"

static void broken_models_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } broken[] = {
        {"", "is no model"},
        {"\x89PNG", "is no model"},
        {"icestream crystal-scorer model 1\n{}\n", "version 1, and this program reads version 2"},
        {"icestream crystal-scorer model x\n{}\n", "first line is broken"},
        {MODEL "{", "ends inside its header"},
        {MODEL "{\n", "header is broken"},
        {MODEL "{}\n", "of which version its features are"},
        {MODEL "{\"features\":{\"version\":7}}\n",
         "version 7 of the features, and this program computes version 1: train it again"},
        {MODEL "{\"features\":{\"version\":1,\"groups\":\"some\"}}\n", "features (groups, diameter, window, stride)"},
        {MODEL "{\"features\":{\"version\":1,\"groups\":\"simple\",\"diameter\":1500,\"window\":31,\"stride\":1}}\n",
         "classes are not"}, /* wider than texture allows, but the model has no texture */
        {MODEL FEATURES "}\n", "classes are not two or more"},
        {MODEL FEATURES TURNED "}\n", "classes are not two or more outcomes in their order"},
        {MODEL FEATURES CLASSES SERIES "}\n", "series is neither"},
        {MODEL FEATURES CLASSES ",\"series\":null}\n", "forest is not described"},
        {MODEL FEATURES CLASSES FOREST "{\"bytes\":2,\"features\":225}}\n", "forest is not described"},
        {MODEL FEATURES CLASSES FOREST "{\"bytes\":2,\"features\":3150,\"xgboost\":\"1\"}}\n",
         "forest is not described"},
        {MODEL FEATURES CLASSES FOREST DESCRIBED, "ends after 0 of its forest's 2 bytes"},
        {MODEL FEATURES CLASSES FOREST DESCRIBED ZEROS "a", "ends after 1 of its forest's 2 bytes"},
        {MODEL FEATURES CLASSES FOREST DESCRIBED ZEROS "ab", "is not what was written"},
        {MODEL FEATURES CLASSES FOREST DESCRIBED ZEROS "abc", "is not what was written"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        refused(broken[i].text, broken[i].says);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_series),
        cmocka_unit_test(transitions_are_counted),
        cmocka_unit_test(forward_and_backward),
        cmocka_unit_test(what_cannot_follow),
        cmocka_unit_test(scores_are_smoothed),
        cmocka_unit_test(forests_learn_and_are_repeated),
        cmocka_unit_test(kinds_of_features_weigh_alike),
        cmocka_unit_test(forests_try_features_by_weight),
        cmocka_unit_test(what_is_held_out_is_not_known),
        cmocka_unit_test(forests_of_other_classes_are_refused),
        cmocka_unit_test(too_little_is_refused),
        cmocka_unit_test(broken_models_are_refused),
    };
    return scratch_run("crystal-scorer", tests, sizeof tests / sizeof *tests);
}
