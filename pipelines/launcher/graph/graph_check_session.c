/* Checks the session of a graph: its keys, and the pixel size that every stage needs. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/formats/star.h"
#include "common/harness/params.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "pipelines/launcher/alarms/rules.h"
#include "pipelines/launcher/graph/graph_check_private.h"
#include "pipelines/launcher/run/engine.h"

/* Holds the keys that only the launcher reads; the harness has the table of the optics. No struct belongs to the table:
 * it only validates and describes, so it has no offsets. */
static const struct param session_table[] = {
    {.name = "threads",
     .type = PARAM_INT,
     .minimum = 1,
     .maximum = 1024,
     .help = "Cores that the session takes; by default all. Sessions side by side should have a share each."},
    {.name = "transport",
     .type = PARAM_CHOICE,
     .default_text = "ipc",
     .choices = "ipc|tcp",
     .help = "Sockets of this host, or encrypted ones."},
    {.name = "listen",
     .type = PARAM_STRING,
     .default_text = "127.0.0.1",
     .help = "The address of this host on which the encrypted sockets listen."},
    {.name = "inputs",
     .type = PARAM_STRING,
     .help = "Further folders in which items may name files, such as where links in the watched folder lead."},
    {.name = "web",
     .type = PARAM_BOOL,
     .default_text = "false",
     .help = "Shows the session as a page while it runs, as `icestream run --serve` does."},
    {.name = "ledger",
     .type = PARAM_STRING,
     .help = "Where stages keep their ledgers: postgresql://HOST/DB, or by default files of SQLite in the session."},
    {.name = "hosts",
     .type = PARAM_STRING,
     .help = "Hosts on which stages may run besides the launcher's, such as [node1, node2]; they join as they come."},
    {.name = "control_port",
     .type = PARAM_INT,
     .default_text = "0",
     .minimum = 0,
     .maximum = 65535,
     .help = "The port on which the launcher waits for hosts; 0 takes any that is free."},
    {.name = "engine",
     .type = PARAM_CHOICE,
     .default_text = "local",
     .choices = ENGINE_CHOICES,
     .help = "What starts hosts on other machines: ssh, or jobs of Slurm; local: nothing does."},
    {.name = "slurm",
     .type = PARAM_STRING,
     .help = "Options of sbatch for the jobs that are hosts, such as \"--partition gpu --gres gpu:1\"; a list: one job "
             "each."},
    {.name = "notify",
     .type = PARAM_STRING,
     .help = "The absolute path of a program that is told of alarms: JSON comes on its standard input."},
    {.name = "defocus",
     .type = PARAM_STRING,
     .help = "The least and the greatest defocus (µm) at which the microscope collects, such as [0.8, 2.2]."},
    {.name = "alarms",
     .type = PARAM_STRING,
     .help = "Thresholds of alarms, such as [disk=5, picks=off, trouble.for=60]."},
};

static void check_inputs(struct graph_checks *c, const struct graph_entry *entry) {
    for (size_t i = 0; i < entry->value.count; i++)
        if (entry->value.texts[i][0] != '/' || !file_is_folder(entry->value.texts[i]))
            problems_add(c->problems, PROBLEM_ERROR, entry->line,
                         "%ssession.inputs: \"%s\" is not the absolute path of a folder", graph_set_by(entry),
                         entry->value.texts[i]);
}

/* Checks the address by which other hosts and this one reach the sockets: 0.0.0.0 is no such address. */
static void check_listen(struct graph_checks *c, const struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1 || address.s_addr == htonl(INADDR_ANY))
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.listen: \"%s\" is not an address of this host, as in listen: 192.168.1.5 (0.0.0.0 is "
                     "none that others could reach)",
                     graph_set_by(entry), text);
    else if (!c->graph->tcp)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.listen: only `transport: tcp` listens on an address; add it, or leave `listen` out",
                     graph_set_by(entry));
    else
        snprintf(c->graph->listen, sizeof c->graph->listen, "%s", text);
}

