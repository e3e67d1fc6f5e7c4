/* Tests the meaning of a graph's text, the plan made from it, and the copy that a session keeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/graph/graph_print.h"
#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/session.h"
#include "tests/common/scratch.h"

static struct graph *parse(const char *text, size_t *ret_errors) {
    struct problems problems;
    struct graph *graph = NULL;
    struct err err = {0};
    problems_init(&problems, "test.yaml");
    assert_ok(graph_parse("test.yaml", text, strlen(text), &problems, &graph, &err));
    *ret_errors = problems.errors;
    problems_clear(&problems);
    return graph;
}

static const char text[] = "# comment\n"
                           "session: {pixel_size: 1.62, transport: ipc}\n"
                           "stages:\n"
                           "  a:\n"
                           "    directory: \"12\"\n"
                           "    size: [1, 2.50, 007]\n"
                           "    on: true\n"
                           "    empty:\n"
                           "    none: ~\n"
                           "  b: {from: a, name: 'yes: \"no\"', file: [x y, \"1\"]}\n"
                           "  c: {from: [a, b]}\n"
                           "  d:\n";

static void test_values_and_lines(void **state) {
    (void)state;
    size_t errors;
    struct graph *graph = parse(text, &errors);
    assert_int_equal(errors, 0);
    assert_int_equal(graph->stage_count, 4);
    struct graph_section *a = &graph_find(graph, "a")->section;
    assert_int_equal(a->line, 4);
    assert_int_equal(graph_entry(a, "size")->line, 6);
    assert_int_equal(graph_entry(a, "empty")->value.count, 0);
    assert_int_equal(graph_entry(a, "none")->value.count, 0);
    assert_int_equal(graph_entry(a, "none")->line, 9);
    json_t *size = graph_value_json(&graph_entry(a, "size")->value);
    assert_true(json_is_integer(json_array_get(size, 0)));
    assert_true(json_is_real(json_array_get(size, 1)));
    assert_true(json_is_string(json_array_get(size, 2)));
    json_decref(size);
    json_t *directory = graph_value_json(&graph_entry(a, "directory")->value);
    assert_true(json_is_string(directory)); /* quoted */
    json_decref(directory);
    json_t *on = graph_value_json(&graph_entry(a, "on")->value);
    assert_true(json_is_true(on));
    json_decref(on);
    char *typed = graph_value_text(&graph_entry(a, "size")->value);
    assert_string_equal(typed, "1,2.50,007");
    free(typed);
    graph_destroy(&graph);
    assert_null(graph);
}

static void keeps(const char *given) {
    size_t errors;
    struct err err = {0};
    char difference[256];
    struct graph *graph = parse(given, &errors);
    for (size_t i = 0; i < graph->stage_count; i++)
        graph->stages[i].program = strdup("/bin/true");
    char *printed = NULL;
    assert_ok(graph_print(graph, &printed, &err));
    struct graph *again = parse(printed, &errors);
    assert_int_equal(errors, 0);
    graph_difference(again, graph, difference, sizeof difference);
    assert_string_equal(difference, "");
    free(printed);
    graph_destroy(&graph);
    graph_destroy(&again);
}

static void test_kept_graph_is_the_same(void **state) {
    (void)state;
    keeps(text);
    /* Keys that no program knows: check says so, and may print them before. */
    keeps("session: {\"a: b\": 1, 'x #y': 2, '- z': 3, \"\\\"\": 4}\nstages: {a: {'?': }}");
}

static void differs(const char *set, const char *expected) {
    size_t errors;
    struct err err = {0};
    char difference[256];
    struct problems problems;
    problems_init(&problems, "test.yaml");
    struct graph *old = parse(text, &errors), *new = parse(text, &errors);
    assert_ok(graph_set(new, set, &problems, &err));
    assert_int_equal(problems.errors, 0);
    graph_difference(old, new, difference, sizeof difference);
    assert_string_equal(difference, expected);
    problems_clear(&problems);
    graph_destroy(&old);
    graph_destroy(&new);
}

