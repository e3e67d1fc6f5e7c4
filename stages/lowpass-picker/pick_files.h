/* Writes STAR files of picks, with the columns that RELION reads. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

enum { PICK_NO_EPOCH = -1 };

/* Writes the picks of one micrograph: one loop in an unnamed block with rlnCoordinateX, rlnCoordinateY (px of the
 * micrograph, from 0), rlnClassNumber, rlnAutopickFigureOfMerit, rlnAnglePsi (°), and icestreamPickEpoch unless epoch is
 * PICK_NO_EPOCH: 0 before the first templates of the session, then counting those that were adopted. */
enum status pick_files_write(const char *path, const struct pick_list *picks, int epoch, struct err *err);

/* Writes autopick.star, a table of micrographs and their files of picks (`star`). Rows are written in pieces, so memory
 * does not grow with the session. Call create, add for each micrograph, and commit, which puts the file in its place.
 * Call destroy in any case. */
struct pick_summary;
enum status pick_summary_create(const char *path, struct pick_summary **ret_summary, struct err *err);
enum status pick_summary_add(struct pick_summary *summary, const char *micrograph, const char *star, struct err *err);
enum status pick_summary_commit(struct pick_summary *summary, struct err *err);
void pick_summary_destroy(struct pick_summary **summary);

#endif
