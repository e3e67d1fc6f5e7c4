/* The picker's history: which templates of other stages it adopted, and at which item, and which it tried and refused.
 * A restart goes on with the last ones, and a replay adopts the same ones at the same items. The lines stand in
 * history.jsonl in the stage's folder, beside copies of the adopted templates, templates_eNNN.mrcs:
 *
 *   {"time", "event": "templates", "adopted": true, "epoch": 1, "file": "templates_e001.mrcs", "count": 8,
 *    "from": {"stage": "classifier", "epoch": 2, "iteration": 12}, "source": "watcher", "item": "mic_0012",
 *    "after_item": true, "micrographs": 10, "before": {"sure", "f1"}, "after": {"sure", "f1"}, "again": 0.88,
 *    "density": {"data": 1050.2, "noise": 14.1}}
 *
 * epoch counts the picker's adoptions, from 1. item: the last one that was picked without the templates; in lines of
 * earlier versions, which lack `after_item`, the first one that was picked with them. What the trial found
 * (separation.h, trial_again) is summed over its micrographs; density is that of its picks and of those in noise, per
 * µm² (trial.h). Of an adoption that is repeated there is no trial. A refusal has neither epoch nor item, and may have
 * a `reason`. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_HISTORY_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_HISTORY_H

#include "common/edges/item.h"
#include "common/files.h"
#include "common/harness/template_set.h"
#include "stages/lowpass-picker/separation.h"

#define TEMPLATE_HISTORY "history.jsonl"

struct adoption {
    bool adopted;
    bool written;     /* by this call of template_history_add */
    int epoch, count; /* 0 of a refusal */
    char file[TEMPLATE_SET_NAME];
    char stage[80]; /* that made the templates */
    int stage_epoch, iteration;
    char source[ITEM_SOURCE_SIZE], item[ITEM_ID_MAX + 1];
    bool after_item; /* item: the last one before it; else the first one with it */
    int micrographs; /* of the trial */
    struct separation before, after;
    double again;
    double density, noise; /* picks per µm², of the better quarter, in micrographs and in noise of their spectrum */
    char reason[256];
};

struct template_history {
    struct adoption *lines;
    size_t count;
    struct stat seen; /* the file, when it was read; {0}: there was none */
};
void template_history_clear(struct template_history *history);

/* Reads the file at `path` if it has changed since. A file that is not there has no lines. Skips lines that it does not
 * understand. */
enum status template_history_read(const char *path, struct template_history *history, struct err *err);
/* Returns the last adoption; NULL: none. */
const struct adoption *template_history_last(const struct template_history *history);
/* Returns whether templates of a stage were decided on. */
bool template_history_knows(const struct template_history *history, const char *stage, int stage_epoch);

/* Writes down a decision, unless another instance has written one on the same templates, or an adoption would not get
 * the epoch that it expects (0: any), since another one came first. Of an adoption it sets epoch and file, and keeps a
 * copy of the images first. Sets `written` if the line is this one. Leaves the history as it is then. Instances take
 * turns. On failure the line may stand there nevertheless. */
enum status template_history_add(const char *folder, struct adoption *decision, const struct image *images,
                                 struct template_history *history, struct err *err);

#endif
