/* Jobs of Slurm. Each job has a name that follows from the session: squeue says by that name whether it is still in the
 * queue, which holds across restarts of the launcher and lost answers. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/text.h"
#include "pipelines/launcher/run/engine_private.h"

/* s before the time limit at which the host is told, and its items go elsewhere. */
#define SIGNAL "--signal=B:TERM@120"

/* Options that the engine gives itself, and that would break it if they came again. */
static const char *const own[] = {"--wrap", "--parsable", "--job-name", "-J", "--output", "-o", "--wait", "-W"};

static bool is_own(const char *word) {
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t length = strlen(own[i]);
        bool is_long = own[i][1] == '-';
        if (strncmp(word, own[i], length) == 0 && (!is_long || word[length] == '\0' || word[length] == '='))
            return true;
    }
    return false;
}

/* Cuts a copy of options into words, which point into it. Returns how many; at most `most`. */
static size_t cut(char *copy, const char **words, size_t most) {
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(copy, " \t\n", &rest); word != NULL && count < most;
         word = strtok_r(NULL, " \t\n", &rest))
        words[count++] = word;
    return count;
}

enum status engine_check_slurm(const char *text, struct err *err) {
    char copy[1024];
    const char *words[ENGINE_WORDS];
    FAIL_IF(strlen(text) >= sizeof copy, err, STATUS_BAD_ARGUMENT, "the options of sbatch are longer than %zu letters",
            sizeof copy - 1);
    FAIL_IF(strpbrk(text, "'\"\\$`") != NULL, err, STATUS_BAD_ARGUMENT,
            "options of sbatch stand here without quotes: no shell reads them");
    strcpy(copy, text);
    size_t count = cut(copy, words, ENGINE_WORDS);
    FAIL_IF(count > ENGINE_WORDS - 16, err, STATUS_BAD_ARGUMENT, "%zu options of sbatch are too many", count);
    for (size_t i = 0; i < count; i++) {
        bool option = words[i][0] == '-',
             follows = i > 0 && words[i - 1][0] == '-' && strchr(words[i - 1], '=') == NULL;
        FAIL_IF(!option && !follows, err, STATUS_BAD_ARGUMENT,
                "\"%s\" is no option of sbatch, as in \"--partition gpu --gres gpu:1\"", words[i]);
        FAIL_IF(option && is_own(words[i]), err, STATUS_BAD_ARGUMENT, "icestream gives sbatch the option %s itself",
                words[i]);
    }
    return STATUS_OK;
}

/* ---- SESSION/hosts/slurm.json ---- */

static enum status file_of(const struct engine *engine, char path[PATH_SIZE], struct err *err) {
    char folder[PATH_SIZE];
    TRY(path_join(engine->options.session, "hosts", folder, sizeof folder, err));
    TRY(file_make_folders(folder, 0700, err));
    return path_join(folder, "slurm.json", path, PATH_SIZE, err);
}

static enum status keep(const struct engine *engine, struct err *err) {
    char path[PATH_SIZE];
    TRY(file_of(engine, path, err));
    json_t *jobs = json_array();
    for (size_t i = 0; i < engine->count; i++) {
        const struct engine_entry *entry = &engine->entries[i];
        if (entry->id[0] != '\0')
            json_array_append_new(
                jobs, json_pack("{s:s, s:s, s:s}", "name", entry->name, "options", entry->text, "id", entry->id));
    }
    json_t *root = json_pack("{s:i, s:o}", "v", 1, "jobs", jobs);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}

static void keep_or_say(const struct engine *engine) {
    struct err err = {0};
    if (keep(engine, &err) != STATUS_OK)
        engine_say(engine, "the jobs of Slurm cannot be written down: %s", err.message);
}

enum status engine_slurm_create(struct engine *engine, struct err *err) {
    uint64_t hash = text_hash(engine->options.session);
    for (size_t i = 0; i < engine->count; i++)
        snprintf(engine->entries[i].name, sizeof engine->entries[i].name, "icestream-%08x-%zu",
                 (unsigned)(hash ^ hash >> 32), i);
    return keep(engine, err);
}

/* ---- Questions and submissions ---- */

static enum status ask(struct engine *engine, struct engine_entry *entry, struct err *err) {
    char name[ENGINE_NAME_SIZE + 8];
    snprintf(name, sizeof name, "--name=%s", entry->name);
    const char *words[] = {"squeue", "--noheader", name, "--format=%F", NULL};
    entry->step = ENGINE_ASKS;
    return tool_start(&entry->tool, words, engine->log, true, err);
}

