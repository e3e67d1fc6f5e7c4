/* Tests what becomes of a first map while a stream goes on, and at its end: attempts at doublings change nothing,
 * confirm the map, or replace it, and then the refinement begins again; a restart knows. Particles that do not show the map are marked.
 * Attempts themselves, and the stage, follow a script. */
#include "tests/stages/scripted_attempts.h"

static void is_confirmed_by_the_same_map(void **state) {
    (void)state;
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced;
    begin("confirmed", &object);
    create(&r, &attempts);
    assert_true(attempts.wanted);
    assert_false(attempt(r, &attempts, 999, &replaced));
    assert_true(attempt(r, &attempts, 1000, &replaced));
    decision_has((const char *[]){"\"attempt\": 1,", "\"attempts\": 1,", "\"tried\": 1000,", "\"confirmed\": false,",
                                  "\"junk\": null,", "\"last\": null,", "\"accepted\": true,", NULL});
    assert_string_not_equal(attempts_remark(&attempts), "");
    mark_rest(r, &attempts);
    junk_is_marked(r);
    assert_int_equal(judged, JUNK_COMPARED);
    mark_rest(r, &attempts);
    assert_int_equal(judged, JUNK_COMPARED); /* none is left */
    decision_has((const char *[]){"\"attempts\": 1,", "\"junk\": 12,", "\"last\": null,", NULL});
    iterate(r, 1);
    assert_false(attempt(r, &attempts, 1999, &replaced));
    next.failed = INITIAL_AGREEMENT;
    assert_true(attempt(r, &attempts, 2000, &replaced));
    decision_has((const char *[]){"\"attempt\": 1,", "\"attempts\": 2,", "\"tried\": 2000,", "\"confirmed\": false,",
                                  "finds no map (agreement)", "\"accepted\": true,", "\"present\": 1000,", NULL});
    restart(&r, &attempts);
    assert_false(attempts.wanted);
    assert_false(attempt(r, &attempts, 3999, &replaced));
    iterate(r, 2);
    junk_is_marked(r); /* as the tables say */
    next.failed = INITIAL_ACCEPTED;
    next.map = first_turned;
    assert_true(attempt(r, &attempts, 4000, &replaced));
    assert_false(replaced);
    decision_has((const char *[]){"\"attempt\": 1,", "\"attempts\": 3,", "\"tried\": 4000,", "\"confirmed\": true,",
                                  "makes the same map", "\"present\": 1000,", NULL});
    assert_non_null(strstr(told, "first map confirmed"));
    assert_string_equal(attempts_remark(&attempts), "");
    assert_true(likeness(first) > 0.99); /* in its own hand */
    assert_false(attempt(r, &attempts, 8000, &replaced));
    restart(&r, &attempts);
    assert_false(attempt(r, &attempts, 8000, &replaced));
    iterate(r, 3);
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

/* Half of the particles show a map that is nearly round, as the likelihood sees it; the others are junk. */
static void junk_is_what_fits_the_map_less(void **state) {
    (void)state;
    enum { ALL = 1000 };
    static double map[ALL], round[ALL];
    static bool junk[ALL];
    double shares[JUNK_CLASSES];
    const double *const evidence[JUNK_COMPARED] = {map, round};
    int wrong = 0;
    srand(20261128);
    for (int i = 0; i < ALL; i++) {
        const bool good = i % 2 == 0;
        round[i] = i % 4 == 3 ? -2 + normal() : 10 + 3 * normal();
        map[i] = round[i] + (good ? 5 : -5) + 2 * normal();
    }
    const int count = junk_decide(evidence, ALL, junk, shares);
    for (int i = 0; i < ALL; i++)
        wrong += junk[i] != (i % 2 != 0);
    print_message("%d are junk, %d wrong, shares %.3f %.3f %.3f\n", count, wrong, shares[0], shares[1], shares[2]);
    assert_true(wrong < ALL / 50);
    assert_true(abs(count - ALL / 2) < ALL / 50);
    assert_true(fabs(shares[JUNK_MAP] - 0.5) < 0.03);
    assert_true(fabs(shares[JUNK_NOTHING] - 0.25) < 0.08);
    /* A particle that fits both about alike is not junk if most particles are those of the map. */
    for (int i = 0; i < ALL; i++) {
        round[i] = 10 + 3 * normal();
        map[i] = round[i] + 0.5 + normal();
    }
    assert_true(junk_decide(evidence, ALL, junk, shares) < ALL / 50);
    assert_int_equal(junk_decide(evidence, 0, junk, shares), 0);
}

static void is_replaced_by_a_better_one(void **state) {
    (void)state;
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced;
    begin("replaced", &object);
    create(&r, &attempts);
    assert_true(attempt(r, &attempts, 1000, &replaced));
    mark_rest(r, &attempts);
    iterate(r, 1);
    iterate(r, 2);
    next.map = mixed_turned;
    next.gain = 2.5;
    assert_true(attempt(r, &attempts, 2000, &replaced));
    assert_false(replaced);
    decision_has(
        (const char *[]){"\"attempt\": 1,", "\"attempts\": 2,", "\"confirmed\": false,", "fit better by", NULL});
    assert_true(likeness(first) > 0.99);
    assert_true(has("run_it002_optimiser.star"));
    assert_false(has("history.jsonl"));
    next.gain = 3.5;
    assert_true(attempt(r, &attempts, 4000, &replaced));
    assert_true(replaced);
    decision_has((const char *[]){"\"attempt\": 3,", "\"attempts\": 3,", "\"tried\": 4000,", "\"present\": 4000,",
                                  "\"confirmed\": false,", "\"junk\": null,", "makes another map", NULL});
    assert_true(junk_is_left(r, false)); /* what did not show the other map may show this one */
    assert_true(likeness(mixed) > 0.95); /* turned onto the first one, in its hand */
    char *history = text_of("history.jsonl");
    assert_non_null(strstr(history, "\"event\": \"first-map\", \"attempt\": 3, \"replaces\": 1, \"particles\": 4000"));
    free(history);
    assert_false(has("run_it001_optimiser.star") || has("run_it002_optimiser.star"));
    assert_true(has("run_it002_class001.mrc"));
    restart(&r, &attempts); /* as if killed at once */
    assert_int_equal(refiner_state(r).iteration, 0);
    iterate(r, 1);
    next.map = mixed;
    assert_true(attempt(r, &attempts, 8000, &replaced));
    assert_false(replaced);
    decision_has((const char *[]){"\"attempt\": 3,", "\"attempts\": 4,", "\"confirmed\": true,", NULL});
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

/* The refinement goes on from the other map as one that was created with it. */
static void begins_again_as_new(void **state) {
    (void)state;
    struct refiner *r = NULL, *fresh = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced;
    begin("anew", &object);
    create(&r, &attempts);
    assert_true(attempt(r, &attempts, 1000, &replaced));
    iterate(r, 1);
    iterate(r, 2);
    next.map = second;
    next.gain = 10;
    assert_true(attempt(r, &attempts, 2000, &replaced));
    assert_true(replaced);
    iterate(r, 1);
    iterate(r, 2);
    attempts_destroy(&attempts);
    for (int i = 1; i <= 2; i++) { /* else the new one would continue from them */
        char path[PATH_SIZE + 64];
        snprintf(path, sizeof path, "%s/run_it%03d_optimiser.star", folder, i);
        assert_int_equal(file_remove(path, NULL), STATUS_OK);
    }
    create(&fresh, &attempts);
    iterate(fresh, 1);
    iterate(fresh, 2);
    for (int side = 0; side < 2; side++)
        assert_memory_equal(r->sides[side].references->map, fresh->sides[side].references->map, VOXELS * sizeof(float));
    for (size_t i = 0; i < r->set.count; i++)
        assert_int_equal(r->set.particles[i].half, fresh->set.particles[i].half);
    attempts_destroy(&attempts);
    refiner_destroy(&fresh);
    refiner_destroy(&r);
}

/* The attempt that runs at the end of the stream is completed, and another one is made if it is due then. */
static void is_made_again_at_the_end(void **state) {
    (void)state;
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced, worked;
    begin("end", &object);
    create(&r, &attempts);
    assert_true(attempt(r, &attempts, 1000, &replaced));
    iterate(r, 1);
    present = 2000;
    next.failed = INITIAL_AGREEMENT;
    assert_int_equal(attempts_again(NULL, r, &attempts, &worked, &replaced, NULL), STATUS_OK);
    assert_true(worked);
    assert_non_null(attempts.running);
    assert_int_equal(attempts_finish(NULL, r, &attempts, &replaced, NULL), STATUS_OK);
    assert_null(attempts.running);
    assert_false(replaced);
    decision_has((const char *[]){"\"attempts\": 2,", "\"tried\": 2000,", "\"confirmed\": false,", NULL});
    present = 3999;
    next.failed = INITIAL_ACCEPTED;
    next.map = second;
    next.gain = 10;
    assert_int_equal(attempts_again_at_end(NULL, r, &attempts, &replaced, NULL), STATUS_OK);
    assert_false(replaced);
    decision_has((const char *[]){"\"attempts\": 2,", "\"tried\": 2000,", NULL});
    present = 4000;
    assert_int_equal(attempts_again_at_end(NULL, r, &attempts, &replaced, NULL), STATUS_OK);
    assert_true(replaced);
    decision_has((const char *[]){"\"attempt\": 3,", "\"attempts\": 3,", "\"tried\": 4000,", NULL});
    assert_int_equal(attempts_last(NULL, r, &attempts, NULL), STATUS_OK);
    assert_false(incomplete);
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

/* Iterations that would always be worthwhile do not keep an attempt from its work, nor does it keep them from theirs. */
static void takes_turns_with_iterations(void **state) {
    (void)state;
    static const double LONG = 1e9, SHORT = 1e-12; /* s */
    struct refiner *r = NULL;
    struct attempts attempts;
    struct object object;
    bool replaced, worked;
    begin("turns", &object);
    create(&r, &attempts);
    assert_false(attempts_turn(&attempts, r, LONG)); /* there is no map */
    assert_true(attempt(r, &attempts, 1000, &replaced));
    present = 2000;
    assert_false(attempts_turn(&attempts, r, 0)); /* there was no iteration */
    assert_true(attempts_turn(&attempts, r, LONG));
    mark_rest(r, &attempts);
    assert_int_equal(attempts_again(NULL, r, &attempts, &worked, &replaced, NULL), STATUS_OK);
    assert_non_null(attempts.running);
    assert_true(attempts_turn(&attempts, r, LONG));
    assert_false(attempts_turn(&attempts, r, SHORT));
    attempts_pass_turn(&attempts);
    assert_true(attempts_turn(&attempts, r, SHORT));
    while (attempts.running != NULL)
        assert_int_equal(attempts_again(NULL, r, &attempts, &worked, &replaced, NULL), STATUS_OK);
    assert_false(attempts_turn(&attempts, r, LONG)); /* it is confirmed */
    attempts_destroy(&attempts);
    refiner_destroy(&r);
}

/* The stage itself: init, what arrives, and idle until it has nothing to do. */
struct run {
    void *state;
    struct stage_lane lane;
};

static struct run start(void) {
    struct err err = {0};
    struct run run = {
        .state = calloc(1, refiner_stage.state_size),
        .lane = {.item = particles_item("a", "particles", root), .state = calloc(1, refiner_stage.lane_size)}};
    assert_ok(refiner_stage.init(NULL, run.state, &err));
    assert_ok(refiner_stage.load(NULL, run.state, &run.lane, &err));
    assert_ok(refiner_stage.store(NULL, run.state, &run.lane, &err));
    return run;
}

static void end(struct run *run) {
    refiner_stage.lane_fini(NULL, run->state, &run->lane);
    refiner_stage.fini(NULL, run->state);
    item_destroy(&run->lane.item);
    free(run->lane.state);
    free(run->state);
}

static void rest(struct run *run, size_t particles) {
    enum stage_work work = STAGE_WORK_MORE;
    struct err err = {0};
    present = particles;
    for (int i = 0; i < 200 && work == STAGE_WORK_MORE; i++)
        assert_ok(refiner_stage.idle(NULL, run->state, &work, &err));
    assert_int_equal(work, STAGE_WORK_NONE);
}

/* Returns how many lines of the history have a text. */
static int lines_with(const char *pattern) {
    char *text = text_of("history.jsonl");
    int count = 0;
    for (const char *at = text; (at = strstr(at, pattern)) != NULL; at++)
        count++;
    free(text);
    return count;
}

static void stage_does_it_between_iterations(void **state) {
    (void)state;
    struct object object;
    begin("stage", &object);
    options.min_particles = 10;
    options.live_order = 1;
    options.keep_iterations = 3;
    struct run run = start();
    rest(&run, 1000);
    rest(&run, 1999);
    end(&run); /* waits for the files */
    decision_has((const char *[]){"\"attempts\": 1,", NULL});
    assert_int_equal(lines_with("\"event\": \"map\", \"iteration\": 1,"), 1);
    run = start();
    assert_non_null(strstr(told, "continues after iteration 1"));
    next.map = mixed_turned;
    next.gain = 10;
    rest(&run, 2000);
    end(&run);
    decision_has((const char *[]){"\"attempt\": 2,", "\"attempts\": 2,", "\"confirmed\": false,", NULL});
    assert_int_equal(lines_with("\"event\": \"first-map\""), 1);
    assert_int_equal(lines_with("\"event\": \"map\", \"iteration\": 1,"), 2); /* it began again at once */
    assert_int_equal(refiner_last(folder, 1000), 1);
    run = start();
    next.map = mixed;
    rest(&run, 4000);
    rest(&run, 8000);
    end(&run);
    decision_has((const char *[]){"\"attempt\": 2,", "\"attempts\": 3,", "\"confirmed\": true,", NULL});
}

/* The map that a session ends with is another one than the first: the last attempt has replaced it. */
static void stage_does_it_at_the_end(void **state) {
    (void)state;
    struct object object;
    struct err err = {0};
    begin("stage-end", &object);
    options.min_particles = 10;
    options.live_order = options.healpix_order = 1;
    options.max_iterations = 2;
    struct run run = start();
    rest(&run, 1000);
    present = 2000;
    next.map = mixed_turned;
    next.gain = 10;
    assert_ok(refiner_stage.flush(NULL, run.state, &err));
    end(&run);
    decision_has((const char *[]){"\"attempt\": 2,", "\"attempts\": 2,", "\"confirmed\": false,", NULL});
    assert_int_equal(lines_with("\"event\": \"first-map\""), 1);
    assert_int_equal(lines_with("\"final\": true"), 1);
    assert_true(lines_with("\"event\": \"map\"") >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_is_what_fits_the_map_less),   cmocka_unit_test(is_confirmed_by_the_same_map),
        cmocka_unit_test(is_replaced_by_a_better_one),      cmocka_unit_test(begins_again_as_new),
        cmocka_unit_test(is_made_again_at_the_end),         cmocka_unit_test(takes_turns_with_iterations),
        cmocka_unit_test(stage_does_it_between_iterations), cmocka_unit_test(stage_does_it_at_the_end),
    };
    return scratch_run("refiner_first_map", tests, sizeof tests / sizeof *tests);
}
