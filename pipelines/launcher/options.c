#include "pipelines/launcher/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/manual.h"
#include "common/harness/params.h"
#include "common/harness/stage.h"
#include "common/log.h"
#include "common/text.h"

enum option_kind { OPTION_TEXT, OPTION_TEXTS, OPTION_SECONDS, OPTION_SIZE, OPTION_COUNT, OPTION_SPEED, OPTION_FLAG };

struct option_row {
    const char *name, *value, *help;
    unsigned commands;
    enum option_kind kind;
    size_t offset, count_offset;
};

#define AT(member) offsetof(struct options, member)
enum { RUNS = COMMAND_RUN | COMMAND_REPLAY };

static const struct option_row rows[] = {
    {"session", "DIR", "The folder that holds all of a run.",
     RUNS | COMMAND_STATUS | COMMAND_SET | COMMAND_REDO | COMMAND_RETRY | COMMAND_MARK | COMMAND_VERIFY |
         COMMAND_REPAIR | COMMAND_BACKUP | COMMAND_SERVE | COMMAND_METRICS | COMMAND_REPORT | COMMAND_SILENCE |
         COMMAND_INVERT_HAND,
     OPTION_TEXT, AT(session), 0},
    {"set", "STAGE.KEY=VALUE", "Replaces or adds a value of the graph; may be given again.", RUNS | COMMAND_CHECK,
     OPTION_TEXTS, AT(sets), AT(set_count)},
    {"engine", "local|ssh|slurm", "What starts hosts on other machines; instead of session.engine.",
     RUNS | COMMAND_CHECK, OPTION_TEXT, AT(engine), 0},
    {"until-idle", "SECONDS", "Ends the stream when nothing new has come for that long.", RUNS, OPTION_SECONDS,
     AT(until_idle), 0},
    {"speed", "X|max", "How many times faster than the recording (1), or as fast as possible.", COMMAND_REPLAY,
     OPTION_SPEED, AT(speed), 0},
    {"fault", "SPEC", "kill:STAGE@N, corrupt:N, delay:N:SECONDS or duplicate:N; may be given again.", COMMAND_REPLAY,
     OPTION_TEXTS, AT(faults), AT(fault_count)},
    {"restarts", "N", "Deaths of a process in a row, with nothing finished between them, before the run gives up (5).",
     RUNS, OPTION_COUNT, AT(supervisor.restart_limit), 0},
    {"backoff", "SECONDS", "Pause before a dead process is started again; doubled for each such death, up to 30 (0.5).",
     RUNS, OPTION_SECONDS, AT(supervisor.backoff), 0},
    {"hang-report", "SECONDS",
     "A process that is silent for that long is reported, and its items go to other replicas (15).", RUNS,
     OPTION_SECONDS, AT(supervisor.hang_report), 0},
    {"hang-kill", "SECONDS", "How long after the report the process is killed and started again (60).", RUNS,
     OPTION_SECONDS, AT(supervisor.hang_kill), 0},
    {"log-size", "MIB", "A log of this size is renamed and a new one begins; four old logs stay (16).", RUNS,
     OPTION_SIZE, AT(log_size), 0},
    {"json", NULL, "Prints JSON.", COMMAND_STATUS | COMMAND_STAGES | COMMAND_VERIFY | COMMAND_DOCTOR, OPTION_FLAG,
     AT(json), 0},
    {"follow", NULL, "Prints again whenever something has changed, until the run ends.", COMMAND_STATUS, OPTION_FLAG,
     AT(follow), 0},
    {"lost", NULL, "Also items that are done, but whose products are missing.", COMMAND_RETRY, OPTION_FLAG, AT(lost),
     0},
    {"stage", "NAME", "Only the items of this stage.", COMMAND_RETRY | COMMAND_REDO, OPTION_TEXT, AT(stage), 0},
    {"keep", NULL, "Keeps the exposures, or the particles of the classes.", COMMAND_MARK, OPTION_FLAG, AT(keep), 0},
    {"reject", NULL, "Rejects the exposures, or the particles of the classes.", COMMAND_MARK, OPTION_FLAG, AT(reject),
     0},
    {"clear", NULL, "Takes marks of the exposures, or choices of the snapshot's classes, back.", COMMAND_MARK,
     OPTION_FLAG, AT(clear), 0},
    {"why", "TEXT", "The reason, for those who read it later.", COMMAND_MARK | COMMAND_SILENCE, OPTION_TEXT, AT(why),
     0},
    {"for", "SECONDS", "How long nobody is told of the alarm.", COMMAND_SILENCE, OPTION_SECONDS, AT(lasting), 0},
    {"until", "TIME", "When the silence ends: 2026-11-22T18:30, by the clock of this machine, or with Z in UTC.",
     COMMAND_SILENCE, OPTION_TEXT, AT(until), 0},
    {"clear", NULL, "Ends a silence.", COMMAND_SILENCE, OPTION_FLAG, AT(clear), 0},
    {"iteration", "N", "The snapshot of the classifier whose classes are chosen.", COMMAND_MARK, OPTION_COUNT,
     AT(iteration), 0},
    {"classes", "N,…", "The numbers of the classes.", COMMAND_MARK, OPTION_TEXT, AT(classes), 0},
    {"stage", "NAME", "The classifier, if the session has several.", COMMAND_MARK, OPTION_TEXT, AT(stage), 0},
    {"stage", "NAME", "The refiner, if the session has several.", COMMAND_INVERT_HAND, OPTION_TEXT, AT(stage), 0},
    {"o", "FILE", "The file, which is replaced as a whole; without it the standard output.", COMMAND_METRICS,
     OPTION_TEXT, AT(output), 0},
    {"o", "FILE.html", "The page (SESSION/report/report.html); the other files lie beside it.", COMMAND_REPORT,
     OPTION_TEXT, AT(output), 0},
    {"pdf", NULL, "Prints the page as PDF too, by Chromium.", COMMAND_REPORT, OPTION_FLAG, AT(pdf), 0},
    {"anonymous", NULL, "Leaves out paths, and the names of machines and people.", COMMAND_REPORT, OPTION_FLAG,
     AT(anonymous), 0},
    {"to", "DIR", "The folder for the copy.", COMMAND_BACKUP, OPTION_TEXT, AT(to), 0},
    {"products", NULL, "Copies the products too.", COMMAND_BACKUP, OPTION_FLAG, AT(products), 0},
    {"sessions", "DIR", "A folder of sessions, which the page lists; instead of --session.", COMMAND_SERVE, OPTION_TEXT,
     AT(sessions), 0},
    {"serve", NULL, "Shows the session as a page, and prints its address before the first exposure.", RUNS, OPTION_FLAG,
     AT(serve), 0},
    {"listen", "HOST:PORT", "Address of the page, such as 127.0.0.1:0 (any free port); without it a Unix socket.",
     RUNS | COMMAND_SERVE, OPTION_TEXT, AT(listen), 0},
    {"socket", "PATH", "Unix socket of the page (SESSION/web/ui.sock).", RUNS | COMMAND_SERVE, OPTION_TEXT, AT(socket),
     0},
    {"new-token", NULL, "Makes a new token; addresses that were given out lead nowhere from then on.", COMMAND_SERVE,
     OPTION_FLAG, AT(new_token), 0},
    {"token-view", NULL, "Prints a second address, for a display: its token may look and change nothing.",
     COMMAND_SERVE, OPTION_FLAG, AT(token_view), 0},
    {"host", "NAME", "A further name of this server, such as that of a proxy; may be given again.", COMMAND_SERVE,
     OPTION_TEXTS, AT(hosts), AT(host_count)},
    {"behind-proxy", NULL, "Lets --listen take an address that others reach; a proxy with TLS must stand before it.",
     COMMAND_SERVE, OPTION_FLAG, AT(behind_proxy), 0},
    {"metrics-open", NULL, "Gives out /metrics without a token, with --listen on this machine alone.", COMMAND_SERVE,
     OPTION_FLAG, AT(metrics_open), 0},
    {"with-run", NULL, "Ends ten minutes after the last run of the session; `run` starts the page so.", COMMAND_SERVE,
     OPTION_FLAG, AT(with_run), 0},
    {"name", "NAME", "The name by which the graph's `on` and `hosts` call this host (that of the machine).",
     COMMAND_HOST, OPTION_TEXT, AT(name), 0},
    {"address", "IP", "The address of this host by which others reach it (that by which it reaches the launcher).",
     COMMAND_HOST, OPTION_TEXT, AT(address), 0},
    {"alone", "SECONDS", "How long this host goes on when no launcher is heard (600).", COMMAND_HOST, OPTION_SECONDS,
     AT(alone), 0},
    {"help", NULL, "Prints this text.", ~0u, OPTION_FLAG, AT(help), 0},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct {
    const char *name, *words, *summary;
    enum command command;
    size_t least, most; /* number of words */
} commands[] = {
    {"run", "GRAPH", "Starts a session, or resumes it.", COMMAND_RUN, 1, 1},
    {"replay", "RECORDED GRAPH", "Plays a recorded session, or a folder of micrographs, again.", COMMAND_REPLAY, 2, 2},
    {"check", "GRAPH", "Reports what is wrong with a graph, or prints the plan.", COMMAND_CHECK, 1, 1},
    {"status", "[ITEM]…", "Prints what happened to every item of a session, or to those named.", COMMAND_STATUS, 0,
     SIZE_MAX},
    {"set", "STAGE.KEY=VALUE…", "Gives stages of a session other values, while it runs or before its next run.",
     COMMAND_SET, 1, SIZE_MAX},
    {"redo", "[ITEM]…", "Makes items again with the present parameters, while their stage is idle.", COMMAND_REDO, 0,
     SIZE_MAX},
    {"retry", "[ITEM]…", "Sends failed items through again (all, or those named).", COMMAND_RETRY, 0, SIZE_MAX},
    {"mark", "[ITEM]…", "Keeps or rejects exposures, or the particles of classes, by hand.", COMMAND_MARK, 0, SIZE_MAX},
    {"invert-hand", "", "Gives the maps of the refiner the other hand, from its next iteration on.",
     COMMAND_INVERT_HAND, 0, 0},
    {"host", "SESSION", "Makes this machine a host of a session that runs on another one.", COMMAND_HOST, 1, 1},
    {"serve", "", "Shows a session, running or not, as a page in a browser.", COMMAND_SERVE, 0, 0},
    {"report", "", "Writes a session as one page to keep, print or send, with its numbers beside it.", COMMAND_REPORT,
     0, 0},
    {"verify", "", "Finds files of a session that are missing, changed or rotten.", COMMAND_VERIFY, 0, 0},
    {"repair", "", "Rebuilds ledgers that are lost, damaged or older than the session.", COMMAND_REPAIR, 0, 0},
    {"backup", "", "Copies the ledgers of a session, which may be running, to another folder.", COMMAND_BACKUP, 0, 0},
    {"silence", "ALARM [SUBJECT]", "Tells nobody of an alarm (all: of any) until a time; the page shows it still.",
     COMMAND_SILENCE, 1, 2},
    {"metrics", "", "Writes the metrics of a session in the text format of Prometheus.", COMMAND_METRICS, 0, 0},
    {"stages", "", "Lists the stage programs on this machine.", COMMAND_STAGES, 0, 0},
    {"doctor", "[DIR]", "Says what this machine lacks, and which command helps; DIR: where sessions will lie.",
     COMMAND_DOCTOR, 0, 1},
};
static const char exit_codes[] =
    "0: nothing failed. 1: error. 2: wrong usage, graph, value or input. 3: some items failed, and the rest is done. "
    "4: the counts do not add up, or verify found something wrong. 75: the machine lacks something; try again later.";
enum { COMMANDS = sizeof commands / sizeof commands[0], WORDS_WIDTH = 16 };

void options_help(FILE *out) {
    fputs("icestream: streaming cryo-EM beside the microscope.\n\nUsage: icestream COMMAND …\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-11s %s%*s %s\n", commands[i].name, commands[i].words,
                WORDS_WIDTH - (int)text_width(commands[i].words), "", commands[i].summary);
    fputs("\n`icestream COMMAND --help` shows its options; `icestream --version` prints the version.\n"
          "\nExit codes\n  ",
          out);
    text_wrap(exit_codes, 2, 2, out);
}

void options_command_help(enum command command, FILE *out) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i].command == command)
            fprintf(out, "Usage: icestream %s%s%s [--OPTION VALUE]…\n%s\n\n", commands[i].name,
                    commands[i].words[0] ? " " : "", commands[i].words, commands[i].summary);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].commands & command) params_help_line(rows[i].name, rows[i].value, rows[i].help, out);
}

