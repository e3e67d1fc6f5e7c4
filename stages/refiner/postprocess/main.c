/* icestream-postprocess: masks, filters and sharpens the map of two half maps, of any program, and tells its
 * resolution. --help lists the parameters. */
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/manual.h"
#include "stages/refiner/postprocess/halves.h"
#include "stages/refiner/postprocess/parameters.h"
#include "stages/refiner/postprocess/postprocess.h"

#define PROGRAM "icestream-postprocess"
static const char SUMMARY[] = "tells the resolution of two half maps, and filters and sharpens their map";
static const char USAGE[] = PROGRAM " HALF1 [HALF2] [--KEY VALUE]…";
static const char ABOUT[] = PROGRAM " --help | --version";
static const char TEXT[] =
    "HALF1 and HALF2 are unfiltered half maps (MRC) of independent halves of the particles. Without HALF2 the name of "
    "HALF1 must hold half1, and half2 is taken. The program writes postprocess.star with RELION's tables, "
    "postprocess.mrc "
    "(filtered and sharpened), postprocess_masked.mrc, postprocess_mask.mrc, postprocess.png, locres.mrc and "
    "locres_filtered.mrc. It warns if the mask makes the halves agree; the resolution is then that of the unmasked "
    "maps.";
static const char EXIT_CODES[] = "0: all is done. 1: error. 2: wrong usage or value.";

static enum status print_manual(const char *word, struct err *err) {
    static const struct manual_option options[] = {{"help", NULL, "Prints a short help."},
                                                   {"version", NULL, "Prints the version."}};
    const struct manual_part parts[] = {
        {.title = "Parameters", .params = postprocess_parameters, .param_count = POSTPROCESS_PARAMETERS},
        {.title = "Options", .options = options, .option_count = 2, .elsewhere = true},
    };
    const struct manual manual = {
        .program = PROGRAM,
        .summary = SUMMARY,
        .synopsis = (const char *const[]){USAGE, ABOUT},
        .synopsis_count = 2,
        .text = TEXT,
        .parts = parts,
        .part_count = 2,
        .exit_codes = EXIT_CODES,
    };
    enum manual_form form;
    TRY(manual_form(word, &form, err));
    manual_print(&manual, form, stdout);
    return STATUS_OK;
}

static void print_help(void) {
    printf("%s: %s\n\n  %s\n  %s\n\nParameters\n", PROGRAM, SUMMARY, USAGE, ABOUT);
    params_help(postprocess_parameters, POSTPROCESS_PARAMETERS, stdout);
    printf("\nExit codes\n  %s\n", EXIT_CODES);
}

/* The command line: half maps, and parameters. */
struct line {
    const char *halves[2];
    struct wishes wishes;
};

/* Reads one word that begins with --, and its value where that is the next one. */
static enum status read_parameter(struct line *line, int argc, char **argv, int *at, struct err *err) {
    char key[64];
    const char *word = argv[*at] + 2, *equals = strchr(word, '=');
    int length = equals != NULL ? (int)(equals - word) : (int)strlen(word);
    FAIL_IF(length >= (int)sizeof key, err, STATUS_BAD_ARGUMENT, "command line: unknown parameter --%s; see --help",
            word);
    snprintf(key, sizeof key, "%.*s", length, word);
    const struct param *param = params_find(postprocess_parameters, POSTPROCESS_PARAMETERS, key);
    const bool last = *at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0;
    const bool boolean = param != NULL && param->type == PARAM_BOOL;
    const bool worded = !last && (strcmp(argv[*at + 1], "true") == 0 || strcmp(argv[*at + 1], "false") == 0);
    const char *text = "true";
    if (equals != NULL)
        text = equals + 1;
    else if (!boolean || worded) {
        FAIL_IF(param != NULL && last, err, STATUS_BAD_ARGUMENT, "command line: --%s lacks its value", key);
        text = last ? "" : argv[++*at];
    }
    return params_set(postprocess_parameters, POSTPROCESS_PARAMETERS, &line->wishes, key, text, "command line", err);
}

static enum status read_line(struct line *line, int argc, char **argv, struct err *err) {
    int count = 0;
    TRY(params_defaults(postprocess_parameters, POSTPROCESS_PARAMETERS, &line->wishes, err));
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            TRY(read_parameter(line, argc, argv, &i, err));
            continue;
        }
        FAIL_IF(count == 2, err, STATUS_BAD_ARGUMENT, "command line: '%s' is a third half map; see --help", argv[i]);
        line->halves[count++] = argv[i];
    }
    FAIL_IF(count == 0, err, STATUS_BAD_ARGUMENT, "command line: no half map is given: %s", USAGE);
    return params_check(postprocess_parameters, POSTPROCESS_PARAMETERS, &line->wishes, "command line", err);
}

static int run(int argc, char **argv, struct err *err) {
    struct line line = {0};
    char second[PATH_SIZE];
    enum status status = read_line(&line, argc, argv, err);
    if (status == STATUS_OK && line.halves[1] == NULL) {
        status = halves_find_second(line.halves[0], second, sizeof second, err);
        line.halves[1] = second;
    }
    int code = status == STATUS_OK ? 0 : 2;
    if (code == 0 && postprocess_halves(&line.wishes, line.halves[0], line.halves[1], stdout, stderr, err) != STATUS_OK)
        code = 1;
    params_clear(postprocess_parameters, POSTPROCESS_PARAMETERS, &line.wishes);
    return code;
}

int main(int argc, char **argv) {
    struct err err = {0};
    int code = 0;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        print_help();
    else if (argc == 2 && strcmp(argv[1], "--version") == 0)
        printf("%s %s\n", PROGRAM, ICESTREAM_VERSION);
    else if (argc >= 2 && strcmp(argv[1], "--manual") == 0)
        code = print_manual(argc == 3 ? argv[2] : NULL, &err) == STATUS_OK ? 0 : 2;
    else
        code = run(argc, argv, &err);
    if (code != 0) fprintf(stderr, "%s: %s\n", PROGRAM, err.message);
    return code;
}