/* Checks the place of the ledgers. A wrong value may hold a password, so no message repeats it. */
static void check_ledger(struct graph_checks *c, const struct graph_entry *entry) {
    struct ledger_url url;
    struct err err = {0};
    enum status status = ledger_url_read(entry->value.count == 1 ? entry->value.texts[0] : "", &url, &err);
    if (status == STATUS_OK) snprintf(c->graph->ledger, sizeof c->graph->ledger, "%s", url.text);
    for (size_t i = 0; status == STATUS_OK && i < c->graph->stage_count; i++) {
        char path[LEDGER_URL_SIZE + 128];
        status = ledger_address_print(url.text, "", c->graph->stages[i].section.name, path, sizeof path, &err);
    }
    if (status == STATUS_OK) status = ledger_server_try(url.text, &err);
    if (status != STATUS_OK)
        problems_add(c->problems, status == STATUS_UNAVAILABLE ? PROBLEM_WARNING : PROBLEM_ERROR, entry->line,
                     "%ssession.ledger: %s", graph_set_by(entry), err.message);
}

static void check_notify(struct graph_checks *c, const struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    if (text[0] != '/' || file_is_folder(text) || access(text, X_OK) != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.notify: \"%s\" is not the absolute path of a program that can be started",
                     graph_set_by(entry), text);
}

static void check_slurm(struct graph_checks *c, const struct graph_entry *entry) {
    for (size_t i = 0; i < entry->value.count; i++) {
        struct err err = {0};
        if (engine_check_slurm(entry->value.texts[i], &err) != STATUS_OK)
            problems_add(c->problems, PROBLEM_ERROR, entry->line, "%ssession.slurm: %s", graph_set_by(entry),
                         err.message);
    }
}

static void check_defocus(struct graph_checks *c, const struct graph_entry *entry) {
    double range[2] = {0, 0};
    bool good = entry->value.count == 2;
    for (size_t i = 0; good && i < 2; i++) {
        char *end;
        range[i] = strtod(entry->value.texts[i], &end);
        good = end != entry->value.texts[i] && *end == '\0' && range[i] >= 0 && range[i] <= 100;
    }
    if (!good || range[0] >= range[1])
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.defocus must be two numbers from 0 to 100 (µm), the lesser first, as in defocus: "
                     "[0.8, 2.2]",
                     graph_set_by(entry));
}

static void check_alarms(struct graph_checks *c, const struct graph_entry *entry) {
    struct alarm_settings settings;
    alarm_settings_default(&settings);
    for (size_t i = 0; i < entry->value.count; i++) {
        struct err err = {0};
        if (alarm_settings_set(&settings, entry->value.texts[i], &err) != STATUS_OK)
            problems_add(c->problems, PROBLEM_ERROR, entry->line, "%ssession.alarms: %s", graph_set_by(entry),
                         err.message);
    }
}

/* Finds the file beside the graph or in the working directory, and makes its path absolute: stages read it. */
static enum status check_mtf(struct graph_checks *c, const struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    char beside[PATH_SIZE], here[PATH_SIZE] = "", absolute[PATH_SIZE];
    if (*text != 0 && path_join(c->graph->folder, text, beside, sizeof beside, NULL) == STATUS_OK &&
        file_exists(beside))
        text = beside;
    if (*text == 0 || !file_exists(text)) {
        /* In a session that has begun a disk may not be mounted now: the stage says so when it needs the file. */
        const bool away = c->graph->begun && text[0] == '/';
        problems_add(c->problems, away ? PROBLEM_WARNING : PROBLEM_ERROR, entry->line,
                     "%ssession.mtf: there is no file \"%s\" (tried beside the graph and in the working directory)",
                     graph_set_by(entry), text);
        return STATUS_OK;
    }
    FAIL_IF(text[0] != '/' && realpath(".", here) == NULL, c->err, STATUS_IO, "the working directory is gone");
    TRY(path_join(here, strncmp(text, "./", 2) == 0 ? text + 2 : text, absolute, sizeof absolute, c->err));
    return graph_put(&c->graph->session, "mtf", absolute, false, c->err);
}

