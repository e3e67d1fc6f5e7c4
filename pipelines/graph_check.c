#include "pipelines/graph_check.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/params.h"
#include "common/rules.h"
#include "common/star.h"
#include "pipelines/program.h"

enum { KEYS_MAX = 128 };
static const double DESCRIBE_SECONDS = 10;

/* The offsets serve no struct here: the tables only validate and describe. */
static const struct param session_table[] = {
    {.name = "pixel_size", .type = PARAM_FLOAT, .unit = "Å", .minimum = 0.01, .maximum = 1000, .help = "Of a pixel."},
    {.name = "voltage", .type = PARAM_FLOAT, .unit = "kV", .minimum = 1, .maximum = 5000, .help = "Of the microscope."},
    {.name = "spherical_aberration", .type = PARAM_FLOAT, .unit = "mm", .minimum = 0, .maximum = 100, .help = "Cs."},
    {.name = "amplitude_contrast", .type = PARAM_FLOAT, .unit = "", .minimum = 0, .maximum = 1, .help = "0 to 1."},
    {.name = "transport", .type = PARAM_CHOICE, .unit = "", .default_text = "ipc", .choices = "ipc|tcp",
     .help = "Sockets of this host, or encrypted ones."},
    {.name = "listen", .type = PARAM_STRING, .unit = "", .default_text = "127.0.0.1",
     .help = "The address of this host on which the encrypted sockets listen."},
    {.name = "inputs", .type = PARAM_STRING, .unit = "",
     .help = "Further folders in which items may name files, such as where links in the watched folder lead."},
};
static const struct param common_table[] = {
    {.name = "replicas", .type = PARAM_INT, .unit = "", .minimum = 1, .maximum = GRAPH_REPLICAS_MAX,
     .help = "Instances that share the work."},
    {.name = "lanes", .type = PARAM_INT, .unit = "", .minimum = 1, .maximum = 32, .help = "Items at work at a time."},
    {.name = "threads", .type = PARAM_INT, .unit = "", .minimum = 1, .maximum = 4096, .help = "Of each instance."},
};
static const char *const common_keys[] = {"from",    "replicas", "gpu",    "lanes",
                                          "program", "reject_if", "threads", "device"};
enum { COMMON_KEYS = sizeof common_keys / sizeof common_keys[0] };

bool graph_is_common_key(const char *key) {
    for (size_t i = 0; i < COMMON_KEYS; i++)
        if (strcmp(key, common_keys[i]) == 0)
            return true;
    return false;
}

static int visible_gpus(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL) {
        int count = 0;
        for (const char *c = visible; *c != '\0' && *c != '-'; c += strcspn(c, ",") + (strchr(c, ',') != NULL))
            count++;
        return count;
    }
    int count = 0;
    DIR *devices = opendir("/dev");
    for (struct dirent *entry = devices ? readdir(devices) : NULL; entry != NULL; entry = readdir(devices))
        if (strncmp(entry->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)entry->d_name[6]))
            count++;
    if (devices != NULL)
        closedir(devices);
    return count;
}

void machine_inspect(struct machine *ret_machine) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#ifdef ICESTREAM_HAVE_CUDA
    const bool cuda = true;
#else
    const bool cuda = false;
#endif
    *ret_machine = (struct machine){.cores = cores, .gpus = visible_gpus(), .cuda = cuda};
}

struct check {
    struct graph *graph;
    const struct machine *machine;
    struct problems *problems;
    struct program_names programs;
    json_t *session_params, *common_params; /* the tables above, described */
    struct err *err;
};

static const char *set_by(const struct graph_entry *entry) {
    return entry->line > 0 ? "" : "--set ";
}

/* One value against a description; a complaint goes to the problems. */
static void check_value(struct check *c, const json_t *described, const struct graph_section *section,
                        const struct graph_entry *entry, const char *text) {
    struct err err = {0};
    char where[160];
    snprintf(where, sizeof where, "%s%s", set_by(entry), section->name);
    if (params_check_json(described, entry->key, text, where, &err) != STATUS_OK)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s", err.message);
}

