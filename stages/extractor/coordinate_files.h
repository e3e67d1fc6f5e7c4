/* Reads a file of coordinates as a STAR table, whatever its format. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_COORDINATE_FILES_H
#define ICESTREAM_STAGES_EXTRACTOR_COORDINATE_FILES_H

#include "common/formats/star.h"

/* Reads a file by its ending (coordinates.h has the list). Of a STAR file *ret_table is the table with coordinates, or
 * with the names of files of coordinates; NULL: the file has no rows. For the other formats the table has
 * rlnCoordinateX, rlnCoordinateY, rlnAutopickFigureOfMerit if there are scores, and rlnMicrographName if the file names
 * images. */
enum status coordinate_file_read(const char *path, struct star_file **ret_file, struct star_table **ret_table,
                                 struct err *err);

#endif
