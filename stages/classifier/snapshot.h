/* Writes the files of one state of a classification, with the names that RELION gives them. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_H

#include "stages/classifier/classifier.h"
#include "stages/classifier/selection.h"

struct snapshot {
    const char *folder;   /* absolute */
    const char *relative; /* the folder as written in STAR files: "classifier" */
    const char *root;     /* paths in STAR files are relative to it; NULL: images keep the names of their tables */
    int iteration;
    bool final;
    size_t kept; /* particles that are selected: set by snapshot_write and snapshot_restore */
    int kept_classes, classes;
    int change;                        /* the last change of the session whose choices by hand it obeys: set by both */
    size_t kept_by_hand, left_by_hand; /* particles that only a choice by hand selects, or leaves out: snapshot_write */
    const struct selection *sent;      /* the selection that was sent last; NULL: changes are not written */
    struct selection *selection;       /* snapshot_write describes the new one here, unless `sent` is NULL */
    char changes[DIGEST_SIZE];         /* digest of changes_itNNN.star; "": there is none. Set by snapshot_write */
};

/* Judges the classes, then writes run_itNNN_classes.mrcs, _classes.png, _data.star, _model.star, _sampling.star,
 * _optimiser.star and selected_itNNN.star; changes_itNNN.star if it is a gain (selection.h). */
enum status snapshot_write(struct classifier *classifier, struct snapshot *snapshot, struct err *err);
/* Does the same with classes that are judged already (quality_judge). */
enum status snapshot_write_judged(struct classifier *classifier, struct snapshot *snapshot, struct err *err);
/* Writes the id of the item that carries the selection of an iteration. */
void snapshot_id(int iteration, char ret_id[32]);
/* Appends a line to history.jsonl. */
enum status snapshot_history(const struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
/* Removes the run_itNNN files of an earlier iteration, or its selection. */
void snapshot_remove(const struct snapshot *snapshot, int iteration, bool selection);

/* Lets latest_classes.mrcs, latest_classes.png and latest_selected.star lead to the files of the snapshot. Call it when
 * these are complete, and before snapshot_remove. */
enum status snapshot_link(const struct snapshot *snapshot, struct err *err);

/* Draws all class averages in one picture, the largest class first, each with its number, members, share of all
 * particles and resolution (Å). Kept classes have a green frame, others are dim. */
enum status snapshot_picture(const struct model *model, size_t particles, const char *path, struct err *err);

#endif
