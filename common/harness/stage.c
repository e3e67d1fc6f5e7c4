/* A stage's main: parses the command line, prints --help and --describe, and runs the stage on files or in a
 * pipeline. */
#include "common/harness/stage.h"

#include <stdlib.h>
#include <string.h>

#include "common/blas_kernels.h"
#include "common/harness/manual.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "common/standard.h"
#include "common/text.h"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_SOME_FAILED = 3, EXIT_STOPPED = 130 };
enum { INPUT_COLUMN = 13 }; /* where the text begins after "INPUT:" */

struct options {
    const char *input, *output, *instance, *check, *manual;
    bool describe, help, version, verbose, profile;
};

const char *stage_takes(const struct stage_descriptor *descriptor) {
    if (descriptor->takes != NULL) return descriptor->takes;
    return strstr(descriptor->in, "structure") != NULL
               ? "a PDB, mmCIF or DCD file, a folder of them, a list (.txt) or '*.pdb'; several with commas"
               : "a STAR file (two with a comma between are joined by micrograph), an image, a folder or a list (.csv)";
}

static void print_help(const struct stage_descriptor *descriptor, FILE *out) {
    const struct param *table;
    size_t count;
    int begun = fprintf(out, "icestream-%s: ", descriptor->name);
    text_wrap(descriptor->summary, (size_t)begun, 2, out);
    fprintf(out, "\n  icestream-%s %s--o DIR [--KEY VALUE]…\n", descriptor->name,
            descriptor->produce != NULL ? "--i FOLDER " : "--i INPUT ");
    if (descriptor->produce != NULL) {
        fputs("      FOLDER: as --directory\n", out);
    } else {
        fputs("      INPUT: ", out);
        text_wrap(stage_takes(descriptor), INPUT_COLUMN, INPUT_COLUMN, out);
    }
    fprintf(out, "  icestream-%s --check FILE | --describe | --help | --version\n\nParameters\n", descriptor->name);
    params_help(descriptor->params, descriptor->param_count, out);
    fputs("\nParameters of the session\n", out);
    struct param session[STAGE_SESSION_PARAMS];
    params_help(session, stage_session_params_beside(descriptor, session), out);
    fputs("\nParameters of every stage\n", out);
    table = stage_common_params(&count);
    params_help(table, count, out);
    params_help_line("verbose", NULL, stage_verbose_help, out);
    params_help_line("profile", NULL, stage_profile_help, out);
    fputc('\n', out);
    text_wrap(stage_syntax_help, 0, 0, out);
    fputs("\nExit codes\n  ", out);
    text_wrap(stage_exit_codes, 2, 2, out);
}

static void print_description(const struct stage_descriptor *descriptor, FILE *out) {
    size_t common_count, session_count;
    const struct device best = {descriptor->cuda ? DEVICE_CUDA : DEVICE_CPU, 0};
    const struct param *common = stage_common_params(&common_count), *session = stage_session_params(&session_count);
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:i, s:o, s:o, s:o}", "name",
                  descriptor->name, "summary", descriptor->summary, "version", ICESTREAM_VERSION, "in", descriptor->in,
                  "out", descriptor->out, "columns", descriptor->columns, "check", (int)(descriptor->check != NULL),
                  "cumulative", (int)descriptor->cumulative, "source", (int)(descriptor->produce != NULL), "cuda",
                  (int)descriptor->cuda, "unscaled", (int)descriptor->unscaled, "revisions", (int)descriptor->revisions,
                  "descriptors", 1, "endpoints", 1, "lanes", lanes_plan(descriptor, &best, 0).lanes, "params",
                  params_describe(descriptor->params, descriptor->param_count), "common_params",
                  params_describe(common, common_count), "session_params", params_describe(session, session_count));
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    fputc('\n', out);
    json_decref(root);
}