static const json_t *find_param(const json_t *described, const char *key) {
    size_t i;
    const json_t *param;
    json_array_foreach(described, i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        if (name != NULL && strcmp(name, key) == 0)
            return param;
    }
    return NULL;
}

static void unknown_key(struct check *c, const json_t *described, bool with_common, const struct graph_section *section,
                        const struct graph_entry *entry, const char *advice) {
    const char *names[KEYS_MAX];
    size_t count = 0, i;
    const json_t *param;
    json_array_foreach(described, i, param) if (count < KEYS_MAX - COMMON_KEYS &&
                                                json_is_string(json_object_get(param, "name"))) names[count++] =
        json_string_value(json_object_get(param, "name"));
    for (i = 0; with_common && i < COMMON_KEYS; i++)
        names[count++] = common_keys[i];
    const char *near = params_nearest(entry->key, names, count);
    if (near != NULL)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: unknown key \"%s\"; did you mean \"%s\"?",
                     set_by(entry), section->name, entry->key, near);
    else
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: unknown key \"%s\"; %s", set_by(entry),
                     section->name, entry->key, advice);
}

static void check_inputs(struct check *c, const struct graph_entry *entry) {
    for (size_t i = 0; i < entry->value.count; i++)
        if (entry->value.texts[i][0] != '/' || !file_is_folder(entry->value.texts[i]))
            problems_add(c->problems, PROBLEM_ERROR, entry->line,
                         "%ssession.inputs: \"%s\" is not the absolute path of a folder", set_by(entry),
                         entry->value.texts[i]);
}

/* One address, by which other hosts and this one reach the sockets: so not 0.0.0.0, which is none. */
static void check_listen(struct check *c, const struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1 || address.s_addr == htonl(INADDR_ANY))
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.listen: \"%s\" is not an address of this host, as in listen: 192.168.1.5 (0.0.0.0 is "
                     "none that others could reach)",
                     set_by(entry), text);
    else if (!c->graph->tcp)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.listen: only `transport: tcp` listens on an address; add it, or leave `listen` out",
                     set_by(entry));
    else
        snprintf(c->graph->listen, sizeof c->graph->listen, "%s", text);
}

static enum status check_session(struct check *c) {
    struct graph_section *section = &c->graph->session;
    for (size_t i = 0; i < section->count; i++) {
        const struct graph_entry *entry = &section->entries[i];
        _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
        FAIL_IF(text == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
        if (find_param(c->session_params, entry->key) == NULL)
            unknown_key(c, c->session_params, false, section, entry,
                        "a session has pixel_size, voltage, spherical_aberration, amplitude_contrast, transport, listen and "
                        "inputs");
        else
            check_value(c, c->session_params, section, entry, text);
        if (strcmp(entry->key, "transport") == 0)
            c->graph->tcp = strcmp(text, "tcp") == 0;
        if (strcmp(entry->key, "inputs") == 0)
            check_inputs(c, entry);
    }
    const struct graph_entry *listen = graph_entry(section, "listen");
    if (listen != NULL)
        check_listen(c, listen);
    return STATUS_OK;
}

/* One of our stages by its name, or what `programs` lists: nothing else is ever started. */
static enum status choose_program(struct check *c, const char *word, char **ret_path, struct err *err) {
    if (graph_is_stage_name(word))
        return program_find(word, ret_path, err);
    FAIL_IF(word[0] != '/', err, STATUS_BAD_ARGUMENT,
            "the program \"%s\" is neither the name of a stage nor an absolute path; give its whole path, and list it "
            "under `programs:` too", word);
    FAIL_IF(!graph_value_holds(&c->graph->programs.value, word), err, STATUS_BAD_ARGUMENT,
            "the program %s is not listed under `programs:` of the graph, so that it is not started; if you trust it, "
            "add programs: [%s]", word, word);
    TRY(program_check(word, err));
    *ret_path = strdup(word);
    FAIL_IF(*ret_path == NULL, err, STATUS_NO_MEMORY, "no memory for the path of %s", word);
    return STATUS_OK;
}

static void report_program(struct check *c, const struct graph_stage *stage, const char *word, int line,
                           const struct err *why) {
    bool unknown = why->status == STATUS_NOT_FOUND && word[0] != '/';
    const char *near =
        unknown ? params_nearest(word, (const char *const *)c->programs.names, c->programs.count) : NULL;
    if (near != NULL)
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s; did you mean \"%s\"?", stage->section.name, why->message,
                     near);
    else if (unknown)
        problems_add(c->problems, PROBLEM_ERROR, line,
                     "%s: %s; name one with `program:` (`icestream stages` lists those there are)", stage->section.name,
                     why->message);
    else
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s", stage->section.name, why->message);
}

