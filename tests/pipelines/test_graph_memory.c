/* Tests what part of a GPU's memory stages are given: alone, beside others, and where a number was stated. The stages
 * are those of this build; the machine is made up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "pipelines/launcher/graph/graph_print.h"
#include "pipelines/launcher/plan.h"
#include "tests/common/scratch.h"

static const struct machine TWO_OF_80 = {.cores = 8, .gpus = 2, .cuda = true, .gpu_memory = 80 * 0x1p30};

static struct graph *check_text(const char *text, const struct machine *machine, struct problems *problems) {
    struct graph *graph = NULL;
    struct err err = {0};
    problems_init(problems, "test.yaml");
    assert_ok(graph_parse("test.yaml", text, strlen(text), problems, &graph, &err));
    assert_ok(graph_check(graph, machine, problems, &err));
    if (problems->errors > 0) {
        problems_print(problems, stderr);
        fail_msg("%zu errors", problems->errors);
    }
    return graph;
}

/* Checks a graph of four stages, to three of which keys are added. */
static struct graph *check(const char *picker, const char *classifier, const char *refiner,
                           const struct machine *machine, struct problems *problems) {
    char text[4 * PATH_SIZE], folder[PATH_SIZE];
    scratch_path("", folder);
    snprintf(text, sizeof text,
             "session: {pixel_size: 1, voltage: 300}\n"
             "stages:\n"
             "  watcher: {directory: \"%s\"}\n"
             "  picker: {program: lowpass-picker, from: watcher, diameter: 100%s}\n"
             "  extractor: {from: picker}\n"
             "  classifier: {from: extractor%s}\n"
             "  refiner: {from: extractor, reference: \"%s/reference.mrc\"%s}\n",
             folder, picker, classifier, folder, refiner);
    return check_text(text, machine, problems);
}

static void expect_key(const struct graph *graph, const char *stage, const char *key, const char *expected) {
    const struct graph_entry *entry = graph_entry(&graph_find(graph, stage)->section, key);
    const char *found = entry != NULL ? entry->value.texts[0] : "nothing";
    if (strcmp(found, expected != NULL ? expected : "nothing") != 0)
        fail_msg("%s.%s is %s, not %s", stage, key, found, expected ? expected : "nothing");
}

/* Returns whether any problem of this level speaks so. */
static bool says(const struct problems *problems, enum problem_level level, const char *text) {
    for (size_t i = 0; i < problems->count; i++)
        if (problems->list[i].level == level && strstr(problems->list[i].text, text) != NULL) return true;
    return false;
}

static void expect(const char *picker, const char *classifier, const char *refiner, const struct machine *machine,
                   const char *of_classifier, const char *of_refiner) {
    struct problems problems;
    struct graph *graph = check(picker, classifier, refiner, machine, &problems);
    print_message("picker%s classifier%s refiner%s\n", picker, classifier, refiner);
    expect_key(graph, "classifier", "memory", of_classifier);
    expect_key(graph, "refiner", "memory", of_refiner);
    bool stated = strstr(refiner, "memory: ") != NULL && strstr(refiner, "memory: auto") == NULL;
    expect_key(graph, "refiner", "host_memory", of_refiner != NULL && !stated ? "4" : NULL);
    problems_clear(&problems);
    graph_destroy(&graph);
}

static void a_stage_alone_takes_what_is_free(void **state) {
    (void)state;
    expect("", ", gpu: 0", ", gpu: 1", &TWO_OF_80, NULL, NULL);
    expect("", "", ", gpu: auto", &TWO_OF_80, NULL, NULL);
    /* These have a GPU and compute on the CPU, or were given none. */
    expect(", gpu: 1, device: cpu", ", gpu: none", ", gpu: 1", &TWO_OF_80, NULL, NULL);
    expect(", gpu: auto", ", gpu: auto", ", gpu: auto", &(struct machine){.cores = 8, .gpus = 0, .cuda = true}, NULL,
           NULL);
    expect(", gpu: auto", ", gpu: auto", ", gpu: auto", &(struct machine){.cores = 8, .gpus = 2}, NULL, NULL);
}

