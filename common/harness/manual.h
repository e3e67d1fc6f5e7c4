/* Writes the documentation of a program from the tables that read its command line: a manual page, its section of
 * docs/parameters.md, and its bash completion. A program prints them with the option --manual FORM. */
#ifndef ICESTREAM_COMMON_HARNESS_MANUAL_H
#define ICESTREAM_COMMON_HARNESS_MANUAL_H

#include <stdio.h>

#include "common/harness/params.h"

struct stage_descriptor;

enum manual_form {
    MANUAL_MAN,        /* manual page of section 1, for the macros of man(7) */
    MANUAL_MARKDOWN,   /* section of docs/parameters.md */
    MANUAL_COMPLETION, /* bash script, to be sourced */
};

/* An option that stands in no parameter table. */
struct manual_option {
    const char *name;  /* without the hyphens */
    const char *value; /* what follows, such as "DIR"; NULL: nothing */
    const char *help;
};

/* A list of options under one title. */
struct manual_part {
    const char *title;
    const char *text;    /* one paragraph below the title, or NULL */
    const char *command; /* first word of the command line for which these options count; NULL: all command lines */
    const struct manual_option *options;
    size_t option_count;
    const struct param *params;
    size_t param_count;
    bool elsewhere; /* docs/parameters.md lists these options once for all programs, so Markdown leaves them out */
};

struct manual {
    const char *program; /* "icestream-extractor" */
    const char *summary; /* what the program does, in one line */
    const char *const *synopsis;
    size_t synopsis_count;
    const char *text; /* one paragraph of description, or NULL */
    const struct manual_part *parts;
    size_t part_count;
    const char *exit_codes; /* one paragraph, or NULL */
};

/* Finds the form that a word names: "man", "markdown" or "completion". */
enum status manual_form(const char *word, enum manual_form *ret_form, struct err *err);
void manual_print(const struct manual *manual, enum manual_form form, FILE *out);

/* Prints the table of one part as MANUAL_MARKDOWN has it, without a title. */
void manual_print_table(const struct manual_part *part, FILE *out);

/* Prints the documentation of a stage in the form that a word names. */
enum status manual_print_stage(const struct stage_descriptor *descriptor, const char *form, FILE *out, struct err *err);

/* Prints the documentation of a program that takes the parameters of one table and nothing else. A command line of
 * "--manual FORM" asks for it: *ret_asked says whether. */
enum status manual_print_plain(const char *program, const char *summary, const struct param *table, size_t count,
                               int argc, char **argv, bool *ret_asked, struct err *err);

#endif