static bool is_bool_word(const char *word) {
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

/* Returns where to put the value of one of the harness's own options; NULL when the word is none of them. */
static const char **text_option(struct options *options, const char *name) {
    if (strcmp(name, "i") == 0) return &options->input;
    if (strcmp(name, "o") == 0) return &options->output;
    if (strcmp(name, "manual") == 0) return &options->manual;
    if (strcmp(name, "check") == 0) return &options->check;
    return strcmp(name, "instance") == 0 ? &options->instance : NULL;
}

static bool *flag_option(struct options *options, const char *name) {
    if (strcmp(name, "describe") == 0) return &options->describe;
    if (strcmp(name, "help") == 0) return &options->help;
    if (strcmp(name, "version") == 0) return &options->version;
    if (strcmp(name, "profile") == 0) return &options->profile;
    return strcmp(name, "verbose") == 0 ? &options->verbose : NULL;
}

static enum status parse_option(struct stage *stage, struct options *options, char **argv, int argc, int *index,
                                struct err *err) {
    const char *word = argv[(*index)++];
    if (strcmp(word, "-h") == 0) word = "--help";
    FAIL_IF(strncmp(word, "--", 2) != 0 || word[2] == '\0', err, STATUS_BAD_ARGUMENT,
            "'%s' is not an option: options begin with -- (--help lists them)", word);
    char name[64];
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
    FAIL_IF(length >= sizeof name, err, STATUS_BAD_ARGUMENT, "there is no option '%.80s'", word);
    memcpy(name, word + 2, length);
    name[length] = '\0';

    bool *flag = flag_option(options, name);
    if (flag != NULL) {
        *flag = true;
        return STATUS_OK;
    }
    const char **text = text_option(options, name);
    const struct param *param = text == NULL ? stage_param(stage, name) : NULL;
    const char *value = equals != NULL ? equals + 1 : NULL;
    const char *next = *index < argc ? argv[*index] : NULL;
    if (value == NULL && param != NULL && param->type == PARAM_BOOL)
        value = next != NULL && is_bool_word(next) ? argv[(*index)++] : "true";
    else if (value == NULL && next != NULL && strncmp(next, "--", 2) != 0)
        value = argv[(*index)++];
    if (value == NULL && (text != NULL || param != NULL))
        FAIL(err, STATUS_BAD_ARGUMENT, "the option --%s needs a value", name);
    if (text != NULL) {
        *text = value;
        return STATUS_OK;
    }
    return stage_set(stage, name, value != NULL ? value : "", "command line", err);
}

static int count_up(struct stage *stage, enum status status, const struct err *err) {
    struct ledger_counts counts = {0};
    bool counted = stage->ledger != NULL && ledger_counts(stage->ledger, &counts, NULL) == STATUS_OK && stage->ready;
    /* Items that are done mean little where the stage could not make its result of them. */
    if (counted && (status == STATUS_OK || status == STATUS_CANCELLED))
        fprintf(stderr, "icestream-%s: %lld done, %lld rejected, %lld failed\n", stage->name, (long long)counts.done,
                (long long)counts.rejected, (long long)counts.failed);
    if (status == STATUS_CANCELLED) {
        fprintf(stderr, "icestream-%s: %s\n", stage->name, err->message);
        return EXIT_STOPPED;
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "icestream-%s: error: %s\n", stage->name, err->message);
        return checks_blame_value(stage, status) ? EXIT_USAGE : EXIT_ERROR;
    }
    stage_print_result(stage, counts.done);
    return counts.failed > 0 || stage->incomplete ? EXIT_SOME_FAILED : EXIT_OK;
}

/* Returns the value of --i, or of the parameter that replaces it; NULL: neither is given. */
static const char *input_of(const struct stage *stage, const struct options *options) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (options->input != NULL || descriptor->input == NULL) return options->input;
    const struct param *param = params_find(descriptor->params, descriptor->param_count, descriptor->input);
    return param != NULL ? *(const char *const *)((const char *)stage->params + param->offset) : NULL;
}

