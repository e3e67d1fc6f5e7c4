/* Counts the warnings of a process by kind, which is the id of the log line. The ledger holds the counts of all processes
 * of a stage, over restarts; `run` and `status` show them from there. On files the stage lists them at its end.
 *
 * Threads of a stage may warn at any time. Nothing is allocated after warnings_create. */
#ifndef ICESTREAM_COMMON_HARNESS_WARNINGS_H
#define ICESTREAM_COMMON_HARNESS_WARNINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/edges/ledger.h"
#include "common/status.h"

enum {
    WARNING_KINDS = 48, /* of one process; further kinds count as one, "other" */
    WARNING_ID_SIZE = 40,
    WARNING_TEXT_SIZE = 768
};

struct warnings;

/* Makes an empty list. stage: its name, borrowed. */
enum status warnings_create(const char *stage, struct warnings **ret_warnings, struct err *err);
/* Frees the list; accepts NULL. */
void warnings_destroy(struct warnings **warnings);
/* Counts one warning and keeps its message, without bytes that are no UTF-8. Returns how many there are of this kind;
 * warnings NULL: 0. */
int64_t warnings_note(struct warnings *warnings, const char *id, const char *message);
/* Returns whether there are warnings that the ledger does not hold yet. */
bool warnings_wait(struct warnings *warnings);
/* Returns how many warnings the ledger holds of this process. */
int64_t warnings_written(struct warnings *warnings);
/* Adds what is new to the ledger. After an error it stays new. */
enum status warnings_write(struct warnings *warnings, struct ledger *ledger, struct err *err);
/* Prints "icestream-STAGE: warning: MESSAGE (ID, 12 times)" for each kind, the earliest first. */
void warnings_print(struct warnings *warnings, FILE *out);

#endif