/* Which program a stage is, and what that says of itself. */
static enum status find_program(struct check *c, struct graph_stage *stage) {
    const struct graph_entry *entry = graph_entry(&stage->section, "program");
    const char *word = entry == NULL ? stage->section.name : entry->value.count == 1 ? entry->value.texts[0] : "";
    int line = entry ? entry->line : stage->section.line;
    struct err err = {0};
    stage->kind = stage->section.name;
    enum status status = choose_program(c, word, &stage->program, &err);
    FAIL_IF(status == STATUS_NO_MEMORY, c->err, status, "%s", err.message);
    if (status != STATUS_OK) {
        report_program(c, stage, word, line, &err);
        return STATUS_OK;
    }
    status = program_describe(stage->program, DESCRIBE_SECONDS, &stage->describe, &err);
    if (status == STATUS_BAD_FORMAT) {
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s", stage->section.name, err.message);
        return STATUS_OK;
    }
    FAIL_IF(status != STATUS_OK, c->err, status, "%s", err.message);
    if (stage->describe == NULL && word[0] != '/') {
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s is no stage: it does not answer --describe",
                     stage->section.name, stage->program);
        return STATUS_OK;
    }
    if (stage->describe == NULL) {
        problems_add(c->problems, PROBLEM_WARNING, line,
                     "%s: %s does not answer --describe; its keys are passed on unchecked", stage->section.name,
                     stage->program);
        return STATUS_OK;
    }
    stage->kind = json_string_value(json_object_get(stage->describe, "name"));
    stage->cumulative = json_is_true(json_object_get(stage->describe, "cumulative"));
    return STATUS_OK;
}

static void check_programs(struct check *c) {
    const struct graph_value *programs = &c->graph->programs.value;
    for (size_t i = 0; i < programs->count; i++)
        if (programs->texts[i][0] != '/')
            problems_add(c->problems, PROBLEM_ERROR, c->graph->programs.line,
                         "programs: \"%s\" is not an absolute path; what may be started is named from / on",
                         programs->texts[i]);
}

/* A path that must exist: made absolute, as found beside the graph or in the working directory. */
static enum status check_path(struct check *c, struct graph_stage *stage, struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    char path[PATH_SIZE], absolute[PATH_SIZE];
    bool found = text[0] != '\0' && path_join(c->graph->folder, text, path, sizeof path, NULL) == STATUS_OK &&
                 file_exists(path);
    if (!found && text[0] != '\0') {
        found = file_exists(text);
        snprintf(path, sizeof path, "%s", text);
    }
    if (!found && c->graph->begun && text[0] == '/') {
        problems_add(c->problems, PROBLEM_WARNING, entry->line,
                     "%s%s.%s: \"%s\" is not there now (a disk that is not mounted?); its stage waits for it",
                     set_by(entry), stage->section.name, entry->key, text);
        return STATUS_OK;
    }
    if (!found) {
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.%s: there is no file or folder \"%s\" (tried beside the graph and in the working "
                     "directory)",
                     set_by(entry), stage->section.name, entry->key, text);
        return STATUS_OK;
    }
    if (path[0] == '/')
        return graph_put(&stage->section, entry->key, path, false, c->err);
    char here[PATH_SIZE];
    FAIL_IF(realpath(".", here) == NULL, c->err, STATUS_IO, "the working directory is gone");
    TRY(path_join(here, strncmp(path, "./", 2) == 0 ? path + 2 : path, absolute, sizeof absolute, c->err));
    return graph_put(&stage->section, entry->key, absolute, false, c->err);
}