/* The options of one command as the manual has them. Returns how many. */
static size_t manual_options(enum command command, struct manual_option out[ROWS]) {
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].commands & command)
            out[count++] = (struct manual_option){rows[i].name, rows[i].value, rows[i].help};
    return count;
}

/* docs/parameters.md begins with the launcher: what it says of all programs goes before. */
static void print_beginning(FILE *out) {
    size_t common_count, session_count;
    const struct param *common = stage_common_params(&common_count), *session = stage_session_params(&session_count);
    fputs(
        "# Parameters\n\n"
        "This page lists every program and every parameter. The programs print the page from the tables that they\n"
        "work with; `cmake --build --preset cpu --target docs` writes it again.\n\n"
        "On the command line a parameter is `--name value` or `--name=value`. A hyphen may stand for the underscore, "
        "a\n"
        "boolean needs no value, and a list is `a,b`. In a graph a parameter is a key of its stage. An empty default\n"
        "means that the program decides by itself; `auto` means the same, and may be given. Ranges are inclusive.\n"
        "`changes` says whether a session that has begun takes another value: never, by a restart of the stage, or "
        "live.\n\n"
        "## Every stage\n\n"
        "Each `icestream-STAGE` below takes these parameters beside its own. On files it takes `--i INPUT`,\n"
        "`--o DIR`, `--verbose`, `--profile`, `--describe`, `--help` and `--version` as well.\n",
        out);
    manual_print_table(&(struct manual_part){.params = common, .param_count = common_count}, out);
    fputs("\nThe keys of `session:` in a graph are parameters of each stage on files:\n", out);
    manual_print_table(&(struct manual_part){.params = session, .param_count = session_count}, out);
    fputs(
        "\n`session:` in a graph also takes `threads` (cores that the session takes; by default all), `transport`\n"
        "(`ipc`, or `tcp`), `listen` (an address, with `tcp`), `inputs` (a list of folders that items may name\n"
        "files in), `web` (whether a run shows itself as a page), `ledger` (a database of PostgreSQL that holds the\n"
        "ledgers), `hosts` (further hosts on which stages run), `control_port` (where the launcher waits for them),\n"
        "`engine` (`local`, `ssh` or `slurm`: what starts hosts), `slurm` (options of `sbatch` for them), `notify` (a\n"
        "program that is told of alarms), `defocus` (the target of the microscope, µm) and `alarms` (thresholds of\n"
        "alarms).\n",
        out);
}

