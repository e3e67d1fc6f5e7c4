/* STAR files of picks, as RELION names and reads them. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICK_FILES_H

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

/* One loop in an unnamed block: rlnCoordinateX, rlnCoordinateY (px of the micrograph, from 0), rlnClassNumber,
 * rlnAutopickFigureOfMerit, rlnAnglePsi (°). */
enum status pick_files_write(const char *path, const struct pick_list *picks, struct err *err);

#endif