static void check_gpu_index(struct check *c, struct graph_stage *stage, const struct graph_entry *entry, long index) {
    if (!c->machine->cuda)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: this build is for the CPU only; leave `gpu` out, or build with the preset cuda",
                     set_by(entry), stage->section.name);
    else if (index >= c->machine->gpus)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: %ld is asked for, but this machine has %d GPU%s, counted from 0; use `gpu: auto`",
                     set_by(entry), stage->section.name, index, c->machine->gpus, c->machine->gpus == 1 ? "" : "s");
}

static enum status check_gpu(struct check *c, struct graph_stage *stage, const struct graph_entry *entry) {
    const struct graph_value *value = &entry->value;
    if (value->count == 1 && strcmp(value->texts[0], "auto") == 0) {
        stage->gpu_auto = true;
        return STATUS_OK;
    }
    if (value->count == 1 && strcmp(value->texts[0], "none") == 0)
        return STATUS_OK;
    _cleanup_(mem_free) char *text = graph_value_text(value);
    stage->gpus = calloc(value->count + strlen(text ? text : "") + 1, sizeof *stage->gpus);
    FAIL_IF(text == NULL || stage->gpus == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    const char *from = text;
    while (isdigit((unsigned char)*from)) {
        char *end;
        long index = strtol(from, &end, 10);
        if (index > 1023 || (*end != ',' && *end != '\0'))
            break;
        stage->gpus[stage->gpu_count++] = (int)index;
        from = *end == ',' ? end + 1 : end;
        if (*end == '\0')
            break;
    }
    if (*from != '\0' || stage->gpu_count == 0) {
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: \"%s\" is not auto, none, a number or a list of numbers, as in [0, 1]", set_by(entry),
                     stage->section.name, text);
        return STATUS_OK;
    }
    int highest = 0;
    for (size_t i = 0; i < stage->gpu_count; i++)
        highest = stage->gpus[i] > highest ? stage->gpus[i] : highest;
    check_gpu_index(c, stage, entry, highest);
    return STATUS_OK;
}

static enum status check_device(struct check *c, struct graph_stage *stage, const struct graph_entry *entry,
                                const char *text) {
    unsigned index;
    int used = 0;
    if (sscanf(text, "cuda:%4u%n", &index, &used) == 1 && text[used] == '\0')
        check_gpu_index(c, stage, entry, (long)index);
    else if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s.device: \"%s\" is not auto, cpu or cuda:N",
                     set_by(entry), stage->section.name, text);
    stage->device = strdup(text);
    FAIL_IF(stage->device == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    return STATUS_OK;
}

static enum status check_common_key(struct check *c, struct graph_stage *stage, struct graph_entry *entry,
                                    const char *text) {
    if (find_param(c->common_params, entry->key) != NULL) {
        size_t before = c->problems->errors;
        check_value(c, c->common_params, &stage->section, entry, text);
        if (c->problems->errors > before)
            return STATUS_OK;
        int number = atoi(text); /* 0 for "auto": as if it were not there */
        if (number > 0 && strcmp(entry->key, "replicas") == 0)
            stage->replicas = number;
        else if (number > 0 && strcmp(entry->key, "lanes") == 0)
            stage->lanes = number;
        else if (number > 0)
            stage->threads = number;
        return STATUS_OK;
    }
    if (strcmp(entry->key, "gpu") == 0)
        return check_gpu(c, stage, entry);
    if (strcmp(entry->key, "device") == 0)
        return check_device(c, stage, entry, text);
    if (strcmp(entry->key, "reject_if") == 0) {
        struct rules rules;
        struct err err = {0};
        if (rules_parse(text, &rules, &err) != STATUS_OK)
            problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: %s", set_by(entry), stage->section.name,
                         err.message);
    }
    return STATUS_OK;
}