enum status options_manual(const char *form, FILE *out, struct err *err) {
    static const struct manual_option general[] = {{"help", NULL, "Prints a short help."},
                                                   {"version", NULL, "Prints the version."}};
    struct manual_option options[COMMANDS][ROWS];
    struct manual_part parts[COMMANDS + 1];
    char titles[COMMANDS][96], synopsis[COMMANDS][128];
    const char *lines[COMMANDS];
    enum manual_form which;
    TRY(manual_form(form, &which, err));
    for (size_t i = 0; i < COMMANDS; i++) {
        snprintf(titles[i], sizeof titles[i], "icestream %s%s%s", commands[i].name, commands[i].words[0] ? " " : "",
                 commands[i].words);
        snprintf(synopsis[i], sizeof synopsis[i], "%s [--OPTION VALUE]…", titles[i]);
        lines[i] = synopsis[i];
        parts[i] = (struct manual_part){.title = titles[i],
                                        .text = commands[i].summary,
                                        .command = commands[i].name,
                                        .options = options[i],
                                        .option_count = manual_options(commands[i].command, options[i])};
    }
    parts[COMMANDS] =
        (struct manual_part){.title = "Options", .options = general, .option_count = 2, .elsewhere = true};
    const struct manual manual = {
        .program = "icestream",
        .summary = "streaming cryo-EM beside the microscope",
        .synopsis = lines,
        .synopsis_count = COMMANDS,
        .text = "icestream runs graphs of stage programs on a folder that fills while the microscope collects.",
        .parts = parts,
        .part_count = COMMANDS + 1,
        .exit_codes = exit_codes,
    };
    if (which == MANUAL_MARKDOWN) print_beginning(out);
    manual_print(&manual, which, out);
    return STATUS_OK;
}