static void test_differences_are_named(void **state) {
    (void)state;
    differs("a.directory=13", "a.directory was 12 and is 13");
    differs("a.size=[1, 2.50, 8]", "a.size was 1,2.50,007 and is 1,2.50,8");
    differs("a.extra-key=5", "a.extra_key was not set and is 5");
    differs("session.pixel_size=1.63", "session.pixel_size was 1.62 and is 1.63");
    differs("a.threads=7", ""); /* threads and GPUs change where a stage runs, not its result */
    differs("b.gpu=[0,1]", "");
    size_t errors;
    char difference[256];
    struct graph *old = parse(text, &errors), *new = parse("stages: {a: {}}", &errors);
    graph_difference(old, new, difference, sizeof difference);
    assert_string_equal(difference, "session.pixel_size was 1.62 and is not set");
    graph_difference(new, old, difference, sizeof difference);
    assert_string_equal(difference, "session.pixel_size was not set and is 1.62");
    graph_destroy(&old);
    graph_destroy(&new);
}

static void test_odd_yaml(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t errors;
    } cases[] = {
        {"stages: {a: &x [1, 2], b: {k: *x}}", 1},      /* a list for a stage */
        {"stages: {a: {k: &x [1, 2]}, b: {k: *x}}", 0}, /* an alias of a list */
        {"stages: {a: {k: &x [*x]}}", 1},               /* a list in itself */
        {"stages: {a: {<<: {k: 1}}}", 1},               /* merge keys */
        {"stages: {a: {? [1, 2] : 3}}", 1},             /* a list for a key */
        {"stages: {a: {k: \"x\\0y\"}}", 1},             /* a NUL in a text */
        {"stages: {a: {\"k\\nl\": 3}}", 1},             /* a line break in a key */
        {"stages: {a: {}}\n---\nstages: {b: {}}", 1},   /* two documents: it is unclear whose stages count */
        {"%YAML 9.9\n---\nstages: {a: {}}", 1},
        {"stages: {a: {k: *nowhere}}", 1},
        {"stages:\n\ta: {}", 1},
        {"stages: []", 1},
        {"stages: {}", 1},
        {"session: 5\nstages: {a: {}}", 1},
        {"stages: {a: {}}\nstages: {b: {}}", 1},
        {"", 1},
        {"\xff\xfe", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t errors;
        struct graph *graph = parse(cases[i].text, &errors);
        if (errors != cases[i].errors) fail_msg("%s: %zu errors, not %zu", cases[i].text, errors, cases[i].errors);
        graph_destroy(&graph);
    }
}

/* Makes a checked graph of three stages, without programs. */
static struct graph *checked(int replicas, size_t gpus) {
    size_t errors;
    struct graph *graph = parse("stages: {watch: {}, pick: {}, refine: {}}", &errors);
    for (size_t i = 0; i < 3; i++) {
        struct graph_stage *stage = &graph->stages[i];
        stage->program = strdup("/bin/true");
        stage->kind = stage->section.name;
        stage->replicas = 1;
        stage->lanes = 3;
        if (i == 0) continue;
        stage->from = malloc(sizeof *stage->from);
        stage->from[0] = i - 1;
        stage->from_count = 1;
    }
    graph->stages[1].replicas = replicas;
    graph->stages[1].gpu_auto = true;
    struct graph_stage *refine = &graph->stages[2];
    refine->gpus = calloc(gpus + 1, sizeof *refine->gpus);
    refine->gpu_count = gpus;
    for (size_t i = 0; i < gpus; i++)
        refine->gpus[i] = (int)(3 + i);
    return graph;
}

static void test_plan(void **state) {
    (void)state;
    struct err err = {0};
    const struct machine machine = {.cores = 16, .gpus = 2, .cuda = true};
    struct graph *graph = checked(3, 2);
    struct plan plan;
    assert_ok(plan_create(graph, &machine, &plan, &err));
    assert_int_equal(plan.instance_count, 5);
    assert_int_equal(plan.edge_count, 4);
    assert_string_equal(plan.instances[3].name, "pick.2");
    assert_int_equal(plan.instances[1].threads, 4); /* 16 cores for 3 + 1 stages that compute */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(plan.instances[1 + i].gpu_count, 1);
        assert_int_equal(plan.instances[1 + i].gpus[0], i % 2);
    }
    assert_int_equal(plan.instances[4].gpu_count, 2);
    assert_int_equal(plan.instances[4].gpus[1], 4);
    assert_string_equal(plan.instances[0].device, "cpu");
    assert_string_equal(plan.edges[0].name, "watch.0>pick");
    assert_int_equal(plan.edges[0].window, 18);
    assert_string_equal(plan.edges[3].name, "pick.2>refine");
    assert_ok(plan_endpoints(&plan, "/run/user/1000/icestream-abc", &err));
    for (size_t i = 0; i < plan.edge_count; i++)
        assert_string_not_equal(plan.edges[i].data, plan.edges[i].ack);
    char folder[200];
    memset(folder, 'x', sizeof folder);
    folder[sizeof folder - 1] = '\0';
    assert_int_equal(plan_endpoints(&plan, folder, &err), STATUS_BAD_ARGUMENT);
    plan_clear(&plan);
    graph_destroy(&graph);
}

