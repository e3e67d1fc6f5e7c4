/* Writes the files of one state of a classification, with the names that RELION gives them. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H

#include "stages/classifier/classifier.h"

struct snapshot {
    const char *folder;   /* absolute */
    const char *relative; /* the same, as written in STAR files: "classifier" */
    const char *root;     /* what paths in these are relative to; NULL: images keep the names that their tables give */
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

#endif