static const struct option_row *find_row(const char *name, size_t length, enum command command) {
    for (size_t i = 0; i < ROWS; i++) {
        bool same = strlen(rows[i].name) == length && (rows[i].commands & command);
        for (size_t k = 0; same && k < length; k++)
            same = rows[i].name[k] == (name[k] == '_' ? '-' : name[k]);
        if (same) return &rows[i];
    }
    return NULL;
}

static enum status unknown_option(const char *name, size_t length, enum command command, struct err *err) {
    const char *names[ROWS];
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].commands & command) names[count++] = rows[i].name;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *near = text_nearest(word, names, count);
    FAIL(err, STATUS_BAD_ARGUMENT, "unknown option --%s%s%s%s", word, near ? "; did you mean --" : "", near ? near : "",
         near ? "?" : " (--help lists them)");
}

static enum status put(struct options *options, const struct option_row *row, const char *value, struct err *err) {
    char *place = (char *)options + row->offset;
    char *end = NULL;
    double number = value ? strtod(value, &end) : 0;
    bool is_number = end != NULL && end != value && *end == '\0' && isfinite(number) && number >= 0;
    switch (row->kind) {
    case OPTION_TEXT:
        *(const char **)place = value;
        break;
    case OPTION_TEXTS: {
        size_t *count = (size_t *)((char *)options + row->count_offset);
        (*(const char ***)place)[(*count)++] = value;
        break;
    }
    case OPTION_SECONDS:
        FAIL_IF(!is_number, err, STATUS_BAD_ARGUMENT, "--%s is '%s'; it must be a number of seconds, 0 or more",
                row->name, value);
        *(double *)place = number;
        break;
    case OPTION_SIZE:
        FAIL_IF(!is_number || number <= 0 || number > 1e6, err, STATUS_BAD_ARGUMENT,
                "--%s is '%s'; it must be a number of MiB above 0", row->name, value);
        *(double *)place = number;
        break;
    case OPTION_COUNT:
        FAIL_IF(!is_number || number != floor(number) || number > 1e6, err, STATUS_BAD_ARGUMENT,
                "--%s is '%s'; it must be a whole number, 0 or more", row->name, value);
        *(int *)place = (int)number;
        break;
    case OPTION_SPEED:
        if (strcmp(value, "max") == 0)
            number = INFINITY;
        else
            FAIL_IF(!is_number || number <= 0, err, STATUS_BAD_ARGUMENT,
                    "--speed is '%s'; it must be a number above 0, or max", value);
        *(double *)place = number;
        break;
    case OPTION_FLAG:
        *(bool *)place = true;
        break;
    }
    return STATUS_OK;
}

