/* `icestream silence`: writes the line into alarms.jsonl that the page writes too. Whichever server of the session tells of
 * alarms reads it within a second. */
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/alarms/alarms_file.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"

/* Reads "2026-11-22T18:30", with seconds or without, by the clock of this machine or with Z in UTC. */
static enum status read_time(const char *text, double *ret_time, struct err *err) {
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm parts = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &parts);
        if (end == NULL || (*end != '\0' && strcmp(end, "Z") != 0)) continue;
        const time_t time = *end == 'Z' ? timegm(&parts) : mktime(&parts);
        if (time == (time_t)-1) continue;
        *ret_time = (double)time;
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "--until is '%s'; it must be a time, as in 2026-11-22T18:30 or 2026-11-22T16:30Z",
         text);
}

static enum status read_end(const struct options *options, double now, double *ret_end, struct err *err) {
    const int given = (options->lasting >= 0) + (options->until != NULL) + options->clear;
    FAIL_IF(given != 1, err, STATUS_BAD_ARGUMENT, "give one of --for SECONDS, --until TIME and --clear");
    *ret_end = 0;
    if (options->clear) return STATUS_OK;
    if (options->until != NULL) TRY(read_time(options->until, ret_end, err));
    if (options->lasting >= 0) *ret_end = now + options->lasting;
    FAIL_IF(!(*ret_end > now), err, STATUS_BAD_ARGUMENT, "the silence would be over already; --clear ends one");
    return STATUS_OK;
}

static void name_user(char *user, size_t size) {
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != NULL)
        snprintf(user, size, "%s", entry.pw_name);
    else
        snprintf(user, size, "%u", (unsigned)geteuid());
}

static enum status silence(const struct options *options, struct err *err) {
    const double now = clock_realtime();
    const char *name = options->words[0], *subject = options->word_count > 1 ? options->words[1] : "";
    struct session session;
    char web[PATH_SIZE], path[PATH_SIZE], user[128], when[32] = "";
    double end = 0;
    _cleanup_(mem_free) struct alarm_table *table = NULL;
    TRY(read_end(options, now, &end, err));
    TRY(session_find(options->session, &session, err));
    TRY(mem_new(1, sizeof *table, "the alarms", &table, err));
    TRY(alarms_read_folder(session.path, table, err));
    TRY(alarms_table_silence(table, name, subject, end, now, err));
    TRY(path_join(session.path, "web", web, sizeof web, err));
    TRY(path_join(web, "alarms.jsonl", path, sizeof path, err));
    TRY(file_make_folders(web, 0700, err));
    name_user(user, sizeof user);
    struct alarm_silence one = {.until = end};
    snprintf(one.name, sizeof one.name, "%s", name);
    snprintf(one.subject, sizeof one.subject, "%s", subject);
    TRY(alarms_file_silence(path, &one, now, user, options->why, err));
    const time_t whole = (time_t)ceil(end);
    struct tm parts;
    if (end > 0 && localtime_r(&whole, &parts) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    printf("%s%s%s is %s%s\n", name, subject[0] ? " " : "", subject, end > 0 ? "silent until " : "no longer silenced",
           when);
    return STATUS_OK;
}

int command_silence(const struct options *options) {
    struct err err = {0};
    const enum status status = silence(options, &err);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
