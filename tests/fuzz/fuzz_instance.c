/* Fuzzes instance files with any bytes. Accepted values must fill a stage and its edges within their limits. */
#include "tests/fuzz/fuzz.h"

#include <stddef.h>
#include <string.h>

#include "common/harness/stage_private.h"

struct options {
    char *word;
    double number;
    int whole;
};

static const struct param params[] = {
    {"word", PARAM_STRING, offsetof(struct options, word), "", NULL},
    {"number", PARAM_FLOAT, offsetof(struct options, number), "Å", "1", 0, 10},
    {"diameter", PARAM_INT, offsetof(struct options, whole), "px", NULL, 1, 1000},
};
static const struct stage_descriptor descriptor = {
    .name = "fuzz", .in = "", .out = "", .params = params, .param_count = 3, .params_size = sizeof(struct options)};

static void check_edges(const struct stage_edge *edges, int count) {
    FUZZ_CHECK(count >= 0 && count <= EDGES_MAX);
    for (int i = 0; i < count; i++)
        FUZZ_CHECK(strlen(edges[i].edge) < EDGE_NAME_SIZE && edges[i].data != NULL && edges[i].ack != NULL &&
                   edges[i].window >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    /* Static, because they are large. Only values read from the input differ between runs. */
    static struct instance instance;
    static struct stage stage;
    struct options options = {0};
    struct err err = {0};
    size_t common_count, session_count;
    const struct param *common = stage_common_params(&common_count), *session = stage_session_params(&session_count);
    json_t *root = json_loadb((const char *)bytes, length, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL) return 0;
    memset(&stage, 0, sizeof stage);
    stage.descriptor = &descriptor;
    stage.params = &options;
    FUZZ_CHECK(params_defaults(params, 3, &options, NULL) == STATUS_OK);
    FUZZ_CHECK(params_defaults(common, common_count, &stage.common, NULL) == STATUS_OK);
    FUZZ_CHECK(params_defaults(session, session_count, &stage.session, NULL) == STATUS_OK);
    if (instance_parse(&stage, root, &instance, &err) == STATUS_OK) {
        check_edges(instance.inputs, instance.input_count);
        check_edges(instance.outputs, instance.output_count);
        FUZZ_CHECK(stage.root[0] == '/' && stage.instance >= 0 && stage.run >= 0 && instance.ledger != NULL);
        FUZZ_CHECK(strchr(stage.name, '/') == NULL && stage.name[0] != '\0' && stage.replicas >= 1);
        FUZZ_CHECK(strcmp(stage.name, ".") != 0 && strcmp(stage.name, "..") != 0);
    } else {
        FUZZ_CHECK(err.message[0] != '\0');
    }
    instance_clear(&instance);
    params_clear(params, 3, &options);
    params_clear(common, common_count, &stage.common);
    params_clear(session, session_count, &stage.session);
    json_decref(root);
    return 0;
}