static enum status parse_option(int argc, char **argv, int *at, struct options *options, struct err *err) {
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const struct option_row *row = find_row(name, length, options->command);
    if (row == NULL) return unknown_option(name, length, options->command, err);
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (row->kind == OPTION_FLAG) {
        FAIL_IF(value != NULL, err, STATUS_BAD_ARGUMENT, "--%s takes no value", row->name);
    } else if (value == NULL) {
        FAIL_IF(*at + 1 >= argc, err, STATUS_BAD_ARGUMENT, "--%s needs a value: --%s %s", row->name, row->name,
                row->value);
        value = argv[++*at];
    }
    return put(options, row, value, err);
}

static enum status check_words(const struct options *options, size_t which, struct err *err) {
    if (options->help) return STATUS_OK;
    FAIL_IF(options->word_count < commands[which].least, err, STATUS_BAD_ARGUMENT,
            "usage: icestream %s %s …; %zu given where %zu %s needed", commands[which].name, commands[which].words,
            options->word_count, commands[which].least, commands[which].least == 1 ? "is" : "are");
    FAIL_IF(options->word_count > commands[which].most, err, STATUS_BAD_ARGUMENT,
            "'%s' is one word too many; usage: icestream %s %s …", options->words[commands[which].most],
            commands[which].name, commands[which].words);
    FAIL_IF(options->session == NULL && options->sessions == NULL && find_row("session", 7, options->command) != NULL,
            err, STATUS_BAD_ARGUMENT, "--session DIR is required");
    FAIL_IF(options->session != NULL && options->session[0] == '\0', err, STATUS_BAD_ARGUMENT,
            "--session is empty; it must name a folder");
    return STATUS_OK;
}

