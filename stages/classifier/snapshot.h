/* Files of one state of a classification, as RELION names them, and reading the last ones back. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H

#include "classifier.h"

struct snapshot {
    const char *folder;   /* absolute */
    const char *relative; /* the same, as written in STAR files: "classifier" */
    int iteration;
    bool final;
    size_t kept; /* particles of kept classes: filled by snapshot_write and snapshot_restore */
    int kept_classes, classes;
};

/* run_itNNN_classes.mrcs, _classes.png, _data.star, _model.star and selected_itNNN.star. Classes are judged first. */
enum status snapshot_write(struct classifier *classifier, struct snapshot *snapshot, struct err *err);
/* Appends a line to history.jsonl. */
enum status snapshot_history(const struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
/* Removes the run_itNNN files of an earlier iteration, or its selection. */
void snapshot_remove(const struct snapshot *snapshot, int iteration, bool selection);

/* All class averages in one picture, largest class first; kept ones in a green frame, the others dimmed. */
enum status snapshot_picture(const struct model *model, const char *path, struct err *err);

/* The number of the last complete snapshot below the folder; 0: none. */
int snapshot_last(const char *folder);
/* Averages, priors, noise and assignments from a snapshot. The classifier has been started and its particles merged.
 * ret_final: it was the last of a finished stream, and no particle has come since. */
enum status snapshot_restore(struct classifier *classifier, struct snapshot *snapshot, bool *ret_final,
                             struct err *err);

#endif