static void stages_that_share_get_parts(void **state) {
    (void)state;
    /* In turn: picker and refiner have the first GPU. Each stage takes 2 GiB for itself, the picker 4. */
    expect(", gpu: auto", ", gpu: auto", ", gpu: auto", &TWO_OF_80, NULL, "74");
    expect(", gpu: auto, replicas: 2", ", gpu: auto", ", gpu: auto", &TWO_OF_80, "74", "74");
    expect(", gpu: 0", ", gpu: 0", ", gpu: 0", &TWO_OF_80, "36", "36");
    expect(", gpu: 0", ", gpu: 0, memory: auto", ", gpu: 0, memory: auto", &TWO_OF_80, "36", "36");
    expect("", ", gpu: 0", ", gpu: [0, 1]", &TWO_OF_80, "38", "38");
    /* The smallest part counts: on GPU 0 there are three stages. */
    expect(", gpu: 0", ", gpu: 0", ", gpu: [1, 0]", &TWO_OF_80, "36", "36");
    expect("", ", gpu: 0", ", device: \"cuda:0\"", &TWO_OF_80, "38", "38");
    expect("", ", gpu: 0", ", device: auto", &TWO_OF_80, "38", "38");
    expect("", ", gpu: 0", ", device: \"cuda:1\"", &TWO_OF_80, NULL, NULL);
    expect(", gpu: 0", ", gpu: 1", ", gpu: [1, 0], device: \"cuda:1\"", &TWO_OF_80, NULL, "74");
}

/* An extractor computes on the CPU whatever it is given. */
static void stages_of_the_cpu_share_nothing(void **state) {
    (void)state;
    char text[2 * PATH_SIZE], folder[PATH_SIZE];
    struct problems problems;
    scratch_path("", folder);
    snprintf(text, sizeof text,
             "session: {pixel_size: 1, voltage: 300}\n"
             "stages:\n"
             "  watcher: {directory: \"%s\"}\n"
             "  lowpass-picker: {from: watcher, diameter: 100}\n"
             "  extractor: {from: lowpass-picker, gpu: 0}\n"
             "  classifier: {from: extractor, gpu: 0}\n",
             folder);
    struct graph *graph = check_text(text, &TWO_OF_80, &problems);
    expect_key(graph, "classifier", "memory", NULL);
    problems_clear(&problems);
    graph_destroy(&graph);
}

static void what_is_stated_stays(void **state) {
    (void)state;
    expect(", gpu: 0", ", gpu: 0", ", gpu: 0, memory: 10", &TWO_OF_80, "62", "10");
    expect("", ", gpu: 0, memory: 0", ", gpu: 0", &TWO_OF_80, "0", "38");
    struct problems problems;
    struct graph *graph = check("", ", gpu: 0", ", gpu: 0, host_memory: 16", &TWO_OF_80, &problems);
    expect_key(graph, "refiner", "memory", "38");
    expect_key(graph, "refiner", "host_memory", "16");
    problems_clear(&problems);
    graph_destroy(&graph);
}

static void a_gpu_whose_memory_is_not_known(void **state) {
    (void)state;
    const struct machine machine = {.cores = 8, .gpus = 1, .cuda = true};
    expect(", gpu: 0", ", gpu: 0", ", gpu: 0", &machine, "4", "4");
}

