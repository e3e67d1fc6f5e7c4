/* Fuzzes JSON that the launcher reads: answers of programs to --describe, heartbeats, the plan of a session. The first
 * byte selects one. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/files.h"
#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/graph/graph_print.h"
#include "pipelines/launcher/program.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/status.h"

static const uint8_t *answer;
static size_t answer_length;

/* Replaces pipelines/launcher/program.c, which would start programs. */
enum status program_find(const char *name, char **ret_path, struct err *err) {
    (void)name;
    *ret_path = strdup("/bin/true");
    FAIL_IF(*ret_path == NULL, err, STATUS_NO_MEMORY, "no memory");
    return STATUS_OK;
}

enum status program_check(const char *path, struct err *err) {
    (void)path, (void)err;
    return STATUS_OK;
}

enum status program_list(struct program_names *ret_names, struct err *err) {
    (void)err;
    *ret_names = (struct program_names){0};
    return STATUS_OK;
}

void program_names_clear(struct program_names *names) {
    (void)names;
}

enum status program_describe(const char *path, double seconds, json_t **ret_describe, struct err *err) {
    (void)path, (void)seconds;
    return program_answer("fuzz", (const char *)answer, answer_length, ret_describe, err);
}

static void try_describe(void) {
    static const char text[] = "session: {pixel_size: 1.5}\n"
                               "stages:\n"
                               "  watcher: {directory: /, a: 1, diameter: [1, 2], list: 1}\n"
                               "  lowpass-picker: {from: watcher, replicas: 2, diameter: 150, a: x, gpu: 0}\n"
                               "  extractor: {from: lowpass-picker, lanes: 2, box: 64, a: ''}\n";
    const struct machine machine = {4, 1, true};
    struct problems problems;
    struct graph *graph = NULL;
    problems_init(&problems, "fuzz.yaml");
    FUZZ_CHECK(graph_parse("fuzz.yaml", text, sizeof text - 1, &problems, &graph, NULL) == STATUS_OK);
    FUZZ_CHECK(graph_check(graph, &machine, &problems, NULL) == STATUS_OK);
    for (size_t i = 0; i < graph->stage_count; i++)
        FUZZ_CHECK(graph->stages[i].replicas >= 1 && graph->stages[i].lanes >= 0);
    char *printed = NULL;
    FUZZ_CHECK(problems.errors > 0 || graph_print(graph, &printed, NULL) == STATUS_OK);
    free(printed);
    problems_clear(&problems);
    graph_destroy(&graph);
}

/* Makes a session's folder with this file in log/. */
static void put(struct session *session, const char *name) {
    char path[PATH_SIZE], scratch[64];
    fuzz_scratch("session", scratch);
    snprintf(session->path, sizeof session->path, "%s", scratch);
    snprintf(path, sizeof path, "%s/log", scratch);
    if (access(path, W_OK) != 0) FUZZ_CHECK(file_make_folders(path, 0700, NULL) == STATUS_OK);
    snprintf(path, sizeof path, "%s/log/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(answer, 1, answer_length, file) == answer_length && fclose(file) == 0);
}

static void try_heartbeat(void) {
    struct session session = {.lock = -1};
    put(&session, "watcher.0.heartbeat.json");
    json_t *beat = status_heartbeat(&session, "watcher.0");
    FUZZ_CHECK(beat == NULL || json_is_object(beat));
    json_decref(beat);
}

static void try_plan(void) {
    struct session session = {.lock = -1};
    struct tally tally = {0};
    struct err err = {0};
    char reason[400];
    json_t *plan = NULL;
    put(&session, "plan.json");
    if (session_read_plan(&session, &plan, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, "plan.json") != NULL);
        return;
    }
    if (tally_take(&session, plan, TALLY_ITEMS, &tally, &err) == STATUS_OK)
        (void)tally_adds_up(&tally, reason, sizeof reason);
    tally_clear(&tally);
    json_decref(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (length == 0) return 0;
    answer = bytes + 1;
    answer_length = length - 1;
    if (bytes[0] % 4 == 0)
        try_heartbeat();
    else if (bytes[0] % 4 == 1)
        try_plan();
    else
        try_describe();
    return 0;
}
