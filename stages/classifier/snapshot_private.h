/* What the files of a snapshot share. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_PRIVATE_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_PRIVATE_H

#include <limits.h>

#include "stages/classifier/snapshot.h"

/* There is one noise spectrum: for RELION 3.1, which has one for each group, all particles are of this one. */
#define SNAPSHOT_GROUP "group_1"

/* "FOLDER/run_itNNN" + ending; path: PATH_MAX. */
void snapshot_name(const struct snapshot *snapshot, const char *ending, char *path, const char *folder);

enum { SNAPSHOT_NAME = PATH_MAX + 32 };
/* "000001@stack", as the files name that particle's image: its own table may be elsewhere, and its stack beside it. */
void snapshot_image(const char *root, const struct dataset *dataset, size_t index, char name[SNAPSHOT_NAME]);

enum status snapshot_write_model(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
/* What RELION needs beside it to go on. */
enum status snapshot_write_sampling(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);
enum status snapshot_write_optimiser(struct classifier *classifier, const struct snapshot *snapshot, struct err *err);

#endif
