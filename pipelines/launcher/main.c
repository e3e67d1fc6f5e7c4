/* icestream: reads the command line and runs one command. */
#include <stdio.h>
#include <string.h>

#include "common/standard.h"
#include "pipelines/launcher/commands.h"

static int run_command(const struct options *options) {
    if (options->help) {
        options_command_help(options->command, stdout);
        return EXIT_OK;
    }
    switch (options->command) {
    case COMMAND_RUN:
        return command_run(options);
    case COMMAND_REPLAY:
        return command_replay(options);
    case COMMAND_CHECK:
        return command_check(options);
    case COMMAND_STATUS:
        return command_status(options);
    case COMMAND_SET:
        return command_set(options);
    case COMMAND_HOST:
        return command_host(options);
    case COMMAND_INVERT_HAND:
        return command_invert_hand(options);
    case COMMAND_REDO:
        return command_redo(options);
    case COMMAND_RETRY:
        return command_retry(options);
    case COMMAND_MARK:
        return command_mark(options);
    case COMMAND_BACKUP:
        return command_backup(options);
    case COMMAND_REPAIR:
        return command_repair(options);
    case COMMAND_SERVE:
        return command_serve(options);
    case COMMAND_REPORT:
        return command_report(options);
    case COMMAND_VERIFY:
        return command_verify(options);
    case COMMAND_SILENCE:
        return command_silence(options);
    case COMMAND_METRICS:
        return command_metrics(options);
    case COMMAND_STAGES:
        return command_stages(options);
    case COMMAND_DOCTOR:
        return command_doctor(options);
    }
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    standard_begin();
    if (argc < 2) {
        options_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("icestream " ICESTREAM_BUILD);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        options_help(stdout);
        return EXIT_OK;
    }
    struct options options;
    struct err err = {0};
    if (strcmp(argv[1], "--manual") == 0) {
        if (options_manual(argv[2], stdout, &err) == STATUS_OK) return EXIT_OK;
        fprintf(stderr, "icestream: %s\n", err.message);
        return EXIT_USAGE;
    }
    if (options_parse(argc - 1, argv + 1, &options, &err) != STATUS_OK) {
        fprintf(stderr, "icestream: %s\n", err.message);
        return EXIT_USAGE;
    }
    int code = run_command(&options);
    options_clear(&options);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("icestream: the output could not be written\n", stderr);
        return code == EXIT_OK ? EXIT_ERROR : code;
    }
    return code;
}
