/* Gives stages of a session other values: what `icestream set` and the page do. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SET_H
#define ICESTREAM_PIPELINES_LAUNCHER_SET_H

#include <jansson.h>
#include <stdio.h>

#include "pipelines/launcher/session.h"

struct set_result {
    int number;      /* of the change; 0: nothing has changed */
    json_t *entries; /* what has changed (changes.h); the caller's */
};

/* Sets values, "STAGE.KEY=VALUE" each, as one change, if the session would run with them. What is wrong with them is
 * printed to `problems`, beside the error. peer: who asked through the page; NULL: the command line. Asks the stages'
 * programs, which takes a moment. BAD_ARGUMENT: a value is refused. */
enum status set_values(const struct session *session, const char *const *words, size_t count, const char *peer,
                       FILE *problems, struct set_result *ret_result, struct err *err);
/* Does the same for another command, `by`, which has the lock (changes_hold). */
enum status set_values_held(const struct session *session, const char *by, const char *const *words, size_t count,
                            const char *peer, FILE *problems, struct set_result *ret_result, struct err *err);

#endif
