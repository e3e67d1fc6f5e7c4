/* Tests how classes begin without a reference: with first maps of their own, if the attempt has them, or all with the
 * one map; a restart knows. Attempts themselves, and the stage, follow a script. */
#include "tests/stages/scripted_attempts.h"

static void classes_begin_with_maps_of_their_own(void **state) {
    (void)state;
    static const struct several_decision own = {
        .classes = 2, .text = "two maps, says the script", .maps = {{.share = 0.6}, {.share = 0.4}}};
    static float read[VOXELS];
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced;
    begin("own", &object);
    options.classes = 2;
    next.classes = &own;
    create(&r, &attempts);
    assert_true(attempt(r, &attempts, 1000, &replaced));
    decision_has((const char *[]){"\"own\": true,", "\"confirmed\": true,", "two maps, says the script", NULL});
    assert_non_null(strstr(told, "each class has a first map of its own: two maps"));
    assert_non_null(strstr(attempts_remark(&attempts), "each class"));
    assert_true(has("initial_model.mrc") && has("initial_model_class002.png"));
    read_map(folder, "initial_model_class002.mrc", read);
    for (int i = 0; i < VOXELS; i += 97)
        assert_float_equal(read[i], second[i], 1e-4);
    assert_int_equal(r->map_count, 2);
    mark_rest(r, &attempts);
    assert_int_equal(judged, 2 * JUNK_COMPARED); /* with each map, and its rotational average */
    junk_is_marked(r);
    iterate(r, 1);
    restart(&r, &attempts);
    assert_int_equal(r->map_count, 2);
    assert_false(attempt(r, &attempts, 2000, &replaced)); /* none is made again */
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

static void classes_without_maps_begin_with_the_one(void **state) {
    (void)state;
    static const struct several_decision none = {
        .classes = 2, .failed = SEVERAL_ALIKE, .text = "two maps are the same, says the script"};
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced;
    begin("not_own", &object);
    options.classes = 2;
    next.classes = &none;
    create(&r, &attempts);
    assert_true(attempt(r, &attempts, 1000, &replaced));
    decision_has((const char *[]){"\"own\": false,", "\"refused\": \"alike\",", "\"confirmed\": false,", NULL});
    assert_non_null(strstr(told, "all begin with the one (alike): two maps are the same"));
    assert_non_null(strstr(attempts_remark(&attempts), "all classes begun with one first map, not confirmed"));
    assert_false(has("initial_model_class001.mrc") || has("initial_model_classes.star"));
    assert_int_equal(r->map_count, 1);
    restart(&r, &attempts);
    assert_int_equal(r->map_count, 1);
    assert_true(attempt(r, &attempts, 2000, &replaced));
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_begin_with_maps_of_their_own),
        cmocka_unit_test(classes_without_maps_begin_with_the_one),
    };
    return scratch_run("refiner_first_classes", tests, sizeof tests / sizeof *tests);
}