static void small_gpus_and_large_stages(void **state) {
    (void)state;
    struct machine machine = TWO_OF_80;
    machine.gpu_memory = 8 * 0x1p30;
    expect(", gpu: 0", ", gpu: 0", ", gpu: 0", &machine, "2", "2");
    machine.gpu_memory = 1 * 0x1p30;
    expect(", gpu: 0", ", gpu: 0", ", gpu: 0", &machine, "1", "1");
    /* A motion-corrector holds a movie: 30 % of the GPU, at least 6 GiB. */
    static const struct {
        double total;
        const char *part;
    } cases[] = {{80, "50"}, {24, "10"}, {12, "4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4 * PATH_SIZE], folder[PATH_SIZE];
        struct problems problems;
        scratch_path("", folder);
        snprintf(text, sizeof text,
                 "session: {pixel_size: 1, voltage: 300}\n"
                 "stages:\n"
                 "  watcher: {directory: \"%s\"}\n"
                 "  motion-corrector: {from: watcher, gpu: 0, dose_per_frame: 1}\n"
                 "  lowpass-picker: {from: motion-corrector, gpu: 0, diameter: 100}\n"
                 "  extractor: {from: lowpass-picker}\n"
                 "  classifier: {from: extractor, gpu: 0}\n",
                 folder);
        machine.gpu_memory = cases[i].total * 0x1p30;
        struct graph *graph = check_text(text, &machine, &problems);
        expect_key(graph, "classifier", "memory", cases[i].part);
        problems_clear(&problems);
        graph_destroy(&graph);
    }
}

static void notes_and_warnings(void **state) {
    (void)state;
    static const struct {
        const char *classifier, *refiner, *text;
        enum problem_level level;
    } cases[] = {
        {", gpu: 0", ", gpu: 0", "refiner: shares GPU 0 with picker, classifier, so `memory` is 36 GiB", PROBLEM_NOTE},
        {", gpu: 0", ", gpu: 0", "classifier: shares GPU 0 with picker, refiner, so `memory` is 36 GiB", PROBLEM_NOTE},
        {", gpu: 0, memory: 0", ", gpu: 0",
         "classifier.memory: 0 takes all that is free on GPU 0, and picker, refiner may find no memory there",
         PROBLEM_WARNING},
        {", gpu: 0, memory: 60", ", gpu: 0, memory: 20.5",
         "refiner: `memory` gives the stages on GPU 0 80.5 GiB together, and it has 80.0", PROBLEM_WARNING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problems problems;
        struct graph *graph = check(", gpu: 0", cases[i].classifier, cases[i].refiner, &TWO_OF_80, &problems);
        if (!says(&problems, cases[i].level, cases[i].text)) {
            problems_print(&problems, stderr);
            fail_msg("no \"%s\"", cases[i].text);
        }
        if (i < 2) assert_false(says(&problems, PROBLEM_WARNING, "memory"));
        problems_clear(&problems);
        graph_destroy(&graph);
    }
}

/* A session does not keep the numbers: on another machine they are others, and that is no change of its graph. */
static void parts_follow_from_the_machine(void **state) {
    (void)state;
    struct problems problems;
    struct err err = {0};
    struct machine other = TWO_OF_80;
    char *printed = NULL, difference[256];
    struct graph *graph = check(", gpu: 0", ", gpu: 0", ", gpu: 0", &TWO_OF_80, &problems);
    problems_clear(&problems);
    assert_ok(graph_print(graph, &printed, &err));
    other.gpu_memory /= 2;
    struct graph *again = check_text(printed, &other, &problems);
    assert_null(strstr(printed, "memory:"));
    assert_true(says(&problems, PROBLEM_NOTE, "shares GPU"));
    expect_key(graph, "refiner", "memory", "36");
    expect_key(again, "refiner", "memory", "16");
    graph_difference(graph, again, difference, sizeof difference);
    assert_string_equal(difference, "");
    json_t *params = graph_stage_params(graph_find(again, "refiner"));
    assert_int_equal(json_integer_value(json_object_get(params, "memory")), 16);
    json_decref(params);
    problems_clear(&problems);
    graph_destroy(&again);
    /* `set STAGE.memory=auto` takes the part that follows now. */
    problems_init(&problems, "test.yaml");
    assert_ok(graph_parse("test.yaml", printed, strlen(printed), &problems, &again, &err));
    assert_ok(graph_set(again, "classifier.memory=30", &problems, &err));
    assert_ok(graph_set(again, "refiner.memory=auto", &problems, &err));
    assert_ok(graph_check(again, &TWO_OF_80, &problems, &err));
    expect_key(again, "refiner", "memory", "42");
    problems_clear(&problems);
    graph_destroy(&graph);
    graph_destroy(&again);
    free(printed);
}

static void the_plan_shows_memory(void **state) {
    (void)state;
    struct problems problems;
    struct err err = {0};
    struct plan plan;
    for (int on_gpus = 1; on_gpus >= 0; on_gpus--) {
        struct graph *graph = on_gpus ? check(", gpu: 0", ", gpu: 0", ", gpu: 1", &TWO_OF_80, &problems)
                                      : check("", "", "", &TWO_OF_80, &problems);
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        assert_ok(plan_create(graph, &TWO_OF_80, &plan, &err));
        plan_print(&plan, out);
        fclose(out);
        const char *const lines[] = {
            "instance                 threads device   memory   program\n",
            "picker.0                 2       gpu 0    -        icestream-lowpass-picker\n",
            "classifier.0             2       gpu 0    74 GiB   icestream-classifier\n",
            "refiner.0                2       gpu 1    auto     icestream-refiner\n",
        };
        for (size_t i = 0; on_gpus && i < sizeof lines / sizeof *lines; i++)
            if (strstr(text, lines[i]) == NULL) fail_msg("no line '%s' in\n%s", lines[i], text);
        if (!on_gpus) assert_null(strstr(text, "memory"));
        free(text);
        plan_clear(&plan);
        problems_clear(&problems);
        graph_destroy(&graph);
    }
}

/* The smallest GPU counts. */
static void nvml_tells_the_memory(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("gpus", path);
    setenv("FAKE_NVML", path, 1);
    setenv("ICESTREAM_NVML", FAKE_NVML_LIBRARY, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_true(machine_gpu_memory() == 0); /* "no driver" */
    const char *three = "A 80 6000000000 85899345920 71 190500\nA 5 0 25769803776 40 25000\nlost\n";
    assert_ok(file_write_whole(path, three, strlen(three), &err));
    assert_true(machine_gpu_memory() == 24 * 0x1p30);
    setenv("CUDA_VISIBLE_DEVICES", "MIG-41b3", 1);
    assert_true(machine_gpu_memory() == 0);
    /* CUDA's index names one of different GPUs for certain only in the order of the bus. */
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_true(machine_gpu_memory() == 0);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    assert_true(machine_gpu_memory() == 80 * 0x1p30);
    unsetenv("CUDA_DEVICE_ORDER");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("ICESTREAM_NVML");
}

/* The refiner's reference must be a map. */
static int write_reference(void **state) {
    (void)state;
    static float map[32 * 32 * 32];
    const struct image image = {.nx = 32, .ny = 32, .nz = 32, .pixel_size = 4, .data = map};
    char path[PATH_SIZE];
    scratch_path("reference.mrc", path);
    return mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, NULL) == STATUS_OK ? 0 : -1;
}

/* Lets the stages of this build be found first. Returns false where CTest does not name them. */
static bool find_stages(void) {
    const char *programs = getenv("ICESTREAM_BIN"), *others = getenv("PATH");
    char *path = NULL;
    bool found = programs != NULL && asprintf(&path, "%s:%s", programs, others != NULL ? others : "") > 0 &&
                 setenv("PATH", path, 1) == 0;
    free(path);
    return found;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_stage_alone_takes_what_is_free, write_reference),
        cmocka_unit_test_setup(stages_that_share_get_parts, write_reference),
        cmocka_unit_test_setup(stages_of_the_cpu_share_nothing, write_reference),
        cmocka_unit_test_setup(what_is_stated_stays, write_reference),
        cmocka_unit_test_setup(a_gpu_whose_memory_is_not_known, write_reference),
        cmocka_unit_test_setup(small_gpus_and_large_stages, write_reference),
        cmocka_unit_test_setup(notes_and_warnings, write_reference),
        cmocka_unit_test_setup(parts_follow_from_the_machine, write_reference),
        cmocka_unit_test_setup(the_plan_shows_memory, write_reference),
        cmocka_unit_test(nvml_tells_the_memory),
    };
    if (!find_stages()) {
        fprintf(stderr, "ICESTREAM_BIN must name the folder of the stages, as CTest sets it\n");
        return 1;
    }
    return scratch_run("graph-memory", tests, sizeof tests / sizeof tests[0]);
}
