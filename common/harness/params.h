/* Parameters from one table: the table fills the struct, validates YAML and command line, prints --help and
 * --describe, and makes the reference in the docs. An unknown key is an error that names the nearest known one.
 * On the command line a hyphen may stand for the underscore, a boolean needs no value, a list is "a,b". */
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
    PARAM_STRING, /* char *, owned by the struct (params_clear frees it); NULL when not set */
    PARAM_PATH,   /* char *, as PARAM_STRING; a file or folder that must exist when set */
    PARAM_CHOICE, /* int: index into choices */
    PARAM_FLOATS, /* struct param_floats: up to 16 numbers */
};

enum { PARAM_FLOATS_MAX = 16 };

struct param_floats {
    int count;
    double values[PARAM_FLOATS_MAX];
};

struct param {
    const char *name; /* snake_case */
    enum param_type type;
    size_t offset;            /* into the parameter struct */
    const char *unit;         /* "Å", "px", "°", "" */
    const char *default_text; /* as typed; NULL or "auto": not set (numbers: NaN / INT_MIN), the stage decides; such
                                 numbers may be given as the word "auto" too */
    double minimum, maximum;  /* of numbers, inclusive; both 0: no limits */
    const char *choices;      /* "template|log" */
    int list_count;           /* PARAM_FLOATS: exactly so many, 0: any */
    bool required;
    const char *help;   /* one sentence */
    const char *begins; /* PARAM_PATH: what a file of the right kind begins with, or NULL; `icestream check` looks */
};

/* Sets every parameter to its default. */
enum status params_defaults(const struct param *table, size_t count, void *target, struct err *err);
/* The entry of a key (hyphens stand for underscores), or NULL. */
const struct param *params_find(const struct param *table, size_t count, const char *key);
/* One "key", "text" pair. where ("graph.yaml line 7", "command line") begins the message of an error. */
enum status params_set(const struct param *table, size_t count, void *target, const char *key, const char *text,
                       const char *where, struct err *err);
/* All members of a JSON object (scalars and arrays of scalars). */
enum status params_set_json(const struct param *table, size_t count, void *target, const json_t *object,
                            const char *where, struct err *err);
/* Required ones are set, paths exist. */
enum status params_check(const struct param *table, size_t count, const void *target, const char *where,
                         struct err *err);
/* Validates without a struct, as `check` does with the JSON of --describe: table from that JSON. */
enum status params_check_json(const json_t *described_params, const char *key, const char *text, const char *where,
                              struct err *err);
/* The type as --describe names it: "bool", "int" … */
const char *params_type_name(enum param_type type);
json_t *params_describe(const struct param *table, size_t count);
void params_help(const struct param *table, size_t count, FILE *out);
void params_clear(const struct param *table, size_t count, void *target);

#endif
