#include "pipelines/launcher/run/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "pipelines/launcher/run/engine_private.h"

/* ssh ends by itself when the other machine is silent for a minute. */
static const char *const ssh_words[] = {"ssh",
                                        "-o",
                                        "BatchMode=yes",
                                        "-o",
                                        "ConnectTimeout=10",
                                        "-o",
                                        "ServerAliveInterval=15",
                                        "-o",
                                        "ServerAliveCountMax=4"};
enum { SSH_WORDS = sizeof ssh_words / sizeof *ssh_words };

void engine_defaults(struct engine_options *options) {
    options->pause = 1;
    options->pause_max = 30;
    options->ask = 60;
    options->patience = 10;
}

enum status engine_kind_read(const char *text, enum engine_kind *ret_kind, struct err *err) {
    static const char *const names[] = {"local", "ssh", "slurm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret_kind = (enum engine_kind)i;
            return STATUS_OK;
        }
    FAIL(err, STATUS_BAD_ARGUMENT, "there is no engine \"%s\"; it is local, ssh or slurm", text);
}

enum status engine_check_host(const char *name, struct err *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    bool good = name[0] != '\0' && name[0] != '-' && name[0] != '.' && name[strspn(name, letters)] == '\0';
    FAIL_IF(!good || strlen(name) >= ENGINE_NAME_SIZE, err, STATUS_BAD_ARGUMENT,
            "\"%s\" is no name of a host; user and port belong into ~/.ssh/config", name);
    return STATUS_OK;
}

void engine_say(const struct engine *engine, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (engine->options.say != NULL) engine->options.say(engine->options.context, text);
}

/* Appends a text in single quotes, as a shell reads it. Returns false where it does not fit. */
static bool quote(char *out, size_t size, const char *text) {
    size_t at = strlen(out);
    for (const char *c = text; at + 6 < size; c++) {
        if (c == text) out[at++] = '\'';
        if (*c == '\0') {
            out[at++] = '\'';
            out[at] = '\0';
            return true;
        }
        if (*c == '\'') {
            memcpy(out + at, "'\\''", 4);
            at += 4;
        } else
            out[at++] = *c;
    }
    return false;
}

/* The shell becomes icestream, so that a signal to the one reaches the other. */
static enum status make_command(struct engine *engine, struct err *err) {
    const size_t size = sizeof engine->command;
    strcpy(engine->command, "exec ");
    bool fits = quote(engine->command, size, engine->options.program) && strlen(engine->command) + 8 < size;
    if (fits) strcat(engine->command, " host ");
    FAIL_IF(!fits || !quote(engine->command, size, engine->options.session), err, STATUS_BAD_ARGUMENT,
            "%s: the path is too long", engine->options.session);
    return STATUS_OK;
}

static enum status prepare(struct engine *engine, struct err *err) {
    const struct engine_options *options = &engine->options;
    char log[PATH_SIZE];
    TRY(make_command(engine, err));
    TRY(path_join(options->session, "log", log, sizeof log, err));
    TRY(path_join(log, "engine.log", engine->log, sizeof engine->log, err));
    engine->count = options->count > 0 ? options->count : 1;
    engine->entries = calloc(engine->count, sizeof *engine->entries);
    FAIL_IF(engine->entries == NULL, err, STATUS_NO_MEMORY, "no memory for the hosts");
    for (size_t i = 0; i < engine->count; i++) {
        struct engine_entry *entry = &engine->entries[i];
        *entry = (struct engine_entry){
            .text = options->count > 0 ? options->entries[i] : "", .tool.output = -1, .pause = options->pause};
        TRY(options->kind == ENGINE_SSH ? engine_check_host(entry->text, err) : engine_check_slurm(entry->text, err));
    }
    return options->kind == ENGINE_SLURM ? engine_slurm_create(engine, err) : STATUS_OK;
}

static void destroy(struct engine **engine) {
    free((*engine)->entries);
    free(*engine);
    *engine = NULL;
}

enum status engine_create(const struct engine_options *options, struct engine **ret_engine, struct err *err) {
    struct engine *engine = NULL;
    if (options->kind != ENGINE_LOCAL) {
        engine = calloc(1, sizeof *engine);
        FAIL_IF(engine == NULL, err, STATUS_NO_MEMORY, "no memory for the engine");
        engine->options = *options;
        enum status status = prepare(engine, err);
        engine->options.program = NULL; /* the command holds it */
        if (status != STATUS_OK) {
            destroy(&engine);
            return status;
        }
    }
    *ret_engine = engine;
    return STATUS_OK;
}

/* ---- ssh ---- */

static enum status connect_host(struct engine *engine, struct engine_entry *entry, struct err *err) {
    const char *words[SSH_WORDS + 3];
    char command[ENGINE_COMMAND_SIZE + ENGINE_NAME_SIZE + 16], log[PATH_SIZE];
    memcpy(words, ssh_words, sizeof ssh_words);
    snprintf(command, sizeof command, "%s --name %s", engine->command, entry->text);
    int length = snprintf(log, sizeof log, "%s/log/host-%s.log", engine->options.session, entry->text);
    FAIL_IF(length < 0 || (size_t)length >= sizeof log, err, STATUS_BAD_ARGUMENT, "%s: the path is too long",
            engine->options.session);
    words[SSH_WORDS] = entry->text;
    words[SSH_WORDS + 1] = command;
    words[SSH_WORDS + 2] = NULL;
    return tool_start(&entry->tool, words, log, false, err);
}

static void tend_host(struct engine *engine, struct engine_entry *entry) {
    const double now = clock_monotonic();
    struct err err = {0};
    int code;
    if (entry->tool.pid > 0) {
        bool lasts = now - entry->started_at > engine->options.pause_max;
        if (lasts) entry->told = false;
        if (!tool_ended(&entry->tool, &code)) return;
        if (lasts) entry->pause = engine->options.pause;
        if (!entry->told)
            engine_say(engine, "ssh to %s has ended; it is started again (log/host-%s.log)", entry->text, entry->text);
        entry->told = true;
        entry->start_at = now + entry->pause;
        entry->pause = 2 * entry->pause < engine->options.pause_max ? 2 * entry->pause : engine->options.pause_max;
    }
    const char *here = engine->options.own;
    if (now < entry->start_at || (here != NULL && strcmp(entry->text, here) == 0)) return;
    entry->started_at = now;
    if (connect_host(engine, entry, &err) == STATUS_OK) return;
    if (!entry->told) engine_say(engine, "ssh to %s: %s", entry->text, err.message);
    entry->told = true;
    entry->start_at = now + engine->options.pause_max;
}

/* ---- All engines ---- */

void engine_tend(struct engine *engine) {
    for (size_t i = 0; engine != NULL && i < engine->count; i++)
        if (engine->options.kind == ENGINE_SSH)
            tend_host(engine, &engine->entries[i]);
        else
            engine_slurm_tend(engine, &engine->entries[i]);
}

void engine_end(struct engine **engine) {
    if (*engine == NULL) return;
    if ((*engine)->options.kind == ENGINE_SLURM) engine_slurm_end(*engine);
    const double end = clock_monotonic() + (*engine)->options.patience;
    for (size_t i = 0; i < (*engine)->count; i++) {
        double left = end - clock_monotonic();
        tool_end(&(*engine)->entries[i].tool, left > 0 ? left : 0);
    }
    destroy(engine);
}