enum status options_parse(int argc, char **argv, struct options *ret_options, struct err *err) {
    struct options options = {.until_idle = -1, .lasting = -1, .alone = -1, .speed = 1, .log_size = LOG_SIZE >> 20};
    supervisor_defaults(&options.supervisor);
    size_t which = 0;
    while (which < COMMANDS && strcmp(commands[which].name, argv[0]) != 0)
        which++;
    if (which == COMMANDS) {
        const char *names[COMMANDS];
        for (size_t i = 0; i < COMMANDS; i++)
            names[i] = commands[i].name;
        const char *near = text_nearest(argv[0], names, COMMANDS);
        FAIL(err, STATUS_BAD_ARGUMENT, "unknown command '%s'%s%s%s", argv[0], near ? "; did you mean '" : "",
             near ? near : "", near ? "'?" : " (--help lists them)");
    }
    options.command = commands[which].command;
    options.words = calloc((size_t)argc, sizeof *options.words);
    options.sets = calloc((size_t)argc, sizeof *options.sets);
    options.faults = calloc((size_t)argc, sizeof *options.faults);
    options.hosts = calloc((size_t)argc, sizeof *options.hosts);
    enum status status = STATUS_OK;
    if (options.words == NULL || options.sets == NULL || options.faults == NULL || options.hosts == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory");
    bool only_words = false;
    for (int at = 1; status == STATUS_OK && at < argc; at++) {
        if (!only_words && strcmp(argv[at], "--") == 0)
            only_words = true;
        else if (!only_words && strncmp(argv[at], "--", 2) == 0)
            status = parse_option(argc, argv, &at, &options, err);
        else if (!only_words && strcmp(argv[at], "-h") == 0)
            options.help = true;
        else
            options.words[options.word_count++] = argv[at];
    }
    if (status == STATUS_OK) status = check_words(&options, which, err);
    if (status != STATUS_OK) {
        options_clear(&options);
        return status;
    }
    *ret_options = options;
    return STATUS_OK;
}

void options_clear(struct options *options) {
    free(options->words);
    free(options->sets);
    free(options->faults);
    free(options->hosts);
    *options = (struct options){0};
}
