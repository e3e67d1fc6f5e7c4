/* `icestream doctor`: looks at the machine and says what it lacks, with the command that helps. */
#include "pipelines/launcher/doctor/doctor.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/machine_memory.h"
#include "common/text.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/machine.h"
#include "pipelines/launcher/program.h"
#include "pipelines/launcher/serve/http_server.h"

static const char *const level_words[] = {"ok", "warning", "error"};
enum { NAME_COLUMN = 9, TEXT_COLUMN = 21 };

void doctor_begin(struct doctor *doctor, const char *root) {
    char path[PATH_SIZE];
    char *text = NULL;
    size_t length;
    *doctor = (struct doctor){0};
    snprintf(path, sizeof path, "%s/etc/os-release", root);
    if (file_read_whole(path, 1 << 16, &text, &length, NULL) == STATUS_OK)
        doctor->ubuntu = strncmp(text, "ID=ubuntu", 9) == 0 || strstr(text, "\nID=ubuntu") != NULL;
    free(text);
    snprintf(path, sizeof path, "%s/usr/bin/apt-get", root);
    doctor->apt = file_exists(path);
}

void doctor_add(struct doctor *doctor, enum doctor_level level, const char *name, const char *remedy,
                const char *format, ...) {
    if (doctor->count == DOCTOR_FINDINGS) return;
    struct doctor_finding *finding = &doctor->findings[doctor->count++];
    *finding = (struct doctor_finding){.name = name, .level = level};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->message, sizeof finding->message, format, arguments);
    va_end(arguments);
    text_trim(finding->message);
    if (remedy != NULL) snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
}

size_t doctor_count(const struct doctor *doctor, enum doctor_level level) {
    size_t count = 0;
    for (size_t i = 0; i < doctor->count; i++)
        count += doctor->findings[i].level == level;
    return count;
}

static void doctor_machine(struct doctor *doctor, const char *folder) {
    struct machine machine;
    machine_inspect(&machine);
    const struct machine_memory memory = machine_memory_read("");
    doctor_add(doctor, DOCTOR_OK, "program", NULL, "icestream " ICESTREAM_BUILD ", %s CUDA, in %s",
               machine.cuda ? "with" : "without", folder);
    if (memory.total == SIZE_MAX)
        doctor_add(doctor, DOCTOR_OK, "machine", NULL, "%d cores", machine.cores);
    else
        doctor_add(doctor, DOCTOR_OK, "machine", NULL, "%d cores, %.1f GB of memory, of which %.1f GB can be taken",
                   machine.cores, memory.total / 1e9, memory.available / 1e9);
}

/* `icestream serve` was left out of a build on a machine without its library. */
static void doctor_page(struct doctor *doctor) {
    if (http_server_is_there())
        doctor_add(doctor, DOCTOR_OK, "page", NULL, "icestream serve shows sessions in a browser");
    else
        doctor_add(doctor, DOCTOR_WARNING, "page", "sudo apt-get install libmicrohttpd-dev zlib1g-dev",
                   "this icestream was built without libmicrohttpd: icestream serve shows no page, and no alarms are "
                   "judged; install it and build icestream again");
}

static void examine(struct doctor *doctor, const char *folder) {
    char own[PATH_SIZE] = ".";
    struct doctor_disk disk = {.takes_sockets = false};
    struct doctor_limits limits;
    if (program_own_folder(own, sizeof own, NULL) == STATUS_OK) doctor_machine(doctor, own);
    doctor_gpu(doctor);
    doctor_libraries(doctor, own);
    doctor_page(doctor);
    bool written = doctor_disk(doctor, folder, &disk);
    doctor_read_limits("", &limits);
    doctor_judge_limits(doctor, &limits);
    doctor_clock(doctor, written ? disk.skew : 0);
    doctor_port(doctor, disk.takes_sockets);
}

static void print(const struct doctor *doctor) {
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        printf("%-*s%-*s", NAME_COLUMN, level_words[finding->level], TEXT_COLUMN - NAME_COLUMN, finding->name);
        text_wrap(finding->message, TEXT_COLUMN, TEXT_COLUMN, stdout);
        /* One line, however long, so that it can be copied. */
        if (finding->remedy[0] != '\0') printf("%*s$ %s\n", TEXT_COLUMN, "", finding->remedy);
    }
    size_t errors = doctor_count(doctor, DOCTOR_ERROR), warnings = doctor_count(doctor, DOCTOR_WARNING);
    if (errors + warnings == 0)
        puts("Nothing is missing.");
    else
        printf("%zu error%s, %zu warning%s\n", errors, errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
}

static enum status print_json(const struct doctor *doctor) {
    json_t *checks = json_array();
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        /* A path of the system may be no UTF-8: then the message is left out. */
        json_t *message = json_string(finding->message);
        json_array_append_new(checks, json_pack("{s:s, s:s, s:o, s:s}", "name", finding->name, "level",
                                                level_words[finding->level], "message",
                                                message ? message : json_string(""), "remedy", finding->remedy));
    }
    json_t *all = json_pack("{s:s, s:b, s:o}", "version", ICESTREAM_BUILD, "well",
                            doctor_count(doctor, DOCTOR_ERROR) == 0, "checks", checks);
    bool printed = all != NULL && json_dumpf(all, stdout, JSON_INDENT(1)) == 0;
    if (printed) putchar('\n');
    json_decref(all);
    return printed ? STATUS_OK : STATUS_NO_MEMORY;
}

int command_doctor(const struct options *options) {
    struct doctor doctor;
    doctor_begin(&doctor, "");
    const char *given = options->word_count ? options->words[0] : ".";
    char folder[PATH_SIZE];
    examine(&doctor, realpath(given, folder) ? folder : given);
    if (!options->json)
        print(&doctor);
    else if (print_json(&doctor) != STATUS_OK) {
        fputs("icestream: no memory for the findings\n", stderr);
        return EXIT_ERROR;
    }
    return doctor_count(&doctor, DOCTOR_ERROR) ? EXIT_ERROR : EXIT_OK;
}
