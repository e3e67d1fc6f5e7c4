/* Names and parts that the writers of a snapshot's files share. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_PRIVATE_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_PRIVATE_H

#include <limits.h>

#include "stages/classifier/snapshot.h"

/* The only group: RELION 3.1 has a noise spectrum for each group, and a classification has one spectrum. */
#define SNAPSHOT_GROUP "group_1"

/* Writes "FOLDER/run_itNNN" + ending. path: PATH_MAX. */
void snapshot_name(const struct snapshot *snapshot, const char *ending, char *path, const char *folder);

enum { SNAPSHOT_NAME = PATH_MAX + 32 };
/* Writes "000001@stack" as the files of the snapshot name the image. The particle's own table may lie in another
 * folder, and name the stack relative to that. */
void snapshot_image(const char *root, const struct dataset *dataset, size_t index, char name[SNAPSHOT_NAME]);

/* Writes the model file: classes, noise, shares. */
enum status snapshot_write_model(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
/* Write the files that RELION needs, beside the model, to continue. */
enum status snapshot_write_sampling(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
enum status snapshot_write_optimiser(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);

#endif
