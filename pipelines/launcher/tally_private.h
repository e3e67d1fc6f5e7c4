/* Declares for the files of the tally: lists of items, and what is found by listing all of them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_TALLY_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_TALLY_PRIVATE_H

#include "pipelines/launcher/tally.h"

/* Adds an item of the stage's own ledger; context: the stage. */
ledger_visit tally_visit_own;
/* Lists everything that a stage has seen or was sent, and counts it. */
enum status tally_list(const struct session *session, struct tally_stage *stage, struct err *err);

#endif
