/* Fuzzes YAML graphs. Any text must be read without harm. A graph that can be read must be the same after a session has
 * kept it. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/graph/graph_print.h"

static struct graph *parse(const char *text, size_t length, size_t *ret_errors) {
    struct problems problems;
    struct graph *graph = NULL;
    struct err err = {0};
    problems_init(&problems, "fuzz.yaml");
    enum status status = graph_parse("fuzz.yaml", text, length, &problems, &graph, &err);
    FUZZ_CHECK((status == STATUS_OK) == (graph != NULL));
    FUZZ_CHECK(!problems.no_memory);
    for (size_t i = 0; i < problems.count; i++)
        FUZZ_CHECK(problems.list[i].line > 0 && problems.list[i].text[0] != '\0');
    *ret_errors = problems.errors;
    problems_clear(&problems);
    return graph;
}

static void check_kept(const struct graph *graph) {
    char difference[256];
    char *text = NULL;
    size_t errors;
    FUZZ_CHECK(graph_print(graph, &text, NULL) == STATUS_OK);
    struct graph *again = parse(text, strlen(text), &errors);
    FUZZ_CHECK(again != NULL && errors == 0);
    graph_difference(again, graph, difference, sizeof difference);
    FUZZ_CHECK(difference[0] == '\0');
    free(text);
    graph_destroy(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    size_t errors;
    struct graph *graph = parse((const char *)bytes, length, &errors);
    if (graph == NULL) return 0;
    if (errors == 0) check_kept(graph);
    struct problems problems;
    problems_init(&problems, "fuzz.yaml");
    char *assignment = strndup((const char *)bytes, length < 200 ? length : 200);
    FUZZ_CHECK(assignment != NULL);
    (void)graph_set(graph, assignment, &problems, NULL);
    free(assignment);
    FUZZ_CHECK(graph_check_edges(graph, &problems, NULL) == STATUS_OK);
    problems_clear(&problems);
    graph_destroy(&graph);
    return 0;
}
