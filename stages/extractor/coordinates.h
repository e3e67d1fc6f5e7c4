/* Finds and reads coordinates that other programs have picked:
 *
 *   *.star   RELION, a file for each micrograph (rlnCoordinateX, rlnCoordinateY); a table that names these files
 *            (rlnMicrographName, rlnMicrographCoordinates); particles of all micrographs (rlnMicrographName), also from
 *            cryoSPARC through csparc2star, with names that begin with a number of its own ("UID_")
 *   *.box    EMAN: corner, width and height
 *   *.cbox   crYOLO: corner, width, height and confidence
 *   *.txt    Topaz: image_name, x_coord, y_coord, score; one file for each micrograph, or one for all
 *
 * A file belongs to the micrograph whose name it has, or begins with: mic_1.box, mic_1_autopick.star. If no file has the
 * micrograph's name and only one file fits the pattern, this is a table of all micrographs. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_COORDINATES_H
#define ICESTREAM_STAGES_EXTRACTOR_COORDINATES_H

#include <stdbool.h>

#include "common/formats/star.h"

struct coordinates; /* a pattern, and the index of a table of all micrographs */

/* scale: factor of all coordinates, such as 4 for picks on micrographs that were binned by 4. */
enum status coordinates_create(const char *pattern, double scale, struct coordinates **ret_coordinates,
                               struct err *err);
void coordinates_destroy(struct coordinates **coordinates);

/* Checks whether a file may be read; as stage_may_read. */
typedef enum status coordinates_may_read(const void *context, const char *path, struct err *err);

/* Reads the coordinates of a micrograph (its path) into a new file with one table: rlnCoordinateX and rlnCoordinateY
 * (px, the centre of the particle), where there is a score or confidence rlnAutopickFigureOfMerit, and of RELION's
 * tables class, angle and helix. The table may have no rows. ret_path: PATH_MAX, the file that was read.
 * STATUS_NOT_FOUND: no file is of this micrograph. STATUS_BAD_FORMAT: the file is broken, or several files fit. May be
 * called from several threads at once. ret_absent: a table of all micrographs has no row of this one. */
enum status coordinates_read(struct coordinates *coordinates, const char *micrograph, coordinates_may_read *may_read,
                             const void *context, struct star_file **ret_file, char *ret_path, bool *ret_absent,
                             struct err *err);

#endif
