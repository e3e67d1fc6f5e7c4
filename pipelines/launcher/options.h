/* Parses the command line of `icestream`, and prints its help. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_OPTIONS_H
#define ICESTREAM_PIPELINES_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"
#include "pipelines/launcher/run/supervisor.h"

enum command {
    COMMAND_RUN = 1 << 0,
    COMMAND_REPLAY = 1 << 1,
    COMMAND_CHECK = 1 << 2,
    COMMAND_STATUS = 1 << 3,
    COMMAND_RETRY = 1 << 4,
    COMMAND_STAGES = 1 << 5,
    COMMAND_VERIFY = 1 << 6,
    COMMAND_REPAIR = 1 << 7,
    COMMAND_BACKUP = 1 << 8,
    COMMAND_DOCTOR = 1 << 20,
    COMMAND_SET = 1 << 9,
    COMMAND_REDO = 1 << 10,
    COMMAND_MARK = 1 << 11,
    COMMAND_SERVE = 1 << 12,
    COMMAND_METRICS = 1 << 13,
    COMMAND_REPORT = 1 << 14,
    COMMAND_SILENCE = 1 << 15,
    COMMAND_INVERT_HAND = 1 << 16,
    COMMAND_HOST = 1 << 17,
};

struct options {
    enum command command;
    const char **words; /* words that are no options: GRAPH; RECORDED GRAPH; ITEM… */
    size_t word_count;
    const char *session, *stage, *to, *output, *engine;
    const char *sessions, *listen, *socket; /* of serve */
    const char **sets, **faults, **hosts;
    size_t set_count, fault_count, host_count;
    double until_idle; /* s; negative: not given */
    double speed;      /* infinite: as fast as possible */
    double log_size;   /* MiB */
    bool json, follow, lost, products;
    bool keep, reject, clear;
    const char *why, *classes;
    double lasting;             /* s that an alarm is silenced; negative: not given */
    const char *until;          /* when a silence ends */
    const char *name, *address; /* of a host */
    double alone;               /* s that a host waits for a launcher; negative: not given */
    int iteration;              /* 0: not given */
    bool serve, new_token, token_view, behind_proxy, metrics_open, with_run; /* of serve; the first of run */
    bool pdf, anonymous;                                                     /* of report */
    bool help;
    struct supervisor_options supervisor;
};

/* Parses the command line. All strings are borrowed from argv. argv[0] is the command's name. */
enum status options_parse(int argc, char **argv, struct options *ret_options, struct err *err);
/* Frees what the options hold. */
void options_clear(struct options *options);
/* Prints the commands. */
void options_help(FILE *out);
/* Prints the options of one command. */
void options_command_help(enum command command, FILE *out);
/* Prints the documentation of `icestream` in the form that a word names (common/harness/manual.h). */
enum status options_manual(const char *form, FILE *out, struct err *err);

/* Exit codes, the same for all programs. */
enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_SOME_FAILED = 3, EXIT_COUNTS = 4 };

#endif