static enum status check_entry(struct check *c, struct graph_stage *stage, struct graph_entry *entry) {
    const json_t *described = program_params(stage->describe);
    _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
    FAIL_IF(text == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    if (graph_is_common_key(entry->key))
        return check_common_key(c, stage, entry, text);
    if (stage->describe == NULL)
        return STATUS_OK;
    const json_t *param = find_param(described, entry->key);
    if (param == NULL) {
        char advice[192];
        snprintf(advice, sizeof advice, "`%s --help` lists its keys", path_name(stage->program));
        unknown_key(c, described, true, &stage->section, entry, advice);
        return STATUS_OK;
    }
    const char *type = json_string_value(json_object_get(param, "type"));
    if (type != NULL && strcmp(type, "path") == 0)
        return check_path(c, stage, entry);
    check_value(c, described, &stage->section, entry, text);
    return STATUS_OK;
}

static void check_required(struct check *c, const struct graph_stage *stage) {
    size_t i;
    const json_t *param;
    json_array_foreach(program_params(stage->describe), i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        const char *help = json_string_value(json_object_get(param, "help"));
        if (name != NULL && json_is_true(json_object_get(param, "required")) &&
            graph_entry(&stage->section, name) == NULL)
            problems_add(c->problems, PROBLEM_ERROR, stage->section.line, "%s: `%s` is required: %s",
                         stage->section.name, name, help ? help : "");
    }
}

/* A refiner has nothing to begin from without a reference, which is no mistake: 2D runs are common. */
static bool lacks_reference(const struct graph_stage *stage) {
    return strcmp(stage->kind, "refiner") == 0 && graph_entry(&stage->section, "reference") == NULL;
}

static void note_defaults(struct check *c, const struct graph_stage *stage) {
    const struct graph_section *section = &stage->section;
    if (strcmp(stage->kind, "lowpass-picker") == 0 && graph_entry(section, "templates") == NULL) {
        const struct graph_entry *method = graph_entry(section, "method");
        if (method == NULL || (method->value.count == 1 && strcmp(method->value.texts[0], "auto") == 0))
            problems_add(c->problems, PROBLEM_NOTE, section->line, "%s: no `templates`, so it picks in log mode",
                         section->name);
        else if (method->value.count == 1 && strcmp(method->value.texts[0], "template") == 0)
            problems_add(c->problems, PROBLEM_ERROR, method->line,
                         "%s%s: `method: template` needs `templates`; give a stack of them, or use `method: log`",
                         set_by(method), section->name);
        if ((method == NULL || strcmp(method->value.texts[0], "template") != 0) &&
            graph_entry(section, "diameter") == NULL && graph_entry(section, "log_diameter") == NULL)
            problems_add(c->problems, PROBLEM_ERROR, section->line,
                         "%s: `diameter` is required without templates: the particle's, in Å", section->name);
    }
    if (stage->gpu_auto && (!c->machine->cuda || c->machine->gpus == 0))
        problems_add(c->problems, PROBLEM_NOTE, graph_entry(section, "gpu")->line, "%s: %s, so it runs on the CPU",
                     section->name, c->machine->cuda ? "there is no GPU" : "this build is for the CPU only");
}

static enum status check_stage(struct check *c, struct graph_stage *stage) {
    stage->replicas = 1;
    TRY(find_program(c, stage));
    if (stage->program != NULL && lacks_reference(stage)) {
        stage->left_out = true;
        problems_add(c->problems, PROBLEM_NOTE, stage->section.line,
                     "%s: no `reference`, so it is left out: there will be no 3D map", stage->section.name);
    }
    json_t *lanes = json_object_get(stage->describe, "lanes");
    stage->lanes = json_is_integer(lanes) && json_integer_value(lanes) > 0 ? (int)json_integer_value(lanes) : 3;
    for (size_t i = 0; i < stage->section.count; i++)
        if (stage->program != NULL || graph_is_common_key(stage->section.entries[i].key))
            TRY(check_entry(c, stage, &stage->section.entries[i]));
    if (stage->cumulative && stage->replicas > 1)
        problems_add(c->problems, PROBLEM_ERROR, graph_entry(&stage->section, "replicas")->line,
                     "%s%s.replicas: it keeps what it has learnt from all items, so there can be one only; leave "
                     "`replicas` out",
                     set_by(graph_entry(&stage->section, "replicas")), stage->section.name);
    return STATUS_OK;
}

/* Whether a STAR file of CTF values says what a pixel measures. */
static bool star_has_pixel_size(const char *path) {
    static const char *const columns[] = {"rlnMicrographPixelSize", "rlnMicrographOriginalPixelSize",
                                          "rlnImagePixelSize", "rlnDetectorPixelSize"};
    struct star_file *file = NULL;
    if (star_read(path, &file, NULL) != STATUS_OK)
        return false;
    bool found = false;
    for (size_t t = 0; t < star_table_count(file); t++)
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
            found |= star_column_find(star_table_at(file, t), columns[i]) >= 0;
    star_destroy(&file);
    return found;
}

/* Structures of molecules have no pixels. A watcher that feeds nobody is taken for one of micrographs. */
static bool feeds_structures_only(const struct graph *graph, size_t watcher) {
    bool feeds = false;
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        const char *in = json_string_value(json_object_get(stage->describe, "in"));
        for (size_t k = 0; k < stage->from_count; k++) {
            if (stage->from[k] != watcher)
                continue;
            if (in == NULL || strcmp(in, "structure") != 0)
                return false;
            feeds = true;
        }
    }
    return feeds;
}

