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
enum status params_path_check(const char *name, const char *path, bool may_come, const char *where, struct err *err);
/* Returns the error for a key that is none of names. */
enum status params_unknown(const char *key, const char *const *names, size_t count, const char *where, struct err *err);
/* Returns an error when no parameter has that name. */
enum status params_known(const struct param *table, size_t count, const char *key, const char *where, struct err *err);
/* Writes the text of a scalar, or of a list of scalars with commas between them. */
enum status params_json_text(const char *key, const json_t *value, char *out, size_t size, const char *where,
                             struct err *err);
/* Returns the word for a parameter's value in a line of help: its unit, or the kind of value. */
const char *params_value_word(const struct param *param);
/* Writes the limits of a number as text, such as "1 to 32" or "0 or more"; empty: the number has no limits. */
void params_limits_text(const struct param *param, char *out, size_t size);

#endif