static enum status run_on_files(struct stage *stage, const struct options *options, struct err *err) {
    struct item **items = NULL;
    size_t count = 0;
    TRY(stage_place(stage, options->output, err));
    TRY(ledger_open(":memory:", stage->name, false, &stage->ledger, err));
    const char *input = input_of(stage, options);
    if (input != NULL && stage->descriptor->produce == NULL) TRY(stage_files_items(stage, input, &items, &count, err));
    enum status status = stage_begin(stage, err);
    if (status == STATUS_OK) {
        files_progress_begin(stage, count);
        status = stage_run_items(stage, items, count, err);
        files_progress_end(stage);
    }
    stage_items_free(items, count);
    return status;
}

static int on_files(struct stage *stage, const struct options *options) {
    struct err err = {0};
    bool source = stage->descriptor->produce != NULL;
    if ((input_of(stage, options) == NULL && !source) || options->output == NULL) {
        fprintf(stderr, "icestream-%s: --%s is missing; icestream-%s --help explains\n", stage->name,
                options->output == NULL ? "o" : "i", stage->name);
        return EXIT_USAGE;
    }
    stage->mode = STAGE_ON_FILES;
    struct signals *signals = NULL;
    enum status status = STATUS_OK;
    /* A source takes --i as the directory in which it looks. */
    if (source && options->input != NULL) status = stage_set(stage, "directory", options->input, "--i", &err);
    if (status == STATUS_OK) status = stage_configure(stage, "command line", &err);
    if (status != STATUS_OK) {
        fprintf(stderr, "icestream-%s: %s\n", stage->name, err.message);
        return EXIT_USAGE;
    }
    stage->verbose = options->verbose;
    status = log_open(NULL, stage->name, options->verbose ? LOG_DEBUG : LOG_WARN, &stage->log, &err);
    if (status == STATUS_OK) status = signals_start(stage, &signals, &err);
    if (status == STATUS_OK) status = run_on_files(stage, options, &err);
    if (stage->ready) stage_report_parts(stage, options->profile ? stderr : NULL);
    warnings_print(stage->warnings, stderr);
    int code = count_up(stage, status, &err);
    signals_stop(&signals);
    return code;
}

static int print_manual(const struct stage *stage, const char *form) {
    struct err err = {0};
    if (manual_print_stage(stage->descriptor, form, stdout, &err) == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream-%s: %s\n", stage->name, err.message);
    return EXIT_USAGE;
}

static int run_options(struct stage *stage, const struct options *options) {
    if (options->help)
        print_help(stage->descriptor, stdout);
    else if (options->describe)
        print_description(stage->descriptor, stdout);
    else if (options->manual != NULL)
        return print_manual(stage, options->manual);
    else if (options->version)
        fprintf(stdout, "icestream-%s %s\n", stage->descriptor->name, ICESTREAM_VERSION);
    else if (options->check != NULL)
        return checks_print(stage, options->check);
    else if (options->instance != NULL)
        return stage_pipeline(stage, options->instance);
    else
        return on_files(stage, options);
    return EXIT_OK;
}

int stage_main(const struct stage_descriptor *descriptor, int argc, char **argv) {
    struct stage *stage = NULL;
    struct err err = {0};
    standard_begin();
    blas_kernels_choose(argv);
    if (stage_create(descriptor, &stage, &err) != STATUS_OK) {
        fprintf(stderr, "icestream-%s: error: %s\n", descriptor->name, err.message);
        return EXIT_ERROR;
    }
    struct options options = {0};
    enum status status = STATUS_OK;
    for (int i = 1; i < argc && status == STATUS_OK;)
        status = parse_option(stage, &options, argv, argc, &i, &err);
    int code = EXIT_USAGE;
    if (status == STATUS_OK)
        code = run_options(stage, &options);
    else
        fprintf(stderr, "icestream-%s: %s\n", descriptor->name, err.message);
    stage_destroy(&stage);
    return code;
}
