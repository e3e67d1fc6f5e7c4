/* Parameters from one table. The table fills a struct, validates YAML and command line, and prints --help, --describe
 * and the reference in the docs. An unknown key is an error that names the nearest known key. On the command line a
 * hyphen may stand for the underscore, a boolean needs no value, and a list is "a,b". */
#ifndef ICESTREAM_COMMON_HARNESS_PARAMS_H
#define ICESTREAM_COMMON_HARNESS_PARAMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

enum param_type {
    PARAM_BOOL,   /* bool */
    PARAM_INT,    /* int */
    PARAM_FLOAT,  /* double */
    PARAM_STRING, /* char *; the struct owns it (params_clear frees it); NULL when not set */
    PARAM_PATH,   /* char *, as PARAM_STRING; a file or folder that must exist when it is set */
    PARAM_CHOICE, /* int: index into choices */
    PARAM_FLOATS, /* struct param_floats: up to 16 numbers */
    PARAM_GLOB,   /* char *, as PARAM_STRING: a path with wildcards, which need not fit any file yet */
};

/* Says if a session that has begun takes another value. PARAM_RESTART: the stage is stopped and started again.
 * PARAM_LIVE: the running stage takes it, between two items. */
enum param_changes { PARAM_NEVER, PARAM_RESTART, PARAM_LIVE };

enum { PARAM_FLOATS_MAX = 16 };

struct param_floats {
    int count;
    double values[PARAM_FLOATS_MAX];
};

struct param {
    const char *name; /* snake_case */
    enum param_type type;
    size_t offset;            /* in the parameter struct */
    const char *unit;         /* "Å", "px", "°"; NULL: none */
    const char *default_text; /* as a user would type it. NULL or "auto": not set (a number is then NaN or INT_MIN), and
                                 the stage decides; users may then also write "auto" */
    double minimum, maximum;  /* limits of numbers, inclusive; both 0: no limits */
    const char *choices;      /* "template|log" */
    int list_count;           /* PARAM_FLOATS: the number of values; 0: any */
    bool required;
    const char *help;   /* one sentence with a capital letter and a full stop */
    const char *begins; /* PARAM_PATH: the first bytes of a file of the right kind, or NULL; `icestream check` compares
                           them */
    enum param_changes changes;
    const char *gives; /* a member of `in` that items need not have when this is set, or NULL */
    bool may_come;     /* PARAM_PATH: the file need not be there yet, but its folder must */
};

/* Sets every parameter to its default. */
enum status params_defaults(const struct param *table, size_t count, void *target, struct err *err);
/* Returns the entry of a key (hyphens count as underscores), or NULL. */
const struct param *params_find(const struct param *table, size_t count, const char *key);
/* Sets one parameter. `where` ("graph.yaml line 7", "command line") begins the message of an error. */
enum status params_set(const struct param *table, size_t count, void *target, const char *key, const char *text,
                       const char *where, struct err *err);
/* Sets all members of a JSON object (scalars and arrays of scalars). */
enum status params_set_json(const struct param *table, size_t count, void *target, const json_t *object,
                            const char *where, struct err *err);
/* Checks that required parameters are set and that paths exist. */
enum status params_check(const struct param *table, size_t count, const void *target, const char *where,
                         struct err *err);
/* Validates one value against the JSON of --describe, without a struct: `icestream check` does this. */
enum status params_check_json(const json_t *described_params, const char *key, const char *text, const char *where,
                              struct err *err);
/* Returns the type as --describe names it: "bool", "int" … */
const char *params_type_name(enum param_type type);
/* Returns "never", "restart" or "live". */
const char *params_changes_name(enum param_changes changes);
/* Reads `changes` of a key from the JSON of --describe. A program that does not say so, and a key that is not known, never
 * change. */
enum param_changes params_changes_of(const json_t *described_params, const char *key);
/* Return and print the table: as JSON for --describe, as text for --help. */
json_t *params_describe(const struct param *table, size_t count);
void params_help(const struct param *table, size_t count, FILE *out);
/* Prints one line of --help for an option that stands in no table. value: what follows the name; NULL: nothing. */
void params_help_line(const char *name, const char *value, const char *help, FILE *out);
/* Returns whether a parameter is set that stands for this member of the items (its `gives`). Strings, paths and globs
 * only. */
bool params_give(const struct param *table, size_t count, const void *target, const char *member);
/* Frees the strings of the struct. */
void params_clear(const struct param *table, size_t count, void *target);

#endif
