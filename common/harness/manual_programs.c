/* Gathers what the manual of a program says: of a stage from its descriptor, of a simulator from its one table. */
#include <string.h>

#include "common/harness/manual.h"
#include "common/harness/stage_private.h"

const char stage_profile_help[] = "On files, prints at the end how long reading, computing and writing took.";
const char stage_verbose_help[] = "Logs everything to standard error.";
const char stage_syntax_help[] =
    "A hyphen may stand for the underscore of a parameter, a boolean needs no value, and a list is a,b.";
const char stage_exit_codes[] =
    "0: all is done. 1: error. 2: wrong usage, value or input. 3: some items failed, and the rest is done.";

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum status manual_print_stage(const struct stage_descriptor *descriptor, const char *form, FILE *out,
                               struct err *err) {
    enum manual_form which;
    TRY(manual_form(form, &which, err));
    char program[96], on_files[160], about[96], text[1024], input[512];
    bool source = descriptor->produce != NULL;
    snprintf(program, sizeof program, "icestream-%s", descriptor->name);
    snprintf(on_files, sizeof on_files, "%s --i %s --o DIR [--KEY VALUE]…", program, source ? "FOLDER" : "INPUT");
    snprintf(about, sizeof about, "%s --check FILE | --describe | --help | --version", program);
    snprintf(
        text, sizeof text,
        "%s is a stage of icestream. `icestream run` starts the stage in a pipeline; the stage also works on files "
        "alone, as shown here. %s",
        program, stage_syntax_help);
    if (source)
        snprintf(input, sizeof input, "The folder to watch; stands for --directory.");
    else
        snprintf(input, sizeof input, "The input: %s.", stage_takes(descriptor));
    const struct manual_option options[] = {
        {"i", source ? "FOLDER" : "INPUT", input},
        {"o", "DIR", "The folder for the products."},
        {"verbose", NULL, stage_verbose_help},
        {"profile", NULL, stage_profile_help},
        {"check", "FILE", "Checks the parameters of an instance file, and prints what is wrong with them as JSON."},
        {"describe", NULL, "Prints what the stage takes and gives, and all parameters, as JSON."},
        {"help", NULL, "Prints a short help."},
        {"version", NULL, "Prints the version."},
    };
    size_t common_count;
    const struct param *common = stage_common_params(&common_count);
    struct param session[STAGE_SESSION_PARAMS];
    const size_t session_count = stage_session_params_beside(descriptor, session);
    const struct manual_part parts[] = {
        {.title = "Parameters", .params = descriptor->params, .param_count = descriptor->param_count},
        {.title = "Parameters of the session", .params = session, .param_count = session_count, .elsewhere = true},
        {.title = "Parameters of every stage", .params = common, .param_count = common_count, .elsewhere = true},
        {.title = "Options", .options = options, .option_count = COUNT(options), .elsewhere = true},
    };
    const struct manual manual = {
        .program = program,
        .summary = descriptor->summary,
        .synopsis = (const char *const[]){on_files, about},
        .synopsis_count = 2,
        .text = text,
        .parts = parts,
        .part_count = COUNT(parts),
        .exit_codes = stage_exit_codes,
    };
    manual_print(&manual, which, out);
    return STATUS_OK;
}

enum status manual_print_plain(const char *program, const char *summary, const struct param *table, size_t count,
                               int argc, char **argv, bool *ret_asked, struct err *err) {
    *ret_asked = argc >= 2 && strcmp(argv[1], "--manual") == 0;
    if (!*ret_asked) return STATUS_OK;
    enum manual_form which;
    TRY(manual_form(argc == 3 ? argv[2] : NULL, &which, err));
    char usage[160], about[96];
    snprintf(usage, sizeof usage, "%s [--KEY VALUE]…", program);
    snprintf(about, sizeof about, "%s --help", program);
    const struct manual_option options[] = {{"help", NULL, "Prints a short help."}};
    const struct manual_part parts[] = {
        {.title = "Parameters", .params = table, .param_count = count},
        {.title = "Options", .options = options, .option_count = COUNT(options), .elsewhere = true},
    };
    const struct manual manual = {
        .program = program,
        .summary = summary,
        .synopsis = (const char *const[]){usage, about},
        .synopsis_count = 2,
        .parts = parts,
        .part_count = COUNT(parts),
        .exit_codes = "0: all is done. 1: error. 2: wrong usage.",
    };
    manual_print(&manual, which, stdout);
    return STATUS_OK;
}
