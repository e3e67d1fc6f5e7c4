/* Declarations that the controls of POST /api/control share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CONTROL_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_CONTROL_PRIVATE_H

#include <jansson.h>
#include <stdio.h>

#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/session.h"

struct control {
    struct serve *serve;
    const char *peer;
    const json_t *body;
    struct session session;
    FILE *out;       /* the message */
    int64_t changed; /* what the answer counts */
    int number;      /* of the change in the history; 0: none yet */
    bool noted;      /* the history has it, or nothing has happened */
};

typedef enum status control_deed(struct control *control, struct err *err);
control_deed control_retry, control_redo, control_mark, control_classes;       /* control_items.c, control_classes.c */
control_deed control_rules, control_set, control_silence, control_invert_hand; /* control_values.c */
control_deed control_drain, control_stop;                                      /* control_run.c */

/* Return a member of the body: a text that is not empty; NULL where it may be missing and is. BAD_ARGUMENT otherwise. */
enum status control_need_text(const struct control *control, const char *key, const char **ret_text, struct err *err);
enum status control_may_text(const struct control *control, const char *key, const char **ret_text, struct err *err);
/* Reads a member that is a list of whole numbers from 1; frees with free. */
enum status control_numbers(const struct control *control, const char *key, int64_t **ret_numbers, size_t *ret_count,
                            struct err *err);

#endif
