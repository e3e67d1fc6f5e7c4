/* Describes how the session was run: parameters and their defaults, versions, and the files that a deposition needs with their
 * digests. */
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/memory.h"
#include "pipelines/launcher/program.h"
#include "pipelines/launcher/report/report_private.h"

enum { GRAPH_MAX = 1 << 20 };
static const double DESCRIBE_SECONDS = 10;

/* ---- parameters ---- */

/* Returns the default of a parameter as a program describes it; NULL: the program does not say. */
static const json_t *default_of(const json_t *describe, const char *key, bool *ret_known) {
    size_t i;
    json_t *param;
    *ret_known = false;
    json_array_foreach(program_params(describe), i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        if (name == NULL || strcmp(name, key) != 0) continue;
        *ret_known = true;
        return json_object_get(param, "default");
    }
    return NULL;
}

/* Finds the program of a stage where it lay, or one of this machine of the same kind. */
static json_t *describe_stage(const json_t *planned) {
    const char *path = json_string_value(json_object_get(planned, "program"));
    const char *kind = json_string_value(json_object_get(planned, "kind"));
    char *found = NULL;
    json_t *describe = NULL;
    /* A program of others is not started again for a report. */
    if (path == NULL || !session_keeps_ledger(planned)) return NULL;
    if (kind == NULL || program_find(kind, &found, NULL) != STATUS_OK) return NULL;
    if (program_describe(found, DESCRIBE_SECONDS, &describe, NULL) != STATUS_OK) describe = NULL;
    free(found);
    return describe;
}

/* Programs describe a default as it is typed on a command line. */
static bool same_value(const json_t *value, const json_t *otherwise) {
    const char *text = json_string_value(otherwise);
    if (json_is_boolean(value) && text != NULL) return strcmp(text, json_is_true(value) ? "true" : "false") == 0;
    if (json_is_number(value) && text != NULL) {
        char *end;
        double number = strtod(text, &end);
        return end != text && *end == '\0' && number == json_number_value(value);
    }
    if (json_is_number(value) && json_is_number(otherwise))
        return json_number_value(value) == json_number_value(otherwise);
    return otherwise != NULL && json_equal(value, otherwise);
}

static void add_stage_parameters(struct report *report, const json_t *planned, json_t *list) {
    const char *stage = json_string_value(json_object_get(planned, "name")), *key;
    const json_t *graph = json_object_get(json_object_get(view_graph(report->view), "stages"), stage);
    json_t *describe = json_object_size(graph) > 0 ? describe_stage(planned) : NULL, *value;
    json_object_foreach((json_t *)graph, key, value) {
        bool known = false;
        if (strcmp(key, "from") == 0) continue;
        const json_t *otherwise = default_of(describe, key, &known);
        json_t *row = json_pack("{s:s, s:s, s:O}", "stage", stage, "key", key, "value", value);
        json_object_set_new(row, "default",
                            known && otherwise != NULL ? json_incref((json_t *)otherwise) : json_null());
        /* A key that no stage declares, such as reject_if, is there because the graph sets it. */
        json_object_set_new(row, "differs",
                            describe != NULL ? json_boolean(!known || !same_value(value, otherwise)) : json_null());
        json_array_append_new(list, row);
    }
    json_decref(describe);
}

static void add_parameters(struct report *report) {
    json_t *list = json_array(), *value, *planned;
    const char *key;
    size_t i;
    json_object_foreach(json_object_get(view_graph(report->view), "session"), key, value) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:O, s:n, s:n}", "stage", "session", "key", key, "value",
                                              value, "default", "differs"));
    }
    json_array_foreach(json_object_get(view_plan(report->view), "stages"), i, planned) {
        if (json_is_string(json_object_get(planned, "name"))) add_stage_parameters(report, planned, list);
    }
    json_object_set_new(report->data, "parameters", list);
}

/* ---- versions: the block "icestream:" of graph.yaml ---- */

static char *unquoted(char *text) {
    text += strspn(text, " ");
    size_t length = strcspn(text, "\r\n");
    text[length] = '\0';
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text[length - 1] = '\0';
        text++;
    }
    return text;
}

static void add_versions(struct report *report) {
    char path[PATH_SIZE], *text = NULL, *state = NULL;
    json_t *versions = json_object();
    bool inside = false;
    if (path_join(view_session(report->view)->path, "graph.yaml", path, sizeof path, NULL) == STATUS_OK)
        (void)file_read_whole(path, GRAPH_MAX, &text, NULL, NULL);
    for (char *line = text != NULL ? strtok_r(text, "\n", &state) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        if (line[0] != ' ' && line[0] != '#') inside = strncmp(line, "icestream:", strlen("icestream:")) == 0;
        char *colon = strchr(line, ':');
        if (!inside || line[0] != ' ' || colon == NULL || colon[1] == '\0') continue;
        *colon = '\0';
        const char *name = line + strspn(line, " ");
        json_object_set_new(versions, strcmp(name, "version") == 0 ? "icestream" : name,
                            json_value_text(unquoted(colon + 1)));
    }
    free(text);
    json_object_set_new(report->data, "versions", versions);
}

/* ---- files for a deposition ---- */

static void add_product(struct report *report, json_t *products, const char *path, const char *what) {
    char whole[PATH_SIZE], digest[DIGEST_SIZE];
    int64_t size = 0;
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) != STATUS_OK ||
        digest_file(whole, digest, &size, NULL) != STATUS_OK)
        return;
    json_array_append_new(products, json_pack("{s:o, s:s, s:I, s:s}", "path", json_value_text(path), "what", what,
                                              "bytes", (json_int_t)size, "xxh128", digest));
}

static void add_products(struct report *report) {
    static const struct {
        const char *event, *name, *what;
    } files[] = {
        {"map", "run_class001.mrc", "map"},
        {"map", "run_half1_class001_unfil.mrc", "half map 1, as refined"},
        {"map", "run_half2_class001_unfil.mrc", "half map 2, as refined"},
        {"map", "postprocess.mrc", "map, sharpened"},
        {"map", "postprocess_mask.mrc", "mask"},
        {"map", "locres.mrc", "local resolution"},
        {"map", "locres_filtered.mrc", "map, filtered by its local resolution"},
        {"map", "run_data.star", "particles of the map"},
        {"classes", "latest_selected.star", "particles of the kept classes"},
    };
    json_t *products = json_array();
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[PATH_SIZE];
        const char *part = files[i].event;
        const char *stage = json_string_value(json_object_get(json_object_get(report->data, part), "stage"));
        if (stage == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", stage, files[i].name);
        add_product(report, products, path, files[i].what);
    }
    json_object_set_new(report->data, "products", products);
}

void report_add_settings(struct report *report) {
    add_parameters(report);
    add_versions(report);
    add_products(report);
}
