/* Tests the heartbeat: the histogram of latencies, and the counters that never fall. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/harness/metrics.h"
#include "tests/common/scratch.h"

/* Writes a heartbeat and reads it back; the caller drops the reference. */
static json_t *beat_of(struct metrics *metrics) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct parts parts = {0};
    scratch_path("beat.json", path);
    assert_int_equal(metrics_heartbeat(metrics, &parts, 0, path, &err), STATUS_OK);
    json_t *beat = json_load_file(path, 0, NULL);
    assert_non_null(beat);
    return beat;
}

static long long count_at(const json_t *beat, size_t index) {
    const json_t *counts = json_object_get(json_object_get(beat, "latencies"), "counts");
    assert_int_equal(json_array_size(counts), METRICS_LIMITS + 1);
    return json_integer_value(json_array_get(counts, index));
}

static void latencies_are_counted_up_to_each_limit(void **state) {
    (void)state;
    struct metrics metrics = {0};
    const double seconds[] = {0.002, 0.01, 0.02, 0.5, 2, 2.5, 999, 1001, 1e5};
    double sum = 0;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        metrics_latency(&metrics, seconds[i]);
        sum += seconds[i];
    }
    json_t *beat = beat_of(&metrics);
    const long long expected[METRICS_LIMITS + 1] = {2, 3, 3, 3, 4, 6, 6, 6, 6, 6, 7, 9};
    const json_t *limits = json_object_get(json_object_get(beat, "latencies"), "le");
    assert_int_equal(json_array_size(limits), METRICS_LIMITS);
    assert_float_equal(json_number_value(json_array_get(limits, 0)), 0.01, 1e-12);
    assert_float_equal(json_number_value(json_array_get(limits, METRICS_LIMITS - 1)), 1000, 1e-12);
    for (size_t i = 0; i <= METRICS_LIMITS; i++)
        assert_int_equal(count_at(beat, i), expected[i]);
    assert_float_equal(json_number_value(json_object_get(json_object_get(beat, "latencies"), "sum")), sum, 1e-9 * sum);
    json_decref(beat);
}

static void outcomes_do_not_fall_when_a_verdict_changes(void **state) {
    (void)state;
    struct metrics metrics = {0};
    for (int i = 0; i < 5; i++) {
        atomic_fetch_add(&metrics.out, 1);
        metrics_finished(&metrics, METRICS_DONE);
    }
    metrics_finished(&metrics, METRICS_REJECTED);
    atomic_fetch_sub(&metrics.out, 2); /* as stage_revise does */
    json_t *beat = beat_of(&metrics);
    const json_t *outcomes = json_object_get(beat, "outcomes");
    assert_int_equal(json_integer_value(json_object_get(outcomes, "done")), 5);
    assert_int_equal(json_integer_value(json_object_get(outcomes, "rejected")), 1);
    assert_int_equal(json_integer_value(json_object_get(outcomes, "failed")), 0);
    assert_int_equal(json_integer_value(json_object_get(beat, "out")), 3);
    json_decref(beat);
}

static void a_process_tells_its_memory(void **state) {
    (void)state;
    struct metrics metrics = {0};
    json_t *beat = beat_of(&metrics);
    assert_true(json_integer_value(json_object_get(beat, "resident")) > 100000);
    json_decref(beat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latencies_are_counted_up_to_each_limit),
        cmocka_unit_test(outcomes_do_not_fall_when_a_verdict_changes),
        cmocka_unit_test(a_process_tells_its_memory),
    };
    return scratch_run("metrics", tests, sizeof tests / sizeof *tests);
}
