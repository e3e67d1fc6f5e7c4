/* Runs a stage's check of its parameters: at the start of a stage (checks.c), and for --check (checks_file.c). */
#ifndef ICESTREAM_COMMON_HARNESS_CHECKS_H
#define ICESTREAM_COMMON_HARNESS_CHECKS_H

#include "common/harness/stage.h"

struct stage_check {
    enum stage_check_level level;
    char key[64]; /* "": no single parameter */
    char *text;
};

struct stage_checks {
    struct stage_check *list;
    size_t count, capacity, errors;
    bool no_memory; /* a problem could not be recorded */
};

/* Frees the list. */
void checks_clear(struct stage_checks *checks);
/* Runs the check of the descriptor. Keeps its warnings for checks_warn; fails with its errors. */
enum status checks_run(struct stage *stage, struct err *err);
/* Logs the warnings. */
void checks_warn(struct stage *stage);
/* Returns whether an error means that a value or an input is wrong, so that the next run would fail alike: exit code 2. A
 * stage that has begun ends so only for its parameters; a file that is broken then was in order at the start. */
bool checks_blame_value(const struct stage *stage, enum status status);
/* Answers --check FILE: prints the problems to standard output. Returns the exit code: 0 without an error among them,
 * 2 with one or for a file that is no instance file, 1 when the machine fails. */
int checks_print(struct stage *stage, const char *instance_file);

#endif
