/* Declares the functions that params.c and params_text.c share. */
#ifndef ICESTREAM_COMMON_HARNESS_PARAMS_PRIVATE_H
#define ICESTREAM_COMMON_HARNESS_PARAMS_PRIVATE_H

#include "common/harness/params.h"

union param_value {
    bool boolean;
    int integer; /* also the index of a choice */
    double number;
    struct param_floats floats;
    const char *text; /* borrowed */
};

/* Parses a text, and checks it against type, limits and choices. */
enum status params_parse(const struct param *param, const char *text, const char *where, union param_value *ret_value,
                         struct err *err);
enum status params_path_check(const char *name, const char *path, const char *where, struct err *err);
/* Returns the error for a key that is none of names. */
enum status params_unknown(const char *key, const char *const *names, size_t count, const char *where, struct err *err);
/* Returns an error when no parameter has that name. */
enum status params_known(const struct param *table, size_t count, const char *key, const char *where, struct err *err);
/* Writes the text of a scalar, or of a list of scalars with commas between them. */
enum status params_json_text(const char *key, const json_t *value, char *out, size_t size, const char *where,
                             struct err *err);

#endif
