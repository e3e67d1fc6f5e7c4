/* Finds stage programs, and asks them to describe themselves (--describe). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRAM_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Returns the folder of this program, where its stages lie too. */
enum status program_own_folder(char *folder, size_t size, struct err *err);

/* Finds the program of the stage `name`: icestream-NAME beside this program, or else on PATH. *ret_path is absolute;
 * the caller frees it. NOT_FOUND: there is none. */
enum status program_find(const char *name, char **ret_path, struct err *err);
/* Checks that there is a program at that absolute path. NOT_FOUND: no file; UNSUPPORTED: a file that may not be
 * executed. */
enum status program_check(const char *path, struct err *err);

/* Lists every icestream-NAME beside this program and on PATH, sorted and without duplicates; NAME only. */
struct program_names {
    char **names;
    size_t count;
};
enum status program_list(struct program_names *ret_names, struct err *err);
/* Frees the list. */
void program_names_clear(struct program_names *names);

/* Runs `PATH --describe`. *ret_describe is NULL when the program prints no description within the time: a script may
 * not know the option. STATUS_IO or STATUS_UNAVAILABLE: the program could not be started. STATUS_BAD_FORMAT: its
 * answer does not follow docs/protocol.md. */
enum status program_describe(const char *path, double seconds, json_t **ret_describe, struct err *err);
/* Parses and checks such an answer (program_answer.c); `path` is for the message. */
enum status program_answer(const char *path, const char *text, size_t length, json_t **ret_describe, struct err *err);
/* Asks a program that knows --check what is wrong with the parameters of an instance file, whose content `instance` is.
 * *ret_problems: a list of {"key", "level", "message"}, or NULL when the program gives no answer within the time.
 * STATUS_BAD_FORMAT: its answer does not follow docs/protocol.md. */
enum status program_judge(const char *path, const json_t *instance, double seconds, json_t **ret_problems,
                          struct err *err);
/* Parses and checks such an answer (program_answer.c). */
enum status program_problems(const char *path, const char *text, size_t length, json_t **ret_problems, struct err *err);
/* Returns the array of parameters, or NULL when the program gives none. */
const json_t *program_params(const json_t *describe);

#endif
