/* STAR files of picks, as RELION names and reads them. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

/* One loop in an unnamed block: rlnCoordinateX, rlnCoordinateY (px of the micrograph, from 0), rlnClassNumber,
 * rlnAutopickFigureOfMerit, rlnAnglePsi (°). */
enum status pick_files_write(const char *path, const struct pick_list *picks, struct err *err);

/* Writes autopick.star: micrographs and their files of picks. Rows are written in pieces, so that a long session needs
 * no more memory. create, add for each micrograph, commit; destroy in any case. */
struct pick_summary;
enum status pick_summary_create(const char *path, struct pick_summary **ret_summary, struct err *err);
enum status pick_summary_add(struct pick_summary *summary, const char *micrograph, const char *star, struct err *err);
enum status pick_summary_commit(struct pick_summary *summary, struct err *err);
void pick_summary_destroy(struct pick_summary **summary);

#endif
