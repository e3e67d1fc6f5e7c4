/* The outcomes of a crystallisation trial, and labels: the outcomes that a person assigns to images. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_OUTCOMES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Kotseruba, Cumbaa & Jurisica 2012, table 1, in its order. */
enum outcome {
    OUTCOME_CLEAR,
    OUTCOME_PRECIPITATE,
    OUTCOME_CRYSTAL,
    OUTCOME_PHASE,
    OUTCOME_PRECIPITATE_CRYSTAL,
    OUTCOME_PRECIPITATE_SKIN,
    OUTCOME_PHASE_CRYSTAL,
    OUTCOME_PHASE_PRECIPITATE,
    OUTCOME_SKIN,
    OUTCOME_JUNK,
    OUTCOME_OTHER,
    OUTCOMES
};

/* Returns the name of an outcome, such as "precip & crystal". */
const char *outcome_name(enum outcome outcome);
/* Returns whether the outcome includes a crystal. */
bool outcome_has_crystal(enum outcome outcome);
/* Finds an outcome by name. Ignores case; blanks, _ and - are equivalent. Returns false if there is no such outcome. */
bool outcome_parse(const char *text, enum outcome *ret_outcome);
/* Returns the outcome that was probably meant, or NULL. */
const char *outcome_nearest(const char *text);

struct label {
    char *path; /* absolute, without links */
    enum outcome outcome;
    int line;
};

struct labels {
    struct label *rows; /* in the order of their paths */
    size_t count;
    size_t of_outcome[OUTCOMES];
};

/* Reads a table of path,label. A line of headings may come first; further columns are ignored; paths are relative to
 * the table's folder. Every file must exist, no file may have two labels, and each outcome needs at least two examples,
 * since nothing can be held out of one. */
enum status labels_read(const char *path, struct labels *ret_labels, struct err *err);
void labels_clear(struct labels *labels);
/* Returns the row of an absolute path without links, or NULL. */
const struct label *labels_find(const struct labels *labels, const char *path);

#endif
