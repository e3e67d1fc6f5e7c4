/* Marks exposures, and chooses classes, by hand: beside the ledgers' verdicts, never over them. Each call adds one change
 * to the history of the session (changes.h); the classifier's next selection obeys it. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_MARK_H
#define ICESTREAM_PIPELINES_LAUNCHER_MARK_H

#include <stdio.h>

#include "common/harness/choices.h"
#include "pipelines/launcher/session.h"

struct mark_author {
    const char *why;  /* NULL: no reason given */
    const char *peer; /* who asked through the page; NULL: nobody, it was the command line */
};

struct mark_result {
    int number;       /* of the change; 0: nothing has changed */
    size_t changed;   /* exposures, or classes */
    size_t particles; /* that the choice of classes binds */
    size_t lost;      /* exposures marked as kept that a stage has rejected: the mark brings nothing back */
};
/* Writes what helps where a mark cannot; nothing if lost is 0. */
void mark_write_lost(const struct mark_result *result, FILE *out);

/* Marks exposures; CHOICE_NONE takes the marks back. Those that are marked so already are left as they are. */
enum status mark_items(const struct session *session, const struct ledger_key *keys, size_t count, enum choice choice,
                       const struct mark_author *author, struct mark_result *ret_result, struct err *err);

/* Classes of one snapshot that are chosen alike; numbers from 1. */
struct mark_group {
    const int *classes;
    size_t count;
    enum choice choice;
};

/* Finds the stage whose classes are chosen. name NULL: the only classifier of the plan. BAD_ARGUMENT: there is none, or
 * there are several. */
enum status mark_stage(const struct session *session, const json_t *plan, const char *name, const char **ret_stage,
                       struct err *err);
/* Binds the particles that the classes have in a snapshot. NOT_FOUND: the snapshot is not there, or is gone.
 * BAD_ARGUMENT: it has no such class. */
enum status mark_classes(const struct session *session, const char *stage, int iteration,
                         const struct mark_group *groups, size_t group_count, const struct mark_author *author,
                         struct mark_result *ret_result, struct err *err);
/* Takes the choices that were made of a snapshot back, for these classes; count 0: for all. */
enum status mark_classes_undo(const struct session *session, const char *stage, int iteration, const int *classes,
                              size_t count, const struct mark_author *author, struct mark_result *ret_result,
                              struct err *err);
/* Writes a copy of a selection of a stage without the particles that were rejected by hand since it was written: what
 * leaves the session need not wait for the classifier's next run. Without such particles the copy is the file itself,
 * byte by byte. */
enum status mark_write_selection(const struct session *session, const char *stage, const char *from, const char *to,
                                 size_t *ret_left_out, struct err *err);
/* Returns how many classes a snapshot has. Errors as mark_classes. */
enum status mark_class_count(const struct session *session, const char *stage, int iteration, int *ret_count,
                             struct err *err);

#endif
