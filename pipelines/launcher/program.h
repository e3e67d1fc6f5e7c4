/* Stage programs, seen from outside: where they lie, and what they say of themselves (--describe). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRAM_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* The folder that this program lies in, where its stages lie too. */
enum status program_own_folder(char *folder, size_t size, struct err *err);

/* The stage that `name` means: icestream-NAME beside this program, or else on PATH. *ret_path is absolute and freed by the
 * caller. NOT_FOUND: there is none. */
enum status program_find(const char *name, char **ret_path, struct err *err);
/* Whether there is a program at that absolute path: NOT_FOUND, or UNSUPPORTED for a file that may not be executed. */
enum status program_check(const char *path, struct err *err);

/* Every icestream-NAME beside this program and on PATH, without duplicates, sorted; NAME only. */
struct program_names {
    char **names;
    size_t count;
};
enum status program_list(struct program_names *ret_names, struct err *err);
void program_names_clear(struct program_names *names);

/* What `PATH --describe` prints. *ret_describe is NULL when the program gives no such thing within the time: a script
 * that does not know the option. STATUS_IO: it could not be started at all. STATUS_BAD_FORMAT: it answers with an object
 * that is not what docs/protocol.md says. */
enum status program_describe(const char *path, double seconds, json_t **ret_describe, struct err *err);
/* The text of such an answer (program_answer.c); `path` is for the message. */
enum status program_answer(const char *path, const char *text, size_t length, json_t **ret_describe, struct err *err);
/* Its parameters: an array of objects. NULL: none given. */
const json_t *program_params(const json_t *describe);

#endif