static enum status check_keys(struct graph_checks *c, const json_t *described) {
    const struct graph_section *section = &c->graph->session;
    for (size_t i = 0; i < section->count; i++) {
        const struct graph_entry *entry = &section->entries[i];
        _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
        FAIL_IF(text == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
        if (!graph_check_has_value(c, described, false, section, entry)) continue;
        if (graph_find_param(described, entry->key) == NULL)
            graph_unknown_key(c, described, false, section, entry,
                              "a session has pixel_size, voltage, spherical_aberration, amplitude_contrast, "
                              "min_free_memory, mtf, threads, transport, listen, inputs, web, ledger, hosts, "
                              "control_port, engine, slurm, notify, defocus and alarms");
        else if (strcmp(entry->key, "mtf") == 0)
            TRY(check_mtf(c, entry));
        else
            graph_check_value(c, described, section, entry, text);
        /* A value out of range has been reported, and ends the check. */
        if (strcmp(entry->key, "threads") == 0) c->graph->threads = atoi(text);
        if (strcmp(entry->key, "transport") == 0) c->graph->tcp = strcmp(text, "tcp") == 0;
        if (strcmp(entry->key, "ledger") == 0) check_ledger(c, entry);
        if (strcmp(entry->key, "control_port") == 0) c->graph->control_port = atoi(text);
        bool spreads = strcmp(entry->key, "engine") == 0 && strcmp(text, "local") != 0;
        if (spreads || strcmp(entry->key, "hosts") == 0 || strcmp(entry->key, "control_port") == 0)
            c->graph->spread = true;
        if (strcmp(entry->key, "inputs") == 0) check_inputs(c, entry);
        if (strcmp(entry->key, "slurm") == 0) check_slurm(c, entry);
        if (strcmp(entry->key, "notify") == 0) check_notify(c, entry);
        if (strcmp(entry->key, "defocus") == 0) check_defocus(c, entry);
        if (strcmp(entry->key, "alarms") == 0) check_alarms(c, entry);
    }
    return STATUS_OK;
}

enum status graph_check_session(struct graph_checks *c) {
    const struct graph_section *section = &c->graph->session;
    size_t optics_count;
    const struct param *optics = stage_session_params(&optics_count);
    json_t *described = params_describe(optics, optics_count);
    json_t *own = params_describe(session_table, sizeof session_table / sizeof session_table[0]);
    bool complete = described != NULL && own != NULL && json_array_extend(described, own) == 0;
    enum status status = complete ? check_keys(c, described) : STATUS_NO_MEMORY;
    json_decref(own);
    json_decref(described);
    if (status != STATUS_OK) return status;
    graph_check_hosts(c);
    const struct graph_entry *listen = graph_entry(section, "listen");
    if (listen != NULL) check_listen(c, listen);
    return STATUS_OK;
}

/* Returns whether a STAR file of CTF values gives the pixel size. */
static bool star_has_pixel_size(const char *path) {
    static const char *const columns[] = {"rlnMicrographPixelSize", "rlnMicrographOriginalPixelSize",
                                          "rlnImagePixelSize", "rlnDetectorPixelSize"};
    struct star_file *file = NULL;
    if (star_read(path, &file, NULL) != STATUS_OK) return false;
    bool found = false;
    for (size_t t = 0; t < star_table_count(file); t++)
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
            found |= star_column_find(star_table_at(file, t), columns[i]) >= 0;
    star_destroy(&file);
    return found;
}

/* Structures of molecules have no pixels. A watcher that feeds no stage counts as a watcher of micrographs. */
static bool feeds_structures_only(const struct graph *graph, size_t watcher) {
    bool feeds = false;
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        const char *in = json_string_value(json_object_get(stage->describe, "in"));
        for (size_t k = 0; k < stage->from_count; k++) {
            if (stage->from[k] != watcher) continue;
            if (in == NULL || strcmp(in, "structure") != 0) return false;
            feeds = true;
        }
    }
    return feeds;
}

/* In a session that has begun the table was good, and may just be rewritten now: its stage waits for it. */
void graph_check_pixel_size(struct graph_checks *c) {
    if (graph_entry(&c->graph->session, "pixel_size") != NULL || c->graph->begun) return;
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        if (stage->describe == NULL || strcmp(stage->kind, "watcher") != 0) continue;
        const struct graph_entry *scaled = graph_entry(&stage->section, "scaled");
        if (feeds_structures_only(c->graph, i) ||
            (scaled != NULL && scaled->value.count == 1 && strcmp(scaled->value.texts[0], "false") == 0))
            continue;
        /* An .mdoc gives the pixel size, and programs that align tilts write headers; an image that has neither
         * fails. */
        if (graph_entry(&stage->section, "series") != NULL) continue;
        const struct graph_entry *ctf = graph_entry(&stage->section, "ctf");
        if (ctf == NULL || ctf->value.count != 1 || !star_has_pixel_size(ctf->value.texts[0]))
            problems_add(c->problems, PROBLEM_ERROR,
                         c->graph->session.line > 0 ? c->graph->session.line : stage->section.line,
                         "session.pixel_size is required (Å), as in session: {pixel_size: 1.0}; only a `%s.ctf` with "
                         "an optics table can stand for it",
                         stage->section.name);
    }
}