/* Of a session that has begun the table was good, and may just be written anew: its stage waits for it. */
static void check_pixel_size(struct check *c) {
    if (graph_entry(&c->graph->session, "pixel_size") != NULL || c->graph->begun)
        return;
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        if (stage->describe == NULL || strcmp(stage->kind, "watcher") != 0)
            continue;
        const struct graph_entry *scaled = graph_entry(&stage->section, "scaled");
        if (feeds_structures_only(c->graph, i) ||
            (scaled != NULL && scaled->value.count == 1 && strcmp(scaled->value.texts[0], "false") == 0))
            continue;
        /* An .mdoc tells it, and what brought tilts into shape writes headers; an image that has neither fails. */
        if (graph_entry(&stage->section, "series") != NULL)
            continue;
        const struct graph_entry *ctf = graph_entry(&stage->section, "ctf");
        if (ctf == NULL || ctf->value.count != 1 || !star_has_pixel_size(ctf->value.texts[0]))
            problems_add(c->problems, PROBLEM_ERROR,
                         c->graph->session.line > 0 ? c->graph->session.line : stage->section.line,
                         "session.pixel_size is required (Å), as in session: {pixel_size: 1.0}; only a `%s.ctf` with "
                         "an optics table can stand for it",
                         stage->section.name);
    }
}

enum status graph_check(struct graph *graph, const struct machine *machine, struct problems *problems,
                        struct err *err) {
    struct check c = {.graph = graph, .machine = machine, .problems = problems, .err = err};
    TRY(program_list(&c.programs, err));
    c.session_params = params_describe(session_table, sizeof session_table / sizeof session_table[0]);
    c.common_params = params_describe(common_table, sizeof common_table / sizeof common_table[0]);
    enum status status = c.session_params && c.common_params ? check_session(&c) : STATUS_NO_MEMORY;
    check_programs(&c);
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++)
        status = check_stage(&c, &graph->stages[i]);
    if (status == STATUS_OK)
        status = graph_derive(graph, problems, err);
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++) {
        if (!graph->stages[i].left_out)
            check_required(&c, &graph->stages[i]);
        note_defaults(&c, &graph->stages[i]);
    }
    if (status == STATUS_OK)
        status = graph_check_edges(graph, problems, err);
    if (status == STATUS_OK)
        status = graph_derive_scaled(graph, err);
    if (status == STATUS_OK)
        check_pixel_size(&c);
    json_decref(c.session_params);
    json_decref(c.common_params);
    program_names_clear(&c.programs);
    FAIL_IF(status == STATUS_NO_MEMORY || problems->no_memory, err, STATUS_NO_MEMORY, "no memory to check the graph");
    return status;
}