static enum status submit(struct engine *engine, struct engine_entry *entry, struct err *err) {
    const char *words[ENGINE_WORDS] = {"sbatch", "--parsable", "--requeue", "--open-mode=append", SIGNAL};
    char name[ENGINE_NAME_SIZE + 16], output[PATH_SIZE], copy[1024];
    size_t count = 5;
    snprintf(name, sizeof name, "--job-name=%s", entry->name);
    int length = snprintf(output, sizeof output, "--output=%s/log/host-%%j.log", engine->options.session);
    FAIL_IF(length < 0 || (size_t)length >= sizeof output, err, STATUS_BAD_ARGUMENT, "%s: the path is too long",
            engine->options.session);
    words[count++] = name;
    words[count++] = output;
    strcpy(copy, entry->text);
    count += cut(copy, words + count, ENGINE_WORDS - 16);
    words[count++] = "--wrap";
    words[count++] = engine->command;
    words[count] = NULL;
    entry->step = ENGINE_SUBMITS;
    return tool_start(&entry->tool, words, engine->log, true, err);
}

/* Takes the number of a job from "123", "123;cluster" or lines of such. Returns whether there is one. */
static bool take_id(struct engine_entry *entry) {
    size_t length = strspn(entry->tool.text, "0123456789");
    if (length == 0 || length >= sizeof entry->id) return false;
    memcpy(entry->id, entry->tool.text, length);
    entry->id[length] = '\0';
    return true;
}

static void complain(struct engine *engine, struct engine_entry *entry, const char *what) {
    if (!entry->told) engine_say(engine, "%s; tried again in %.0f s", what, engine->options.ask);
    entry->told = true;
    entry->start_at = clock_monotonic() + engine->options.ask;
}

/* Goes on after an answer; exit code 0 alone makes an answer of squeue one. */
static void answered(struct engine *engine, struct engine_entry *entry, int code) {
    struct err err = {0};
    if (entry->step == ENGINE_ASKS && code == 0 && entry->tool.text[strspn(entry->tool.text, " \n")] == '\0') {
        if (submit(engine, entry, &err) != STATUS_OK) complain(engine, entry, err.message);
        return;
    }
    char before[ENGINE_ID_SIZE];
    strcpy(before, entry->id);
    const char *tool = entry->step == ENGINE_ASKS ? "squeue" : "sbatch";
    if (code != 0 || !take_id(entry)) {
        char text[128];
        snprintf(text, sizeof text, "%s %s (log/engine.log says why)", tool,
                 code == 127 ? "cannot be started" : "gives no job");
        complain(engine, entry, text);
        return;
    }
    entry->told = false;
    entry->start_at = clock_monotonic() + engine->options.ask;
    if (strcmp(before, entry->id) == 0) return;
    engine_say(engine, "job %s of Slurm %s", entry->id,
               entry->step == ENGINE_ASKS ? "is in the queue" : "was submitted");
    keep_or_say(engine);
}

void engine_slurm_tend(struct engine *engine, struct engine_entry *entry) {
    struct err err = {0};
    int code;
    if (entry->tool.pid > 0) {
        if (tool_ended(&entry->tool, &code)) answered(engine, entry, code);
        return;
    }
    if (clock_monotonic() < entry->start_at) return;
    if (ask(engine, entry, &err) != STATUS_OK) complain(engine, entry, err.message);
}

/* ---- The end ---- */

/* A job that is being submitted must be known before it can be cancelled. */
static void learn_last(struct engine *engine) {
    const double end = clock_monotonic() + engine->options.patience;
    for (size_t i = 0; i < engine->count; i++) {
        struct engine_entry *entry = &engine->entries[i];
        double left = end - clock_monotonic();
        if (entry->tool.pid <= 0) continue;
        if (tool_end(&entry->tool, left > 0 ? left : 0) == 0) take_id(entry);
    }
}

void engine_slurm_end(struct engine *engine) {
    struct err err = {0};
    struct tool tool = {.output = -1};
    size_t count = 1;
    learn_last(engine);
    const char **words = calloc(engine->count + 2, sizeof *words);
    if (words == NULL) return;
    words[0] = "scancel";
    for (size_t i = 0; i < engine->count; i++)
        if (engine->entries[i].id[0] != '\0') words[count++] = engine->entries[i].id;
    if (count > 1) {
        enum status status = tool_start(&tool, words, engine->log, false, &err);
        if (status != STATUS_OK || tool_end(&tool, engine->options.patience) != 0)
            engine_say(engine,
                       "the jobs of Slurm may still be in the queue: hosts/slurm.json names them, log/engine.log "
                       "says why, and scancel ends them");
        else
            for (size_t i = 0; i < engine->count; i++)
                engine->entries[i].id[0] = '\0';
    }
    free(words);
    keep_or_say(engine);
}