static void test_plan_without_gpu(void **state) {
    (void)state;
    struct err err = {0};
    const struct machine machine = {.cores = 1, .gpus = 0, .cuda = false};
    struct graph *graph = checked(2, 0);
    struct plan plan;
    assert_ok(plan_create(graph, &machine, &plan, &err));
    assert_int_equal(plan.instance_count, 4);
    assert_int_equal(plan.edge_count, 3);
    assert_int_equal(plan.instances[1].threads, 1);
    assert_int_equal(plan.instances[1].gpu_count, 0);
    assert_string_equal(plan.instances[1].device, "cpu");
    plan_clear(&plan);
    graph_destroy(&graph);
}

/* Checks the edges of a graph without programs; `cumulative` names a stage that makes one item of many. */
static void expect_sources(const char *yaml, const char *cumulative, size_t expected_errors, bool separate) {
    size_t errors;
    struct err err = {0};
    struct problems problems;
    struct graph *graph = parse(yaml, &errors);
    problems_init(&problems, "test.yaml");
    graph_find(graph, cumulative)->cumulative = true;
    assert_ok(graph_check_edges(graph, &problems, &err));
    if (problems.errors != expected_errors || graph->separate != separate)
        fail_msg("%s: %zu errors, %s", yaml, problems.errors, graph->separate ? "separate" : "together");
    problems_clear(&problems);
    graph_destroy(&graph);
}

static void test_sources(void **state) {
    (void)state;
    static const char *const one_way[] = {
        "stages: {c: {from: b}, b: {from: a}, a: {}}",
        "stages: {a: {}, b: {from: a}, c: {from: a}}", /* branches that never meet */
        "stages: {a: {}, c: {from: a}, d: {from: c}, f: {from: a}}",
    };
    static const char *const several[] = {
        "stages: {a: {}, b: {}, c: {from: [a, b]}}",                      /* two sources into one stage */
        "stages: {a: {}, b: {}, c: {from: a}, d: {from: b}}",             /* two chains */
        "stages: {a: {}, b: {from: a}, c: {from: a}, d: {from: [b, c]}}", /* c makes items of its own */
        "stages: {a: {}, c: {from: a}, d: {from: [a, c]}}",
    };
    static const char *const diamonds[] = {
        "stages: {c: {from: f}, f: {}, a: {}, b: {from: a}, d: {from: [a, b]}}",
        "stages: {c: {from: f}, f: {}, a: {}, b: {from: a}, d: {from: a}, e: {from: [b, d]}}",
        "stages: {c: {}, a: {}, b: {from: [a, c]}, d: {from: [b, c]}}",
        "stages: {a: {}, c: {from: a}, d: {from: c}, e: {from: [d, c]}}",
    };
    for (size_t i = 0; i < sizeof one_way / sizeof one_way[0]; i++)
        expect_sources(one_way[i], "c", 0, false);
    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
        expect_sources(several[i], "c", 0, true);
    for (size_t i = 0; i < sizeof diamonds / sizeof diamonds[0]; i++)
        expect_sources(diamonds[i], "c", 1, i < 3);
    /* A source that feeds nobody needs no folder. */
    expect_sources("stages: {a: {}, b: {}, c: {from: a}}", "c", 0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_lines),
        cmocka_unit_test(test_kept_graph_is_the_same),
        cmocka_unit_test(test_differences_are_named),
        cmocka_unit_test(test_odd_yaml),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_plan_without_gpu),
    };
    return scratch_run("graph", tests, sizeof tests / sizeof tests[0]);
}
